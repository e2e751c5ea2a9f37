"""The order in which a node's categories are scanned.

Few categories are tried each alone against the rest, in the order of their bins.
More are ordered by their own Newton steps (A_c + (λ + cat_smooth)I)⁻¹ b_c, projected on
the direction in which the steps differ most: the leading eigenvector of their
covariance, weighted by trace(A_c). Prefixes of that order are then the candidates.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .solve import (
    DENSE,
    LAPLACIAN,
    multiply_curvature,
    solve_dense,
    solve_diagonal,
    solve_laplacian,
    trace_of,
)

POWER_ITERATIONS = 12


@kernel(allocates=True)
def order_categories(
    histogram, features, allowed, n_bins, cell_offsets, categorical, settings, center, orders
):
    """Write the scanning order of the categorical ones of a block of features.

    Parameters as in ``find_best_splits``; ``orders`` (n_cells,) int32 is the output:
    from a feature's first cell on its non-empty bins in order, then -1. Among more
    than are tried alone, those with fewer than min_data_per_group rows are left out.
    """
    for index in range(features.shape[0]):
        f = features[index]
        if not (categorical[f] and allowed[f]):
            continue
        first = cell_offsets[f]
        used = 0
        for bin_ in range(n_bins[f]):
            if histogram[first + bin_, 0] > 0:
                orders[first + used] = bin_
                used += 1
        ordered = used > settings.max_cat_to_onehot
        if ordered and settings.min_data_per_group > 1:
            used = _drop_small(histogram, first, used, settings.min_data_per_group, orders)
        for position in range(used, n_bins[f] + 1):
            orders[first + position] = -1
        if ordered and used > 1:
            projection = np.zeros(used)
            _project_steps(histogram, first, used, settings, center, orders, projection)
            _sort_by(projection, orders[first : first + used])


@kernel
def _drop_small(histogram, first, used, least, orders):
    """Keep the categories with at least so many rows; returns how many they are."""
    kept = 0
    for position in range(used):
        bin_ = orders[first + position]
        if histogram[first + bin_, 0] >= least:
            orders[first + kept] = bin_
            kept += 1
    return kept


@kernel(allocates=True)
def _project_steps(histogram, first, used, settings, center, orders, projection):
    """Projections (used,) of the categories' Newton steps; zeros before."""
    k = settings.k
    steps = np.empty((used, k))
    weights = np.empty(used)
    sums = np.empty(histogram.shape[1])
    b = np.empty(k)
    ridge = settings.reg_lambda + settings.cat_smooth
    for c in range(used):
        cell = first + orders[first + c]
        for w in range(sums.shape[0]):
            sums[w] = histogram[cell, w]
            if w > k and settings.layout != DENSE:
                sums[w] = max(sums[w], 0.0)
        curvature = sums[1 + k : 1 + k + settings.n_curvature]
        weights[c] = max(trace_of(settings.layout, k, sums, 1 + k), 1e-30)
        multiply_curvature(settings.layout, curvature, center, b)
        for j in range(k):
            b[j] = -sums[1 + j] - b[j]
        if settings.layout == LAPLACIAN:
            solve_laplacian(curvature, b, ridge, steps[c])
        elif settings.layout == DENSE:
            solve_dense(curvature, b, ridge, steps[c])
        else:
            solve_diagonal(curvature, b, ridge, steps[c])
    _center(steps, weights)
    _leading_projection(steps, weights, projection)


@kernel
def _center(steps, weights):
    """Subtract the weighted mean of the rows."""
    total = 0.0
    for c in range(weights.shape[0]):
        total += weights[c]
    for j in range(steps.shape[1]):
        mean = 0.0
        for c in range(steps.shape[0]):
            mean += weights[c] * steps[c, j]
        mean /= total
        for c in range(steps.shape[0]):
            steps[c, j] -= mean


@kernel(allocates=True)
def _leading_projection(steps, weights, projection):
    """Projection (n,) of each row on the leading eigenvector of Σ w s sᵀ (power iteration)."""
    n, k = steps.shape
    direction = np.zeros(k)
    largest = -1.0
    for c in range(n):
        norm = 0.0
        for j in range(k):
            norm += weights[c] * steps[c, j] * steps[c, j]
        if norm > largest:
            largest = norm
            for j in range(k):
                direction[j] = steps[c, j]
    for _ in range(POWER_ITERATIONS):
        norm = 0.0
        for j in range(k):
            norm += direction[j] * direction[j]
        norm = math.sqrt(norm)
        if norm < 1e-150:
            return
        for c in range(n):
            projection[c] = 0.0
            for j in range(k):
                projection[c] += steps[c, j] * direction[j] / norm
        for j in range(k):
            direction[j] = 0.0
            for c in range(n):
                direction[j] += weights[c] * projection[c] * steps[c, j]


@kernel(allocates=True)
def _sort_by(keys, values):
    """Stable merge sort of ``values`` by ``keys`` (NumPy's argsort compiles for seconds)."""
    n = keys.shape[0]
    order = np.arange(n)
    spare = np.empty(n, np.int64)
    size = 1
    while size < n:
        for start in range(0, n, 2 * size):
            middle = min(start + size, n)
            stop = min(start + 2 * size, n)
            i = start
            j = middle
            for target in range(start, stop):
                if i < middle and (j >= stop or keys[order[i]] <= keys[order[j]]):
                    spare[target] = order[i]
                    i += 1
                else:
                    spare[target] = order[j]
                    j += 1
        order, spare = spare, order
        size *= 2
    copy = np.empty(n, np.int64)
    for i in range(n):
        copy[i] = values[order[i]]
    for i in range(n):
        values[i] = copy[i]
