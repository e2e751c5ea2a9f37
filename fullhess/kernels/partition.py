"""Rows of a node to its children, a chunk of them at a time.

    rows   [ ... | r0 r1 r2 r3 r4 r5 | ... ]      the node's slice
    spare  [ ... | r0 r3 r4 | r5 r2 r1 | ... ]    parted: right rows from the end on
    after  [ ... | r0 r3 r4 | r1 r2 r5 | ... ]    placed: left rows, then right rows

The order inside each child stays the order before: ascending, since the root
starts so. Memory is then read in one direction however deep the node is.
"""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .simd import prefetch

PREFETCH_ROWS = 16


@kernel
def part_rows(
    column, split_bin, missing_code, default_left, categorical, left_bins, rows, spare
):  # fmt: skip
    """Left rows to the front of ``spare``, right rows to its end; the number of left ones.

    The right rows are written backwards: the last one comes first.

    Parameters
    ----------
    column : (n,) uint8 or uint16 codes of the feature.
    split_bin : a numeric code up to this one goes left.
    left_bins : (n_bins + 1,) uint8, the categories that go left.
    rows : (m,) int32.
    spare : (m,) int32 output.
    """
    n = rows.shape[0]
    n_left = 0
    n_right = n - 1
    for r in range(n):
        row = rows[r]
        code = column[row]
        if categorical:
            goes_left = left_bins[code] != 0
        elif code == missing_code:
            goes_left = default_left
        else:
            goes_left = code <= split_bin
        # Both writes always happen, so that the processor has no branch to guess.
        spare[n_left] = row
        spare[n_right] = row
        n_left += goes_left
        n_right -= not goes_left
    return n_left


@kernel
def place_rows(spare, left, right):
    """Copy parted rows (``part_rows``) to their places, both in ascending order."""
    n_left = left.shape[0]
    for r in range(n_left):
        left[r] = spare[r]
    last = spare.shape[0] - 1
    for r in range(right.shape[0]):
        right[r] = spare[last - r]


@kernel
def add_leaf_values(rows, value, raw):
    """raw[rows] += value, in the precision of ``raw``."""
    k = np.int64(raw.shape[1])
    last = rows.shape[0] - 1
    for r in range(rows.shape[0]):
        ahead = rows[min(r + PREFETCH_ROWS, last)] * k
        prefetch(raw, ahead)
        prefetch(raw, ahead + k - 1)
        row = rows[r]
        for j in range(k):
            raw[row, j] += value[j]
