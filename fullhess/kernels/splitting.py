"""The split search: Algorithm 1 of the paper on histogram bins.

For one node and one feature the cells are summed from left to right in float64;
the rest of the feature's own total is the right child. Only non-empty bins are
candidates, and the limits on children are checked before any system is solved.
"""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .lanes import HALF, evaluate_chunk, load_candidates, score_row
from .solve import DENSE, LAPLACIAN, packed_index

SPLIT_FIELDS = 6
TIE_TOLERANCE = 1e-6  # of the children's scores; float32 lanes agree to this
MISSING_RIGHT = 0
MISSING_LEFT = 1


@kernel(fastmath={"reassoc"})
def _trace(settings, sums):
    """Trace of the curvature in sums [count | gradient | curvature]."""
    curvature = sums[1 + settings.k : 1 + settings.k + settings.n_curvature]
    total = 0.0
    if settings.layout == DENSE:
        for j in range(settings.k):
            total += curvature[packed_index(j, j, settings.k)]
        return total
    for e in range(curvature.shape[0]):
        total += curvature[e]
    return 2.0 * total if settings.layout == LAPLACIAN else total


@kernel
def find_best_splits(
    histogram, features, allowed, n_bins, cell_offsets, categorical, orders, settings, center,
    parent_score, lanes, left_bins, out,
):
    """Best split of a node on each of the allowed ones of a block of features.

    Parameters
    ----------
    histogram : (n_cells, width) float32.
    features : (f,) int32 the block.
    allowed : (d,) uint8, the features this node may split on.
    n_bins : (d,) int32 bins of values; the missing cell comes after them.
    cell_offsets : (d + 1,) int64 first cell of each feature.
    categorical : (d,) bool.
    orders : (n_cells,) int32, for a categorical feature its non-empty bins in the
        order to scan, then -1 (``order_categories``); may be empty without any.
    settings : SplitSettings.
    center : (k,) value around which children are solved; zeros with the ridge prior.
    parent_score : score of the node itself.
    lanes : scratch (``new_lanes``).
    left_bins : (n_cells,) uint8, output: for a categorical feature, the bins on
        the left (the missing bin is always on the right).
    out : (d, SPLIT_FIELDS) float64, output rows of the block's features: gain (-inf
        without a valid split), children's score, bin, default_left, rows on the
        left, rows on the right.
    """
    width = histogram.shape[1]
    total = np.empty(width)
    left = np.empty(width)
    prefixes = np.zeros((HALF, width))
    positions = np.empty(HALF, np.int64)
    shifted = False
    for j in range(settings.k):
        shifted = shifted or center[j] != 0.0
    for index in range(features.shape[0]):
        f = features[index]
        out[f, 0] = -np.inf
        if not allowed[f]:
            continue
        first = cell_offsets[f]
        last = first + n_bins[f]
        for w in range(width):
            total[w] = 0.0
        for cell in range(first, last + 1):
            if histogram[cell, 0] > 0:
                for w in range(width):
                    total[w] += histogram[cell, w]
        total_trace = _trace(settings, total)
        missing_count = histogram[last, 0]
        n_positions = n_bins[f]
        one_hot = False
        if categorical[f]:
            n_positions = 0
            while first + n_positions < last and orders[first + n_positions] >= 0:
                n_positions += 1
            one_hot = n_positions <= settings.max_cat_to_onehot
        for direction in range(2 if missing_count > 0 else 1):
            for w in range(width):
                left[w] = histogram[last, w] if direction == MISSING_LEFT else 0.0
            n = 0
            for position in range(n_positions + 1):
                # The extra turn at the end scores what is left in the lanes.
                if position < n_positions:
                    bin_ = orders[first + position] if categorical[f] else position
                    cell = first + bin_
                    if histogram[cell, 0] == 0:
                        continue
                    if one_hot:
                        for w in range(width):
                            left[w] = histogram[last, w] if direction == MISSING_LEFT else 0.0
                    for w in range(width):
                        left[w] += histogram[cell, w]
                    if _is_allowed(settings, left, total[0], total_trace):
                        for w in range(width):
                            prefixes[n, w] = left[w]
                        positions[n] = position
                        n += 1
                if n == HALF or (position == n_positions and n > 0):
                    best = out[f, 1] * (1.0 + TIE_TOLERANCE) if out[f, 0] > -np.inf else -1.0
                    load_candidates(lanes, n, prefixes, total)
                    if evaluate_chunk(lanes, n, settings, center, shifted, best):
                        q = score_row(settings)
                        for c in range(n):
                            score = float(lanes[q, c]) + float(lanes[q, HALF + c])
                            if score > best:
                                best = score * (1.0 + TIE_TOLERANCE)
                                out[f, 0] = score - parent_score
                                out[f, 1] = score
                                out[f, 2] = positions[c]
                                out[f, 3] = direction
                                out[f, 4] = prefixes[c, 0]
                                out[f, 5] = total[0] - prefixes[c, 0]
                    n = 0
        if out[f, 0] > -np.inf:
            if categorical[f]:
                _mark_left_bins(orders, first, n_positions, one_hot, left_bins, out[f])
            elif missing_count == 0:
                out[f, 3] = out[f, 4] > out[f, 5]  # a value missing later follows the larger child
            elif out[f, 3] == MISSING_RIGHT and out[f, 5] == missing_count:
                out[f, 2] = n_bins[f] - 1  # present | missing: every present value goes left


@kernel
def _is_allowed(settings, left, total_count, total_trace):
    """Whether both children meet the limits."""
    n_right = total_count - left[0]
    if n_right <= 0.0 or left[0] < settings.min_samples_leaf or n_right < settings.min_samples_leaf:
        return False
    least = settings.min_child_weight * settings.k
    if least <= 0.0:
        return True
    trace = _trace(settings, left)
    return trace >= least and total_trace - trace >= least


@kernel
def _mark_left_bins(orders, first, n_positions, one_hot, left_bins, out):
    """Write the category set; swap sides if missing rows would be on the left."""
    best = int(out[2])
    for position in range(n_positions):
        inside = position == best if one_hot else position <= best
        swapped = out[3] == MISSING_LEFT
        left_bins[first + orders[first + position]] = 1 if inside != swapped else 0
    if out[3] == MISSING_LEFT:
        count = out[4]
        out[4] = out[5]
        out[5] = count
        out[3] = MISSING_RIGHT
    out[2] = 0


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
