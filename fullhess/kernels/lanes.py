"""The k×k systems of many candidate children at once, one per lane.

Candidates are gathered 32 at a time into small arrays ``[statistic, lane]``, the
left children in the first 32 lanes and the right children in the others. All
arithmetic has the lane innermost, so that it vectorises over candidates and k
stays a run-time variable. The chunk stays in the first-level cache.

The guaranteed gain is never above the quadratic one. A chunk whose quadratic
gains do not reach the best guaranteed gain so far is dropped before the back
substitution: the same result for less work.

The Laplacian elimination subtracts nothing (see ``solve``), which is why float32
lanes are enough for it at every λ; sums and differences of sums are float64.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .compile import kernel
from .solve import (
    DENSE,
    DIAGONAL,
    LAPLACIAN,
    capped_score,
    edge_index,
    guaranteed_share,
    packed_index,
)

HALF = 32  # candidates in a chunk: 32 keeps k=10 (56 statistics × 64 lanes × 4 B) in 32 KB
LANES = 2 * HALF
HUGE = 1e30  # float32 lanes are clipped here, so that no infinity meets a zero


class Lanes(NamedTuple):
    """Scratch of one thread: (k, L), (m, L), (k, L), (3, L).

    float32 for the Laplacian and diagonal layouts, float64 for the dense one.
    """

    b: Any
    curvature: Any
    inverse: Any
    scratch: Any


class SplitSettings(NamedTuple):
    """What the split search needs to know."""

    layout: int
    k: int
    reg_lambda: float
    cat_smooth: float
    max_cat_to_onehot: int
    min_samples_leaf: int
    min_child_weight: float
    damped: bool  # guaranteed gain: β is the range of the step
    max_delta_step: float


def new_lanes(layout, k, n_curvature):
    """Lane buffers of zeros."""
    dtype = np.float64 if layout == DENSE else np.float32
    return Lanes(*(np.zeros((n, LANES), dtype) for n in (k, n_curvature, k, 3)))


@kernel(fastmath={"contract"})
def _eliminate_laplacian(k, edges, b, inverse, q):
    """Forward sweep over all lanes; q[lane] = b·(A+λI)⁻¹b. λ/k is already in edges."""
    one = q.dtype.type(1)  # a bare 1 would turn float32 lanes into float64
    tiny = q.dtype.type(1e-30)
    for c in range(LANES):
        q[c] = 0
    for i in range(k - 1):
        row_i = edge_index(i, i + 1, k)
        pivot = inverse[i]
        for c in range(LANES):
            pivot[c] = edges[row_i, c]
        for e in range(row_i + 1, row_i + k - 1 - i):
            edge = edges[e]
            for c in range(LANES):
                pivot[c] += edge[c]
        b_i = b[i]
        for c in range(LANES):
            pivot[c] = one / max(pivot[c], tiny)
            q[c] += b_i[c] * b_i[c] * pivot[c]
        for j in range(i + 1, k - 1):  # the last class is the reference
            edge_ij = edges[row_i + j - i - 1]
            b_j = b[j]
            for c in range(LANES):
                b_j[c] += edge_ij[c] * pivot[c] * b_i[c]
            row_j = edge_index(j, j + 1, k)
            for l in range(j + 1, k):
                edge_jl = edges[row_j + l - j - 1]
                edge_il = edges[row_i + l - i - 1]
                for c in range(LANES):
                    edge_jl[c] += edge_ij[c] * pivot[c] * edge_il[c]


@kernel(fastmath={"contract"})
def _substitute_laplacian(k, edges, b, inverse):
    """Back substitution in place: b becomes the solution, the last class 0."""
    for c in range(LANES):
        b[k - 1, c] = 0
    for i in range(k - 2, -1, -1):
        row_i = edge_index(i, i + 1, k)
        b_i = b[i]
        for j in range(i + 1, k - 1):
            edge = edges[row_i + j - i - 1]
            b_j = b[j]
            for c in range(LANES):
                b_i[c] += edge[c] * b_j[c]
        inv = inverse[i]
        for c in range(LANES):
            b_i[c] *= inv[c]


@kernel(fastmath={"contract"})
def _eliminate_dense(k, packed, b, inverse, q):
    """Forward sweep of LDLᵀ over all lanes; a vanishing pivot gets no step."""
    one = q.dtype.type(1)
    zero = q.dtype.type(0)
    tiny = q.dtype.type(1e-30)
    for c in range(LANES):
        q[c] = 0
    for i in range(k):
        row_i = packed_index(i, i, k)
        for c in range(LANES):
            inverse[i, c] = packed[row_i, c] * q.dtype.type(1e-13)
    for i in range(k):
        row_i = packed_index(i, i, k)
        b_i = b[i]
        inv = inverse[i]
        diagonal = packed[row_i]
        for c in range(LANES):
            inv[c] = one / diagonal[c] if diagonal[c] > max(inv[c], tiny) else zero
            q[c] += b_i[c] * b_i[c] * inv[c]
        for j in range(i + 1, k):
            entry_ij = packed[row_i + j - i]
            b_j = b[j]
            for c in range(LANES):
                b_j[c] -= entry_ij[c] * inv[c] * b_i[c]
            row_j = packed_index(j, j, k)
            for l in range(j, k):
                entry_jl = packed[row_j + l - j]
                entry_il = packed[row_i + l - i]
                for c in range(LANES):
                    entry_jl[c] -= entry_ij[c] * inv[c] * entry_il[c]


@kernel(fastmath={"contract"})
def _substitute_dense(k, packed, b, inverse):
    for i in range(k - 1, -1, -1):
        row_i = packed_index(i, i, k)
        b_i = b[i]
        inv = inverse[i]
        for c in range(LANES):
            b_i[c] *= inv[c]
        for j in range(i + 1, k):
            entry = packed[row_i + j - i]
            b_j = b[j]
            for c in range(LANES):
                b_i[c] -= entry[c] * inv[c] * b_j[c]


@kernel(fastmath={"contract"})
def _eliminate_diagonal(k, diagonal, b, inverse, q):
    one = q.dtype.type(1)
    tiny = q.dtype.type(1e-30)
    for c in range(LANES):
        q[c] = 0
    for j in range(k):
        b_j = b[j]
        inv = inverse[j]
        entry = diagonal[j]
        for c in range(LANES):
            inv[c] = one / max(entry[c], tiny)
            q[c] += b_j[c] * b_j[c] * inv[c]


@kernel
def _substitute_diagonal(k, b, inverse):
    for j in range(k):
        for c in range(LANES):
            b[j, c] *= inverse[j, c]


@kernel
def add_lambda(layout, k, reg_lambda, curvature):
    """λ in each layout: on every edge as λ/k, or on the diagonal."""
    if layout == LAPLACIAN:
        share = curvature.dtype.type(reg_lambda / k)
        for e in range(k * (k - 1) // 2):
            for c in range(LANES):
                curvature[e, c] += share
        return
    for j in range(k):
        entry = packed_index(j, j, k) if layout == DENSE else j
        for c in range(LANES):
            curvature[entry, c] += curvature.dtype.type(reg_lambda)


@kernel(fastmath={"contract"})
def shift_center(layout, k, center, lanes):
    """b -= A·center: the gradient at the node's own value (path prior)."""
    b = lanes.b
    curvature = lanes.curvature
    if layout == DIAGONAL:
        for j in range(k):
            x_j = b.dtype.type(center[j])
            for c in range(LANES):
                b[j, c] -= curvature[j, c] * x_j
        return
    for i in range(k):
        x_i = b.dtype.type(center[i])
        if layout == DENSE:
            diagonal = curvature[packed_index(i, i, k)]
            for c in range(LANES):
                b[i, c] -= diagonal[c] * x_i
        for j in range(i + 1, k):
            if layout == LAPLACIAN:
                entry = curvature[edge_index(i, j, k)]
                difference = b.dtype.type(center[i] - center[j])
                for c in range(LANES):
                    flow = entry[c] * difference
                    b[i, c] -= flow
                    b[j, c] += flow
            else:
                entry = curvature[packed_index(i, j, k)]
                x_j = b.dtype.type(center[j])
                for c in range(LANES):
                    b[i, c] -= entry[c] * x_j
                    b[j, c] -= entry[c] * x_i


