"""The protocol of an objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..curvature import Layout
from ..kernels.histogram import sum_rows
from ..kernels.partition import add_leaf_values
from ..threads import Workers

__all__ = ["Descent", "LeafEvaluator", "LeafRows", "Objective"]

Link = Literal["softmax", "identity"]
Sums = tuple[NDArray[np.float64], NDArray[np.float64]]  # gradient (L, k), curvature (L, m)


@dataclass(frozen=True)
class LeafRows:
    """Rows of each leaf: ``rows[begin[i]:end[i]]``, int32."""

    rows: NDArray[np.int32]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begin)

    def of(self, leaf: int) -> NDArray[np.int32]:
        return self.rows[self.begin[leaf] : self.end[leaf]]

    def subset(self, leaves: NDArray[Any]) -> LeafRows:
        return LeafRows(self.rows, self.begin[leaves], self.end[leaves])


class Descent(NamedTuple):
    """Newton steps from zero to the minima of leaves."""

    layout: Layout  # of ``first``; later steps have the true Hessian
    first: Sums  # of all leaves at zero
    reg_lambda: float
    max_steps: int
    converged_range: float  # a step is the last one if its range is below


class Objective(ABC):
    """A loss of k scores per row, convex in them.

    Arrays: ``raw`` (n, k) scores, ``label`` as ``check_label`` returns it, ``weight``
    (n,) float64, ``rows`` int32 indices.
    """

    name: ClassVar[str]
    link: Link = "identity"
    hessians: ClassVar[tuple[str, ...]] = ("full",)

    #: The third derivative along d is at most range(d) times the second: damped
    #: steps have a closed form and the guaranteed gain exists.
    range_bound: ClassVar[bool] = False
    #: One Newton step is the exact minimum.
    quadratic: ClassVar[bool] = False
    #: ``losses`` is available.
    has_loss: bool = True

    def __init__(self, n_outputs: int) -> None:
        self.n_outputs = n_outputs

    @abstractmethod
    def layout(self, hessian: str) -> Layout:
        """Layout of the statistics with this curvature; ``"full"`` is the true Hessian."""

    @abstractmethod
    def check_label(self, label: Any, n_samples: int) -> NDArray[Any]:
        """The labels in the kernels' type, or a clear error."""

    @abstractmethod
    def intercept(self, label: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """(k,) best constant scores."""

    @abstractmethod
    def losses(self, raw: NDArray[Any], label: NDArray[Any]) -> NDArray[np.float64]:
        """(n,) loss of every row, without weights."""

    @abstractmethod
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
        """Write the statistics rows of ``rows`` into ``out`` (n, width) float32."""

    def leaf_evaluator(
        self,
        raw: NDArray[Any],
        label: NDArray[Any],
        weight: NDArray[np.float64],
        leaves: LeafRows,
        workers: Workers,
    ) -> LeafEvaluator:
        """Derivatives of whole leaves, for the passes of the leaf solver."""
        return LeafEvaluator(self, raw, label, weight, leaves, workers)

    def guess_minimum(self, step: NDArray[np.float64]) -> NDArray[np.float64]:
        """(L, k) likely minima of leaves whose Newton steps from zero are given."""
        return step

    def metadata(self) -> dict[str, str | int]:
        """What a saved model says of its objective."""
        return {"objective": self.name, "n_outputs": self.n_outputs}


class LeafEvaluator:
    """Gradients and true Hessians of leaves at shifted scores.

    This one evaluates the objective on all rows in their own order, which suits any
    objective; one with kernels of its own may do better.
    """

    def __init__(
        self,
        objective: Objective,
        raw: NDArray[Any],
        label: NDArray[Any],
        weight: NDArray[np.float64],
        leaves: LeafRows,
        workers: Workers,
    ) -> None:
        self.objective = objective
        self.raw = raw
        self.label = label
        self.weight = weight
        self.leaves = leaves
        self.workers = workers

    def sums(self, active: NDArray[Any], shift: NDArray[np.float64]) -> Sums:
        """Gradient (a, k) and packed Hessian (a, m) of the active leaves.

        shift : (a, k), added to the scores of each active leaf's rows.
        """
        leaves = self.leaves.subset(active)
        layout = self.objective.layout("full")
        stats = np.zeros((len(self.raw), layout.width), np.float32)
        rows = np.concatenate([leaves.of(leaf) for leaf in range(len(leaves))])
        moved = self.shifted(leaves, shift)
        self.objective.write_statistics(
            moved, self.label, self.weight, rows, "full", stats, self.workers
        )
        return split_sums(sum_leaves(stats, leaves, self.workers), layout)

    def solve_by_products(
        self, reg_lambda: float, max_steps: int, damped: bool, max_size: float, by_range: bool
    ) -> NDArray[np.float64] | None:
        """(L, k) values of all leaves by Newton steps without matrices, if it can.

        max_size : bound on the largest component of a value, or on its range
            (``by_range``); 0: none.
        """
        return None

    def solve_whole(
        self, active: NDArray[np.int64], descent: Descent, x: NDArray[np.float64]
    ) -> NDArray[np.bool_] | None:
        """Solve active leaves that do not depend on each other, one after the other.

        x : (L, k) output.

        Returns (L,) which leaves have been tried, or None if it cannot; the values of those
        that did not converge are NaN.
        """
        return None

    def solve_tied(
        self,
        parent: NDArray[np.int32],
        leaf: NDArray[np.int32],
        descent: Descent,
        x: NDArray[np.float64],
    ) -> bool | None:
        """Solve all leaves under the path prior.

        parent, leaf : (n_nodes,) the tree.
        x : (L, k) zeros, output.

        Returns whether the steps came to an end, or None if it cannot.
        """
        return None

    def losses(self, active: NDArray[Any], shift: NDArray[np.float64]) -> NDArray[np.float64]:
        """(a,) weighted loss of each active leaf."""
        leaves = self.leaves.subset(active)
        moved = self.shifted(leaves, shift)
        weighted = self.objective.losses(moved, self.label) * self.weight
        return np.array([weighted[leaves.of(leaf)].sum() for leaf in range(len(leaves))])

    def shifted(self, leaves: LeafRows, shift: NDArray[np.float64]) -> NDArray[np.float64]:
        """All scores, those of the given leaves moved."""
        moved = self.raw.astype(np.float64)
        for leaf in range(len(leaves)):
            add_leaf_values(leaves.of(leaf), shift[leaf], moved)
        return moved


def sum_leaves(
    stats: NDArray[np.float32], leaves: LeafRows, workers: Workers
) -> NDArray[np.float64]:
    """(L, width) float64 sums of the statistics rows of each leaf."""
    sums = np.empty((len(leaves), stats.shape[1]))
    workers.run_even(
        leaves.end - leaves.begin, lambda leaf: sum_rows(leaves.of(leaf), stats, sums[leaf])
    )
    return sums


def split_sums(sums: NDArray[np.float64], layout: Layout) -> Sums:
    """Gradient and curvature parts of (L, width) sums, contiguous."""
    k = layout.n_outputs
    gradient = np.ascontiguousarray(sums[:, 1 : 1 + k])
    return gradient, np.ascontiguousarray(sums[:, 1 + k : 1 + k + layout.n_curvature])


def row_tasks(n_rows: int, workers: Workers) -> NDArray[np.int64]:
    """Bounds of even slices of rows, one or two for each thread."""
    n_tasks = max(1, min(2 * workers.n_threads, n_rows // 2048))
    return np.linspace(0, n_rows, n_tasks + 1).astype(np.int64)
