"""Squared error of several outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..curvature import Layout
from ..threads import Workers
from .base import Objective

__all__ = ["SquaredError"]


class SquaredError(Objective):
    """Loss ½‖raw - y‖², gradient raw - y, Hessian the identity: diagonal and exact."""

    name = "squared_error"
    quadratic = True

    @classmethod
    def from_label(cls, label: Any) -> SquaredError:
        array = np.asarray(label)
        return cls(1 if array.ndim == 1 else int(array.shape[-1]))

    def layout(self, hessian: str) -> Layout:
        return Layout("diagonal", self.n_outputs)

    def check_label(self, label: Any, n_samples: int) -> NDArray[np.float64]:
        array = np.asarray(label)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"labels must be numbers, got dtype {array.dtype}")
        array = array.astype(np.float64)
        if array.ndim == 1:
            array = array[:, None]
        if array.shape != (n_samples, self.n_outputs):
            raise ValueError(
                f"expected labels of shape ({n_samples}, {self.n_outputs}), got {array.shape}"
            )
        if not np.isfinite(array).all():
            raise ValueError("labels must be finite, got NaN or infinity")
        return np.ascontiguousarray(array)

    def intercept(self, label: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.average(label, axis=0, weights=weight))

    def losses(self, raw: NDArray[Any], label: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(0.5 * ((raw - label) ** 2).sum(axis=1))

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
        k = self.n_outputs
        w = weight[rows, None]
        out[rows, 0] = 1.0
        out[rows, 1 : 1 + k] = w * (raw[rows] - label[rows])
        out[rows, 1 + k : 1 + 2 * k] = w