@kernel
def eliminate(layout, k, lanes):
    """Forward sweep; scratch[0] becomes b·(A + λI)⁻¹b of every lane."""
    if layout == LAPLACIAN:
        _eliminate_laplacian(k, lanes.curvature, lanes.b, lanes.inverse, lanes.scratch[0])
    elif layout == DENSE:
        _eliminate_dense(k, lanes.curvature, lanes.b, lanes.inverse, lanes.scratch[0])
    else:
        _eliminate_diagonal(k, lanes.curvature, lanes.b, lanes.inverse, lanes.scratch[0])


@kernel
def substitute(layout, k, lanes):
    """Back substitution; b becomes the solution (Laplacian: the last class 0)."""
    if layout == LAPLACIAN:
        _substitute_laplacian(k, lanes.curvature, lanes.b, lanes.inverse)
    elif layout == DENSE:
        _substitute_dense(k, lanes.curvature, lanes.b, lanes.inverse)
    else:
        _substitute_diagonal(k, lanes.b, lanes.inverse)


@kernel(fastmath={"contract"})
def _damp_scores(k, b, q, beta, beta_bits, log):
    """q *= h(β), β the range of the solution in b (``guaranteed_share`` for lanes).

    The logarithm is 2·atanh on the mantissa plus the exponent: LLVM has no vector
    log here, and this form vectorises.
    """
    one = q.dtype.type(1)
    two = q.dtype.type(2)
    for c in range(LANES):
        beta[c] = b[0, c]
        log[c] = b[0, c]
    for j in range(1, k):
        b_j = b[j]
        for c in range(LANES):
            beta[c] = max(beta[c], b_j[c])
            log[c] = min(log[c], b_j[c])
    huge = q.dtype.type(HUGE)
    for c in range(LANES):
        spread = beta[c] - log[c]
        beta[c] = one + (spread if spread < huge else huge)
    for c in range(LANES):
        y = beta[c]  # 1 + β
        bits = beta_bits[c]
        exponent = np.int32((bits - np.int32(0x3F3504F3)) >> 23)  # mantissa in [√½, √2)
        beta_bits[c] = bits - (exponent << 23)
        m = beta[c]
        s = (m - one) / (m + one)
        z = s * s
        series = one + z * (
            q.dtype.type(1 / 3)
            + z * (q.dtype.type(1 / 5) + z * (q.dtype.type(1 / 7) + z * q.dtype.type(1 / 9)))
        )
        log[c] = two * s * series + q.dtype.type(exponent) * q.dtype.type(0.6931471805599453)
        beta[c] = y - one
    for c in range(LANES):
        x = beta[c]
        s = x / (two + x)
        z = s * s
        tail = q.dtype.type(1 / 3) + z * (
            q.dtype.type(1 / 5)
            + z * (
                q.dtype.type(1 / 7)
                + z * (
                    q.dtype.type(1 / 9)
                    + z * (q.dtype.type(1 / 11) + z * (q.dtype.type(1 / 13) + z * q.dtype.type(1 / 15)))
                )
            )
        )
        small = (one - s) * (one + (one + s) * s * tail)
        large = two * ((one + x) * log[c] - x) / max(x * x, one)
        q[c] *= small if x < one else large


