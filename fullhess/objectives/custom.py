"""Objectives given as a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..curvature import Layout
from ..threads import Workers
from .base import Link, Objective

__all__ = ["CustomObjective"]

Derivatives = Callable[[NDArray[Any], NDArray[Any]], tuple[Any, Any]]
Losses = Callable[[NDArray[Any], NDArray[Any]], Any]


class CustomObjective(Objective):
    """Derivatives from a function, one row at a time independent of the others.

    Parameters
    ----------
    derivatives : ``f(raw, label) -> (gradient, hessian)``; raw is (n, k) float64, the
        gradient (n, k), the Hessian (n, k) if diagonal, (n, k, k), or the packed
        upper triangle (n, k(k+1)/2) row by row. Without weights: they are applied here.
    n_outputs : k.
    loss : ``f(raw, label) -> (n,)``, needed for damped and exact leaves. Without it
        leaves are single Newton steps.
    link : how ``predict`` turns scores into predictions.
    intercept : (k,) starting scores, zeros if not given.
    """

    name = "custom"
    hessians = ("full", "diagonal")

    def __init__(
        self,
        derivatives: Derivatives,
        n_outputs: int,
        *,
        loss: Losses | None = None,
        link: Link = "identity",
        intercept: Any = None,
    ) -> None:
        if not callable(derivatives):
            raise TypeError(f"a custom objective must be callable, got {derivatives!r}")
        if n_outputs < 1:
            raise ValueError(f"n_outputs must be at least 1, got {n_outputs}")
        super().__init__(int(n_outputs))
        self.derivatives = derivatives
        self.loss = loss
        self.has_loss = loss is not None
        self.link = link
        self.start = np.zeros(n_outputs) if intercept is None else np.asarray(intercept, float)
        if self.start.shape != (n_outputs,) or not np.isfinite(self.start).all():
            raise ValueError(f"intercept must be {n_outputs} finite numbers, got {intercept!r}")
        self._dense: bool | None = None

    def probe(self, label: NDArray[Any]) -> None:
        """Call the function once to learn whether its Hessian is a matrix or a diagonal."""
        raw = np.tile(self.start, (len(label), 1))
        self._dense = self._evaluate(raw, label)[1].shape[1] != self.n_outputs

    def layout(self, hessian: str) -> Layout:
        if self._dense is None:
            raise RuntimeError("probe the objective with labels before asking for its layout")
        dense = self._dense and hessian == "full"
        return Layout("dense" if dense else "diagonal", self.n_outputs)

    def check_label(self, label: Any, n_samples: int) -> NDArray[Any]:
        array = np.asarray(label)
        if array.ndim < 1 or len(array) != n_samples:
            raise ValueError(
                f"expected {n_samples} labels, one for each row, got shape {array.shape}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError("labels must be finite, got NaN or infinity")
        return array

    def intercept(self, label: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.start

    def losses(self, raw: NDArray[Any], label: NDArray[Any]) -> NDArray[np.float64]:
        if self.loss is None:
            raise ValueError("this custom objective has no loss function")
        losses = np.asarray(self.loss(raw, label), dtype=np.float64)
        if losses.shape != (len(raw),):
            raise ValueError(f"the custom loss must return shape ({len(raw)},), got {losses.shape}")
        return losses

    def write_statistics(
        self,
        raw: NDArray[Any],
        label: NDArray[Any],
        weight: NDArray[np.float64],
        rows: NDArray[np.int32],
        hessian: str,
        out: NDArray[np.float32],
        workers: Workers,
    ) -> None:
        gradient, curvature = self._evaluate(raw, label)
        k = self.n_outputs
        if hessian == "diagonal" and curvature.shape[1] != k:
            curvature = curvature[:, np.cumsum([0, *range(k, 1, -1)])]
        w = weight[rows, None]
        out[rows, 0] = 1.0
        out[rows, 1 : 1 + k] = w * gradient[rows]
        out[rows, 1 + k : 1 + k + curvature.shape[1]] = w * curvature[rows]

    def _evaluate(self, raw: NDArray[Any], label: NDArray[Any]) -> tuple[Any, Any]:
        """Gradient (n, k) and Hessian, diagonal (n, k) or packed (n, k(k+1)/2)."""
        result = self.derivatives(np.array(raw, np.float64), label)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"a custom objective must return (gradient, hessian), got {type(result).__name__}"
            )
        n, k = raw.shape
        gradient = np.asarray(result[0], np.float64)
        hessian = np.asarray(result[1], np.float64)
        if k == 1 and gradient.shape == (n,):
            gradient = gradient[:, None]
        if k == 1 and hessian.shape == (n,):
            hessian = hessian[:, None]
        if gradient.shape != (n, k):
            raise ValueError(f"the gradient must be ({n}, {k}), got {gradient.shape}")
        if hessian.shape == (n, k, k):
            i, j = np.triu_indices(k)
            hessian = hessian[:, i, j]
        if hessian.shape not in ((n, k), (n, k * (k + 1) // 2)):
            raise ValueError(
                f"the Hessian must be ({n}, {k}), ({n}, {k}, {k}) or packed "
                f"({n}, {k * (k + 1) // 2}), got {hessian.shape}"
            )
        if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
            raise ValueError("the custom objective returned NaN or infinity")
        return gradient, hessian
