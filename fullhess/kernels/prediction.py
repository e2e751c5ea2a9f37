"""From rows to leaves: walks through a forest, on raw values or on bin codes.

A forest is one array of splits for all trees. Leaves have no entry of their own:
a link ``>= 0`` is the next split, a link ``< 0`` is ``~leaf``, a row of the
matrix of leaf values. A walk therefore touches one short record per level.

Rows are taken in small blocks and every tree serves a whole block, so that both
stay in the cache. A row's values are added tree after tree, in the order of the
trees and in the precision of ``out``: blocks and threads cannot change a bit.
"""

from __future__ import annotations

import numpy as np

from .compile import kernel

# Bits of a numeric split's ``info``; a negative ``info`` is ``~set`` of a
# categorical split.
NAN_LEFT = 1  # where NaN goes, and zero if it is missing
ZERO_MISSING = 2  # |x| <= ZERO_EPSILON is missing too
CLOSED = 4  # a value equal to the threshold goes left

CATEGORICAL = -2  # ``missing`` of a categorical split on bin codes
NO_MISSING = -1  # ``missing`` of a split that sends the missing code right

# What counts as zero where zero is missing: LightGBM's 1e-35f, a float32 widened to double.
ZERO_EPSILON = float(np.float32(1e-35))
_ROWS = 256  # rows of 54 float32 columns and a tree of 500 leaves fill half of 128 KB
_MAX_CODE = 2147483648.0  # category codes are below 2**31

FLOAT32_SPLIT = np.dtype(
    [
        ("threshold", np.float32),
        ("feature", np.uint32),
        ("left", np.int32),
        ("right", np.int32),
        ("info", np.int32),
    ],
    align=True,
)
FLOAT64_SPLIT = np.dtype(
    [
        ("threshold", np.float64),
        ("feature", np.uint32),
        ("left", np.int32),
        ("right", np.int32),
        ("info", np.int32),
    ],
    align=True,
)
BIN_SPLIT = np.dtype(
    [
        ("bin", np.int32),  # last bin that goes left; categorical: first word of the set
        ("missing", np.int32),  # missing code if it goes left, else one of the constants
        ("feature", np.uint32),
        ("left", np.int32),
        ("right", np.int32),
    ],
    align=True,
)


@kernel
def _in_set(x, category_values, first, last):
    """Whether x, cut off after the decimal point, is among the ascending codes."""
    if not (x > -1.0 and x < _MAX_CODE):  # also NaN: the cast below must be defined
        return False
    code = np.int64(x)
    while first < last:
        middle = (first + last) >> 1
        if category_values[middle] < code:
            first = middle + 1
        elif category_values[middle] > code:
            last = middle
        else:
            return True
    return False


@kernel
def _find_leaf(X, i, link, splits, category_offsets, category_values):
    """The leaf of row i of X, from a root link."""
    while link >= 0:
        split = splits[link]
        x = X[i, split.feature]
        info = split.info
        if info < 0:
            first = category_offsets[~info]
            last = category_offsets[~info + 1]
            left = _in_set(x, category_values, first, last)
        elif np.isnan(x) or (info & ZERO_MISSING != 0 and abs(x) <= ZERO_EPSILON):
            left = info & NAN_LEFT != 0
        else:
            threshold = split.threshold
            left = (x < threshold) | ((x == threshold) & (info & CLOSED != 0))
        link = split.left if left else split.right
    return ~link


@kernel
def _find_leaf_on_bins(codes, i, link, splits, words):
    """The leaf of row i of codes, from a root link."""
    while link >= 0:
        split = splits[link]
        code = np.int32(codes[i, split.feature])
        if split.missing == CATEGORICAL:
            word = words[split.bin + (code >> 5)]
            left = (word >> np.uint32(code & 31)) & np.uint32(1) != 0
        else:
            left = (code <= split.bin) | (code == split.missing)
        link = split.left if left else split.right
    return ~link


@kernel
def add_values(X, splits, roots, values, category_offsets, category_values, out):
    """Add the leaf values of every tree to the margins of raw rows.

    Parameters
    ----------
    X : (n, d) float32 or float64.
    splits : FLOAT32_SPLIT or FLOAT64_SPLIT records, in X's precision.
    roots : (n_trees,) int32 links.
    values : (n_leaves, k) float32 or float64.
    category_offsets : (n_sets + 1,) int64 slices of ``category_values``.
    category_values : int32, ascending within a set.
    out : (n, k), dtype of ``values``.
    """
    n = X.shape[0]
    for start in range(0, n, _ROWS):
        stop = min(start + _ROWS, n)
        for t in range(len(roots)):
            for i in range(start, stop):
                leaf = _find_leaf(X, i, roots[t], splits, category_offsets, category_values)
                for j in range(out.shape[1]):
                    out[i, j] += values[leaf, j]


@kernel
def find_leaves(X, splits, roots, leaf_offsets, category_offsets, category_values, out):
    """The leaf of every row in every tree, counted within the tree.

    ``leaf_offsets`` is (n_trees + 1,) int64, ``out`` (n, n_trees) int32; the rest
    as in ``add_values``.
    """
    n = X.shape[0]
    for start in range(0, n, _ROWS):
        stop = min(start + _ROWS, n)
        for t in range(len(roots)):
            for i in range(start, stop):
                leaf = _find_leaf(X, i, roots[t], splits, category_offsets, category_values)
                out[i, t] = leaf - leaf_offsets[t]


@kernel
def add_values_on_bins(codes, splits, roots, values, words, out):
    """Add the leaf values of every tree to the margins of binned rows.

    Parameters
    ----------
    codes : (n, d) uint8 or uint16.
    splits : BIN_SPLIT records.
    roots : (n_trees,) int32 links.
    values : (n_leaves, k) float32 or float64.
    words : uint32 bitmaps of the bins that go left, one per categorical split.
    out : (n, k), dtype of ``values``.
    """
    n = codes.shape[0]
    for start in range(0, n, _ROWS):
        stop = min(start + _ROWS, n)
        for t in range(len(roots)):
            for i in range(start, stop):
                leaf = _find_leaf_on_bins(codes, i, roots[t], splits, words)
                for j in range(out.shape[1]):
                    out[i, j] += values[leaf, j]


@kernel
def add_values_on_bins_at(codes, rows, splits, roots, values, words, out):
    """As ``add_values_on_bins``, for the rows listed in ``rows`` (int32) alone."""
    n = len(rows)
    for start in range(0, n, _ROWS):
        stop = min(start + _ROWS, n)
        for t in range(len(roots)):
            for r in range(start, stop):
                i = rows[r]
                leaf = _find_leaf_on_bins(codes, i, roots[t], splits, words)
                for j in range(out.shape[1]):
                    out[i, j] += values[leaf, j]


@kernel
def find_leaves_on_bins(codes, splits, roots, leaf_offsets, words, out):
    """The leaf of every binned row in every tree, counted within the tree."""
    n = codes.shape[0]
    for start in range(0, n, _ROWS):
        stop = min(start + _ROWS, n)
        for t in range(len(roots)):
            for i in range(start, stop):
                leaf = _find_leaf_on_bins(codes, i, roots[t], splits, words)
                out[i, t] = leaf - leaf_offsets[t]
