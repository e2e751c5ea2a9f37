"""The tables of a growing tree: what is given, the nodes, and the work at hand.

Only the thread that leads the growth touches ``Nodes``; all others read and write the
rows of ``Slots`` and ``Chunks`` that their tasks name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Kinds of phases, see ``tasks``.
SUM, PART, PLACE, SEARCH = 0, 1, 2, 3
# Of ``Plan.phase``:
KIND, N_TASKS, FIRST_BLOCK, N_BLOCKS = 0, 1, 2, 3
PHASE_SIZE = 4


class Plan(NamedTuple):
    """What stays the same while a tree grows. All blocks are listed one after the other."""

    codes: NDArray[Any]  # (n, d) uint8 or uint16
    columns: NDArray[Any]  # (d, n) the same, a feature's codes side by side: to part rows by it
    rows: NDArray[np.int32]  # (m,) reordered in place
    spare: NDArray[np.int32]  # (at least m,)
    stats: NDArray[np.float32]  # (n, width)
    n_bins: NDArray[np.int32]  # (d,)
    offsets: NDArray[np.int64]  # (d + 1,) first cell of each feature
    categorical: NDArray[np.bool_]  # (d,)
    monotone: NDArray[np.int8]  # (d,)
    features: NDArray[np.int32]  # (f,) ascending, those of the tree
    settings: Any  # SplitSettings
    rules: Rules
    n_blocks: NDArray[np.int64]  # (2,) narrow blocks, then wide ones
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
    phase: NDArray[np.int64]  # (PHASE_SIZE,) what is being done, see ``KIND`` and the next


class Rules(NamedTuple):
    """How a tree grows, and how its work is shared."""

    max_depth: int  # 0: unlimited
    max_leaves: int  # 0: unlimited
    lossguide: bool  # one node at a time, that of the largest gain
    min_split_gain: float
    path_prior: bool  # children are solved around the node's own value
    path_smooth: float
    seed: int  # of the tree's random thresholds, negative: try all
    own_columns: bool  # each node has its own features
    max_histograms: int
    n_threads: int
    chunk_rows: int
    most_nodes: int  # of one step
    most_pairs: int
    small_step: int  # updates of a number for which no helper is called
    breath: int  # updates after which Python is asked whether to go on


class Nodes(NamedTuple):
    """The nodes of a tree in the order of their numbers, and lists of them."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    depth: NDArray[np.int64]
    parent: NDArray[np.int64]
    left: NDArray[np.int64]  # -1: not split
    right: NDArray[np.int64]
    feature: NDArray[np.int64]  # of the best split, -1 without any
    histogram: NDArray[np.int64]  # addresses, 0: none
    wanted: NDArray[np.bool_]  # its best split is to be searched
    score: NDArray[np.float64]
    cover: NDArray[np.float64]
    sums: NDArray[np.float64]  # (N, width) statistics of its rows
    center: NDArray[np.float64]  # (N, k) its own value (path prior), or zeros
    value: NDArray[np.float64]  # (N, k) its value as a leaf of one step (``path_smooth``)
    low: NDArray[np.float64]  # (N, k) bounds of its value
    high: NDArray[np.float64]
    split: NDArray[np.float64]  # (N, SPLIT_FIELDS) the best one
    left_bins: NDArray[np.uint8]  # (N, most bins + 1), or no bins without categories
    waiting: NDArray[np.int64]  # nodes with a split: a heap for the largest gain, or in order
    ranking: NDArray[np.int64]  # scratch: the same as a heap
    batch: NDArray[np.int64]  # nodes that are being split
    small: NDArray[np.int64]  # pairs of children to search: the one with fewer rows
    large: NDArray[np.int64]  # the other one, -1 for the root alone
    subtract: NDArray[np.bool_]  # the larger one's histogram starts as the parent's
    matrix: NDArray[np.float64]  # (width,) scratch
    vector: NDArray[np.float64]  # (k,) scratch


class Slots(NamedTuple):
    """Nodes to search: siblings beside each other, the one with fewer rows first."""

    node: NDArray[np.int64]
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
    allowed: NDArray[np.uint8]  # (slots, d); without ``own_columns`` the first is everyone's
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
    left_bins: NDArray[np.uint8]  # (nodes, most bins + 1), or no bins without categories
    node_left: NDArray[np.int64]  # (nodes,) rows on the left
    total: NDArray[np.float64]  # (nodes, width) output: sums of the chunks


class Addresses(NamedTuple):
    """Of kernels that are compiled on their own, see ``team.call_at``; 0: never called."""

    build: int
    build_sparse: int
    find_splits: int
    order_categories: int
    value_node: int
    constrained_node: int
    constrained_pair: int
