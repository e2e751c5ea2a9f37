"""The tasks of a growing tree, and the loop in which threads take them (``team``).

A phase is a number of tasks that do not depend on each other:

``SUM``     a chunk of the root's rows: their statistics.
``PART``    a chunk of a node's rows: left rows to the front of ``spare``, right ones to
            the end, in reverse. ``PLACE`` follows at once.
``PLACE``   the chunk's rows to their places, and the statistics of those that go to the
            child with fewer rows, summed up.
``SEARCH``  a block of features of two siblings: histograms and best splits. The block
            stays in the cache from the first row to the last candidate.

Chunks are the same for any number of threads, and their sums are added in their order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .compile import kernel
from .histogram import build_histogram, build_sparse_histogram, subtract_histogram, sum_rows
from .partition import part_rows, place_rows
from .team import (
    CLOSED,
    DONE,
    LEFT,
    SPINS,
    array_at,
    atomic_add,
    atomic_load,
    atomic_store,
    call_at,
    pause,
)

SUM, PART, PLACE, SEARCH = 0, 1, 2, 3
# Of ``Plan.phase``:
KIND, N_TASKS, N_NODES, FIRST_BLOCK, N_BLOCKS = 0, 1, 2, 3, 4
# How to enter ``work``:
HELP, BEGIN, GO_ON = 0, 1, 2


class Plan(NamedTuple):
    """What stays the same while a tree grows. All blocks are listed one after the other."""

    codes: NDArray[Any]  # (n, d) uint8 or uint16
    rows: NDArray[np.int32]  # (m,) reordered in place
    spare: NDArray[np.int32]  # (at least m,)
    stats: NDArray[np.float32]  # (n, width)
    n_bins: NDArray[np.int32]  # (d,)
    offsets: NDArray[np.int64]  # (d + 1,) first cell of each feature
    categorical: NDArray[np.bool_]  # (d,)
    monotone: NDArray[np.int8]  # (d,)
    settings: Any  # SplitSettings
    block_features: NDArray[np.int32]
    block_bounds: NDArray[np.int64]
    block_sparse: NDArray[np.int64]  # number of the sparse block, -1 for a dense one
    sparse_indptr: NDArray[np.int64]  # (sparse blocks, n + 1), see ``sparse.SparseBlock``
    sparse_entries: NDArray[np.uint16]
    sparse_cells: NDArray[np.int64]
    sparse_cell_bounds: NDArray[np.int64]
    sparse_features: NDArray[np.int32]
    sparse_prevailing: NDArray[np.int64]
    sparse_bounds: NDArray[np.int64]
    phase: NDArray[np.int64]  # (5,) what is being done, see ``KIND`` and the next


class Slots(NamedTuple):
    """Nodes to search: siblings beside each other, the one with fewer rows first."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    histogram: NDArray[np.int64]  # addresses; 0: it need not be kept
    wanted: NDArray[np.bool_]
    subtract: NDArray[np.bool_]  # of a second one: its histogram starts as the parent's
    sums: NDArray[np.float64]  # (slots, width)
    center: NDArray[np.float64]  # (slots, k)
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    score: NDArray[np.float64]
    seed: NDArray[np.int64]
    allowed: NDArray[np.uint8]  # (slots, d)
    left_bins: NDArray[np.uint8]  # (slots, n_cells), or no cells without categories
    splits: NDArray[np.float64]  # (slots, d, SPLIT_FIELDS) output


class Chunks(NamedTuple):
    """Rows to part, and the splits that part them."""

    node: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    n_left: NDArray[np.int64]  # output of PART
    left_to: NDArray[np.int64]
    right_to: NDArray[np.int64]
    sums: NDArray[np.float64]  # (chunks, width) output of PLACE
    bounds: NDArray[np.int64]  # (nodes + 1,) chunks of each node
    feature: NDArray[np.int64]  # (nodes,)
    split_bin: NDArray[np.int64]
    default_left: NDArray[np.bool_]
    left_bins: NDArray[np.uint8]  # (nodes, most bins), or no bins without categories
    node_left: NDArray[np.int64]  # (nodes,) rows on the left
    total: NDArray[np.float64]  # (nodes, width) output: sums of the chunks


