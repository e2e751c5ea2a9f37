"""From bin codes to leaves: walks through a forest.

A forest is one array of nodes for all trees, leaves among them. The children of a
split stand side by side, so a step is ``child + goes_right``; a leaf is its own child
and sends nothing right. So all walks of a tree can be made as long as the longest,
without a branch that the processor would have to guess: ``LANES`` rows go down side by
side, and while one waits for memory the others move on.

Rows are taken in small blocks and every tree serves a whole block, so that both stay in
the cache. A row's values are added tree after tree, in the order of the trees and in
the precision of ``out``: blocks and threads cannot change a bit.
"""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .simd import add_rows

NODE = np.dtype(
    [
        ("feature", np.uint32),  # column of the codes
        ("low", np.uint32),  # a row goes right if low <= code <= low + span; of a set: first word
        ("span", np.uint32),
        ("child", np.int32),  # the left one, the right one follows
    ],
    align=True,
)
NEVER = 0xFFFFFFFF  # ``low`` where nothing goes right: no code is as large
IN_SET = 0xFFFFFFFF  # ``span`` of a categorical split: left if the code's bit is set

LANES = 8  # rows side by side; with more, links and row addresses outgrow the registers
BLOCK_ROWS = 12 * LANES  # served by a tree before the next: 5 KB of 54 uint8 columns
_LEVELS = 8  # levels between looks whether all rows have arrived


# Inlined before compilation: called, it would cost as much as a walk of two levels.
@kernel(inline="always")
def _descend(codes, start, n_columns, nodes, root, depth, words, links):
    """Walk LANES rows from the root to their leaves.

    Parameters
    ----------
    codes : flat uint8, uint16 or uint32.
    start : uint64, where the first row begins in ``codes``.
    n_columns : int64, codes of a row.
    nodes : NODE records.
    root, depth : int64, the tree's first node, and steps from it to the deepest leaf.
    words : uint32 bitmaps of categorical splits; empty if there are none.
    links : (LANES,) int64, out: the nodes arrived at.
    """
    for r in range(LANES):
        links[r] = root
    level = 0
    while level < depth:
        for _ in range(min(_LEVELS, depth - level)):
            if len(words) == 0:
                for r in range(LANES):
                    node = nodes[np.uint64(links[r])]
                    at = start + np.uint64(r * n_columns) + np.uint64(node.feature)
                    code = np.uint32(codes[at])
                    right = np.uint32(code - node.low) <= node.span
                    links[r] = np.int64(node.child) + np.int64(right)
            else:
                for r in range(LANES):
                    node = nodes[np.uint64(links[r])]
                    at = start + np.uint64(r * n_columns) + np.uint64(node.feature)
                    code = np.uint32(codes[at])
                    right = np.uint32(code - node.low) <= node.span
                    if node.span == np.uint32(IN_SET):
                        word = words[np.uint64(node.low) + np.uint64(code >> np.uint32(5))]
                        right = (word >> (code & np.uint32(31))) & np.uint32(1) == np.uint32(0)
                    links[r] = np.int64(node.child) + np.int64(right)
        level += _LEVELS
        if level < depth:
            ways = np.int64(0)  # a leaf is its own child
            for r in range(LANES):
                ways |= np.int64(nodes[np.uint64(links[r])].child) - links[r]
            if ways == 0:
                level = depth


@kernel
def add_values(
    codes, n_rows, n_columns, nodes, roots, depths, leaves, values, words, links, scores, out
):  # fmt: skip
    """Add the leaf values of every tree to the margins of rows.

    Parameters
    ----------
    codes : flat uint8, uint16 or uint32, row after row.
    n_rows, n_columns : int64 shape of the codes; n_rows at least LANES.
    nodes : NODE records of all trees.
    roots, depths : (n_trees,) int32, the first node of every tree and its levels of splits.
    leaves : (n_nodes,) int32, the row of ``values`` at a leaf.
    values : (n_leaves, w) float32 or float64, w a multiple of 8 and at least k.
    words : see ``_descend``.
    links : (LANES,) int64 scratch.
    scores : (b, w) scratch in the dtype of ``values``, all finite; b rows at a time are
        served by a tree, BLOCK_ROWS unless they are very wide, a multiple of LANES.
    out : (n, k), dtype of ``values``; the first n rows are served, n at most n_rows.
    """
    n, k = out.shape
    size = scores.shape[0]
    for first in range(0, n, size):
        stop = min(first + size, n)
        for i in range(first, stop):
            for j in range(k):
                scores[i - first, j] = out[i, j]
        for t in range(len(roots)):
            root, depth = np.int64(roots[t]), np.int64(depths[t])
            for i in range(first, stop, LANES):
                begin = min(i, n_rows - LANES)  # the last rows walk with earlier ones
                start = np.uint64(begin * n_columns)
                _descend(codes, start, n_columns, nodes, root, depth, words, links)
                for r in range(i - begin, min(LANES, stop - begin)):
                    leaf = np.int64(leaves[np.uint64(links[r])])
                    add_rows(scores, begin + r - first, values, leaf)
        for i in range(first, stop):
            for j in range(k):
                out[i, j] = scores[i - first, j]


@kernel
def find_leaves(
    codes, n_rows, n_columns, nodes, roots, depths, leaves, leaf_offsets, words, links, out
):  # fmt: skip
    """The leaf of every row in every tree, counted within the tree.

    ``leaf_offsets`` is (n_trees,) int64, the first leaf of every tree; ``out`` is
    (n, n_trees) int32; the rest as in ``add_values``.
    """
    for i in range(0, len(out), LANES):
        begin = min(i, n_rows - LANES)
        start = np.uint64(begin * n_columns)
        for t in range(len(roots)):
            root, depth = np.int64(roots[t]), np.int64(depths[t])
            _descend(codes, start, n_columns, nodes, root, depth, words, links)
            for r in range(i - begin, min(LANES, len(out) - begin)):
                out[begin + r, t] = leaves[np.uint64(links[r])] - leaf_offsets[t]
