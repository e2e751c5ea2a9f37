"""Multinomial logistic loss."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..curvature import Layout
from ..kernels import softmax as kernels
from ..kernels.many_classes import solve_leaf_by_products
from ..kernels.rows import VECTOR
from ..kernels.softmax_leaves import accumulate_leaves, pack_leaves
from ..kernels.softmax_solve import LEAST_GUESS, solve_whole_leaves
from ..kernels.softmax_tied import CONVERGED, STATE_SIZE, TiedLeaves, solve_tied_leaves
from ..kernels.team import close, new_control
from ..threads import Workers, even_tasks
from .base import Descent, LeafEvaluator, LeafRows, Objective, Sums, row_tasks

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
# Leaves of no more than this many rows, or than this share of all, are solved whole, each
# by one thread.
_WHOLE_ROWS = 8192
_WHOLE_SHARE = 1 / 16
_NUMBERS_PER_HELPER = 500_000  # of a pass: below, to wake a thread takes longer
_NUMBERS_PER_TASK = 1_000_000  # probabilities and products of a pass: half a millisecond or less


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
        values = np.log1p(np.maximum(step, LEAST_GUESS))
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

    @property
    def _rows_per_run(self) -> int:
        """With many classes the sums of a run are themselves large."""
        size = max(_ROWS_PER_RUN, 16 * self.objective.layout("full").n_curvature)
        return -(-size // kernels.BLOCK) * kernels.BLOCK

    @cached_property
    def _runs(self) -> NDArray[np.int64]:
        """(4, m) leaf, first row, end, place of runs of rows: they depend on the leaf alone, so
        that every sum is the same for any number of threads.
        """
        k = self.objective.n_outputs
        size = self._rows_per_run
        leaf, begin, end = np.array(
            [
                (leaf, start, min(start + size, stop))
                for leaf, (first, stop) in enumerate(
                    zip(self.leaves.begin, self.leaves.end, strict=True)
                )
                for start in range(first, stop, size)
            ],
            np.int64,
        ).T
        taken = _padded(end - begin) * (k + 1)
        return np.stack([leaf, begin, end, np.cumsum(taken) - taken])

    @cached_property
    def _blocks(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Scores and weights in blocks, and labels (``pack_leaves``), as far as ``_pack`` went."""
        _, begin, end, place = self._runs
        last = _padded(end[-1:] - begin[-1:]) * (self.objective.n_outputs + 1)
        buffers = self.workers.buffers
        return (
            buffers.get("leaf scores", int(place[-1] + last[0]), np.float64),
            buffers.get("leaf labels", len(self.leaves.rows), np.int32),
        )

    @cached_property
    def _is_packed(self) -> NDArray[np.bool_]:
        return np.zeros(self._runs.shape[1], np.bool_)

    def _pack(self, runs: NDArray[np.int64]) -> None:
        """Copy the rows of runs that have not been copied yet."""
        runs = runs[~self._is_packed[runs]]
        if len(runs) == 0:
            return
        _, begin, end, place = self._runs[:, runs]
        blocks = self._blocks
        tasks = even_tasks(end - begin, 2 * self.workers.n_threads)

        def pack(task: int) -> None:
            part = slice(tasks[task], tasks[task + 1])
            pack_leaves(
                self.raw, self.label, self.weight, self.leaves.rows, begin[part], end[part],
                place[part], *blocks,
            )  # fmt: skip

        self.workers.run(len(tasks) - 1, pack)
        self._is_packed[runs] = True

    def sums(self, active: NDArray[Any], shift: NDArray[np.float64]) -> Sums:
        position = np.full(len(self.leaves), -1)
        position[active] = np.arange(len(active))
        owner = position[self._runs[0]]
        used = np.argsort(owner, kind="stable")[(owner < 0).sum() :]
        owner, begin, end, place = (bound[used] for bound in (owner, *self._runs[1:]))
        moves = shift[owner]
        gradient = np.empty((len(owner), shift.shape[1]))
        edges = np.empty((len(owner), self.objective.layout("full").n_curvature))
        n_numbers = int((end - begin).sum()) * (shift.shape[1] + edges.shape[1])
        n_tasks = min(2 * self.workers.n_threads, 1 + n_numbers // _NUMBERS_PER_TASK)
        tasks = even_tasks(end - begin, n_tasks)
        self._pack(used)
        blocks = self._blocks

        def accumulate(task: int) -> None:
            part = slice(tasks[task], tasks[task + 1])
            accumulate_leaves(
                *blocks, begin[part], end[part], place[part], moves[part], gradient[part],
                edges[part],
            )  # fmt: skip

        self.workers.run(len(tasks) - 1, accumulate)
        if len(owner) == len(active):
            return gradient, edges
        first = np.searchsorted(owner, np.arange(len(active)))
        return np.add.reduceat(gradient, first), np.add.reduceat(edges, first)

    def solve_whole(
        self, active: NDArray[np.int64], descent: Descent, x: NDArray[np.float64]
    ) -> NDArray[np.bool_] | None:
        leaves = self.leaves
        size = leaves.end - leaves.begin
        most = max(_WHOLE_ROWS, _WHOLE_SHARE * size.sum())  # whatever the number of threads
        whole = active[size[active] <= most]
        order = whole[np.argsort(-size[whole], kind="stable")]
        solved = np.ones(len(leaves), np.bool_)
        counter = new_control()
        self.workers.run(
            min(self.workers.n_threads, len(order)),
            lambda _: solve_whole_leaves(
                counter, order, self.raw, self.label, self.weight, leaves.rows, leaves.begin,
                leaves.end, self._rows_per_run, descent.layout.code, *descent.first,
                descent.reg_lambda, descent.max_steps, descent.converged_range, x, solved,
            ),
        )  # fmt: skip
        x[~solved] = np.nan
        tried: NDArray[np.bool_] = np.zeros(len(leaves), np.bool_)
        tried[whole] = True
        return tried

    def solve_tied(
        self,
        parent: NDArray[np.int32],
        leaf: NDArray[np.int32],
        descent: Descent,
        x: NDArray[np.float64],
    ) -> bool | None:
        run_leaf, run_begin, run_end, run_place = self._runs
        (n_leaves, k), n_nodes, n_runs = x.shape, len(parent), len(run_leaf)
        n_edges = self.objective.layout("full").n_curvature
        scores, own_label = self._blocks
        leaves = TiedLeaves(
            raw=self.raw,
            label=self.label,
            weight=self.weight,
            rows=self.leaves.rows,
            run_leaf=run_leaf,
            run_begin=run_begin,
            run_end=run_end,
            run_place=run_place,
            scores=scores,
            own_label=own_label,
            run_gradient=np.empty((n_runs, k)),
            run_edges=np.empty((n_runs, n_edges)),
            gradient=np.empty((n_leaves, k)),
            edges=np.empty((n_leaves, n_edges)),
            at=np.zeros((n_leaves, k)),
            todo=np.empty(n_runs, np.int64),
            first_layout=descent.layout.code,
            first_gradient=descent.first[0],
            first_curvature=descent.first[1],
            parent=parent,
            leaf=leaf,
            reg_lambda=descent.reg_lambda,
            max_steps=descent.max_steps,
            converged_range=descent.converged_range,
            matrix=np.empty((n_nodes + 1) * k * k),
            message=np.empty(k),
            nodes=np.empty((n_nodes, k)),
            x=x,
        )
        control, state = new_control(), np.zeros(STATE_SIZE, np.int64)
        n_numbers = len(self.leaves.rows) * (k + n_edges)
        n_threads = min(self.workers.n_threads, n_runs, 1 + n_numbers // _NUMBERS_PER_HELPER)
        self.workers.lead(
            lambda is_leader: solve_tied_leaves(control, is_leader, state, leaves),
            n_threads - 1,
            lambda: close(control),
        )
        return bool(state[CONVERGED])

    def _packed_rows(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
        """Scores, labels and weights in the order of the leaves."""
        rows = self.leaves.rows
        packed = np.empty((len(rows), self.raw.shape[1]), self.raw.dtype)
        arrays = (packed, np.empty(len(rows), self.label.dtype), np.empty(len(rows)))
        bounds = row_tasks(len(rows), self.workers)

        def pack(task: int) -> None:
            part = slice(bounds[task], bounds[task + 1])
            out = (array[part] for array in arrays)
            kernels.pack_rows(self.raw, self.label, self.weight, rows[part], *out)

        self.workers.run(len(bounds) - 1, pack)
        return arrays

    def solve_by_products(
        self, reg_lambda: float, max_steps: int, damped: bool, max_size: float, by_range: bool
    ) -> NDArray[np.float64] | None:
        begin, end = self.leaves.begin, self.leaves.end
        values = np.empty((len(begin), self.objective.n_outputs))
        packed = self._packed_rows()
        largest_first = np.argsort(begin - end, kind="stable")

        def solve(task: int) -> None:
            leaf = largest_first[task]
            solve_leaf_by_products(
                *packed, begin[leaf], end[leaf],
                reg_lambda, max_steps, damped, max_size, by_range, values[leaf],
            )  # fmt: skip

        self.workers.run(len(begin), solve)
        return values


def _padded(n_rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Lanes that so many packed rows take."""
    return -(-n_rows // VECTOR) * VECTOR


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
