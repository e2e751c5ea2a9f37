"""scikit-learn's HistGradientBoostingClassifier: one tree a class in every round."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from ..problems import Problem
from . import Method, OnRound, RoundLog, Run, Settings

__all__ = ["LIBRARY", "METHODS", "predict", "size", "train"]

LIBRARY = "scikit-learn"
METHODS = (Method("one tree per class", "p(1−p)"),)


def train(problem: Problem, settings: Settings, method: Method, on_round: OnRound) -> Run:
    """One training with its losses.

    Rows are not sampled and columns are drawn for every split, since it has nothing
    else; it tells no error and no time of a single round.
    """
    model = HistGradientBoostingClassifier(
        learning_rate=settings.learning_rate,
        max_iter=settings.rounds,
        max_depth=settings.max_depth,
        max_leaf_nodes=2**settings.max_depth,
        min_samples_leaf=settings.min_samples_leaf(problem.n_classes),
        l2_regularization=settings.reg_lambda,
        max_features=settings.colsample_bytree,
        max_bins=settings.max_bin,
        early_stopping=True,
        n_iter_no_change=settings.patience or settings.rounds,
        tol=0.0,
        random_state=settings.seed,
        **method.params,
    )
    with threadpool_limits(settings.n_jobs):
        model.fit(problem.X_train, problem.y_train, X_val=problem.X_valid, y_val=problem.y_valid)
    log = RoundLog(on_round)
    scores = zip(model.train_score_[1:], model.validation_score_[1:], strict=True)
    for train_score, score in scores:  # the first is that of the intercept
        log.begin()
        log.end(-train_score, -score, np.nan)
    run = log.finish(LIBRARY, sklearn.__version__, method, model)
    run.seconds[:] = run.cpu_seconds[:] = np.nan
    return run


def predict(run: Run, X: NDArray[Any]) -> NDArray[Any]:
    """Probabilities at the best round."""
    with threadpool_limits(1):
        return np.asarray(_cut(run).predict_proba(X))


def size(run: Run) -> tuple[int, int]:
    """Leaves and bytes (a pickle) of the model up to the best round."""
    model = _cut(run)
    trees = (tree for trees in model._predictors for tree in trees)
    return sum(tree.get_n_leaf_nodes() for tree in trees), len(pickle.dumps(model))


def _cut(run: Run) -> Any:
    """The model without the rounds after the best one; there is no public way."""
    model = copy.copy(run.model)
    model._predictors = model._predictors[: run.best + 1]
    return model
