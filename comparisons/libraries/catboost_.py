"""CatBoost: vector leaves; splits by the gradient, leaves by a Newton step."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import catboost
import numpy as np
from numpy.typing import NDArray

from ..problems import Problem
from . import Method, OnRound, RoundLog, Run, Settings

__all__ = ["LIBRARY", "METHODS", "predict", "size", "train"]

LIBRARY = "CatBoost"
METHODS = tuple(
    Method(name, "none in splits", {"grow_policy": policy})
    for name, policy in (("symmetric trees", "SymmetricTree"), ("depth-wise trees", "Depthwise"))
)


def train(problem: Problem, settings: Settings, method: Method, on_round: OnRound) -> Run:
    """One training with its curves; the error is not told."""
    log = RoundLog(on_round, settings.patience)
    params = {
        "loss_function": "MultiClass",
        "iterations": settings.rounds,
        "learning_rate": settings.learning_rate,
        "depth": settings.max_depth,
        "l2_leaf_reg": settings.reg_lambda,
        "rsm": settings.colsample_bytree,
        "border_count": settings.max_bin - 1,
        "random_seed": settings.seed,
        "thread_count": settings.n_jobs,
        "allow_writing_files": False,
        **_row_sampling(settings.subsample),
        **method.params,
    }
    if params["grow_policy"] != "SymmetricTree":  # those know no bound on leaves
        params["min_data_in_leaf"] = settings.min_samples_leaf(problem.n_classes)
    model = catboost.CatBoostClassifier(**params)
    log.begin()
    model.fit(
        problem.X_train, problem.y_train, eval_set=(problem.X_valid, problem.y_valid),
        use_best_model=False, verbose=False, callbacks=[_Recorder(log)],
    )  # fmt: skip
    return log.finish(LIBRARY, catboost.__version__, method, model)


def _row_sampling(subsample: float) -> dict[str, Any]:
    if subsample == 1.0:
        return {"bootstrap_type": "No"}
    return {"bootstrap_type": "Bernoulli", "subsample": subsample}


class _Recorder:
    def __init__(self, log: RoundLog) -> None:
        self.log = log

    def after_iteration(self, info: Any) -> bool:
        """Whether to go on, as CatBoost asks it."""
        train, valid = (info.metrics[part]["MultiClass"][-1] for part in ("learn", "validation"))
        stop = self.log.end(train, valid, np.nan)
        self.log.begin()
        return not stop


def predict(run: Run, X: NDArray[Any]) -> NDArray[Any]:
    """Probabilities at the best round."""
    return np.asarray(run.model.predict_proba(X, ntree_end=run.best + 1, thread_count=1))


def size(run: Run) -> tuple[int, int]:
    """Leaves and bytes (its binary format) of the model up to the best round.

    Only models of symmetric trees can be cut; of others the bytes are a share of the
    file's, by the leaves.
    """
    counts = run.model.get_tree_leaf_counts()
    leaves, share = int(counts[: run.best + 1].sum()), 1.0
    model = run.model.copy()
    if run.method.params["grow_policy"] == "SymmetricTree":
        model.shrink(run.best + 1)
    else:
        share = leaves / counts.sum()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save_model(str(path))
        return leaves, round(share * path.stat().st_size)
