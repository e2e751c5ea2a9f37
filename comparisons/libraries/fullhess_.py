"""fullhess with the true Hessian, and with the diagonal rules of the host libraries."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullhess

from ..problems import Problem
from . import Method, OnRound, RoundLog, Run, Settings

__all__ = [
    "DEFAULT",
    "LIBRARY",
    "METHODS",
    "bin_data",
    "compile_kernels",
    "parameters",
    "predict",
    "size",
    "train",
]

LIBRARY = "fullhess"
TRUE_HESSIAN = "diag(p) − ppᵀ"


def _as_hosts_do(name: str, hessian: str, curvature: str) -> Method:
    """A diagonal curvature with plain Newton leaves and the quadratic gain."""
    params = {"hessian": hessian, "leaf_solver": "newton", "split_gain": "quadratic"}
    return Method(name, curvature, params)


# The default splits by the diagonal where there are more than a few classes.
DEFAULT = Method("full-Hessian leaves", f"splits p(1−p), leaves {TRUE_HESSIAN}")
METHODS = (
    DEFAULT,
    Method("full Hessian", TRUE_HESSIAN, {"split_hessian": "full"}),
    Method("full Hessian, ridge", TRUE_HESSIAN, {"split_hessian": "full", "leaf_prior": "ridge"}),
    _as_hosts_do("upper bound", "upper_bound", "2p(1−p)"),
    _as_hosts_do("absolute residual", "absolute_residual", "|p − y|"),
    _as_hosts_do("diagonal", "diagonal", "p(1−p)"),
    _as_hosts_do("scaled diagonal", "scaled_diagonal", "p(1−p)k/(k−1)"),
)


def bin_data(
    problem: Problem, max_bin: int = 255, n_jobs: int = 1
) -> tuple[fullhess.BinnedMatrix, fullhess.BinnedMatrix]:
    """Training and held-out rows in the same bins."""
    binned = fullhess.BinnedMatrix.from_quantiles(problem.X_train, max_bins=max_bin, n_jobs=n_jobs)
    return binned, binned.binning.encode(problem.X_valid, n_jobs=n_jobs)


def train(problem: Problem, settings: Settings, method: Method, on_round: OnRound) -> Run:
    """One training with its curves; the problem is binned anew each time."""
    binned, valid = bin_data(problem, settings.max_bin, settings.n_jobs)
    log = RoundLog(on_round, settings.patience)
    model = fullhess.train(
        parameters(settings, method),
        binned,
        problem.y_train,
        evals=[
            fullhess.EvalSet(binned, problem.y_train, name="train"),
            fullhess.EvalSet(valid, problem.y_valid, name="valid"),
        ],
        num_boost_round=settings.rounds,
        callbacks=[_Recorder(log)],
        metric=["log_loss", "error"],
    )
    return log.finish(LIBRARY, fullhess.__version__, method, model)


def parameters(settings: Settings, method: Method) -> dict[str, Any]:
    """The settings in the names of the library."""
    return {
        "objective": "softmax",
        "learning_rate": settings.learning_rate,
        **settings.tree,
        "reg_lambda": settings.reg_lambda,
        "min_child_weight": settings.min_child_weight,
        "subsample": settings.subsample,
        "colsample_bytree": settings.colsample_bytree,
        "random_state": settings.seed,
        "n_jobs": settings.n_jobs,
        **method.params,
    }


class _Recorder(fullhess.Callback):
    def __init__(self, log: RoundLog) -> None:
        self.log = log

    def before_iteration(self, state: fullhess.TrainingState) -> None:
        self.log.begin()

    def after_iteration(self, state: fullhess.TrainingState) -> bool:
        train, valid = state.history["train"], state.history["valid"]
        return self.log.end(train["log_loss"][-1], valid["log_loss"][-1], valid["error"][-1])


def predict(run: Run, X: NDArray[Any]) -> NDArray[Any]:
    """Probabilities at the best round."""
    return np.asarray(run.model[: run.best + 1].predict(X, n_jobs=1))


def size(run: Run) -> tuple[int, int]:
    """Leaves and bytes of the model up to the best round."""
    model = run.model[: run.best + 1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        n_bytes = path.stat().st_size
    return sum(tree.n_leaves for tree in model.trees), n_bytes


def compile_kernels(n_classes: int, methods: list[dict[str, Any]]) -> float:
    """Train and predict on a few rows with each of these settings; seconds taken.

    Kernels are compiled on first use. After this, none is left to be compiled
    while the clock runs.
    """
    start = time.perf_counter()
    n = max(200, 4 * n_classes)
    X = np.random.default_rng(0).integers(0, 17, (n, 4)).astype(np.float64)
    label = np.arange(n) % n_classes
    binned = fullhess.BinnedMatrix.from_quantiles(X)
    evals = [fullhess.EvalSet(binned.binning.encode(X[:50]), label[:50])]
    for params in methods:
        model = fullhess.train(
            {"max_depth": 2, "min_child_weight": 0.0, "n_jobs": 1, **params},
            binned, label, evals=evals, num_boost_round=1,
        )  # fmt: skip
        model.predict(X)
    return time.perf_counter() - start
