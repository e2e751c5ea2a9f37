"""Checks of what a caller gives to training, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bins import BinnedMatrix
from .ensemble import Ensemble, apply_link
from .features import FeatureSpace
from .metrics import CustomMetric, as_metric, default_metric
from .objectives import CustomObjective, Objective, Softmax, SquaredError
from .params import ParameterError, Params

__all__ = [
    "check_base_score",
    "check_binned",
    "check_constraints",
    "check_feature_weights",
    "check_hessians",
    "check_margin",
    "check_rounds",
    "check_weight",
    "choose_objective",
    "read_metrics",
]

MAX_SAMPLES = 2**24  # counts in float32 histogram cells are exact up to here


def choose_objective(
    params: Params, objective: Objective | None, label: Any, init_model: Ensemble | None
) -> Objective:
    if objective is not None:
        if not isinstance(objective, Objective):
            raise TypeError(
                "objective must be a fullhess.Objective; wrap a function as "
                f"fullhess.CustomObjective(function, n_outputs), got {objective!r}"
            )
        return objective
    if params.objective == "squared_error":
        return SquaredError.from_label(label)
    if params.num_class is not None:
        return Softmax(params.num_class)
    if init_model is not None and init_model.link == "softmax":
        return Softmax(init_model.n_outputs)
    return Softmax.from_label(label)


def check_hessians(params: Params, objective: Objective) -> None:
    for name in ("hessian", "split_hessian"):
        value = getattr(params, name)
        allowed = (*objective.hessians, "auto") if name == "split_hessian" else objective.hessians
        if isinstance(objective, SquaredError) and value == "diagonal":
            continue  # the same thing as full
        if value not in allowed:
            raise ValueError(
                f"{name}={value!r} is not known to the objective {objective.name!r}; "
                f"choose one of {', '.join(allowed)}"
            )


def check_rounds(num_boost_round: Any) -> int:
    if isinstance(num_boost_round, bool) or not isinstance(num_boost_round, (int, np.integer)):
        raise TypeError(f"num_boost_round must be an integer, got {num_boost_round!r}")
    if num_boost_round < 0:
        raise ValueError(f"num_boost_round must not be negative, got {num_boost_round}")
    return int(num_boost_round)


def check_binned(binned: Any) -> None:
    if not isinstance(binned, BinnedMatrix):
        raise TypeError(
            "expected a fullhess.BinnedMatrix, got "
            f"{type(binned).__name__}; bin raw values with BinnedMatrix.from_quantiles(X)"
        )
    binned.check_codes()
    if binned.n_samples == 0:
        raise ValueError("expected at least one row of training data, got none")
    if binned.n_samples > MAX_SAMPLES:
        raise ValueError(
            f"at most {MAX_SAMPLES} rows can be trained on, got {binned.n_samples}; "
            "train on a sample of them"
        )
    codes = binned.codes
    if binned.n_samples > 1 and (codes == codes[0]).all():
        raise ValueError("no feature can be split: every column is constant in the training data")


def check_weight(weight: Any, n_samples: int) -> NDArray[np.float64]:
    if weight is None:
        return np.ones(n_samples)
    array = np.asarray(weight)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"weights must be numbers, got dtype {array.dtype}")
    array = array.astype(np.float64)
    if array.shape != (n_samples,):
        raise ValueError(f"expected weights of shape ({n_samples},), got {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError("weights must be finite and not negative")
    total = array.sum()
    if not 1e-20 < total < 1e30:  # what float32 statistics can hold
        raise ValueError(f"the weights must have a sum between 1e-20 and 1e30, got {total:g}")
    return array


def check_feature_weights(weights: Any, n_features: int) -> NDArray[np.float64] | None:
    if weights is None:
        return None
    array = np.asarray(weights)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"feature weights must be numbers, got dtype {array.dtype}")
    if array.shape != (n_features,):
        raise ValueError(f"expected feature weights of shape ({n_features},), got {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise ValueError("feature weights must be finite, not negative and not all zero")
    array = array.astype(np.float64)
    return np.asarray(array / array.max())  # neither a sum nor a share leaves the range of a float


def check_base_score(base_score: Any, n_outputs: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    array = np.asarray(base_score)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"base_score must hold numbers, got dtype {array.dtype}")
    with np.errstate(over="ignore"):
        array = array.astype(dtype)
    if array.shape != (n_outputs,) or not np.isfinite(array).all():
        raise ValueError(f"base_score must be {n_outputs} finite numbers, got {base_score!r}")
    return array


def check_constraints(params: Params, features: FeatureSpace) -> None:
    """Constraints must speak of features that exist and can have them."""
    signs = params.monotone_constraints
    n = features.n_features
    if signs is not None:
        if len(signs) != n:
            raise ParameterError(
                f"monotone_constraints: expected one entry for each of the {n} features, "
                f"got {len(signs)}"
            )
        constrained = np.flatnonzero(np.array(signs) * features.categorical)
        if len(constrained):
            raise ParameterError(
                f"monotone_constraints: feature {features.names[constrained[0]]!r} is "
                "categorical and has no order; write 0 for it"
            )
    largest = max((group[-1] for group in params.interaction_constraints or ()), default=0)
    if largest >= n:
        raise ParameterError(
            f"interaction_constraints: there is no feature {largest}; the {n} features are "
            f"numbered 0 to {n - 1}"
        )


def check_margin(
    margin: Any, shape: tuple[int, int], what: str, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """A copy of the margin in ``dtype``."""
    array = np.asarray(margin)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{what} must hold numbers, got dtype {array.dtype}")
    with np.errstate(over="ignore"):
        array = array.astype(dtype)
    if array.shape != shape and not (shape[1] == 1 and array.shape == shape[:1]):
        raise ValueError(f"{what} must have shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite in {dtype}, got NaN or infinity")
    return array.reshape(shape)


def read_metrics(metric: Any, objective: Objective) -> list[Any]:
    def link(raw: NDArray[Any]) -> NDArray[Any]:
        return apply_link(objective.link, raw)

    if metric is not None:
        chosen = metric if isinstance(metric, (list, tuple)) else [metric]
        return [as_metric(item, link) for item in chosen]
    if isinstance(objective, CustomObjective):
        return [CustomMetric(_mean_loss(objective))] if objective.has_loss else []
    return [default_metric(objective.name)]


def _mean_loss(objective: Objective) -> Callable[..., tuple[str, float]]:
    def loss(raw: Any, label: Any, weight: Any) -> tuple[str, float]:
        return "loss", float(np.average(objective.losses(raw, label), weights=weight))

    return loss
