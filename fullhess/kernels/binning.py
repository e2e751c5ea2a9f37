"""From raw values to bin codes."""

from __future__ import annotations

import numpy as np

from .compile import kernel

# What counts as zero where zero is missing: LightGBM's 1e-35f, a float32 widened to double.
ZERO_EPSILON = float(np.float32(1e-35))


@kernel
def encode_rows(X, edges, edge_offsets, edge_bins, n_bins, categorical, missing, strict, out):
    """Codes of a block of rows.

    Parameters
    ----------
    X : (n, d) float32 (strict) or float64.
    edges, edge_offsets, edge_bins : see ``Binning``.
    n_bins : (d,) int32; the code of a missing value.
    strict : True for ``x < cut``, False for ``x <= cut``.
    out : (n, d) uint8 or uint16.
    """
    for j in range(X.shape[1]):
        first = edge_offsets[j]
        last = edge_offsets[j + 1]
        for i in range(X.shape[0]):
            x = X[i, j]
            if categorical[j]:
                x = np.trunc(x)  # whatever the kind, only NaN is missing and 0 a category
            elif missing[j] == 1 and np.isnan(x):
                x = X.dtype.type(0.0)
            elif missing[j] == 2 and abs(x) <= ZERO_EPSILON:
                x = X.dtype.type(np.nan)
            if np.isnan(x):
                out[i, j] = n_bins[j]
                continue
            lo = first
            hi = last
            while lo < hi:  # first edge with x < edge (strict) or x <= edge
                middle = (lo + hi) >> 1
                if x < edges[middle] or (x == edges[middle] and (categorical[j] or not strict)):
                    hi = middle
                else:
                    lo = middle + 1
            if not categorical[j]:
                out[i, j] = lo - first
            elif lo < last and edges[lo] == x:
                out[i, j] = edge_bins[lo]
            else:
                out[i, j] = n_bins[j]
