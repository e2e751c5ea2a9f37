"""Growing one tree on binned data.

A node waits in the *frontier* with its best split until it is expanded. Expanding
a batch of nodes (a level, or the single node of largest gain) takes two parallel
steps (``Phases``):

1. partition: each node's rows are reordered into left and right;
2. search: for each pair of children and each block of features, build the smaller
   child's histogram, search its splits, subtract it from the parent's histogram,
   which thereby becomes the sibling's, and search that. The block stays in cache
   from the first row to the last candidate.

A histogram is kept only while its node is in the frontier and may have children
that need it. When the budget of the pool is used up, children are built from
their rows instead.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from .bins import BinnedMatrix
from .curvature import Layout
from .histograms import Histogram, HistogramPool
from .kernels.constraints import solve_constrained_node, solve_constrained_pair
from .kernels.solve import solve_node, trace_of
from .kernels.splitting import choose_feature
from .nodes import Bounds, GrownTree, Node, Search, assemble, smoothed, split_settings
from .params import Params
from .phases import Phases
from .sampling import ColumnSampler
from .threads import Workers

__all__ = ["Grower"]

_SEED_STEP = 0xD1B54A32D192ED03  # odd and without a pattern: seeds of nodes are far apart


class Grower:
    """Grows trees on one data set; buffers are kept from tree to tree.

    Parameters
    ----------
    layout : of the statistics rows that score splits.
    damped : score by the guaranteed gain (the objective has a range bound).
    """

    def __init__(
        self, binned: BinnedMatrix, layout: Layout, params: Params, damped: bool, workers: Workers
    ) -> None:
        self.binned = binned
        self.layout = layout
        self.params = params
        self.workers = workers
        self.pool = HistogramPool(binned, layout, params.max_histogram_mb * 2.0**20)
        self.settings = split_settings(layout, params, damped)
        self._monotone = np.zeros(binned.n_features, np.int8)
        if params.monotone_constraints is not None:
            self._monotone[:] = params.monotone_constraints
        self._categorical = binned.binning.features.categorical
        self._phases = Phases(binned, self.pool, self.settings, self._monotone, workers)
        # Of the tree being grown:
        self._columns: ColumnSampler
        self._seed = -1
        self._frontier: list[tuple[float, int, Node]]  # heap by falling gain

    def grow(
        self,
        stats: NDArray[np.float32],
        rows: NDArray[np.int32],
        columns: ColumnSampler,
        seed: int = -1,
    ) -> GrownTree:
        """Grow a tree.

        Parameters
        ----------
        stats : (n, width) statistics rows.
        rows : (m,) int32 ascending rows to use; reordered in place.
        columns : draws the features of the tree, of levels and of nodes.
        seed : of the random thresholds (``extra_trees``), below 2**62; negative: try all.
        """
        self._columns = columns
        self._seed = seed
        self._frontier = []
        self.pool.reset()
        self._phases.begin(rows, stats, columns.of_tree())
        try:
            nodes = self._grow(len(rows))
        finally:
            self._phases.end()
        return assemble(nodes, self.binned.binning, rows)

    def _grow(self, n_rows: int) -> list[Node]:
        """All nodes of a tree, in the order of their numbers."""
        root = self._new_node(0, None, 0, n_rows, self._phases.sum_up(n_rows))
        nodes = [root]
        self._search([self._prepare(root, None, None)])
        self._wait([root])
        n_leaves = 1
        while batch := self._next_batch(n_leaves):
            children = self._expand(batch, len(nodes))
            nodes.extend(children)
            n_leaves += len(batch)
            self._wait(children)
        for _, _, node in self._frontier:
            self._release(node)
        return nodes

    def _wait(self, nodes: list[Node]) -> None:
        """Put the nodes that have a split into the frontier."""
        for node in nodes:
            if node.feature >= 0:
                heapq.heappush(self._frontier, (-float(node.split[0]), node.index, node))

    def _next_batch(self, n_leaves: int) -> list[Node]:
        """Take the nodes to expand next out of the frontier."""
        params = self.params
        size = 1 if params.grow_policy == "lossguide" else len(self._frontier)
        if params.max_leaves:
            size = min(size, params.max_leaves - n_leaves)
        size = max(0, min(size, len(self._frontier)))
        batch = [heapq.heappop(self._frontier)[2] for _ in range(size)]
        return sorted(batch, key=lambda node: node.index)

    def _new_node(
        self,
        index: int,
        parent: Node | None,
        begin: int,
        end: int,
        sums: NDArray[np.float64],
        bounds: Bounds | None = None,
    ) -> Node:
        k = self.layout.n_outputs
        if bounds is None:
            limit = np.full(k, self.params.max_delta_step or np.inf)
            bounds = (-limit, limit)
        center = np.zeros(k) if parent is None else parent.center
        step = np.empty(k)
        score = self._solve(sums, center, bounds, step)
        if self.params.leaf_prior == "path":
            center = center + step  # children are solved around the node's own value
            score = self._solve(sums, center, bounds, step)
        cover = max(float(trace_of(self.layout.code, k, sums, 1 + k)), 0.0)
        value = step
        if self.params.path_smooth > 0.0 and parent is not None:
            value = smoothed(step, parent.value, end - begin, self.params.path_smooth)
        depth = 0 if parent is None else parent.depth + 1
        path = frozenset[int]() if parent is None else parent.path | {parent.feature}
        return Node(index, depth, begin, end, sums, center, value, score, cover, path, *bounds)

    def _solve(
        self,
        sums: NDArray[np.float64],
        center: NDArray[np.float64],
        bounds: Bounds,
        out: NDArray[np.float64],
    ) -> float:
        """Score of a node; its value goes to ``out``."""
        settings = self.settings
        k = settings.k
        if settings.constrained:
            penalties = (settings.reg_lambda, settings.reg_alpha)
            return float(solve_constrained_node(k, sums, *penalties, *bounds, settings.damped, out))
        limits = (settings.reg_lambda, settings.damped, settings.max_delta_step)
        return float(solve_node(self.layout.code, k, sums, center, *limits, out))

    def _may_split(self, node: Node) -> bool:
        params = self.params
        return (
            (params.max_depth == 0 or node.depth < params.max_depth)
            and node.n_rows >= 2 * params.min_samples_leaf
            and node.cover >= 2 * params.min_child_weight * self.layout.n_outputs
        )

    def _children_may_split(self, node: Node) -> bool:
        return self.params.max_depth == 0 or node.depth + 1 < self.params.max_depth

    def _expand(self, batch: list[Node], index: int) -> list[Node]:
        """Split every node of the batch; the children, with their best splits."""
        children: list[Node] = []
        work = []
        for node, part in zip(batch, self._phases.partition(batch), strict=True):
            node.children = self._new_children(node, index + len(children), *part)
            children.extend(node.children)
            small, large = sorted(node.children, key=lambda child: (child.n_rows, child.index))
            work.append(self._prepare(small, large, node))
        self._search([item for item in work if item.is_needed])
        return children

    def _new_children(
        self, node: Node, index: int, n_left: int, fewer: NDArray[np.float64]
    ) -> tuple[Node, Node]:
        """The two children; the sums of the one with more rows are the difference, in float64."""
        middle = node.begin + n_left
        more = node.sums - fewer
        if self.layout.name != "dense":  # rounding must not make a curvature negative
            curvature = more[1 + self.layout.n_outputs :]
            np.maximum(curvature, 0.0, out=curvature)
        left, right = (fewer, more) if n_left <= node.end - middle else (more, fewer)
        limits = self._child_bounds(node, left)
        return (
            self._new_node(index, node, node.begin, middle, left, limits[0]),
            self._new_node(index + 1, node, middle, node.end, right, limits[1]),
        )

    def _child_bounds(self, node: Node, left: NDArray[np.float64]) -> list[Bounds]:
        """Bounds of both children: a monotone split separates them in the middle."""
        direction = int(self._monotone[node.feature])
        if direction == 0:
            return [(node.low, node.high)] * 2
        settings = self.settings
        values = np.empty((2, settings.k))
        penalties = (settings.reg_lambda, settings.reg_alpha)
        solve_constrained_pair(
            settings.k, left, node.sums, direction, *penalties, node.low, node.high, *values
        )
        middle = values.mean(axis=0)
        bounds = [(node.low, middle), (middle, node.high)]
        return bounds if direction > 0 else bounds[::-1]

    def _node_seed(self, node: Node) -> int:
        """A seed of the node's own: nodes are numbered alike for any number of threads."""
        return -1 if self._seed < 0 else (self._seed + node.index * _SEED_STEP) % 2**62

    def _prepare(self, small: Node, large: Node | None, parent: Node | None) -> Search:
        """Decide what is searched, and hand out histograms."""
        for node in (small, large):
            if node is not None and self._may_split(node):
                node.wanted = True
                node.seed = self._node_seed(node)
        subtract = False
        if parent is not None and large is not None:
            if large.wanted:
                subtract = parent.histogram is not None
                large.histogram, parent.histogram = parent.histogram, None
                if not subtract and self._children_may_split(large):
                    large.histogram = self._take_histogram()
            self._release(parent)
        if small.wanted and self._children_may_split(small):
            small.histogram = self._take_histogram()
        return Search(small, large, subtract)

    def _take_histogram(self) -> Histogram | None:
        """A histogram from the pool, or else from the least promising open node."""
        histogram = self.pool.take()
        if histogram is None:
            holders = [item for item in self._frontier if item[2].histogram is not None]
            if holders:
                victim = max(holders)[2]
                histogram, victim.histogram = victim.histogram, None
        return histogram

    def _release(self, node: Node) -> None:
        self.pool.give_back(node.histogram)
        node.histogram = None

    def _search(self, work: list[Search]) -> None:
        """Find the best split of every wanted node."""
        for item in work:
            for node in (item.small, item.large):
                if node is not None and node.wanted:
                    node.allowed = self._columns.of_node(node.depth, node.path)
        features = self._columns.of_tree()
        for node, splits, left_bins in self._phases.search(work):
            feature = choose_feature(features, self.params.min_split_gain, splits)
            if feature >= 0:
                node.feature = feature
                node.split = splits[feature].copy()
                if self._categorical[feature]:
                    cells = slice(self.pool.offsets[feature], self.pool.offsets[feature + 1])
                    node.left_bins = left_bins[cells].copy()
            if feature < 0 or not self._children_may_split(node):
                self._release(node)
