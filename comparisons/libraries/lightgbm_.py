"""LightGBM, which grows one tree a class in every round."""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from ..problems import Problem
from . import Method, OnRound, RoundLog, Run, Settings

__all__ = ["LIBRARY", "METHODS", "data_parameters", "parameters", "predict", "size", "train"]

LIBRARY = "LightGBM"
METHODS = (Method("one tree per class", "p(1−p)k/(k−1)"),)
# One bin for each value, and no column or leaf dropped for having few rows.
_DATA_PARAMS = {"min_data_in_bin": 1, "feature_pre_filter": False, "verbosity": -1}


def train(problem: Problem, settings: Settings, method: Method, on_round: OnRound) -> Run:
    """One training with its curves."""
    data_params = data_parameters(settings)
    data = lightgbm.Dataset(problem.X_train, problem.y_train, params=data_params)
    valid = lightgbm.Dataset(problem.X_valid, problem.y_valid, reference=data, params=data_params)
    log = RoundLog(on_round, settings.patience)
    model = lightgbm.train(
        parameters(problem, settings, method),
        data,
        settings.rounds,
        valid_sets=[data, valid],
        valid_names=["train", "valid"],
        callbacks=_recorders(log),
    )
    return log.finish(LIBRARY, lightgbm.__version__, method, model)


def data_parameters(settings: Settings) -> dict[str, Any]:
    """How a Dataset is binned."""
    return {**_DATA_PARAMS, "max_bin": settings.max_bin, "num_threads": settings.n_jobs}


def parameters(problem: Problem, settings: Settings, method: Method) -> dict[str, Any]:
    """The settings in the names of the library."""
    return {
        "objective": "multiclass",
        "num_class": problem.n_classes,
        "learning_rate": settings.learning_rate,
        "max_depth": -1 if settings.max_leaves else settings.max_depth,
        "num_leaves": settings.max_leaves or 2**settings.max_depth,
        "lambda_l2": settings.reg_lambda,
        "min_sum_hessian_in_leaf": settings.min_child_weight,
        "min_data_in_leaf": 1,
        "bagging_fraction": settings.subsample,
        "bagging_freq": 1,
        "feature_fraction": settings.colsample_bytree,
        "seed": settings.seed,
        "metric": ["multi_logloss", "multi_error"],
        **data_parameters(settings),
        **method.params,
    }


def _recorders(log: RoundLog) -> list[Any]:
    def begin(env: Any) -> None:
        log.begin()

    def end(env: Any) -> None:
        value = {(item[0], item[1]): item[2] for item in env.evaluation_result_list}
        stop = log.end(
            value["train", "multi_logloss"],
            value["valid", "multi_logloss"],
            value["valid", "multi_error"],
        )
        if stop:
            raise lightgbm.callback.EarlyStopException(env.iteration, env.evaluation_result_list)

    begin.before_iteration = True  # type: ignore[attr-defined]
    return [begin, end]


def predict(run: Run, X: NDArray[Any]) -> NDArray[Any]:
    """Probabilities at the best round."""
    return np.asarray(run.model.predict(X, num_iteration=run.best + 1, num_threads=1))


def size(run: Run) -> tuple[int, int]:
    """Leaves and bytes of the model up to the best round."""
    text = run.model.model_to_string(num_iteration=run.best + 1)
    leaves = [line for line in text.splitlines() if line.startswith("num_leaves=")]
    return sum(int(line.partition("=")[2]) for line in leaves), len(text.encode())
