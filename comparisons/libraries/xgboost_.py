"""XGBoost: one tree a round with vector leaves, or one tree a class."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from ..problems import Problem
from . import Method, OnRound, RoundLog, Run, Settings

__all__ = ["ABSOLUTE_RESIDUAL", "LIBRARY", "METHODS", "parameters", "predict", "size", "train"]

LIBRARY = "XGBoost"
METHODS = tuple(
    Method(strategy, "2p(1−p)", {"multi_strategy": strategy})
    for strategy in ("multi_output_tree", "one_output_per_tree")
)
ABSOLUTE_RESIDUAL = "|p − y|"


def train(problem: Problem, settings: Settings, method: Method, on_round: OnRound) -> Run:
    """One training with its curves."""
    common: dict[str, Any] = {"nthread": settings.n_jobs, "max_bin": settings.max_bin}
    data = xgboost.QuantileDMatrix(problem.X_train, label=problem.y_train, **common)
    valid = xgboost.QuantileDMatrix(problem.X_valid, label=problem.y_valid, ref=data, **common)
    log = RoundLog(on_round, settings.patience)
    custom = method.curvature == ABSOLUTE_RESIDUAL
    model = xgboost.train(
        {
            **parameters(problem, settings, method),
            **(_log_shares(problem) if custom else {}),
        },
        data,
        settings.rounds,
        evals=[(data, "train"), (valid, "valid")],
        obj=_absolute_residual if custom else None,
        verbose_eval=False,
        callbacks=[_Recorder(log)],
    )
    return log.finish(LIBRARY, xgboost.__version__, method, model)


def parameters(problem: Problem, settings: Settings, method: Method) -> dict[str, Any]:
    """The settings in the names of the library."""
    return {
        "objective": "multi:softprob",
        "num_class": problem.n_classes,
        "tree_method": "hist",
        "learning_rate": settings.learning_rate,
        **settings.tree,
        "reg_lambda": settings.reg_lambda,
        "min_child_weight": settings.min_child_weight,
        "subsample": settings.subsample,
        "colsample_bytree": settings.colsample_bytree,
        "seed": settings.seed,
        "eval_metric": ["mlogloss", "merror"],
        "nthread": settings.n_jobs,
        "max_bin": settings.max_bin,
        **method.params,
    }


def _log_shares(problem: Problem) -> dict[str, list[float]]:
    """The intercept, which XGBoost fits for its own objectives only."""
    share = np.bincount(problem.y_train, minlength=problem.n_classes) / len(problem.y_train)
    return {"base_score": np.log(share).tolist()}


def _absolute_residual(
    margin: NDArray[Any], data: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Softmax with the curvature |p - y|, as a custom objective."""
    power = np.exp(margin - margin.max(axis=1, keepdims=True), dtype=np.float64)
    gradient = power / power.sum(axis=1, keepdims=True)
    gradient[np.arange(len(gradient)), data.get_label().astype(np.intp)] -= 1.0
    return gradient, np.maximum(np.abs(gradient), 1e-16)


class _Recorder(xgboost.callback.TrainingCallback):  # type: ignore[misc,unused-ignore]
    def __init__(self, log: RoundLog) -> None:
        self.log = log

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self.log.begin()
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        train, valid = evals_log["train"], evals_log["valid"]
        return self.log.end(train["mlogloss"][-1], valid["mlogloss"][-1], valid["merror"][-1])


def predict(run: Run, X: NDArray[Any]) -> NDArray[Any]:
    """Probabilities at the best round."""
    run.model.set_param({"nthread": 1})
    return np.asarray(run.model.inplace_predict(X, iteration_range=(0, run.best + 1)))


def size(run: Run) -> tuple[int, int]:
    """Leaves and bytes (UBJSON) of the model up to the best round."""
    model = run.model[: run.best + 1]
    trees = json.loads(model.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    leaves = sum(child == -1 for tree in trees for child in tree["left_children"])
    return leaves, len(model.save_raw("ubj"))
