"""The split search: Algorithm 1 of the paper on histogram bins.

For one node and one feature the cells are summed from left to right in float64;
the rest of the feature's own total is the right child. Only non-empty bins are
candidates, and the limits on children are checked before any system is solved.
"""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .constraints import evaluate_constrained
from .lanes import HALF, evaluate_chunk, load_candidates, score_row
from .solve import DENSE, LAPLACIAN, exchange_edges, heaviest_class, packed_index

SPLIT_FIELDS = 6
TIE_TOLERANCE = 1e-6  # of the children's scores; float32 lanes agree to this
# Of the heaviest class's curvature: with a smaller λ it is made the reference, since the
# rounding of float32 gradients would move any lighter one too far (see ``solve``).
LIGHT_RIDGE = 1e-4
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
    histogram,
    features,
    allowed,
    n_bins,
    cell_offsets,
    categorical,
    orders,
    settings,
    center,
    parent_score,
    monotone,
    low,
    high,
    lanes,
    left_bins,
    out,
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
    monotone : (d,) int8 direction in which every score must go with the feature; with
        low, high : (k,) bounds of the node's values; read if ``settings.constrained``.
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
    around = np.empty(settings.k)
    shifted = False
    for j in range(settings.k):
        shifted = shifted or center[j] != 0.0
    for index in range(features.shape[0]):
        f = features[index]
        best = out[f]
        best[0] = -np.inf
        if not allowed[f]:
            continue
        first = cell_offsets[f]
        cells = histogram[first : cell_offsets[f + 1]]
        order = orders[first : first + n_bins[f]] if categorical[f] else orders[:0]
        n_positions = _count_positions(order) if categorical[f] else n_bins[f]
        one_hot = categorical[f] and n_positions <= settings.max_cat_to_onehot
        _sum_cells(cells, total)
        around[:] = center
        reference = _choose_reference(settings, total)
        if reference >= 0:
            _exchange(total, reference, settings.k)
            around[reference] = center[settings.k - 1]
            around[settings.k - 1] = center[reference]
        missing_count = cells[n_bins[f], 0]
        for direction in range(2 if missing_count > 0 else 1):
            _scan(
                cells,
                n_positions,
                order,
                categorical[f],
                one_hot,
                direction,
                settings,
                around,
                shifted,
                reference,
                parent_score,
                monotone[f],
                low,
                high,
                total,
                left,
                prefixes,
                positions,
                lanes,
                best,
            )
        if best[0] == -np.inf:
            continue
        if categorical[f]:
            _mark_left_bins(order, n_positions, one_hot, left_bins[first:], best)
        elif missing_count == 0:
            best[3] = best[4] > best[5]  # a value missing later follows the larger child
        elif best[3] == MISSING_RIGHT and best[5] == missing_count:
            best[2] = n_bins[f] - 1  # present | missing: every present value goes left


@kernel
def _choose_reference(settings, total):
    """The class to exchange with the last one, the lanes' reference; -1: none."""
    k = settings.k
    if settings.layout != LAPLACIAN:
        return -1
    edges = total[1 + k :]
    heaviest, weight = heaviest_class(edges, k)
    return heaviest if heaviest < k - 1 and settings.reg_lambda < LIGHT_RIDGE * weight else -1


@kernel
def _exchange(sums, c, k):
    """Let class c and the last one change places in sums [count | gradient | edges]."""
    last = sums[k]
    sums[k] = sums[1 + c]
    sums[1 + c] = last
    exchange_edges(sums[1 + k :], c, k)


@kernel
def _count_positions(order):
    """Entries of a category order before its end mark."""
    n = 0
    while n < order.shape[0] and order[n] >= 0:
        n += 1
    return n


@kernel
def _sum_cells(cells, total):
    """Sum of all cells, (width,) float64."""
    for w in range(total.shape[0]):
        total[w] = 0.0
    for cell in range(cells.shape[0]):
        if cells[cell, 0] > 0:
            for w in range(total.shape[0]):
                total[w] += cells[cell, w]


