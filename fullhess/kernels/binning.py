"""From raw values to bin codes."""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .simd import SEARCH_LANES, search_step

# What counts as zero where zero is missing: LightGBM's 1e-35f, a float32 widened to double.
ZERO_EPSILON = float(np.float32(1e-35))

# Rows searched together, column by column. 64 rows of 54 float64 columns lie in the
# first-level cache; a multiple of SEARCH_LANES.
SCRATCH_ROWS = 64

ROWS_ASCEND, ROWS_UNSORTED, ROWS_BROKEN = 0, 1, 2  # results of ``scatter_rows``


@kernel
def _count_passed(cuts, strict, values, n, passed):
    """Count the cuts that each of n values has passed: those below it, or (strict) equal.

    ``values`` and ``passed`` are scratch; what lies between n and the next multiple of
    SEARCH_LANES is searched too. NaN passes nothing.
    """
    m = len(cuts)
    if m == 0:
        passed[:n] = 0
        return
    height = 0
    while (2 << height) <= m:
        height += 1
    # The first step leaves 2**height - 1 cuts on either side (in part the same ones), so
    # that every later step is of one length for all values and needs no branch.
    middle = cuts[(1 << height) - 1]
    upper = m - (1 << height) + 1
    n_padded = -(-n // SEARCH_LANES) * SEARCH_LANES
    for r in range(n_padded):
        beyond = (middle < values[r]) | (strict & (middle == values[r]))
        passed[r] = upper if beyond else 0
    while height > 0:
        height -= 1
        for r in range(0, n_padded, SEARCH_LANES):
            search_step(cuts, height, strict, values, passed, r)


@kernel
def encode_numbers(
    X, columns, numeric, cuts, cut_offsets, n_bins, missing, strict, widest, values, passed, out
):  # fmt: skip
    """Codes of the numeric columns of a block of rows; whether they all fit into ``out``.

    Parameters
    ----------
    X : (n, d) float32 or float64, C-ordered.
    columns : (f,) int64, the column of X behind each column of ``out``.
    numeric : int64 numbers of the columns of ``out`` to write.
    cuts, cut_offsets : cuts of all columns end to end, in X's dtype, and (f + 1,) int64.
    n_bins : (f,) int32; the code of a missing value.
    missing : (f,) uint8 kinds of missing values, see ``FeatureSpace``.
    strict : True for ``x < cut``, False for ``x <= cut``.
    widest : largest code that ``out`` can hold. Of a column with more bins the code of a
        missing value cannot be written; then the rest is left undone.
    values, passed : (SCRATCH_ROWS,) scratch in X's dtype and int64.
    out : (n, f) uint8, uint16 or uint32.
    """
    for start in range(0, X.shape[0], SCRATCH_ROWS):
        block = X[start : start + SCRATCH_ROWS]
        block_out = out[start : start + SCRATCH_ROWS]
        n = len(block)
        for f in numeric:
            column = block[:, columns[f]]
            column_out = block_out[:, f]
            if missing[f] == 1:
                for r in range(n):
                    values[r] = 0.0 if np.isnan(column[r]) else column[r]
            elif missing[f] == 2:
                for r in range(n):
                    values[r] = np.nan if abs(column[r]) <= ZERO_EPSILON else column[r]
            else:
                for r in range(n):
                    values[r] = column[r]
            _count_passed(cuts[cut_offsets[f] : cut_offsets[f + 1]], strict, values, n, passed)
            lacks = np.int64(n_bins[f])
            some = False
            for r in range(n):
                is_missing = np.isnan(values[r])
                some |= is_missing
                column_out[r] = lacks if is_missing else passed[r]
            if some and lacks > widest:
                return False
    return True


@kernel
def encode_categories(
    X, columns, categorical, edges, edge_offsets, edge_bins, n_bins, widest, out
):  # fmt: skip
    """Codes of the categorical columns of a block of rows, as ``encode_numbers``.

    Only NaN is missing, whatever the column's kind, and 0 a category. ``edges`` are the
    category codes in float64, ascending within a column; ``edge_bins`` their bins.
    """
    for f in categorical:
        first = edge_offsets[f]
        last = edge_offsets[f + 1]
        for i in range(X.shape[0]):
            x = np.float64(np.trunc(X[i, columns[f]]))
            lo = first
            hi = last
            while lo < hi:  # NaN ends at the first edge, which it does not equal
                middle = (lo + hi) >> 1
                if edges[middle] < x:
                    lo = middle + 1
                else:
                    hi = middle
            if lo < last and edges[lo] == x:
                out[i, f] = edge_bins[lo]
            elif n_bins[f] > widest:
                return False
            else:
                out[i, f] = n_bins[f]
    return True


@kernel
def scatter_rows(indptr, indices, data, out):
    """Write the entries of CSR rows into dense ones; whether they stand in order.

    Parameters
    ----------
    indptr : (n + 1,) int64.
    indices : int32 or int64.
    data : dtype of ``out``.
    out : (n, d).

    Returns
    -------
    ROWS_ASCEND; or ROWS_UNSORTED where the columns of a row do not ascend strictly, so
    that an entry may be stored twice; or ROWS_BROKEN where an index is out of range.
    Then ``out`` is not to be used.
    """
    result = ROWS_ASCEND
    for i in range(out.shape[0]):
        if not 0 <= indptr[i] <= indptr[i + 1] <= len(indices):
            return ROWS_BROKEN
        before = -1
        for p in range(indptr[i], indptr[i + 1]):
            j = np.int64(indices[p])
            if not 0 <= j < out.shape[1]:
                return ROWS_BROKEN
            if j <= before:
                result = ROWS_UNSORTED
            out[i, j] = data[p]
            before = j
    return result