@kernel
def work(control, how, plan, slots, chunks, scratch, vectors, find_address, order_address):
    """Do tasks of a phase, together with others that are in here.

    A thread that begins ``plan.phase`` (``BEGIN``) stays until all is done. ``HELP`` is to
    do tasks of any phase, until the tree is closed. Returns whether that is so; False: the
    others have been busy, or nobody has begun a phase, for a while (then ``GO_ON`` leads on).
    """
    phase = plan.phase
    if how == BEGIN:
        _open_phase(control, phase)
    spins = 0
    while True:
        # A thread that comes late takes a task of the next phase, or none: never an old one.
        left = atomic_add(control, LEFT, -1) if atomic_load(control, LEFT) > 0 else 0
        if left > 0:
            _do(left - 1, plan, slots, chunks, scratch, vectors, find_address, order_address)
            atomic_add(control, DONE, 1)
            spins = 0
            continue
        if how == HELP:
            if atomic_load(control, CLOSED) != 0:
                return True
        elif atomic_load(control, DONE) == phase[N_TASKS]:
            if not _finish(phase, chunks):
                return True
            _open_phase(control, phase)
            continue
        spins += 1
        if spins > SPINS:
            return False
        pause()


@kernel
def _open_phase(control, phase):
    atomic_store(control, DONE, 0)
    atomic_store(control, LEFT, phase[N_TASKS])


@kernel
def _finish(phase, chunks):
    """What one thread does at the end of a phase; whether another one follows."""
    if phase[KIND] == PART:
        _find_places(phase[N_NODES], chunks)
        phase[KIND] = PLACE
        return True
    if phase[KIND] != SEARCH:
        _add_chunks(phase[N_NODES], chunks)
    return False


@kernel
def _do(task, plan, slots, chunks, scratch, vectors, find_address, order_address):
    kind = plan.phase[KIND]
    if kind == SEARCH:
        _search(task, plan, slots, scratch, vectors, find_address, order_address)
    elif kind == PART:
        _part(task, plan, chunks)
    elif kind == PLACE:
        _place(task, plan, chunks)
    else:
        rows = plan.rows[chunks.begin[task] : chunks.end[task]]
        sum_rows(rows, plan.stats, chunks.sums[task])


@kernel
def _part(chunk, plan, chunks):
    node = chunks.node[chunk]
    feature = chunks.feature[node]
    begin, end = chunks.begin[chunk], chunks.end[chunk]
    chunks.n_left[chunk] = part_rows(
        plan.codes,
        feature,
        chunks.split_bin[node],
        plan.n_bins[feature],
        chunks.default_left[node],
        plan.categorical[feature],
        chunks.left_bins[node],
        plan.rows[begin:end],
        plan.spare[begin:end],
    )


@kernel
def _place(chunk, plan, chunks):
    begin, end = chunks.begin[chunk], chunks.end[chunk]
    n_left = chunks.n_left[chunk]
    left = plan.rows[chunks.left_to[chunk] :][:n_left]
    right = plan.rows[chunks.right_to[chunk] :][: end - begin - n_left]
    place_rows(plan.spare[begin:end], left, right)
    node = chunks.node[chunk]
    left_is_fewer = _left_is_fewer(node, chunks)
    sum_rows(left if left_is_fewer else right, plan.stats, chunks.sums[chunk])


@kernel
def _left_is_fewer(node, chunks):
    n_rows = chunks.end[chunks.bounds[node + 1] - 1] - chunks.begin[chunks.bounds[node]]
    return 2 * chunks.node_left[node] <= n_rows