@kernel(inline="always")
def _scan(
    cells,
    n_positions,
    order,
    categorical,
    one_hot,
    direction,
    settings,
    center,
    shifted,
    reference,
    parent_score,
    monotone,
    low,
    high,
    total,
    left,
    prefixes,
    positions,
    lanes,
    best,
):
    """Try the prefixes of an order (or its single bins) as left children.

    The missing cell, the last one, is on the left from the start or not at all.
    Inlined, since every further function around the lanes is compiled together with
    all of them once more.
    """
    width = total.shape[0]
    missing = cells[cells.shape[0] - 1]
    n = 0
    for position in range(n_positions):
        if one_hot or position == 0:
            for w in range(width):
                left[w] = missing[w] if direction == MISSING_LEFT else 0.0
        cell = cells[order[position] if categorical else position]
        if cell[0] == 0:
            continue
        for w in range(width):
            left[w] += cell[w]
        n_right = total[0] - left[0]
        if n_right <= 0.0 or min(left[0], n_right) < settings.min_samples_leaf:
            continue
        for w in range(width):
            prefixes[n, w] = left[w]
        if reference >= 0:
            _exchange(prefixes[n], reference, settings.k)
        positions[n] = position
        n += 1
        if n == HALF:
            _keep_best(
                n,
                positions,
                prefixes,
                one_hot,
                direction,
                settings,
                center,
                shifted,
                parent_score,
                monotone,
                low,
                high,
                total,
                lanes,
                best,
            )
            n = 0
    if n > 0:
        _keep_best(
            n,
            positions,
            prefixes,
            one_hot,
            direction,
            settings,
            center,
            shifted,
            parent_score,
            monotone,
            low,
            high,
            total,
            lanes,
            best,
        )


@kernel
def _keep_best(
    n,
    positions,
    prefixes,
    one_hot,
    direction,
    settings,
    center,
    shifted,
    parent_score,
    monotone,
    low,
    high,
    total,
    lanes,
    best,
):
    """Score n candidates and keep the best one in ``best``, the earlier one on ties."""
    n = _drop_light(n, positions, prefixes, one_hot, settings, total)
    if n == 0:
        return
    needed = -np.inf
    if best[0] > -np.inf:
        needed = _beyond_tie(best[1])
    scores = np.empty(HALF)
    if settings.constrained:
        evaluate_constrained(n, prefixes, total, settings, monotone, low, high, scores)
    else:
        load_candidates(lanes, n, prefixes, total)
        if not evaluate_chunk(lanes, n, settings, center, shifted, needed):
            return
        q = score_row(settings)
        for c in range(n):
            scores[c] = np.float64(lanes[q, c]) + np.float64(lanes[q, HALF + c])
    for c in range(n):
        score = scores[c]
        if score > needed:
            needed = _beyond_tie(score)
            best[0] = score - parent_score
            best[1] = score
            best[2] = positions[c]
            best[3] = direction
            best[4] = prefixes[c, 0]
            best[5] = total[0] - prefixes[c, 0]


@kernel
def _beyond_tie(score):
    """What a later candidate must exceed. Within bounds a score may be negative."""
    return score + TIE_TOLERANCE * abs(score)


@kernel
def _drop_light(n, positions, prefixes, one_hot, settings, total):
    """Drop candidates with a child below min_child_weight; returns how many are left.

    Along prefixes the left child only grows: when the first and the last of them pass,
    all do, and no other trace is summed.
    """
    least = settings.min_child_weight * settings.k
    if least <= 0.0:
        return n
    everything = _trace(settings, total)
    if not one_hot:
        first = _trace(settings, prefixes[0])
        last = _trace(settings, prefixes[n - 1])
        if first >= least and everything - last >= least:
            return n
    kept = 0
    for c in range(n):
        trace = _trace(settings, prefixes[c])
        if trace >= least and everything - trace >= least:
            for w in range(total.shape[0]):
                prefixes[kept, w] = prefixes[c, w]
            positions[kept] = positions[c]
            kept += 1
    return kept


@kernel
def _mark_left_bins(order, n_positions, one_hot, left_bins, best):
    """Write the category set; swap sides if missing rows would be on the left."""
    last = int(best[2])
    swapped = best[3] == MISSING_LEFT
    for position in range(n_positions):
        inside = position == last if one_hot else position <= last
        left_bins[order[position]] = 1 if inside != swapped else 0
    if swapped:
        count = best[4]
        best[4] = best[5]
        best[5] = count
        best[3] = MISSING_RIGHT
    best[2] = 0


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
        if not (gain > min_split_gain and gain > 2.0 * TIE_TOLERANCE * abs(score)):
            continue
        if best < 0 or score > _beyond_tie(splits[best, 1]):
            best = f
    return best
