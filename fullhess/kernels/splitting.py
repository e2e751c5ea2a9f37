"""The split search: Algorithm 1 of the paper on histogram bins.

For one node and one feature the cells are summed from left to right in float64;
the rest of the feature's own total is the right child. Only non-empty bins are
candidates, and the limits on children are checked before any system is solved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from .lanes import HALF, evaluate_chunk, load_candidates, score_row
from .solve import LAPLACIAN, exchange_edges, heaviest_class
from .team import call_at
from .tiles import add_cells, sum_cells

SPLIT_FIELDS = 6
TIE_TOLERANCE = 1e-6  # of the children's scores; float32 lanes agree to this
# Of the heaviest class's curvature: with a smaller λ it is made the reference, since the
# rounding of float32 gradients would move any lighter one too far (see ``solve``).
LIGHT_RIDGE = 1e-4


class Buffers(NamedTuple):
    """What the search of a node's features needs room for, HALF candidates at a time."""

    total: NDArray[np.float64]  # (width,) sums of the feature's cells
    rest: NDArray[np.float64]  # (width,) rows that no order lists, the missing ones first
    left: NDArray[np.float64]  # (width,) the sum of a scan so far
    prefixes: NDArray[np.float64]  # (HALF, width) sums of left children
    places: NDArray[np.int64]  # (HALF,) cells
    positions: NDArray[np.int64]  # (HALF,) their places in the order
    scores: NDArray[np.float64]  # (HALF,)
    around: NDArray[np.float64]  # (k,) the centre, classes in the order of the lanes