@kernel
def _find_places(n_nodes, chunks):
    """Where the rows of every chunk go, after PART."""
    for node in range(n_nodes):
        first, last = chunks.bounds[node], chunks.bounds[node + 1]
        n_left = np.int64(0)
        for chunk in range(first, last):
            n_left += chunks.n_left[chunk]
        chunks.node_left[node] = n_left
        left_to = chunks.begin[first]
        right_to = left_to + n_left
        for chunk in range(first, last):
            chunks.left_to[chunk] = left_to
            chunks.right_to[chunk] = right_to
            left_to += chunks.n_left[chunk]
            right_to += chunks.end[chunk] - chunks.begin[chunk] - chunks.n_left[chunk]


@kernel
def _add_chunks(n_nodes, chunks):
    """The sums of each node's chunks, in their order."""
    for node in range(n_nodes):
        total = chunks.total[node]
        for w in range(total.shape[0]):
            total[w] = 0.0
        for chunk in range(chunks.bounds[node], chunks.bounds[node + 1]):
            for w in range(total.shape[0]):
                total[w] += chunks.sums[chunk, w]


@kernel
def _search(task, plan, slots, scratch, vectors, find_address, order_address):
    """Histograms and best splits of a pair of nodes on a block of features."""
    n_blocks = plan.phase[N_BLOCKS]
    block = plan.phase[FIRST_BLOCK] + task % n_blocks
    features = plan.block_features[plan.block_bounds[block] : plan.block_bounds[block + 1]]
    first = task // n_blocks * 2
    shape = scratch.histogram.shape
    own = scratch.histogram.ctypes.data  # of this thread, where none is to be kept
    histogram = array_at(own, shape)
    for slot in range(first, first + 2):
        subtract = slots.subtract[slot]
        if not (slots.wanted[slot] or slots.subtract[first + 1]):
            continue
        sibling = histogram
        kept = slots.histogram[slot]
        histogram = array_at(kept if kept != 0 else own, shape)
        if subtract:
            subtract_histogram(features, plan.offsets, sibling, histogram)
        else:
            _build(slot, block, features, plan, slots, scratch, vectors, histogram)
        if slots.wanted[slot]:
            _find(slot, features, plan, slots, scratch, histogram, find_address, order_address)


@kernel
def _build(slot, block, features, plan, slots, scratch, vectors, out):
    rows = plan.rows[slots.begin[slot] : slots.end[slot]]
    number = plan.block_sparse[block]
    if number < 0:
        build_histogram(
            plan.codes, rows, plan.stats, features, plan.offsets, vectors, scratch.places,
            scratch.carry, out,
        )  # fmt: skip
        return
    cells = plan.sparse_cells[plan.sparse_cell_bounds[number] : plan.sparse_cell_bounds[number + 1]]
    part = slice(plan.sparse_bounds[number], plan.sparse_bounds[number + 1])
    build_sparse_histogram(
        plan.sparse_indptr[number], plan.sparse_entries, cells, rows, plan.stats,
        slots.sums[slot], plan.sparse_features[part], plan.sparse_prevailing[part],
        plan.offsets, vectors, scratch.remains, scratch.carry, out,
    )  # fmt: skip


@kernel
def _find(slot, features, plan, slots, scratch, histogram, find_address, order_address):
    allowed, center = slots.allowed[slot], slots.center[slot]
    bins = (plan.n_bins, plan.offsets, plan.categorical)
    if order_address != 0:
        call_at(
            order_address,
            (histogram, features, allowed, *bins, plan.settings, center, scratch.orders),
        )
    call_at(
        find_address,
        (
            histogram,
            features,
            allowed,
            *bins,
            scratch.orders,
            plan.settings,
            center,
            slots.score[slot],
            plan.monotone,
            slots.low[slot],
            slots.high[slot],
            slots.seed[slot],
            scratch.buffers,
            scratch.lanes,
            slots.left_bins[slot],
            slots.splits[slot],
        ),
    )
