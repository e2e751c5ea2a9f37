"""The split search: Algorithm 1 of the paper on histogram bins.

For one node and one feature the cells are summed from left to right in float64;
the rest of the feature's own total is the right child. Only non-empty bins are
candidates, and the limits on children are checked before any system is solved.
"""

from __future__ import annotations

import numpy as np

from .candidates import (
    MISSING_LEFT,
    MISSING_RIGHT,
    add_unlisted,
    count_filled,
    count_listed,
    count_positions,
    draw_position,
    mark_left_bins,
)
from .compile import kernel
from .constraints import evaluate_constrained
from .lanes import HALF, evaluate_chunk, load_candidates, score_row
from .rows import add_cell
from .solve import DENSE, LAPLACIAN, exchange_edges, heaviest_class, packed_index

SPLIT_FIELDS = 6
TIE_TOLERANCE = 1e-6  # of the children's scores; float32 lanes agree to this
# Of the heaviest class's curvature: with a smaller λ it is made the reference, since the
# rounding of float32 gradients would move any lighter one too far (see ``solve``).
LIGHT_RIDGE = 1e-4


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
    seed,
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
    seed : of the one random candidate to try of each feature; negative: try all.
    lanes : scratch (``new_lanes``).
    left_bins : (n_cells,) uint8, output: for a categorical feature, the bins on
        the left (the missing bin is always on the right).
    out : (d, SPLIT_FIELDS) float64, output rows of the block's features: gain (-inf
        without a valid split), children's score, bin, default_left, rows on the
        left, rows on the right.
    """
    width = histogram.shape[1]
    total = np.empty(width)
    rest = np.empty(width)
    left = np.empty(width)
    prefixes = np.zeros((HALF, width))
    positions = np.empty(HALF, np.int64)
    scores = np.empty(HALF)
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
        n_positions = count_positions(order) if categorical[f] else n_bins[f]
        one_hot = categorical[f] and count_filled(cells) <= settings.max_cat_to_onehot
        ordered = categorical[f] and not one_hot
        _sum_cells(cells, total, prefixes)
        rest[:] = cells[n_bins[f]]
        if ordered and settings.min_data_per_group > 1:
            add_unlisted(cells, settings.min_data_per_group, rest)
        around[:] = center
        reg_lambda = settings.reg_lambda + (settings.cat_l2 if ordered else 0.0)
        reference = _choose_reference(settings, reg_lambda, total)
        if reference >= 0:
            _exchange(total, reference, settings.k)
            around[reference] = center[settings.k - 1]
            around[settings.k - 1] = center[reference]
        missing_count = rest[0]
        most = n_positions
        if ordered and settings.max_cat_threshold > 0:
            most = settings.max_cat_threshold
        only = -1
        if seed >= 0:
            only = draw_position(
                cells, n_positions, order, categorical[f], one_hot, most, total[0], missing_count,
                seed, f,
            )  # fmt: skip
        for direction in range(2 if missing_count > 0 else 1):
            _scan(
                cells,
                n_positions,
                order,
                categorical[f],
                one_hot,
                most,
                only,
                rest,
                direction,
                settings,
                reg_lambda,
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
                scores,
                lanes,
                best,
            )
        if best[0] == -np.inf:
            continue
        if categorical[f]:
            swapped = best[3] == MISSING_LEFT or best[2] >= most
            mark_left_bins(order, n_positions, one_hot, swapped, left_bins[first:], best)
        elif missing_count == 0:
            best[3] = best[4] > best[5]  # a value missing later follows the larger child
        elif best[3] == MISSING_RIGHT and best[5] == missing_count:
            best[2] = n_bins[f] - 1  # present | missing: every present value goes left


@kernel
def _choose_reference(settings, reg_lambda, total):
    """The class to exchange with the last one, the lanes' reference; -1: none."""
    k = settings.k
    if settings.layout != LAPLACIAN:
        return -1
    edges = total[1 + k :]
    heaviest, weight = heaviest_class(edges, k)
    return heaviest if heaviest < k - 1 and reg_lambda < LIGHT_RIDGE * weight else -1


@kernel
def _exchange(sums, c, k):
    """Let class c and the last one change places in sums [count | gradient | edges]."""
    last = sums[k]
    sums[k] = sums[1 + c]
    sums[1 + c] = last
    exchange_edges(sums[1 + k :], c, k)


@kernel
def _sum_cells(cells, total, prefixes):
    """Sum of all cells, (width,) float64; the first of ``prefixes`` is overwritten."""
    for w in range(total.shape[0]):
        total[w] = 0.0
    for cell in range(cells.shape[0]):
        if cells[cell, 0] > 0:
            add_cell(cells, cell, total, prefixes, 0)


@kernel(inline="always")
def _scan(
    cells,
    n_positions,
    order,
    categorical,
    one_hot,
    most,
    only,
    rest,
    direction,
    settings,
    reg_lambda,
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
    scores,
    lanes,
    best,
):
    """Try the prefixes of an order (or its single bins) as left children.

    The rest, missing rows first of all, is on the left from the start or not at all.
    Inlined, since every further function around the lanes is compiled together with
    all of them once more.
    """
    width = total.shape[0]
    missing_count = rest[0]
    n = 0
    for position in range(n_positions):
        if one_hot or position == 0:
            for w in range(width):
                left[w] = rest[w] if direction == MISSING_LEFT else 0.0
        cell = order[position] if categorical else position
        if cells[cell, 0] == 0:
            continue
        add_cell(cells, cell, left, prefixes, n)
        n_right = total[0] - left[0]
        if n_right <= 0.0 or min(left[0], n_right) < settings.min_samples_leaf:
            continue
        if only != -1 and position != only:
            continue
        if most < n_positions and (
            count_listed(position, n_positions, direction, missing_count) > most
        ):
            continue
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
                reg_lambda,
                center,
                shifted,
                parent_score,
                monotone,
                low,
                high,
                total,
                scores,
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
            reg_lambda,
            center,
            shifted,
            parent_score,
            monotone,
            low,
            high,
            total,
            scores,
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
    reg_lambda,
    center,
    shifted,
    parent_score,
    monotone,
    low,
    high,
    total,
    scores,
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
    if settings.constrained:
        evaluate_constrained(n, prefixes, total, settings, reg_lambda, monotone, low, high, scores)
    else:
        load_candidates(lanes, n, prefixes, total)
        if not evaluate_chunk(lanes, n, settings, reg_lambda, center, shifted, needed):
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