def new_buffers(k, width):
    """The buffers of one thread."""
    return Buffers(
        total=np.empty(width),
        rest=np.empty(width),
        left=np.empty(width),
        prefixes=np.zeros((HALF, width)),
        places=np.empty(HALF, np.int64),
        positions=np.empty(HALF, np.int64),
        scores=np.empty(HALF),
        around=np.empty(k),
    )


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
    buffers,
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
    buffers, lanes : scratch (``new_buffers``, ``new_lanes``).
    left_bins : (n_cells,) uint8, output: for a categorical feature, the bins on
        the left (the missing bin is always on the right).
    out : (d, SPLIT_FIELDS) float64, output rows of the block's features: gain (-inf
        without a valid split), children's score, bin, default_left, rows on the
        left, rows on the right.
    """
    for index in range(features.shape[0]):
        f = features[index]
        out[f, 0] = -np.inf
        if not allowed[f]:
            continue
        first = cell_offsets[f]
        cells = histogram[first : cell_offsets[f + 1]]
        order = orders[first : first + n_bins[f]] if categorical[f] else orders[:0]
        _search_feature(
            f,
            cells,
            n_bins[f],
            categorical[f],
            order,
            settings,
            center,
            parent_score,
            monotone[f],
            low,
            high,
            seed,
            buffers,
            lanes,
            left_bins[first:],
            out[f],
        )


# Called in one place, and inlined there: a function of its own would be compiled together
# with all of the lanes once more. So are those it calls.
@kernel(inline="always")
def _search_feature(
    f,
    cells,
    n_bins,
    categorical,
    order,
    settings,
    center,
    parent_score,
    monotone,
    low,
    high,
    seed,
    buffers,
    lanes,
    left_bins,
    best,
):
    """The best split on feature f into ``best``; arguments as in ``find_best_splits``."""
    total, rest, around = buffers.total, buffers.rest, buffers.around
    n_positions = count_positions(order) if categorical else np.int64(n_bins)
    one_hot = categorical and count_filled(cells) <= settings.max_cat_to_onehot
    ordered = categorical and not one_hot
    sum_cells(cells, total)
    for w in range(rest.shape[0]):
        rest[w] = cells[n_bins, w]
    if ordered and settings.min_data_per_group > 1:
        add_unlisted(cells, settings.min_data_per_group, rest)
    for j in range(settings.k):
        around[j] = center[j]
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
    only = np.int64(-1)
    if seed >= 0:
        only = draw_position(
            cells, n_positions, order, categorical, one_hot, most, total[0], missing_count, seed, f
        )
    for direction in range(2 if missing_count > 0 else 1):
        _scan(
            cells,
            n_positions,
            order,
            categorical,
            one_hot,
            most,
            only,
            direction,
            settings,
            reg_lambda,
            _is_shifted(center),
            reference,
            parent_score,
            monotone,
            low,
            high,
            buffers,
            lanes,
            best,
        )
    if best[0] == -np.inf:
        return
    if categorical:
        swapped = best[3] == MISSING_LEFT or best[2] >= most
        mark_left_bins(order, n_positions, one_hot, swapped, left_bins, best)
    elif missing_count == 0:
        best[3] = best[4] > best[5]  # a value missing later follows the larger child
    elif best[3] == MISSING_RIGHT and best[5] == missing_count:
        best[2] = n_bins - 1  # present | missing: every present value goes left


@kernel
def _is_shifted(center):
    """Whether children are solved around anything but zero."""
    for j in range(center.shape[0]):
        if center[j] != 0.0:
            return True
    return False


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


@kernel(inline="always")
def _scan(
    cells,
    n_positions,
    order,
    categorical,
    one_hot,
    most,
    only,
    direction,
    settings,
    reg_lambda,
    shifted,
    reference,
    parent_score,
    monotone,
    low,
    high,
    buffers,
    lanes,
    best,
):
    """Try the prefixes of an order (or its single bins) as left children.

    The rest, missing rows first of all, is on the left from the start or not at all.
    """
    total, rest, left = buffers.total, buffers.rest, buffers.left
    places, positions, prefixes = buffers.places, buffers.positions, buffers.prefixes
    missing_count = rest[0]
    for w in range(total.shape[0]):
        left[w] = rest[w] if direction == MISSING_LEFT else 0.0
    base_count = left[0]
    n_rows = total[0]
    least = max(settings.min_samples_leaf, 1.0)
    unlimited = only == -1 and most >= n_positions
    plain = unlimited and not categorical
    seen = base_count
    position = 0
    while position < n_positions:
        n = 0  # cells of this chunk
        n_candidates = 0
        while plain and position < n_positions and n < HALF:
            # Without a branch: an empty cell is written over by the next one.
            count = cells[position, 0]
            seen += count
            is_candidate = min(seen, n_rows - seen) >= least
            places[n] = position
            positions[n] = position if is_candidate else -1
            is_filled = count > 0
            n += is_filled
            n_candidates += is_filled & is_candidate
            position += 1
        while not plain and position < n_positions and n < HALF:
            cell = order[position] if categorical else position
            count = cells[cell, 0]
            if count > 0:
                seen = count + (base_count if one_hot else seen)
                is_candidate = min(seen, n_rows - seen) >= least
                if not unlimited:
                    listed = count_listed(position, n_positions, direction, missing_count)
                    is_candidate &= listed <= most and (only == -1 or position == only)
                places[n] = cell
                positions[n] = position if is_candidate else -1
                n_candidates += is_candidate
                n += 1
            position += 1
        add_cells(cells, places, n, left, one_hot, prefixes)
        if n_candidates == 0:
            continue
        if n_candidates < n:
            _close_gaps(n, positions, prefixes)
        if reference >= 0:
            for c in range(n_candidates):
                _exchange(prefixes[c], reference, settings.k)
        _keep_best(
            n_candidates,
            direction,
            settings,
            reg_lambda,
            shifted,
            parent_score,
            monotone,
            low,
            high,
            buffers,
            lanes,
            best,
        )


@kernel
def _close_gaps(n, positions, prefixes):
    """Move the candidates, whose positions are not -1, to the front."""
    kept = 0
    for c in range(n):
        if positions[c] >= 0:
            positions[kept] = positions[c]
            for w in range(prefixes.shape[1]):
                prefixes[kept, w] = prefixes[c, w]
            kept += 1


@kernel(inline="always")
def _keep_best(
    n,
    direction,
    settings,
    reg_lambda,
    shifted,
    parent_score,
    monotone,
    low,
    high,
    buffers,
    lanes,
    best,
):
    """Score n candidates and keep the best one in ``best``, the earlier one on ties."""
    total, prefixes, positions = buffers.total, buffers.prefixes, buffers.positions
    scores = buffers.scores
    needed = -np.inf
    if best[0] > -np.inf:
        needed = _beyond_tie(best[1])
    if settings.constrained:
        n = _drop_light(n, positions, prefixes, settings, total)
        call_at(
            settings.evaluate_at,
            (n, prefixes, total, settings, reg_lambda, monotone, low, high, scores),
        )
    else:
        load_candidates(lanes, n, prefixes, total)
        if not evaluate_chunk(lanes, n, settings, reg_lambda, buffers.around, shifted, needed):
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
def _drop_light(n, positions, prefixes, settings, total):
    """Drop candidates with a child below min_child_weight; returns how many are left.

    Only for diagonal curvatures under constraints: lanes do this for all others.
    """
    first = 1 + settings.k
    least = settings.min_child_weight * settings.k
    kept = 0
    for c in range(n):
        left = 0.0
        right = 0.0
        for w in range(first, first + settings.n_curvature):
            left += prefixes[c, w]
            right += total[w] - prefixes[c, w]
        if least <= 0.0 or min(left, right) >= least:
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
