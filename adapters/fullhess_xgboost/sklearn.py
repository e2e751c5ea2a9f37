"""XGBoost's scikit-learn estimators, trained with the full Hessian where it matters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import xgboost.sklearn as _host
from xgboost.core import _deprecate_positional_args

from .booster import Booster
from .data import keep_values
from .training import train

__all__ = [
    "XGBClassifier",
    "XGBModel",
    "XGBRFClassifier",
    "XGBRFRegressor",
    "XGBRanker",
    "XGBRegressor",
]

_NEW_PARAMETERS = """

    New beside XGBoost's own, for problems of more than two classes:

    hessian : curvature of the leaves, "full" by default.
    split_hessian : curvature of the split search, "auto" by default.
    leaf_solver : "exact", "damped" or "newton".
    leaf_prior : "ridge", "path" or "auto", the default: "path" for exact softmax leaves.
    split_gain : "guaranteed" or "quadratic".
"""


def _with_our_training(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the host that trains and loads with our booster."""
    original = inspect.unwrap(function)
    assert isinstance(original, FunctionType)
    twin = FunctionType(
        original.__code__,
        {**original.__globals__, "train": train, "Booster": Booster},
        original.__name__,
        original.__defaults__,
        original.__closure__,
    )
    twin.__kwdefaults__ = original.__kwdefaults__
    functools.update_wrapper(twin, original)
    return _deprecate_positional_args(twin)  # type: ignore[no-any-return]


class _KeepingValues:
    """The matrices that ``fit`` makes need not be read back, see ``keep_values``."""

    def _create_dmatrix(self, ref: Any, **kwargs: Any) -> Any:
        dmatrix = super()._create_dmatrix(ref, **kwargs)  # type: ignore[misc]
        if kwargs.get("feature_types") is None:
            keep_values(dmatrix, kwargs.get("data"), kwargs.get("missing"))
        return dmatrix


class XGBModel(_KeepingValues, _host.XGBModel):  # type: ignore[misc]
    """``xgboost.XGBModel``, trained by ``fullhess.xgboost.train``."""

    fit = _with_our_training(_host.XGBModel.fit)
    load_model = _with_our_training(_host.XGBModel.load_model)


class XGBClassifier(_KeepingValues, _host.XGBClassifier):  # type: ignore[misc]
    __doc__ = (_host.XGBClassifier.__doc__ or "") + _NEW_PARAMETERS

    def __init__(
        self,
        *,
        objective: Any = "binary:logistic",
        hessian: str | None = None,
        split_hessian: str | None = None,
        leaf_solver: str | None = None,
        leaf_prior: str | None = None,
        split_gain: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(objective=objective, **kwargs)
        self.hessian = hessian
        self.split_hessian = split_hessian
        self.leaf_solver = leaf_solver
        self.leaf_prior = leaf_prior
        self.split_gain = split_gain

    fit = _with_our_training(_host.XGBClassifier.fit)
    load_model = _with_our_training(_host.XGBClassifier.load_model)


class XGBRFClassifier(_host.XGBRFClassifier, XGBClassifier):  # type: ignore[misc]
    __doc__ = (_host.XGBRFClassifier.__doc__ or "") + _NEW_PARAMETERS

    def __init__(
        self,
        *,
        hessian: str | None = None,
        split_hessian: str | None = None,
        leaf_solver: str | None = None,
        leaf_prior: str | None = None,
        split_gain: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            hessian=hessian,
            split_hessian=split_hessian,
            leaf_solver=leaf_solver,
            leaf_prior=leaf_prior,
            split_gain=split_gain,
            **kwargs,
        )


class XGBRegressor(_KeepingValues, _host.XGBRegressor):  # type: ignore[misc]
    """``xgboost.XGBRegressor``; custom objectives of several outputs use the full Hessian."""

    fit = _with_our_training(_host.XGBRegressor.fit)
    load_model = _with_our_training(_host.XGBRegressor.load_model)


class XGBRFRegressor(_host.XGBRFRegressor, XGBRegressor):  # type: ignore[misc]
    """``xgboost.XGBRFRegressor``, see ``XGBRegressor``."""


class XGBRanker(_host.XGBRanker):  # type: ignore[misc]
    """``xgboost.XGBRanker``: ranking is XGBoost's own."""

    fit = _with_our_training(_host.XGBRanker.fit)
    load_model = _with_our_training(_host.XGBRanker.load_model)


def __getattr__(name: str) -> Any:
    """Whatever else XGBoost's module has."""
    return getattr(_host, name)
