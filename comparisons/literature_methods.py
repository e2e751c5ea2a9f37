"""Who takes part on the official splits, and how each is trained: nothing is tuned.

All grow trees of as many leaves by the largest gain, at one rate, on one thread, in 255 bins,
with an L2 penalty of 1 and a minimum child weight that hardly binds; what differs is in
``METHODS``. A library that cannot be imported is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullhess

from .contenders import MAX_FULL, for_classes

__all__ = ["METHODS", "Contender", "Official", "Plan", "available", "wrong_rows"]

MAX_BIN = 255
MIN_CHILD_WEIGHT = 1e-3
Labels = Callable[[int], NDArray[np.intp]]  # predicted classes after so many rounds


@dataclass(frozen=True)
class Plan:
    """What all methods are given alike; wrong rows are counted after each of ``rounds``."""

    learning_rate: float
    max_leaves: int
    rounds: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Official:
    """A data set in two fixed parts; X (n, n_features) float32, y (n,) classes from 0 on."""

    name: str
    X_train: NDArray[np.float32]
    y_train: NDArray[np.int32]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.int32]

    @property
    def n_classes(self) -> int:
        return int(max(self.y_train.max(), self.y_test.max())) + 1


@dataclass(frozen=True)
class Contender:
    """A library and the settings that are its own.

    Attributes
    ----------
    words : what distinguishes it.
    module : what is imported to train it.
    params : settings in the names of that library.
    """

    words: str
    module: str
    params: Mapping[str, Any] = field(default_factory=dict)


METHODS = {
    "full splits": Contender(
        f"`split_hessian=\"full\"` up to {MAX_FULL} classes, exact leaves, path prior", "fullhess",
        {"split_hessian": "full"},
    ),
    "ridge": Contender(
        "the same with `leaf_prior=\"ridge\"`", "fullhess",
        {"split_hessian": "full", "leaf_prior": "ridge"},
    ),
    "diagonal splits": Contender(
        "the defaults of fullhess with more than 5 classes: `split_hessian=\"diagonal\"`, exact "
        "full-Hessian leaves, path prior", "fullhess", {"split_hessian": "diagonal"},
    ),
    "no penalty": Contender(
        "full splits with `reg_lambda=0`, which leaves no prior", "fullhess",
        {"split_hessian": "full", "reg_lambda": 0.0},
    ),
    "rule of VTLogitBoost": Contender(
        "the diagonal p(1−p) in splits and Newton leaves, `reg_lambda=0`, values within ±5",
        "fullhess",
        {
            "hessian": "diagonal", "leaf_solver": "newton", "split_gain": "quadratic",
            "reg_lambda": 0.0, "max_delta_step": 5.0,
        },
    ),
    "XGBoost": Contender("`multi_strategy=\"multi_output_tree\"`, vector leaves", "xgboost"),
    "LightGBM": Contender("a tree for each class in every round", "lightgbm"),
}  # fmt: skip


def available() -> tuple[list[str], list[str]]:
    """Names in ``METHODS`` that can be trained here, and those that cannot."""
    there = {name: find_spec(method.module) is not None for name, method in METHODS.items()}
    return [name for name in there if there[name]], [name for name in there if not there[name]]


def wrong_rows(official: Official, name: str, plan: Plan) -> tuple[str, list[int]]:
    """Train once; the library's version and the wrong test rows after each of ``plan.rounds``."""
    method = METHODS[name]
    params = for_classes(method.params, official.n_classes)
    version, labels = _TRAINERS[method.module](official, params, plan)
    return version, [int((labels(n) != official.y_test).sum()) for n in plan.rounds]


def _train_fullhess(
    official: Official, params: Mapping[str, Any], plan: Plan
) -> tuple[str, Labels]:
    binned = fullhess.BinnedMatrix.from_quantiles(official.X_train, max_bins=MAX_BIN, n_jobs=1)
    model = fullhess.train(
        {
            "num_class": official.n_classes,  # the rarest hands may have no training row
            "learning_rate": plan.learning_rate,
            "grow_policy": "lossguide",
            "max_leaves": plan.max_leaves,
            "max_depth": 0,
            "min_child_weight": MIN_CHILD_WEIGHT,
            "n_jobs": 1,
            **params,
        },
        binned,
        official.y_train,
        num_boost_round=max(plan.rounds),
    )
    return (
        fullhess.__version__,
        lambda n: model[:n].predict(official.X_test, n_jobs=1).argmax(axis=1),
    )


def _train_xgboost(official: Official, params: Mapping[str, Any], plan: Plan) -> tuple[str, Labels]:
    import xgboost

    common = {"nthread": 1, "max_bin": MAX_BIN}
    data = xgboost.QuantileDMatrix(official.X_train, label=official.y_train, **common)
    model = xgboost.train(
        {
            "objective": "multi:softprob",
            "num_class": official.n_classes,
            "tree_method": "hist",
            "multi_strategy": "multi_output_tree",
            "learning_rate": plan.learning_rate,
            "grow_policy": "lossguide",
            "max_leaves": plan.max_leaves,
            "max_depth": 0,
            "min_child_weight": MIN_CHILD_WEIGHT,
            **common,
            **params,
        },
        data,
        max(plan.rounds),
    )
    return xgboost.__version__, lambda n: np.asarray(
        model.inplace_predict(official.X_test, iteration_range=(0, n))
    ).argmax(axis=1)


def _train_lightgbm(
    official: Official, params: Mapping[str, Any], plan: Plan
) -> tuple[str, Labels]:
    import lightgbm

    common = {
        "max_bin": MAX_BIN, "min_data_in_bin": 1, "feature_pre_filter": False, "num_threads": 1,
        "verbosity": -1,
    }  # fmt: skip
    model = lightgbm.train(
        {
            "objective": "multiclass",
            "num_class": official.n_classes,
            "learning_rate": plan.learning_rate,
            "num_leaves": plan.max_leaves,
            "max_depth": -1,
            "lambda_l2": 1.0,
            "min_sum_hessian_in_leaf": MIN_CHILD_WEIGHT,
            "min_data_in_leaf": 1,
            **common,
            **params,
        },
        lightgbm.Dataset(official.X_train, official.y_train, params=common),
        max(plan.rounds),
    )
    return lightgbm.__version__, lambda n: np.asarray(
        model.predict(official.X_test, num_iteration=n, num_threads=1)
    ).argmax(axis=1)


_Trainer = Callable[[Official, Mapping[str, Any], Plan], tuple[str, Labels]]
_TRAINERS: dict[str, _Trainer] = {
    "fullhess": _train_fullhess,
    "xgboost": _train_xgboost,
    "lightgbm": _train_lightgbm,
}
