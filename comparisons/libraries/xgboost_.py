"""XGBoost: one tree a round with vector leaves, or one tree a class."""

from __future__ import annotations

from typing import Any

import xgboost

from ..problems import Problem
from . import Method, OnRound, RoundLog, Run, Settings

__all__ = ["LIBRARY", "METHODS", "train"]

LIBRARY = "XGBoost"
METHODS = tuple(
    Method(strategy, "2p(1−p)", {"multi_strategy": strategy})
    for strategy in ("multi_output_tree", "one_output_per_tree")
)


def train(problem: Problem, settings: Settings, method: Method, on_round: OnRound) -> Run:
    """One training with its curves."""
    data = xgboost.QuantileDMatrix(problem.X_train, label=problem.y_train, nthread=settings.n_jobs)
    valid = xgboost.QuantileDMatrix(
        problem.X_valid, label=problem.y_valid, ref=data, nthread=settings.n_jobs
    )
    log = RoundLog(on_round)
    model = xgboost.train(
        {
            "objective": "multi:softprob",
            "num_class": problem.n_classes,
            "tree_method": "hist",
            "learning_rate": settings.learning_rate,
            "max_depth": settings.max_depth,
            "reg_lambda": settings.reg_lambda,
            "min_child_weight": settings.min_child_weight,
            "nthread": settings.n_jobs,
            "eval_metric": ["mlogloss", "merror"],
            **method.params,
        },
        data,
        settings.rounds,
        evals=[(data, "train"), (valid, "valid")],
        verbose_eval=False,
        callbacks=[_Recorder(log)],
    )
    return log.finish(LIBRARY, xgboost.__version__, method, model)


class _Recorder(xgboost.callback.TrainingCallback):  # type: ignore[misc,unused-ignore]
    def __init__(self, log: RoundLog) -> None:
        self.log = log

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self.log.begin()
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        train, valid = evals_log["train"], evals_log["valid"]
        self.log.end(train["mlogloss"][-1], valid["mlogloss"][-1], valid["merror"][-1])
        return False
