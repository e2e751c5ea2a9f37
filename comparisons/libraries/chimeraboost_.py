"""ChimeraBoost: oblivious trees with vector leaves, in Numba."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import chimeraboost
import numpy as np
from numpy.typing import NDArray

from ..problems import Problem
from . import Method, OnRound, RoundLog, Run, Settings

__all__ = ["LIBRARY", "METHODS", "predict", "size", "train"]

LIBRARY = "ChimeraBoost"
METHODS = (Method("oblivious trees", "p(1−p)"),)


def train(problem: Problem, settings: Settings, method: Method, on_round: OnRound) -> Run:
    """One training with its held-out losses, which is all it tells.

    It cuts its model at the best round by itself, and it scales the temperature of
    its probabilities on the held-out rows.
    """
    model = chimeraboost.ChimeraBoostClassifier(
        n_estimators=settings.rounds,
        learning_rate=settings.learning_rate,
        depth=settings.max_depth,
        l2_leaf_reg=settings.reg_lambda,
        max_bins=settings.max_bin,
        subsample=settings.subsample,
        colsample=settings.colsample_bytree,
        min_child_weight=settings.min_child_weight,
        early_stopping_rounds=settings.patience or settings.rounds,
        thread_count=settings.n_jobs,
        random_state=settings.seed,
        **method.params,
    )
    model.fit(problem.X_train, problem.y_train, eval_set=(problem.X_valid, problem.y_valid))
    log = RoundLog(on_round)
    for loss in model.validation_history_:
        log.begin()
        log.end(np.nan, loss, np.nan)
    run = log.finish(LIBRARY, chimeraboost.__version__, method, model)
    run.seconds[:] = run.cpu_seconds[:] = np.nan
    return run


def predict(run: Run, X: NDArray[Any]) -> NDArray[Any]:
    """Probabilities at the best round."""
    return np.asarray(_cut(run).predict_proba(X))


def size(run: Run) -> tuple[int, int]:
    """Leaves and bytes (a pickle) of the model."""
    model = _cut(run)
    leaves = sum(2 ** len(tree.splits_feat) for tree in model.model_.trees_)
    return leaves, len(pickle.dumps(model))


def _cut(run: Run) -> Any:
    """The model up to the best round, with the temperature of the whole one."""
    if run.best + 1 >= len(run.model.model_.trees_):  # it has cut itself
        return run.model
    model = copy.copy(run.model)
    model.model_ = copy.copy(model.model_)
    model.model_.trees_ = model.model_.trees_[: run.best + 1]
    return model
