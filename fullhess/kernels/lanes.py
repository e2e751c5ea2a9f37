"""The k×k systems of many candidate children at once, one per lane.

Candidates are gathered 16 at a time into one small array of rows × 32 lanes, the
left children in the first 16 lanes, the right children in the others. The first
rows are those of a statistics row, transposed:

    row 0                count
    rows 1 …             gradient, one row per score; becomes the solution
    rows 1 + k …         packed curvature
    rows width …         reciprocal pivots, one per score
    last rows            scores q, scratch

All arithmetic runs over the lanes (``rows``), so that k stays a run-time variable,
and the chunk stays in the first-level cache.

The solution has the wrong sign (it solves for g, not -g), which none of its uses
here can see: the score, the range and the largest component are even.

The guaranteed gain is never above the quadratic one. A chunk whose quadratic
gains do not reach the best guaranteed gain so far is dropped before the back
substitution: the same result for less work.

The Laplacian elimination subtracts nothing (see ``solve``), which is why float32
lanes are enough for it at every λ; sums and differences of sums are float64. The
dense layout uses float64 lanes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..memory import aligned_zeros
from .compile import kernel
from .rows import (
    HALF,
    HUGE,
    LANES,
    VECTOR,
    add,
    add_products,
    add_scalar,
    add_up,
    best_of_pairs,
    clip,
    damp,
    fill,
    floored_sum,
    guarded_reciprocal,
    larger,
    mul,
    mul_scalar,
    muladd,
    muladd_rows,
    muladd_scalar,
    reciprocal,
    smaller,
    submul,
    veto,
)
from .solve import (
    DENSE,
    DIAGONAL,
    LAPLACIAN,
    capped_score,
    edge_index,
    guaranteed_share,
    packed_index,
)
from .tiles import load_tile

SCRATCH_ROWS = 4
PAIR_ROUNDING = 2.0**-22  # of the sum of two scores in float32, and more than that
TINY = 1e-30  # pivots below carry no information


class SplitSettings(NamedTuple):
    """What the split search needs to know."""

    layout: int
    k: int
    n_curvature: int
    width: int  # of a statistics row
    reg_lambda: float
    cat_smooth: float
    max_cat_to_onehot: int
    max_cat_threshold: int  # categories listed by a split of ordered ones; 0: any number
    cat_l2: float  # added to λ in the scores of such a split
    min_data_per_group: int  # rows of a category that such a split may list
    min_samples_leaf: int
    min_child_weight: float
    damped: bool  # guaranteed gain: β is the range of the step
    max_delta_step: float
    reg_alpha: float
    constrained: bool  # penalty and bounds score by score; the layout is diagonal
    evaluate_at: int  # address of ``constraints.evaluate_constrained`` (``team.call_at``) or 0


def new_lanes(layout, k, width):
    """The lanes of one thread, zeros."""
    dtype = np.float64 if layout == DENSE else np.float32
    return aligned_zeros((width + k + SCRATCH_ROWS, LANES), dtype)


@kernel
def load_candidates(lanes, n, prefixes, total):
    """Gather n candidates: prefixes (HALF, width) and their rest of total (width,)."""
    for lane in range(0, n, VECTOR):
        for column in range(0, total.shape[0], VECTOR):
            load_tile(lanes, lane, column, prefixes, total)


@kernel
def _eliminate_laplacian(lanes, k, q):
    """Forward sweep; row q = g·(A+λI)⁻¹g. λ/k is already in the edges."""
    edges = 1 + k
    inverse = q - k
    factor = q + 1
    fill(lanes, q, q, 0.0)
    for i in range(k - 1):
        row_i = edges + edge_index(i, i + 1, k)
        pivot = inverse + i
        add_up(lanes, pivot, row_i, k - 1 - i)
        reciprocal(lanes, pivot, pivot, TINY)
        mul(lanes, factor, 1 + i, pivot)
        muladd(lanes, q, factor, 1 + i)
        for j in range(i + 1, k - 1):  # the last class is the reference
            mul(lanes, factor, row_i + j - i - 1, pivot)
            muladd(lanes, 1 + j, factor, 1 + i)
            row_j = edges + edge_index(j, j + 1, k)
            muladd_rows(lanes, row_j, factor, row_i + j - i, k - 1 - j)


@kernel
def _substitute_laplacian(lanes, k, q):
    """Back substitution in place: g becomes the solution, the last class 0."""
    edges = 1 + k
    inverse = q - k
    fill(lanes, k, k, 0.0)
    for i in range(k - 2, -1, -1):
        row_i = edges + edge_index(i, i + 1, k)
        add_products(lanes, 1 + i, row_i, 2 + i, k - 2 - i)
        mul(lanes, 1 + i, 1 + i, inverse + i)


@kernel
def _eliminate_dense(lanes, k, q):
    """Forward sweep of LDLᵀ; a vanishing pivot gets no step."""
    packed = 1 + k
    inverse = q - k
    factor = q + 1
    fill(lanes, q, q, 0.0)
    for i in range(k):  # pivots are compared with the diagonal before elimination
        mul_scalar(lanes, inverse + i, packed + packed_index(i, i, k), 1e-13)
        add_scalar(lanes, inverse + i, inverse + i, TINY)
    for i in range(k):
        row_i = packed + packed_index(i, i, k)
        pivot = inverse + i
        guarded_reciprocal(lanes, pivot, row_i, pivot)
        mul(lanes, factor, 1 + i, pivot)
        muladd(lanes, q, factor, 1 + i)
        for j in range(i + 1, k):
            mul(lanes, factor, row_i + j - i, pivot)
            submul(lanes, 1 + j, factor, 1 + i)
            row_j = packed + packed_index(j, j, k)
            for l in range(j, k):
                submul(lanes, row_j + l - j, factor, row_i + l - i)


@kernel
def _substitute_dense(lanes, k, q):
    packed = 1 + k
    inverse = q - k
    for i in range(k - 1, -1, -1):
        row_i = packed + packed_index(i, i, k)
        for j in range(i + 1, k):
            submul(lanes, 1 + i, row_i + j - i, 1 + j)
        mul(lanes, 1 + i, 1 + i, inverse + i)


@kernel
def _eliminate_diagonal(lanes, k, q):
    """Row q = g·(A+λI)⁻¹g; the curvature becomes the solution."""
    for j in range(k):
        reciprocal(lanes, 1 + k + j, 1 + k + j, TINY)
        mul(lanes, 1 + k + j, 1 + k + j, 1 + j)
    fill(lanes, q, q, 0.0)
    add_products(lanes, q, 1, 1 + k, k)


@kernel
def _add_lambda(lanes, layout, k, n_curvature, reg_lambda):
    """λ in each layout: on every edge as λ/k, or on the diagonal.

    Rounding may have left a curvature just below zero; it is read as zero first.
    """
    first = 1 + k
    if layout == DENSE:
        for j in range(k):
            entry = first + packed_index(j, j, k)
            add_scalar(lanes, entry, entry, reg_lambda)
        return
    for entry in range(first, first + n_curvature):
        floored_sum(lanes, entry, entry, reg_lambda / k if layout == LAPLACIAN else reg_lambda)


@kernel
def _shift_center(lanes, layout, k, center):
    """g += A·center: the gradient at the node's own value (path prior)."""
    first = 1 + k
    for i in range(k):
        if layout == DIAGONAL:
            muladd_scalar(lanes, 1 + i, first + i, center[i])
            continue
        if layout == DENSE:
            muladd_scalar(lanes, 1 + i, first + packed_index(i, i, k), center[i])
        for j in range(i + 1, k):
            if layout == LAPLACIAN:
                edge = first + edge_index(i, j, k)
                muladd_scalar(lanes, 1 + i, edge, center[i] - center[j])
                muladd_scalar(lanes, 1 + j, edge, center[j] - center[i])
            else:
                entry = first + packed_index(i, j, k)
                muladd_scalar(lanes, 1 + i, entry, center[j])
                muladd_scalar(lanes, 1 + j, entry, center[i])


