"""The split search: Algorithm 1 of the paper on histogram bins.

For one node and one feature the cells are summed from left to right in float64;
the rest of the feature's own total is the right child. Only non-empty bins are
candidates, and the limits on children are checked before any system is solved.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .lanes import HALF, LANES, add_lambda, eliminate, evaluate_chunk, shift_center, substitute
from .solve import DENSE, LAPLACIAN, trace_of

SPLIT_FIELDS = 6
TIE_TOLERANCE = 1e-6  # of the children's scores; float32 lanes agree to this
POWER_ITERATIONS = 12
MISSING_RIGHT = 0
MISSING_LEFT = 1


@kernel
def _load_lane(layout, k, sums, lane, lanes):
    """Put float64 sums [count | gradient | curvature] into a lane.

    Rounding may leave a curvature just below zero; it is read as zero.
    """
    for j in range(k):
        lanes.b[j, lane] = -sums[1 + j]
    curvature = lanes.curvature
    n = curvature.shape[0]
    if layout == DENSE:
        for e in range(n):
            curvature[e, lane] = sums[1 + k + e]
    else:
        for e in range(n):
            curvature[e, lane] = max(sums[1 + k + e], 0.0)


@kernel
def _category_order(cells, n_bins, settings, center, shifted, order, lanes):
    """Order the non-empty categories by their Newton steps; returns their number.

    Each category's own step (A_c + (λ + cat_smooth)I)⁻¹ b_c is projected on the direction in which
    the steps differ most: the leading eigenvector of their covariance, weighted by
    trace(A_c).
    """
    k = settings.k
    layout = settings.layout
    used = 0
    for bin_ in range(n_bins):
        if cells[bin_, 0] > 0:
            order[used] = bin_
            used += 1
    steps = np.empty((used, k))
    weights = np.empty(used)
    sums = np.empty(cells.shape[1])
    for start in range(0, used, LANES):
        n = min(LANES, used - start)
        for c in range(LANES):  # unused lanes repeat the first
            bin_ = order[start + (c if c < n else 0)]
            for w in range(cells.shape[1]):
                sums[w] = cells[bin_, w]
            _load_lane(layout, k, sums, c, lanes)
            if c < n:
                weights[start + c] = max(trace_of(layout, k, sums[1 + k :]), 1e-30)
        if shifted:
            shift_center(layout, k, center, lanes)
        add_lambda(layout, k, settings.reg_lambda + settings.cat_smooth, lanes.curvature)
        eliminate(layout, k, lanes)
        substitute(layout, k, lanes)
        for c in range(n):
            mean = 0.0
            for j in range(k):
                mean += lanes.b[j, c]
            for j in range(k):  # the Laplacian's solution is centred
                steps[start + c, j] = lanes.b[j, c] - (mean / k if layout == LAPLACIAN else 0.0)
    _center_steps(steps, weights)
    projection = _leading_projection(steps, weights)
    ranking = np.argsort(projection, kind="mergesort")
    chosen = order[:used].copy()
    for position in range(used):
        order[position] = chosen[ranking[position]]
    return used


@kernel
def _center_steps(steps, weights):
    total = weights.sum()
    for j in range(steps.shape[1]):
        mean = 0.0
        for c in range(steps.shape[0]):
            mean += weights[c] * steps[c, j]
        for c in range(steps.shape[0]):
            steps[c, j] -= mean / total


@kernel
def _leading_projection(steps, weights):
    """Projection of each row on the leading eigenvector of Σ w s sᵀ (power iteration)."""
    n, k = steps.shape
    best = 0
    largest = -1.0
    for c in range(n):
        norm = 0.0
        for j in range(k):
            norm += weights[c] * steps[c, j] * steps[c, j]
        if norm > largest:
            largest = norm
            best = c
    direction = steps[best].copy()
    projection = np.zeros(n)
    for _ in range(POWER_ITERATIONS):
        norm = math.sqrt((direction * direction).sum())
        if norm < 1e-150:
            return projection
        direction /= norm
        for c in range(n):
            projection[c] = (steps[c] * direction).sum()
        direction[:] = 0.0
        for c in range(n):
            for j in range(k):
                direction[j] += weights[c] * projection[c] * steps[c, j]
    return projection


@kernel
def find_best_split(cells, n_bins, categorical, settings, center, parent_score, lanes, left_bins, out):
    """Best split of a node on one feature.

    Parameters
    ----------
    cells : (n_bins + 1, width) float32 histogram of the feature, missing last.
    settings : SplitSettings.
    center : (k,) value around which children are solved; zeros with the ridge prior.
    parent_score : score of the node itself.
    lanes : Lanes, scratch.
    left_bins : (n_bins + 1,) uint8, output: for a categorical feature, the bins on
        the left (the missing bin is always on the right).
    out : (SPLIT_FIELDS,) float64, output: gain (-inf without a valid split),
        children's score, bin, default_left, rows on the left, rows on the right.
    """
    out[0] = -np.inf
    width = cells.shape[1]
    total = np.zeros(width)
    for cell in range(n_bins + 1):
        for w in range(width):
            total[w] += cells[cell, w]
    missing_count = cells[n_bins, 0]
    shifted = False
    for j in range(settings.k):
        shifted = shifted or center[j] != 0.0
    order = np.arange(n_bins)
    n_positions = n_bins
    one_hot = False
    if categorical:
        n_positions = _category_order(cells, n_bins, settings, center, shifted, order, lanes)
        one_hot = n_positions <= settings.max_cat_to_onehot
        if one_hot:  # ties go to the lowest bin
            order[:n_positions] = np.sort(order[:n_positions])
    left = np.empty(width)
    for direction in range(2 if missing_count > 0 else 1):
        if direction == MISSING_LEFT:
            for w in range(width):
                left[w] = cells[n_bins, w]
        else:
            left[:] = 0.0
        _scan(
            cells, order[:n_positions], one_hot, direction, settings, center, shifted,
            parent_score, total, left, lanes, out,
        )
    if out[0] == -np.inf:
        return
    if categorical:
        _mark_left_bins(order, n_positions, one_hot, left_bins, out)
    elif missing_count == 0:
        out[3] = out[4] > out[5]  # a value missing later follows the larger child
    elif out[3] == MISSING_RIGHT and out[5] == missing_count:
        out[2] = n_bins - 1  # present | missing: every present value goes left


@kernel
def _scan(
    cells, order, one_hot, direction, settings, center, shifted, parent_score, total, left,
    lanes, out,
):
    """Try the prefixes of ``order`` (or its single bins) as left children.

    left : (width,) float64, what is on the left before the first bin.
    """
    k = settings.k
    layout = settings.layout
    width = cells.shape[1]
    first = left.copy()
    right = np.empty(width)
    positions = np.empty(HALF, np.int64)
    counts = np.empty(HALF)
    least_trace = settings.min_child_weight * k
    n = 0
    for position in range(order.shape[0]):
        cell = cells[order[position]]
        if cell[0] == 0:
            continue
        if one_hot:
            left[:] = first
        for w in range(width):
            left[w] += cell[w]
        if left[0] >= total[0]:
            continue  # nothing on the right
        if left[0] < settings.min_samples_leaf or total[0] - left[0] < settings.min_samples_leaf:
            continue
        for w in range(width):
            right[w] = total[w] - left[w]
        if least_trace > 0.0 and (
            trace_of(layout, k, left[1 + k :]) < least_trace
            or trace_of(layout, k, right[1 + k :]) < least_trace
        ):
            continue
        _load_lane(layout, k, left, n, lanes)
        _load_lane(layout, k, right, HALF + n, lanes)
        positions[n] = position
        counts[n] = left[0]
        n += 1
        if n == HALF:
            _keep_best(
                n, positions, counts, direction, settings, center, shifted, parent_score,
                total[0], lanes, out,
            )
            n = 0
    if n > 0:
        _keep_best(
            n, positions, counts, direction, settings, center, shifted, parent_score,
            total[0], lanes, out,
        )


@kernel
def _keep_best(
    n, positions, counts, direction, settings, center, shifted, parent_score, total_count,
    lanes, out,
):
    """Score the n candidates in the lanes and keep the best in ``out``."""
    needed = out[1] * (1.0 + TIE_TOLERANCE) if out[0] > -np.inf else -1.0
    if not evaluate_chunk(n, settings, center, shifted, needed, lanes):
        return
    scores = lanes.scratch[0]
    for c in range(n):
        score = float(scores[c]) + float(scores[HALF + c])
        if out[0] == -np.inf or score > out[1] * (1.0 + TIE_TOLERANCE):
            out[0] = score - parent_score
            out[1] = score
            out[2] = positions[c]
            out[3] = direction
            out[4] = counts[c]
            out[5] = total_count - counts[c]


@kernel
def _mark_left_bins(order, n_positions, one_hot, left_bins, out):
    """Write the category set; swap sides if missing rows would be on the left."""
    position = int(out[2])
    left_bins[:] = 0
    for p in range(n_positions):
        inside = p == position if one_hot else p <= position
        if inside != (out[3] == MISSING_LEFT):
            left_bins[order[p]] = 1
    if out[3] == MISSING_LEFT:
        out[4], out[5] = out[5], out[4]
        out[3] = MISSING_RIGHT
    out[2] = 0


@kernel
def find_best_splits(
    histogram, features, allowed, n_bins, cell_offsets, categorical, settings, center,
    parent_score, lanes, left_bins, out,
):
    """``find_best_split`` for the allowed ones of a block of features.

    Parameters
    ----------
    histogram : (n_cells, width) float32.
    features : (f,) int32 the block.
    allowed : (d,) uint8, the features this node may split on.
    left_bins : (n_cells,) uint8, output for categorical features.
    out : (d, SPLIT_FIELDS) float64, output rows of the block's features.
    """
    for j in range(features.shape[0]):
        f = features[j]
        if not allowed[f]:
            out[f, 0] = -np.inf
            continue
        first = cell_offsets[f]
        last = cell_offsets[f + 1]
        find_best_split(
            histogram[first:last], n_bins[f], categorical[f], settings, center, parent_score,
            lanes, left_bins[first:last], out[f],
        )


@kernel
def choose_feature(features, min_split_gain, splits):
    """The feature with the best split, the first one on ties; -1 without any.

    A gain within the rounding of the children's scores is none.
    """
    best = -1
    for j in range(features.shape[0]):
        f = features[j]
        gain = splits[f, 0]
        score = splits[f, 1]
        if not gain > -np.inf:
            continue
        if not (gain > min_split_gain and gain > 2.0 * TIE_TOLERANCE * score):
            continue
        if best < 0 or score > splits[best, 1] * (1.0 + TIE_TOLERANCE):
            best = f
    return best
