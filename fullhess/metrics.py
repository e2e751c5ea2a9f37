"""Metrics of raw scores against labels, in float64 and in a fixed order of sums.

A metric does not refuse a diverged model: scores that are not finite give a
value that is not finite, which early stopping never takes for an improvement.
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "METRICS",
    "CustomMetric",
    "Metric",
    "MetricValue",
    "as_metric",
    "default_metric",
    "error",
    "log_loss",
    "rmse",
]

Floats = NDArray[np.float64]

_ROWS_PER_BLOCK = 1 << 15  # bounds the float64 copies of large score matrices


class MetricValue(NamedTuple):
    """What a metric found."""

    name: str
    value: float
    greater_is_better: bool


class Evaluator(Protocol):
    """What the boosting loop calls once a round for every evaluation set."""

    def evaluate(self, raw: Any, label: Any, weight: Any = None) -> MetricValue: ...


def log_loss(raw: Any, label: Any, weight: Any = None) -> float:
    """Mean multinomial log-loss of softmax scores.

    Parameters
    ----------
    raw : (n_samples, n_classes) scores before softmax.
    label : (n_samples,) class numbers 0 to n_classes - 1.
    weight : (n_samples,) non-negative, or None for equal weights.
    """
    scores = _read_scores(raw)
    classes = _read_classes(label, scores.shape)
    weights = _read_weight(weight, len(scores))
    total = 0.0
    for rows in _blocks(len(scores)):
        losses = _row_log_losses(scores[rows], classes[rows])
        total += float(_weighted_sum(losses, weights, rows))
    return total / _total_weight(weights, len(scores))


def error(raw: Any, label: Any, weight: Any = None) -> float:
    """Share of rows whose largest score is not that of their class.

    The first of equal scores counts, as in ``argmax``; a row with NaN is wrong.
    Parameters as in ``log_loss``.
    """
    scores = _read_scores(raw)
    classes = _read_classes(label, scores.shape)
    weights = _read_weight(weight, len(scores))
    total = 0.0
    for rows in _blocks(len(scores)):
        block = scores[rows]
        wrong = (block.argmax(axis=1) != classes[rows]) | np.isnan(block).any(axis=1)
        total += float(_weighted_sum(wrong.astype(np.float64), weights, rows))
    return total / _total_weight(weights, len(scores))


def rmse(raw: Any, label: Any, weight: Any = None) -> float:
    """Root mean squared error of each output, averaged over the outputs.

    Parameters
    ----------
    raw : (n_samples, n_outputs) or, for one output, (n_samples,) predictions.
    label : the same shape.
    weight : (n_samples,) non-negative, or None for equal weights.
    """
    scores = _read_scores(raw)
    target = _read_targets(label, scores.shape)
    weights = _read_weight(weight, len(scores))
    total = np.zeros(scores.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # a diverged model
        for rows in _blocks(len(scores)):
            squares = (scores[rows].astype(np.float64) - target[rows]) ** 2
            total += _weighted_sum(squares, weights, rows)
        return float(np.sqrt(total / _total_weight(weights, len(scores))).mean())


@dataclass(frozen=True)
class Metric:
    """A metric of raw scores, by name.

    Attributes
    ----------
    name : as it appears in the history of a training run.
    function : ``(raw, label, weight) -> float``.
    greater_is_better : False for a loss.
    """

    name: str
    function: Callable[[Any, Any, Any], float]
    greater_is_better: bool = False

    def evaluate(self, raw: Any, label: Any, weight: Any = None) -> MetricValue:
        return MetricValue(self.name, self.function(raw, label, weight), self.greater_is_better)


METRICS: dict[str, Metric] = {
    "log_loss": Metric("log_loss", log_loss),
    "error": Metric("error", error),
    "rmse": Metric("rmse", rmse),
}
_DEFAULTS = {"softmax": "log_loss", "squared_error": "rmse"}


@dataclass(frozen=True)
class CustomMetric:
    """A user's function ``(prediction, label, weight)``, its answer checked.

    It returns ``(name, value)`` or ``(name, value, greater_is_better)``.

    Attributes
    ----------
    function : the user's function.
    transform : raw scores to what the function gets as ``prediction`` (softmax:
        probabilities); None: the raw scores.
    """

    function: Callable[[Any, Any, Any], Any]
    transform: Callable[[Any], Any] | None = None

    def evaluate(self, raw: Any, label: Any, weight: Any = None) -> MetricValue:
        prediction = raw if self.transform is None else self.transform(raw)
        return self._check(self.function(prediction, label, weight))

    def _check(self, answer: Any) -> MetricValue:
        who = getattr(self.function, "__name__", repr(self.function))
        if not isinstance(answer, (tuple, list)) or len(answer) not in (2, 3):
            raise TypeError(
                f"metric {who} must return (name, value) or (name, value, greater_is_better), "
                f"got {answer!r}"
            )
        name, value, greater = (*answer, False)[:3]
        if not isinstance(name, str) or not name:
            raise TypeError(f"metric {who} must return its name as text first, got {name!r}")
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
            raise TypeError(f"metric {who} must return one number as its value, got {value!r}")
        if not isinstance(greater, (bool, np.bool_)):
            raise TypeError(f"metric {who} must say greater_is_better by a bool, got {greater!r}")
        return MetricValue(str(name), float(value), bool(greater))


def as_metric(metric: Any, transform: Callable[[Any], Any] | None = None) -> Evaluator:
    """The metric of that name, or a function of the user's as a metric.

    ``transform`` is passed on to ``CustomMetric``.
    """
    if isinstance(metric, str):
        if metric in METRICS:
            return METRICS[metric]
        close = difflib.get_close_matches(metric, METRICS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"unknown metric {metric!r}: {hint}known are {', '.join(METRICS)}")
    if isinstance(metric, (Metric, CustomMetric)):
        return metric
    if callable(metric):
        return CustomMetric(metric, transform)
    raise TypeError(
        f"expected the name of a metric or a function (prediction, label, weight), got {metric!r}"
    )


def default_metric(objective: str) -> Metric:
    """The metric that belongs to an objective."""
    if objective not in _DEFAULTS:
        raise ValueError(f"no metric belongs to objective {objective!r}; name one of {[*METRICS]}")
    return METRICS[_DEFAULTS[objective]]


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS_PER_BLOCK) for start in range(0, n, _ROWS_PER_BLOCK))


def _row_log_losses(scores: NDArray[Any], classes: NDArray[np.int64]) -> Floats:
    """(n,) log-sum-exp minus the score of the class, the largest score taken out first."""
    with np.errstate(over="ignore", invalid="ignore"):  # a diverged model
        shifted = scores.astype(np.float64)
        shifted -= shifted.max(axis=1, keepdims=True)
        own = shifted[np.arange(len(classes)), classes]
        return np.asarray(np.log(np.exp(shifted).sum(axis=1)) - own)


def _weighted_sum(values: Floats, weights: Floats | None, rows: slice) -> Any:
    """Sum over the first axis of ``values``, (n,) or (n, n_outputs)."""
    if weights is None:
        return values.sum(axis=0)
    block = weights[rows]
    kept = block > 0  # a row of weight zero counts for nothing, even when its value is infinite
    return np.einsum("i,i...->...", block[kept], values[kept])


def _total_weight(weights: Floats | None, n: int) -> float:
    return float(n) if weights is None else float(weights.sum())


def _read_scores(raw: Any) -> NDArray[Any]:
    scores = np.asarray(raw)
    if scores.dtype.kind not in "fiu":
        raise TypeError(f"raw scores must be real numbers, got dtype {scores.dtype}")
    if scores.ndim == 1:
        scores = scores[:, None]
    if scores.ndim != 2 or 0 in scores.shape:
        raise ValueError(
            "raw scores must be (n_samples, n_outputs) with at least one row and one column, "
            f"got shape {np.shape(raw)}"
        )
    return scores


def _read_classes(label: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    labels = np.asarray(label)
    if labels.shape != (shape[0],):
        raise ValueError(
            f"expected one class number for each of {shape[0]} rows, got shape {labels.shape}"
        )
    if labels.dtype.kind not in "fiub":
        raise TypeError(
            f"class numbers must be numbers, got dtype {labels.dtype}; encode the classes as "
            f"0 to {shape[1] - 1}"
        )
    exact = labels.astype(np.float64)
    wrong = ~((exact >= 0) & (exact < shape[1]) & (exact == np.floor(exact)))
    if wrong.any():  # NaN is among them
        raise ValueError(
            f"expected class numbers 0 to {shape[1] - 1}, one for each column of scores, got "
            f"{labels[wrong][0]}; encode the classes, or pass the scores of every class"
        )
    return labels.astype(np.int64)


def _read_targets(label: Any, shape: tuple[int, ...]) -> Floats:
    target = np.asarray(label)
    if target.dtype.kind not in "fiub":
        raise TypeError(f"labels must be real numbers, got dtype {target.dtype}")
    if target.ndim == 1 and shape[1] == 1:
        target = target[:, None]
    if target.shape != shape:
        raise ValueError(f"labels must have the shape {shape} of the scores, got {target.shape}")
    if not np.isfinite(target).all():
        raise ValueError("labels must be finite; drop the rows with NaN or infinity")
    return target.astype(np.float64)


def _read_weight(weight: Any, n: int) -> Floats | None:
    if weight is None:
        return None
    weights = np.asarray(weight)
    if weights.dtype.kind not in "fiub":
        raise TypeError(f"weights must be real numbers, got dtype {weights.dtype}")
    if weights.shape != (n,):
        raise ValueError(f"expected one weight for each of {n} rows, got shape {weights.shape}")
    weights = weights.astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise ValueError("weights must be finite and not negative, and some must be above zero")
    return weights
