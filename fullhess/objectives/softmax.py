"""Multinomial logistic loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..curvature import Layout
from ..kernels import softmax as kernels
from ..kernels.many_classes import solve_leaf_by_products
from ..threads import Workers
from .base import LeafEvaluator, LeafRows, Objective, Sums, row_tasks

__all__ = ["Softmax"]

_CURVATURES = {
    "full": kernels.FULL,
    "upper_bound": kernels.UPPER_BOUND,
    "absolute_residual": kernels.ABSOLUTE_RESIDUAL,
    "diagonal": kernels.DIAGONAL_EXACT,
    "scaled_diagonal": kernels.SCALED_DIAGONAL,
}
_SMALLEST_SHARE = 1e-10  # of a class without training rows
_ROWS_PER_RUN = 8192  # a leaf's rows are summed in runs of this many


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

    def guess_minimum(self, step: NDArray[np.float64]) -> NDArray[np.float64]:
        """log(1 + step), centred: the minimum itself where all rows of a leaf are alike."""
        values = np.log1p(np.maximum(step, -0.9))
        return np.asarray(values - values.mean(axis=1, keepdims=True))

    def leaf_evaluator(
        self,
        raw: NDArray[Any],
        label: NDArray[Any],
        weight: NDArray[np.float64],
        leaves: LeafRows,
        workers: Workers,
    ) -> LeafEvaluator:
        return _PackedLeaves(self, raw, label, weight, leaves, workers)


class _PackedLeaves(LeafEvaluator):
    """Rows copied leaf by leaf once, so that every pass reads memory in order."""

    def __init__(
        self,
        objective: Softmax,
        raw: NDArray[Any],
        label: NDArray[Any],
        weight: NDArray[np.float64],
        leaves: LeafRows,
        workers: Workers,
    ) -> None:
        super().__init__(objective, raw, label, weight, leaves, workers)
        rows = leaves.rows
        packed = np.empty((len(rows), raw.shape[1]), raw.dtype)
        self._packed = (packed, np.empty(len(rows), label.dtype), np.empty(len(rows)))
        bounds = row_tasks(len(rows), workers)

        def pack(task: int) -> None:
            part = slice(bounds[task], bounds[task + 1])
            out = (array[part] for array in self._packed)
            kernels.pack_rows(raw, label, weight, rows[part], *out)

        workers.run(len(bounds) - 1, pack)

    def sums(self, active: NDArray[Any], shift: NDArray[np.float64]) -> Sums:
        m = self.objective.layout("full").n_curvature
        # Runs depend on the leaf alone, so that every sum is the same for any number
        # of threads; with many classes the sums themselves are large.
        size = max(_ROWS_PER_RUN, 16 * m)
        runs = [
            (position, start, min(start + size, self.leaves.end[leaf]))
            for position, leaf in enumerate(active)
            for start in range(self.leaves.begin[leaf], self.leaves.end[leaf], size)
        ]
        owner, begin, end = np.array(runs, np.int64).T.copy()
        moves = shift[owner]
        gradient = np.empty((len(runs), shift.shape[1]))
        edges = np.empty((len(runs), m))
        tasks = _even_tasks(end - begin, 4 * self.workers.n_threads)

        def accumulate(task: int) -> None:
            part = slice(tasks[task], tasks[task + 1])
            kernels.accumulate_leaves(
                *self._packed, begin[part], end[part], moves[part], gradient[part], edges[part]
            )

        self.workers.run(len(tasks) - 1, accumulate)
        if len(runs) == len(active):
            return gradient, edges
        first = np.searchsorted(owner, np.arange(len(active)))
        return np.add.reduceat(gradient, first), np.add.reduceat(edges, first)

    def solve_by_products(
        self, reg_lambda: float, max_steps: int, damped: bool, max_size: float, by_range: bool
    ) -> NDArray[np.float64] | None:
        begin, end = self.leaves.begin, self.leaves.end
        values = np.empty((len(begin), self.objective.n_outputs))
        largest_first = np.argsort(begin - end, kind="stable")

        def solve(task: int) -> None:
            leaf = largest_first[task]
            solve_leaf_by_products(
                *self._packed, begin[leaf], end[leaf],
                reg_lambda, max_steps, damped, max_size, by_range, values[leaf],
            )  # fmt: skip

        self.workers.run(len(begin), solve)
        return values


def _even_tasks(sizes: NDArray[np.int64], n_tasks: int) -> NDArray[np.int64]:
    """Bounds of slices of about the same total size."""
    total = np.cumsum(sizes)
    wanted = np.linspace(0, total[-1], n_tasks + 1)[1:-1]
    inner = np.searchsorted(total, wanted) + 1
    return np.unique(np.concatenate([[0], inner.clip(max=len(sizes)), [len(sizes)]]))


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
