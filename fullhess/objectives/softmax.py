"""Multinomial logistic loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..curvature import Layout
from ..kernels import softmax as kernels
from ..threads import Workers
from .base import LeafRows, Objective, row_tasks

__all__ = ["Softmax"]

_CURVATURES = {
    "full": kernels.FULL,
    "upper_bound": kernels.UPPER_BOUND,
    "absolute_residual": kernels.ABSOLUTE_RESIDUAL,
    "diagonal": kernels.DIAGONAL_EXACT,
    "scaled_diagonal": kernels.SCALED_DIAGONAL,
}
_SMALLEST_SHARE = 1e-10  # of a class without training rows
_ROWS_PER_CHUNK = 8192  # a leaf's rows are summed in chunks of this many


class Softmax(Objective):
    """p = softmax(raw), loss -log p_y, gradient p - 1[y], Hessian diag(p) - ppᵀ."""

    name = "softmax"
    link = "softmax"
    hessians = tuple(_CURVATURES)
    range_bound = True

    def __init__(self, n_classes: int) -> None:
        if n_classes < 2:
            raise ValueError(f"softmax needs at least two classes, got {n_classes}")
        super().__init__(n_classes)

    @classmethod
    def from_label(cls, label: Any) -> Softmax:
        """The number of classes of labels 0 to k - 1."""
        array = _whole_numbers(label)
        n_classes = int(array.max()) + 1 if len(array) else 0
        if n_classes < 2 or len(np.unique(array)) < 2:
            raise ValueError(
                "softmax needs labels of at least two classes, got only "
                f"{np.unique(array).tolist()}; pass num_class if others may come later"
            )
        return cls(n_classes)

    def layout(self, hessian: str) -> Layout:
        return Layout("laplacian" if hessian == "full" else "diagonal", self.n_outputs)

    def check_label(self, label: Any, n_samples: int) -> NDArray[np.int32]:
        array = _whole_numbers(label)
        if len(array) != n_samples:
            raise ValueError(f"expected {n_samples} labels, one for each row, got {len(array)}")
        if len(array) and (array.min() < 0 or array.max() >= self.n_outputs):
            bad = array.min() if array.min() < 0 else array.max()
            raise ValueError(
                f"labels must be in [0, {self.n_outputs}), got {int(bad)}; "
                "encode classes as 0 to num_class - 1"
            )
        return array.astype(np.int32)

    def intercept(self, label: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        mass = np.bincount(label, weights=weight, minlength=self.n_outputs)
        scores = np.log(np.maximum(mass / mass.sum(), _SMALLEST_SHARE))
        return np.asarray(scores - scores.mean())

    def losses(self, raw: NDArray[Any], label: NDArray[Any]) -> NDArray[np.float64]:
        out = np.empty(len(raw))
        kernels.write_losses(raw, label, 0, out)
        return out

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
        bounds = row_tasks(len(rows), workers)
        curvature = _CURVATURES[hessian]
        workers.run(
            len(bounds) - 1,
            lambda t: kernels.write_statistics(
                raw, label, weight, rows[bounds[t] : bounds[t + 1]], curvature, out
            ),
        )

    def leaf_sums(
        self,
        raw: NDArray[Any],
        label: NDArray[Any],
        weight: NDArray[np.float64],
        leaves: LeafRows,
        shift: NDArray[np.float64],
        workers: Workers,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        # Chunks depend on the leaf alone, so that every sum is the same for any
        # number of threads; with many classes the sums themselves are large.
        size = max(_ROWS_PER_CHUNK, 16 * self.layout("full").n_curvature)
        chunks = [
            (leaf, start, min(start + size, int(leaves.end[leaf])))
            for leaf in range(len(leaves))
            for start in range(int(leaves.begin[leaf]), int(leaves.end[leaf]), size)
        ]
        gradient = np.empty((len(chunks), self.n_outputs))
        edges = np.empty((len(chunks), self.layout("full").n_curvature))
        order = sorted(range(len(chunks)), key=lambda c: chunks[c][1] - chunks[c][2])

        def accumulate(task: int) -> None:
            chunk = order[task]  # largest first: no long task is left for the end
            leaf, start, stop = chunks[chunk]
            kernels.accumulate_leaf(
                raw, label, weight, leaves.rows[start:stop], shift[leaf],
                gradient[chunk], edges[chunk],
            )  # fmt: skip

        workers.run(len(chunks), accumulate)
        if len(chunks) == len(leaves):
            return gradient, edges
        first = np.searchsorted([leaf for leaf, _, _ in chunks], np.arange(len(leaves)))
        return np.add.reduceat(gradient, first), np.add.reduceat(edges, first)


def _whole_numbers(label: Any) -> NDArray[Any]:
    array = np.asarray(label)
    if array.ndim != 1:
        raise ValueError(f"expected a 1-D array of class labels, got shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"class labels must be numbers 0 to num_class - 1, got dtype {array.dtype}; "
            "encode them first (sklearn.preprocessing.LabelEncoder)"
        )
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ValueError("labels must be finite, got NaN or infinity")
        if (array != np.floor(array)).any():
            raise ValueError("class labels must be whole numbers")
    return array.astype(np.int64)
