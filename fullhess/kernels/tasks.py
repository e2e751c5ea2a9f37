"""The tasks of a growing tree.

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

import numpy as np

from .compile import kernel
from .histogram import subtract_histogram, sum_rows
from .partition import part_rows, place_rows
from .tables import FIRST_BLOCK, KIND, N_BLOCKS, PART, PLACE, SEARCH
from .team import array_at, call_at


@kernel(inner=True)
def do_task(task, plan, slots, chunks, scratch, addresses):
    """Do a task of the present phase."""
    kind = plan.phase[KIND]
    if kind == SEARCH:
        _search(task, plan, slots, scratch, addresses)
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
        plan.columns[feature],
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


@kernel(inner=True)
def find_places(n_nodes, chunks):
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


@kernel(inner=True)
def add_chunks(n_nodes, chunks):
    """The sums of each node's chunks, in their order."""
    for node in range(n_nodes):
        total = chunks.total[node]
        for w in range(total.shape[0]):
            total[w] = 0.0
        for chunk in range(chunks.bounds[node], chunks.bounds[node + 1]):
            for w in range(total.shape[0]):
                total[w] += chunks.sums[chunk, w]


@kernel
def _search(task, plan, slots, scratch, addresses):
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
            _build(slot, block, features, plan, slots, scratch, addresses, histogram)
        if slots.wanted[slot]:
            _find(slot, features, plan, slots, scratch, histogram, addresses)


@kernel
def _build(slot, block, features, plan, slots, scratch, addresses, out):
    rows = plan.rows[slots.begin[slot] : slots.end[slot]]
    number = plan.block_sparse[block]
    if number < 0:
        call_at(
            addresses.build,
            (
                plan.codes, rows, plan.stats, features, plan.offsets, scratch.places,
                scratch.carry, out,
            ),
        )  # fmt: skip
        return
    cells = plan.sparse_cells[plan.sparse_cell_bounds[number] : plan.sparse_cell_bounds[number + 1]]
    part = slice(plan.sparse_bounds[number], plan.sparse_bounds[number + 1])
    call_at(
        addresses.build_sparse,
        (
            plan.sparse_indptr[number], plan.sparse_entries, cells, rows, plan.stats,
            slots.sums[slot], plan.sparse_features[part], plan.sparse_prevailing[part],
            plan.offsets, scratch.remains, scratch.carry, out,
        ),
    )  # fmt: skip


@kernel
def _find(slot, features, plan, slots, scratch, histogram, addresses):
    allowed = slots.allowed[slot if plan.rules.own_columns else 0]
    center = slots.center[slot]
    bins = (plan.n_bins, plan.offsets, plan.categorical)
    if addresses.order_categories != 0:
        call_at(
            addresses.order_categories,
            (histogram, features, allowed, *bins, plan.settings, center, scratch.orders),
        )
    call_at(
        addresses.find_splits,
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