@kernel
def _cap_scores(k, b, q, damped, centred, max_delta_step):
    """Scores of steps whose largest component must not exceed max_delta_step (if any)."""
    for c in range(LANES):
        low = high = mean = float(b[0, c])
        for j in range(1, k):
            value = float(b[j, c])
            low = min(low, value)
            high = max(high, value)
            mean += value
        mean = mean / k if centred else 0.0
        beta = high - low if damped else 0.0
        t = math.log1p(beta) / beta if beta > 1e-12 else 1.0
        largest = max(high - mean, mean - low)
        if max_delta_step > 0.0 and t * largest > max_delta_step:
            q[c] = capped_score(float(q[c]), beta, max_delta_step / largest)
        else:
            q[c] = float(q[c]) * guaranteed_share(beta)


@kernel
def evaluate_chunk(n, settings, center, shifted, needed, lanes):
    """Scores of the first n lanes of either half, into ``lanes.scratch[0]``.

    Returns False when no candidate can reach ``needed`` (scores then undefined).
    """
    k = settings.k
    layout = settings.layout
    q = lanes.scratch[0]
    if shifted:
        shift_center(layout, k, center, lanes)
    add_lambda(layout, k, settings.reg_lambda, lanes.curvature)
    eliminate(layout, k, lanes)
    highest = -1.0
    for c in range(n):
        for lane in (c, HALF + c):
            if not q[lane] < HUGE:
                q[lane] = HUGE
        highest = max(highest, float(q[c]) + float(q[HALF + c]))
    if highest <= needed:
        return False
    if settings.max_delta_step > 0.0 or settings.damped:
        substitute(layout, k, lanes)
        if layout == DENSE or settings.max_delta_step > 0.0:
            _cap_scores(
                k, lanes.b, q, settings.damped, layout == LAPLACIAN, settings.max_delta_step
            )
        else:  # float32 lanes
            log = lanes.scratch[2]
            _damp_scores(k, lanes.b, q, lanes.scratch[1], lanes.scratch[1].view(np.int32), log)
    return True