@kernel
def _veto_light(lanes, settings, target):
    """Row ``target`` becomes 0, or -inf for a child whose trace is too small; False if all are.

    All lanes at once: a loop over candidates took longer than their solution.
    """
    first = 1 + settings.k
    if settings.layout == DENSE:
        add_scalar(lanes, target, first, 0.0)
        for j in range(1, settings.k):
            add(lanes, target, target, first + packed_index(j, j, settings.k))
    else:
        add_up(lanes, target, first, settings.n_curvature)
    least = settings.min_child_weight * settings.k
    veto(lanes, target, target, 0.5 * least if settings.layout == LAPLACIAN else least)
    return best_of_pairs(lanes, target) == 0.0


@kernel
def _measure_ranges(lanes, k, high, low):
    """Rows ``high`` and ``low`` become the largest and least component of the solution."""
    add_scalar(lanes, high, 1, 0.0)
    add_scalar(lanes, low, 1, 0.0)
    for j in range(2, 1 + k):
        larger(lanes, high, high, j)
        smaller(lanes, low, low, j)


@kernel
def _cap_scores(lanes, k, q, n, damped, centred, max_delta_step):
    """Scores of steps whose largest component must not exceed max_delta_step (if any).

    Rows q + 2 and q + 3 hold the largest and least component.
    """
    for half in range(2):
        for c in range(half * HALF, half * HALF + n):
            high = np.float64(lanes[q + 2, c])
            low = np.float64(lanes[q + 3, c])
            mean = 0.0
            for j in range(1, 1 + k):
                mean += lanes[j, c]
            mean = mean / k if centred else 0.0
            beta = high - low if damped else 0.0
            t = math.log1p(beta) / beta if beta > 1e-12 else 1.0
            largest = max(high - mean, mean - low)
            score = np.float64(lanes[q, c])
            if score == -np.inf:  # vetoed
                continue
            if max_delta_step > 0.0 and t * largest > max_delta_step:
                lanes[q, c] = capped_score(score, beta, max_delta_step / largest)
            else:
                lanes[q, c] = score * guaranteed_share(beta)


