"""The steps of a growing tree, shared by threads.

Tables say what is to be done, a kernel does it (``kernels.growing``), and Python looks
at the results. Helpers stay inside that kernel from one step to the next, as long as
these follow each other closely.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bins import BinnedMatrix
from .histograms import Block, HistogramPool, Scratch
from .kernels.categories import order_categories
from .kernels.growing import BEGIN, GO_ON, HELP, PART, SEARCH, SUM, Chunks, Plan, Slots, work
from .kernels.lanes import SplitSettings
from .kernels.splitting import SPLIT_FIELDS, find_best_splits
from .kernels.team import address_of, close, new_control
from .nodes import Node, Search
from .sparse import SparseBlock
from .threads import Job, Workers

__all__ = ["Phases"]

# Rows of a task. Sums are added chunk by chunk, so it may not depend on the threads.
_CHUNK_ROWS = 16_384
_MOST_NODES = 256  # of one step; more are done in several
_MOST_BYTES = 2**26  # of the table of splits; a few nodes are always allowed
_MANY_PAIRS = 4  # pairs of children a thread: enough to be shared evenly
# Updates of a number below which no thread is called: to wake one takes 50 to 100 µs. A
# number of a cell that is searched takes as long as some twenty updates.
_SMALL_STEP = 2_000_000
_SEARCH_WEIGHT = 20


class Phases:
    """Tables and threads for the trees of one data set.

    Parameters
    ----------
    monotone : (d,) int8 directions of monotone features.
    """

    def __init__(
        self,
        binned: BinnedMatrix,
        pool: HistogramPool,
        settings: SplitSettings,
        monotone: NDArray[np.int8],
        workers: Workers,
    ) -> None:
        self._binned = binned
        self._pool = pool
        self._settings = settings
        self._monotone = monotone
        self._workers = workers
        self._spare = np.empty(binned.n_samples, np.int32)
        self._sparse = _stack(pool.sparse, binned.n_samples)
        self._slots = self._new_slots()
        self._chunks = self._new_chunks()
        self._addresses: tuple[int, int] | None = None
        # Of the tree being grown:
        self._control: NDArray[np.int64]
        self._plan: Plan
        self._job: Job
        self._n_features: int
        self._n_blocks: tuple[int, int]

    def begin(
        self, rows: NDArray[np.int32], stats: NDArray[np.float32], features: NDArray[np.int32]
    ) -> None:
        """Begin a tree; ``end`` must follow."""
        pool = self._pool
        narrow = pool.blocks(features, self._workers.n_threads)
        wide = pool.blocks(features, 1)  # a row is then read fewer times
        blocks = narrow + wide
        pool.fit_scratch(blocks)
        if self._addresses is None:  # not before the first tree: it may have to be compiled
            with pool.scratch() as scratch:
                self._addresses = self._find_addresses(scratch)
        self._n_features = len(features)
        self._n_blocks = len(narrow), len(wide)
        self._control = new_control()
        block_features, block_bounds = _listed([block.features for block in blocks], np.int32)
        self._plan = Plan(
            codes=self._binned.codes,
            rows=rows,
            spare=self._spare,
            stats=stats,
            n_bins=self._binned.binning.n_bins,
            offsets=pool.offsets,
            categorical=self._binned.binning.features.categorical,
            monotone=self._monotone,
            settings=self._settings,
            block_features=block_features,
            block_bounds=block_bounds,
            block_sparse=np.array([self._sparse_number(block) for block in blocks]),
            **self._sparse,
            phase=np.zeros(5, np.int64),
        )
        self._job = Job(self._help)

    def end(self) -> None:
        """End the tree: when this returns no thread is at work on it."""
        close(self._control)
        self._job.finish()

    def sum_up(self, n_rows: int) -> NDArray[np.float64]:
        """(width,) sums of the statistics of all rows."""
        n_chunks = self._list_chunks([(0, n_rows)])
        self._lead(SUM, n_chunks, 1, n_rows * self._pool.shape[1])
        total: NDArray[np.float64] = self._chunks.total[0].copy()
        return total

    def partition(self, nodes: list[Node]) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Part the nodes' rows: how many go left, and the sums of the fewer ones."""
        chunks = self._chunks
        for first in range(0, len(nodes), _MOST_NODES):
            some = nodes[first : first + _MOST_NODES]
            n_chunks = self._list_chunks([(node.begin, node.end) for node in some])
            for i, node in enumerate(some):
                chunks.feature[i] = node.feature
                chunks.split_bin[i] = node.split[2]
                chunks.default_left[i] = node.split[3] != 0.0
                chunks.left_bins[i, : len(node.left_bins)] = node.left_bins
            n_rows = sum(node.n_rows for node in some)
            self._lead(PART, n_chunks, len(some), n_rows * (self._pool.shape[1] + 8))
            n_left = chunks.node_left[: len(some)].tolist()
            yield from zip(n_left, chunks.total[: len(some)].copy(), strict=True)

    def search(
        self, pairs: list[Search]
    ) -> Iterator[tuple[Node, NDArray[np.float64], NDArray[np.uint8]]]:
        """Search splits: each wanted node, its (d, SPLIT_FIELDS) splits, its left bins.

        The arrays are to be looked at before the next node: they will be used again.
        """
        for first in range(0, len(pairs), self._most_pairs):
            some = pairs[first : first + self._most_pairs]
            # The last task is taken first: let it be one of the largest.
            some = sorted(some, key=lambda item: item.small.n_rows)
            for i, pair in enumerate(some):
                self._fill_slots(2 * i, pair)
            self._slots.splits[: 2 * len(some)] = -np.inf
            self._slots.left_bins[: 2 * len(some)] = 0
            many = len(some) >= _MANY_PAIRS * self._workers.n_threads
            narrow, wide = self._n_blocks
            self._plan.phase[3:] = (narrow, wide) if many else (0, narrow)
            n_tasks = len(some) * (wide if many else narrow)
            n_cells, width = self._pool.shape
            updates = sum(item.small.n_rows for item in some) * self._n_features
            updates += 2 * len(some) * _SEARCH_WEIGHT * n_cells
            self._lead(SEARCH, n_tasks, len(some), updates * width)
            for i, pair in enumerate(some):
                for slot, node in enumerate((pair.small, pair.large), 2 * i):
                    if node is not None and node.wanted:
                        yield node, self._slots.splits[slot], self._slots.left_bins[slot]

    def _lead(self, kind: int, n_tasks: int, n_nodes: int, updates: int) -> None:
        """Do a step, with as many threads as there are tasks for."""
        self._plan.phase[:3] = kind, n_tasks, n_nodes
        if n_tasks > 1 and updates > _SMALL_STEP:
            self._workers.invite(self._job, n_tasks - 1)
        with self._pool.scratch() as scratch:
            how = BEGIN
            while not self._work(how, scratch):  # others are at work
                if self._job.error is not None:
                    raise self._job.error
                time.sleep(0)
                how = GO_ON

    def _help(self) -> None:
        with self._pool.scratch() as scratch:
            self._work(HELP, scratch)

    def _work(self, how: int, scratch: Scratch) -> bool:
        tables = (self._plan, self._slots, self._chunks)
        assert self._addresses is not None
        args = (scratch, self._pool.vectors, *self._addresses)
        return bool(work(self._control, how, *tables, *args))

    def _fill_slots(self, first: int, pair: Search) -> None:
        slots = self._slots
        for slot, node in enumerate((pair.small, pair.large), first):
            slots.wanted[slot] = node is not None and node.wanted
            slots.subtract[slot] = slot > first and pair.subtract
            if node is None:
                continue
            slots.begin[slot] = node.begin
            slots.end[slot] = node.end
            slots.histogram[slot] = 0 if node.histogram is None else node.histogram.address
            slots.sums[slot] = node.sums
            slots.center[slot] = node.center
            slots.low[slot] = node.low
            slots.high[slot] = node.high
            slots.score[slot] = node.score
            slots.seed[slot] = node.seed
            if node.wanted:
                slots.allowed[slot] = node.allowed

    def _list_chunks(self, spans: list[tuple[int, int]]) -> int:
        """Cut the rows of nodes into chunks; how many."""
        chunks = self._chunks
        begin, end = np.array(spans).T
        counts = -(-(end - begin) // _CHUNK_ROWS)
        bounds = chunks.bounds[: len(counts) + 1]
        np.cumsum(counts, out=bounds[1:])
        n_chunks = int(bounds[-1])
        node = np.repeat(np.arange(len(counts)), counts)
        first = begin[node] + (np.arange(n_chunks) - bounds[node]) * _CHUNK_ROWS
        chunks.node[:n_chunks] = node
        chunks.begin[:n_chunks] = first
        chunks.end[:n_chunks] = np.minimum(first + _CHUNK_ROWS, end[node])
        return n_chunks

    def _sparse_number(self, block: Block) -> int:
        return -1 if block.sparse is None else self._pool.sparse.index(block.sparse)

    def _new_slots(self) -> Slots:
        pool = self._pool
        d = self._binned.n_features
        n_cells, width = pool.shape
        k = pool.layout.n_outputs
        n_marks = n_cells if pool.has_categories else 0
        self._most_pairs = max(
            4, min(_MOST_NODES, _MOST_BYTES // (8 * SPLIT_FIELDS * d + n_marks)) // 2
        )
        n = 2 * self._most_pairs
        return Slots(
            begin=np.zeros(n, np.int64),
            end=np.zeros(n, np.int64),
            histogram=np.zeros(n, np.int64),
            wanted=np.zeros(n, np.bool_),
            subtract=np.zeros(n, np.bool_),
            sums=np.zeros((n, width)),
            center=np.zeros((n, k)),
            low=np.zeros((n, k)),
            high=np.zeros((n, k)),
            score=np.zeros(n),
            seed=np.zeros(n, np.int64),
            allowed=np.zeros((n, d), np.uint8),
            left_bins=np.zeros((n, n_marks), np.uint8),
            splits=np.zeros((n, d, SPLIT_FIELDS)),
        )

    def _new_chunks(self) -> Chunks:
        width = self._pool.shape[1]
        n_nodes = _MOST_NODES
        n = self._binned.n_samples // _CHUNK_ROWS + n_nodes + 1
        n_bins = int(self._binned.binning.n_bins.max()) + 1 if self._pool.has_categories else 0
        return Chunks(
            node=np.zeros(n, np.int64),
            begin=np.zeros(n, np.int64),
            end=np.zeros(n, np.int64),
            n_left=np.zeros(n, np.int64),
            left_to=np.zeros(n, np.int64),
            right_to=np.zeros(n, np.int64),
            sums=np.zeros((n, width)),
            bounds=np.zeros(n_nodes + 1, np.int64),
            feature=np.zeros(n_nodes, np.int64),
            split_bin=np.zeros(n_nodes, np.int64),
            default_left=np.zeros(n_nodes, np.bool_),
            left_bins=np.zeros((n_nodes, n_bins), np.uint8),
            node_left=np.zeros(n_nodes, np.int64),
            total=np.zeros((n_nodes, width)),
        )

    def _find_addresses(self, scratch: Scratch) -> tuple[int, int]:
        """Of the split search and of the ordering of categories."""
        slots = self._slots
        binning = self._binned.binning
        node = (scratch.histogram, np.empty(0, np.int32), slots.allowed[0])
        bins = (binning.n_bins, self._pool.offsets, binning.features.categorical)
        find = address_of(
            find_best_splits,
            (
                *node, *bins, scratch.orders, self._settings, slots.center[0], 0.0,
                self._monotone, slots.low[0], slots.high[0], 0, scratch.buffers, scratch.lanes,
                slots.left_bins[0], slots.splits[0],
            ),
        )  # fmt: skip
        if not self._pool.has_categories:
            return find, 0
        args = (*node, *bins, self._settings, slots.center[0], scratch.orders)
        return find, address_of(order_categories, args)


def _listed(parts: list[NDArray[Any]], dtype: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Arrays one after the other, and the bounds of each."""
    bounds = np.cumsum([0, *(len(part) for part in parts)])
    return np.concatenate([np.empty(0, dtype), *parts]), bounds


def _stack(blocks: list[SparseBlock], n_rows: int) -> dict[str, Any]:
    """The sparse blocks one after the other, as ``Plan`` has them."""
    entries, first = _listed([block.entries for block in blocks], np.uint16)
    indptr = np.zeros((len(blocks), n_rows + 1), np.int64)
    for i, block in enumerate(blocks):
        indptr[i] = block.indptr + first[i]
    cells, cell_bounds = _listed([block.cells for block in blocks], np.int64)
    features, bounds = _listed([block.features for block in blocks], np.int32)
    prevailing, _ = _listed([block.prevailing for block in blocks], np.int64)
    return {
        "sparse_indptr": indptr,
        "sparse_entries": entries,
        "sparse_cells": cells,
        "sparse_cell_bounds": cell_bounds,
        "sparse_features": features,
        "sparse_prevailing": prevailing,
        "sparse_bounds": bounds,
    }
