"""Growing one tree on binned data.

Expanding a batch of nodes (a level, or the single node of largest gain) takes two parallel
steps:

1. partition: each node's rows are reordered into left and right;
2. search: for each pair of children and each block of features, build the smaller
   child's histogram, search its splits, subtract it from the parent's histogram,
   which thereby becomes the sibling's, and search that. The block stays in cache
   from the first row to the last candidate.

All of that happens inside one kernel (``kernels.growing``), which the threads enter
together. Here are its tables, and what it comes back for.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bins import BinnedMatrix
from .curvature import Layout
from .features import frozen
from .histograms import HistogramPool, Scratch
from .kernels import growing
from .kernels.categories import order_categories
from .kernels.constraints import solve_constrained_pair, value_constrained_node
from .kernels.growing import grow
from .kernels.histogram import builders
from .kernels.solve import value_free_node
from .kernels.splitting import find_best_splits
from .kernels.tables import PHASE_SIZE, Addresses, Nodes, Plan, Rules
from .kernels.team import address_of, close, new_control
from .nodes import GrownTree, assemble, split_settings
from .params import Params
from .sampling import ColumnSampler
from .tables import (
    BlockLists,
    most_pairs,
    new_chunks,
    new_nodes,
    new_slots,
    resized,
    stack_sparse,
)
from .threads import Job, Workers

__all__ = ["Grower"]

# Rows of a task. Sums are added chunk by chunk, so it may not depend on the threads.
_CHUNK_ROWS = 16_384
_MOST_NODES = 256  # of one step; more are done in several
_FIRST_NODES = 255  # room to begin with
_MORE_HISTOGRAMS = 8  # that are made at once
# Updates of a number below which no thread is called: to wake one takes 50 to 100 µs.
_SMALL_STEP = 2_000_000
_BREATH = 1_000_000_000  # updates after which an interrupt is looked for: below a second


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
        self.monotone = np.zeros(binned.n_features, np.int8)
        if params.monotone_constraints is not None:
            self.monotone[:] = params.monotone_constraints
        self.nodes = new_nodes(self.pool, _FIRST_NODES)
        n_pairs = most_pairs(self.pool, binned.n_features, _MOST_NODES)
        self._slots = new_slots(self.pool, binned.n_features, n_pairs)
        n_chunks = binned.n_samples // _CHUNK_ROWS + _MOST_NODES + 1
        self._chunks = new_chunks(self.pool, n_chunks, _MOST_NODES)
        self._columns = frozen(binned.codes.T)
        self._spare = np.empty(binned.n_samples, np.int32)
        self._sparse = stack_sparse(self.pool.sparse, binned.n_samples)
        self._addresses: Addresses | None = None

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
        plan = self._plan(stats, rows, columns, seed)
        if self._addresses is None:  # not before the first tree: it may have to be compiled
            with self.pool.scratch() as scratch:
                self._addresses = self._find_addresses(plan, scratch)
        limit = self.params.max_delta_step or np.inf
        self.nodes.low[0], self.nodes.high[0] = -limit, limit
        if not plan.rules.own_columns:
            self._slots.allowed[0] = columns.of_node(0, frozenset())
        growth = _Growth(self, plan, columns)
        try:
            n = growth.run()
        finally:
            growth.end()
        return assemble(self.nodes, n, self.binned.binning, rows)

    def _plan(
        self,
        stats: NDArray[np.float32],
        rows: NDArray[np.int32],
        columns: ColumnSampler,
        seed: int,
    ) -> Plan:
        pool, params = self.pool, self.params
        n_threads = self.workers.n_threads
        features = columns.of_tree()
        narrow = pool.blocks(features, n_threads)
        wide = pool.blocks(features, 1)  # a row is then read fewer times
        pool.fit_scratch(narrow + wide)
        rules = Rules(
            max_depth=int(params.max_depth),
            max_leaves=int(params.max_leaves),
            lossguide=params.grow_policy == "lossguide",
            min_split_gain=float(params.min_split_gain),
            path_prior=params.leaf_prior == "path",
            path_smooth=float(params.path_smooth),
            seed=seed,
            own_columns=columns.draws_for_nodes,
            max_histograms=pool.capacity,
            n_threads=n_threads,
            chunk_rows=_CHUNK_ROWS,
            most_nodes=_MOST_NODES,
            most_pairs=len(self._slots.node) // 2,
            small_step=_SMALL_STEP,
            breath=_BREATH,
        )
        return Plan(
            codes=self.binned.codes,
            columns=self._columns,
            rows=rows,
            spare=self._spare,
            stats=stats,
            n_bins=self.binned.binning.n_bins,
            offsets=pool.offsets,
            categorical=self.binned.binning.features.categorical,
            monotone=self.monotone,
            features=features,
            settings=self.settings,
            rules=rules,
            n_blocks=np.array([len(narrow), len(wide)]),
            **BlockLists.of(narrow + wide, pool.sparse)._asdict(),
            **self._sparse,
            phase=np.zeros(PHASE_SIZE, np.int64),
        )

    def _find_addresses(self, plan: Plan, scratch: Scratch) -> Addresses:
        """Of the kernels that are called by them, as far as they are called."""
        slots, nodes, settings = self._slots, self.nodes, self.settings
        k, center, sums, value = settings.k, nodes.center[0], nodes.sums[0], nodes.value[0]
        bounds = (slots.low[0], slots.high[0])
        features, rows, stats = plan.features, plan.rows, plan.stats
        node = (scratch.histogram, features, slots.allowed[0])
        bins = (plan.n_bins, plan.offsets, plan.categorical)
        cells = (scratch.carry, scratch.histogram)
        build, build_sparse = builders(settings.width)
        find = (
            *node, *bins, scratch.orders, settings, center, 0.0, self.monotone, *bounds, 0,
            scratch.buffers, scratch.lanes, slots.left_bins[0], slots.splits[0],
        )  # fmt: skip
        where = (nodes.score, 0)
        limits = (settings.reg_lambda, settings.damped, settings.max_delta_step)
        one = (settings.layout, k, sums, center, *limits, nodes.matrix, nodes.vector, value, *where)
        addresses = Addresses(
            build=address_of(
                build, (plan.codes, rows, stats, features, plan.offsets, scratch.places, *cells)
            ),
            build_sparse=0,
            find_splits=address_of(find_best_splits, find),
            order_categories=0,
            value_node=address_of(value_free_node, one),
            constrained_node=0,
            constrained_pair=0,
        )
        if self.pool.sparse:
            sparse = (
                plan.sparse_indptr[0], plan.sparse_entries, plan.sparse_cells, rows, stats, sums,
                plan.sparse_features, plan.sparse_prevailing, plan.offsets, scratch.remains, *cells,
            )  # fmt: skip
            addresses = addresses._replace(build_sparse=address_of(build_sparse, sparse))
        if self.pool.has_categories:
            order = address_of(order_categories, (*node, *bins, settings, center, scratch.orders))
            addresses = addresses._replace(order_categories=order)
        if settings.constrained:
            penalties = (settings.reg_lambda, settings.reg_alpha)
            held = (k, sums, *penalties, *bounds, settings.damped, value, *where)
            pair = (k, sums, sums, 0, *penalties, *bounds, value, value)
            addresses = addresses._replace(
                constrained_node=address_of(value_constrained_node, held),
                constrained_pair=address_of(solve_constrained_pair, pair),
            )
        return addresses


class _Growth:
    """One tree that is growing."""

    def __init__(self, grower: Grower, plan: Plan, columns: ColumnSampler) -> None:
        self._grower = grower
        self._plan = plan
        self._columns = columns
        self._control = new_control()
        self._state = np.zeros(growing.STATE_SIZE, np.int64)
        self._free = grower.pool.reset()
        self._state[growing.N_FREE] = len(self._free)
        self._job = Job(self._help)

    def run(self) -> int:
        """Grow the tree; the number of nodes."""
        grower, state = self._grower, self._state
        with grower.pool.scratch() as scratch:
            while (reason := self._enter(True, scratch)) != growing.FINISHED:
                if reason == growing.BUSY:  # others are at work
                    if self._job.error is not None:
                        raise self._job.error
                    time.sleep(0)
                elif reason == growing.HELPERS:
                    grower.workers.invite(self._job, grower.workers.n_threads - 1)
                elif reason == growing.COLUMNS:
                    self._choose_columns()
                elif reason == growing.HISTOGRAMS:
                    self._add_histograms()
                elif reason == growing.ROOM:
                    needed = int(state[growing.N_MADE] + 2 * state[growing.N_BATCH])
                    grower.nodes = resized(grower.nodes, grower.pool, 2 * needed)
        grower.pool.in_use = len(self._free) - int(state[growing.N_FREE])
        return int(state[growing.N_MADE])

    def end(self) -> None:
        """When this returns no thread is at work on the tree."""
        close(self._control)
        self._job.finish()

    def _help(self) -> None:
        with self._grower.pool.scratch() as scratch:
            while self._enter(False, scratch) != growing.FINISHED:
                time.sleep(0)

    def _enter(self, is_leader: bool, scratch: Scratch) -> int:
        grower = self._grower
        tables: tuple[Any, ...] = (grower.nodes, self._free, grower._slots, grower._chunks)
        args = (*tables, scratch, grower._addresses)
        return int(grow(self._control, is_leader, self._state, self._plan, *args))

    def _add_histograms(self) -> None:
        """Make more histograms, within the budget; the stack holds the free ones first."""
        n_free = self._state[growing.N_FREE]
        more = self._grower.pool.make(_MORE_HISTOGRAMS)
        free = np.zeros(len(self._free) + len(more), np.int64)
        free[:n_free] = self._free[:n_free]
        free[n_free : n_free + len(more)] = more
        self._free = free
        self._state[growing.N_FREE] += len(more)

    def _choose_columns(self) -> None:
        """Features of the nodes that are searched next, in the order of their numbers."""
        nodes, slots = self._grower.nodes, self._grower._slots
        n = 2 * int(self._state[growing.N_GROUP])
        for slot in np.argsort(slots.node[:n], kind="stable"):
            if slots.wanted[slot]:
                index = int(slots.node[slot])
                path = _features_above(nodes, index)
                slots.allowed[slot] = self._columns.of_node(int(nodes.depth[index]), path)


def _features_above(nodes: Nodes, index: int) -> frozenset[int]:
    """Features of the splits above a node."""
    path = set()
    while (index := int(nodes.parent[index])) >= 0:
        path.add(int(nodes.feature[index]))
    return frozenset(path)