@kernel(inline="always")  # or it would be compiled once more for its only caller
def evaluate_chunk(lanes, n, settings, reg_lambda, center, shifted, needed):
    """Scores of the first n lanes of either half, into row ``score_row(settings)``.

    A child below min_child_weight has the score -inf. Returns False when no candidate
    exceeds ``needed`` (scores then undefined).
    """
    k = settings.k
    layout = settings.layout
    q = score_row(settings)
    light = q + 3
    limited = settings.min_child_weight > 0.0
    if limited and not _veto_light(lanes, settings, light):
        return False
    if shifted:
        _shift_center(lanes, layout, k, center)
    _add_lambda(lanes, layout, k, settings.n_curvature, reg_lambda)
    if layout == LAPLACIAN:
        _eliminate_laplacian(lanes, k, q)
    elif layout == DENSE:
        _eliminate_dense(lanes, k, q)
    else:
        _eliminate_diagonal(lanes, k, q)
    clip(lanes, q, q, HUGE)  # a NaN never compares as better, so it is never chosen
    if limited:
        add(lanes, q, q, light)
    if best_of_pairs(lanes, q) <= needed:  # unused lanes may only keep a chunk alive
        return False
    if not (settings.damped or settings.max_delta_step > 0.0):
        return True
    if layout == LAPLACIAN:
        _substitute_laplacian(lanes, k, q)
    elif layout == DENSE:
        _substitute_dense(lanes, k, q)
    else:
        for j in range(k):
            add_scalar(lanes, 1 + j, 1 + k + j, 0.0)
    _measure_ranges(lanes, k, q + 2, q + 3)
    if settings.max_delta_step > 0.0:
        centred = layout == LAPLACIAN
        _cap_scores(lanes, k, q, n, settings.damped, centred, settings.max_delta_step)
    else:
        damp(lanes, q, q + 2, q + 3)
    return best_of_pairs(lanes, q) * (1.0 + PAIR_ROUNDING) > needed


@kernel
def score_row(settings):
    """The row of the scores: after the statistics and the pivots."""
    return settings.width + settings.k
