"""LightGBM's metrics of several classes, with its names and its values.

The host computes metrics only for scores of its own trees, so they are written out here;
tests hold them to the host's values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fullhess import ParameterError

from .params import Settings

__all__ = ["Metric", "choose_metrics", "probabilities"]

_EPSILON = np.float32(1e-15)  # the host's smallest probability, a float
_LOGLOSS_NAMES = (
    "multi_logloss", "multiclass", "softmax", "multiclassova", "multiclass_ova", "ova", "ovr",
)  # fmt: skip
_NO_METRIC = ("none", "null", "custom", "na")

Compute = Callable[[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]], float]


@dataclass(frozen=True)
class Metric:
    """A metric as the host names it.

    Attributes
    ----------
    compute : function of scores (n, k), labels (n,) and weights (n,).
    on_scores : it takes raw scores, else predictions.
    """

    name: str
    maximize: bool
    on_scores: bool
    compute: Compute


def choose_metrics(settings: Settings) -> list[Metric]:
    """The metrics asked for; by default the objective's own."""
    names = _metric_names(settings.metric)
    if not names:
        names = ["multi_logloss"] if settings.is_softmax else []
    if any(name in _NO_METRIC for name in names):
        return []
    chosen: list[Metric] = []
    for name in names:
        metric = _metric(name, settings)
        if metric.name not in (other.name for other in chosen):
            chosen.append(metric)
    return chosen


def _metric_names(metric: Any) -> list[str]:
    if metric is None:
        return []
    parts = metric.split(",") if isinstance(metric, str) else list(metric)
    names = []
    for part in parts:
        if part is None:
            continue
        if not isinstance(part, str):
            raise ParameterError(
                f"metric: expected names, got {part!r}; pass functions as feval (or eval_metric)"
            )
        names.append(part.strip().lower())
    return [name for name in names if name]


def _metric(name: str, settings: Settings) -> Metric:
    if name in _LOGLOSS_NAMES:
        return Metric("multi_logloss", False, False, _log_loss)
    if name == "multi_error":
        k = settings.top_k
        return Metric(name if k == 1 else f"{name}@{k}", False, False, _top_k_error(k))
    if name == "auc_mu":
        return Metric(name, True, True, _auc_mu(_auc_weights(settings)))
    raise ParameterError(
        f"metric: expected 'multi_logloss', 'multi_error' or 'auc_mu' with several classes, got "
        f"{name!r}; pass any other as a function, feval"
    )


def probabilities(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, k) softmax of scores."""
    shares = np.exp(raw - raw.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(shares)


def _log_loss(p: NDArray[Any], label: NDArray[Any], weight: NDArray[Any]) -> float:
    own = p[np.arange(len(p)), label]
    worst = -float(np.log(_EPSILON))  # in float, as the host has it
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.where(own > _EPSILON, -np.log(own), worst)
    return float((losses * weight).sum() / weight.sum())


def _top_k_error(top_k: int) -> Compute:
    def error(p: NDArray[Any], label: NDArray[Any], weight: NDArray[Any]) -> float:
        own = p[np.arange(len(p)), label]
        rank = (p >= own[:, None]).sum(axis=1)  # a tie counts as an error
        return float(((rank > top_k) * weight).sum() / weight.sum())

    return error


def _auc_weights(settings: Settings) -> NDArray[np.float64]:
    """(k, k) costs of taking one class for another; none of them is needed on the diagonal."""
    k = settings.n_outputs
    if settings.auc_weights is None:
        return 1.0 - np.eye(k)
    if len(settings.auc_weights) != k * k:
        raise ParameterError(
            f"auc_mu_weights: expected {k * k} numbers, a row for each of the {k} classes, got "
            f"{len(settings.auc_weights)}"
        )
    weights = np.array(settings.auc_weights).reshape(k, k)
    np.fill_diagonal(weights, 0.0)
    if (weights[~np.eye(k, dtype=bool)] == 0).any():
        raise ParameterError("auc_mu_weights: expected non-zero entries off the diagonal")
    return weights


def _auc_mu(costs: NDArray[np.float64]) -> Compute:
    """Mean over the pairs of classes of the area under the curve of their separation."""

    def auc_mu(raw: NDArray[Any], label: NDArray[Any], weight: NDArray[Any]) -> float:
        k = len(costs)
        mass = np.bincount(label, weights=weight, minlength=k)
        rows = [np.flatnonzero(label == c) for c in range(k)]
        total = 0.0
        for i in range(k):
            for j in range(i + 1, k):
                if mass[i] <= 0.0 or mass[j] <= 0.0:
                    continue
                direction = costs[i] - costs[j]
                sign = direction[i] - direction[j]
                first, second = (sign * (raw[rows[c]] @ direction) for c in (i, j))
                ahead = _mass_below(first, second, weight[rows[j]])
                total += float((weight[rows[i]] * ahead).sum()) / mass[i] / mass[j]
        return 2.0 * total / k / (k - 1)

    return auc_mu


def _mass_below(at: NDArray[Any], points: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
    """For each entry of ``at`` the weight of the points below it, half of those equal to it."""
    order = np.argsort(points, kind="stable")
    cumulative = np.concatenate([[0.0], np.cumsum(weight[order])])
    sorted_points = points[order]
    below = cumulative[np.searchsorted(sorted_points, at, "left")]
    up_to = cumulative[np.searchsorted(sorted_points, at, "right")]
    return np.asarray(0.5 * (below + up_to))
