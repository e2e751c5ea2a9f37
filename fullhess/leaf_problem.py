"""Everything that decides the values of one tree's leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .curvature import Layout
from .nodes import GrownTree
from .objectives import Objective
from .objectives.base import LeafEvaluator, Sums, split_sums, sum_leaves
from .params import Params
from .threads import Workers
from .tree import Tree

__all__ = ["DEFAULT_MAX_RANGE", "Bounds", "LeafProblem"]

DEFAULT_MAX_RANGE = 10.0  # of a leaf's values where neither λ nor max_delta_step bounds them

Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]  # lowest, highest values (L, k)


@dataclass(frozen=True, eq=False)
class LeafProblem:
    """A grown tree, the rows in its leaves, and the settings of their values."""

    objective: Objective
    raw: NDArray[Any]
    label: NDArray[Any]
    weight: NDArray[np.float64]
    grown: GrownTree
    split_hessian: str
    params: Params
    workers: Workers

    @property
    def tree(self) -> Tree:
        return self.grown.tree

    @property
    def everything(self) -> NDArray[np.int64]:
        return np.arange(self.tree.n_leaves)

    @property
    def is_path(self) -> bool:
        """Whether the values of all nodes are tied, child to parent."""
        return self.params.leaf_prior == "path" and self.params.reg_lambda > 0.0

    @property
    def is_bounded(self) -> bool:
        """Whether a value may have to be cut off."""
        return self.params.reg_lambda == 0.0 or self.params.max_delta_step > 0.0

    @cached_property
    def bounds(self) -> Bounds:
        """(n_leaves, k) lowest and highest values, for constrained leaves."""
        low, high = self.grown.low, self.grown.high
        params = self.params
        if params.reg_lambda == 0.0 and params.max_delta_step == 0.0 and self.objective.range_bound:
            limit = DEFAULT_MAX_RANGE
            return low.clip(-limit, limit), high.clip(-limit, limit)
        return low, high

    @cached_property
    def evaluator(self) -> LeafEvaluator:
        data = (self.raw, self.label, self.weight)
        return self.objective.leaf_evaluator(*data, self.grown.leaves, self.workers)

    def sums_of(self, hessian: str, exact: bool = False) -> tuple[Layout, Sums]:
        """Sums at zero with some curvature; those of the split search if they fit.

        exact : sums in float64 throughout (the full curvature has them).
        """
        layout = self.objective.layout(hessian)
        if hessian == self.split_hessian and not exact:
            return layout, split_sums(self.grown.sums, layout)
        if hessian == "full":
            start = np.zeros((self.tree.n_leaves, self.tree.n_outputs))
            return layout, self.evaluator.sums(self.everything, start)
        stats = np.zeros((len(self.raw), layout.width), np.float32)
        leaves = self.grown.leaves
        self.objective.write_statistics(
            self.raw, self.label, self.weight, leaves.rows, hessian, stats, self.workers
        )
        return layout, split_sums(sum_leaves(stats, leaves, self.workers), layout)

    def over_leaves(self, n_leaves: int, task: Callable[[slice], None]) -> None:
        """Call ``task`` on slices of the leaves, in parallel where k×k systems are large."""
        n_tasks = self.workers.n_threads if self.objective.n_outputs > 32 else 1
        ends = np.linspace(0, n_leaves, n_tasks + 1).astype(np.int64)
        self.workers.run(n_tasks, lambda t: task(slice(ends[t], ends[t + 1])))
