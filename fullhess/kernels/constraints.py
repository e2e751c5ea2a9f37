"""Values and scores under an L1 penalty and bounds, per score.

Without interaction between the scores (a diagonal curvature) the best value is a soft
threshold and a clip. Under a monotone constraint the two children of a split are solved
together: a score whose values come in the wrong order gets one common value, which is
the minimum of the two penalised parabolas under that order.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .solve import DIAGONAL, LAPLACIAN, edge_index, packed_index

TINY_CURVATURE = 1e-290
FLOAT32_ROUNDING = 1e-6  # of the sums of a histogram cell
MAX_EXPONENT = 500.0  # of a range, so that the bound's exponential stays finite
CD_TOLERANCE = 1e-10  # of the largest move of a sweep, against the largest value
CD_WORK = 4e6  # multiplications for one leaf: 500 sweeps up to 90 scores
MAX_SWEEPS = 500
MAX_LEAP = 256  # scores up to which free ones are solved together, k³/6 a time


@kernel
def constrained_value(gradient, curvature, reg_alpha, low, high):
    """The minimum of g·w + ½a·w² + α|w| in [low, high]."""
    shrunk = max(abs(gradient) - reg_alpha, 0.0)
    w = 0.0
    if curvature > TINY_CURVATURE:
        w = -math.copysign(shrunk, gradient) / curvature
    return min(max(w, low), high)


@kernel
def _score(k, sums, sign, rest, w, reg_lambda, reg_alpha, damped, scalable):
    """Twice the decrease of the model at w; of the bound, and of the best t·w, if damped.

    The node's sums are ``rest + sign * sums``, [count | gradient | diagonal].
    """
    slope = 0.0
    second = 0.0
    lowest = highest = w[0]
    for j in range(k):
        g = rest[1 + j] + sign * sums[1 + j]
        a = max(rest[1 + k + j] + sign * sums[1 + k + j], 0.0) + reg_lambda
        slope -= g * w[j] + reg_alpha * abs(w[j])
        second += a * w[j] * w[j]
        lowest = min(lowest, w[j])
        highest = max(highest, w[j])
    beta = min(highest - lowest, MAX_EXPONENT)
    if not damped or beta < 1e-6 or second <= 0.0:
        return 2.0 * slope - second
    t = 1.0
    if scalable:
        if slope <= 0.0:
            return 0.0
        t = min(1.0, math.log1p(beta * slope / second) / beta)
    return 2.0 * (t * slope - second * (math.expm1(t * beta) - t * beta) / (beta * beta))


@kernel
def _holds_zero(low, high):
    for j in range(low.shape[0]):
        if low[j] > 0.0 or high[j] < 0.0:
            return False
    return True


@kernel
def _searched_value(gradient, curvature, reg_alpha, low, high):
    """``constrained_value`` of float32 sums: a gradient within their rounding of α is none."""
    if abs(gradient) - reg_alpha < FLOAT32_ROUNDING * reg_alpha:
        gradient = 0.0
    return constrained_value(gradient, curvature, reg_alpha, low, high)


@kernel(allocates=True)
def solve_constrained_node(k, sums, reg_lambda, reg_alpha, low, high, damped, out):
    """Values (k,) of a node into ``out``; returns its score."""
    for j in range(k):
        a = max(sums[1 + k + j], 0.0) + reg_lambda
        out[j] = _searched_value(sums[1 + j], a, reg_alpha, low[j], high[j])
    rest = np.zeros_like(sums)
    scalable = _holds_zero(low, high)
    return _score(k, sums, 1.0, rest, out, reg_lambda, reg_alpha, damped, scalable)


@kernel
def value_constrained_node(
    k, sums, reg_lambda, reg_alpha, low, high, damped, out, score, index
):  # fmt: skip
    """``solve_constrained_node`` with its score in ``score[index]``."""
    score[index] = solve_constrained_node(
        k, sums, reg_lambda, reg_alpha, low, high, damped, out
    )  # fmt: skip


@kernel
def solve_constrained_pair(
    k, sums, total, direction, reg_lambda, reg_alpha, low, high, out_left, out_right
):
    """Values of two children, ``sums`` and ``total - sums``, in the order of ``direction``.

    direction : 1 (left ≤ right in every score), -1, or 0 (any).
    """
    for j in range(k):
        g_left, h_left = sums[1 + j], max(sums[1 + k + j], 0.0) + reg_lambda
        g_right = total[1 + j] - sums[1 + j]
        h_right = max(total[1 + k + j] - sums[1 + k + j], 0.0) + reg_lambda
        out_left[j] = _searched_value(g_left, h_left, reg_alpha, low[j], high[j])
        out_right[j] = _searched_value(g_right, h_right, reg_alpha, low[j], high[j])
        if direction * (out_right[j] - out_left[j]) < 0.0:
            common = _searched_value(
                g_left + g_right, h_left + h_right, 2.0 * reg_alpha, low[j], high[j]
            )
            out_left[j] = common
            out_right[j] = common


@kernel(allocates=True)
def evaluate_constrained(n, prefixes, total, settings, reg_lambda, direction, low, high, scores):
    """Scores (n,) of candidate splits, the sums of both children."""
    k = settings.k
    left = np.empty(k)
    right = np.empty(k)
    nothing = np.zeros_like(total)
    scalable = _holds_zero(low, high)
    penalties = (reg_lambda, settings.reg_alpha)
    for c in range(n):
        solve_constrained_pair(
            k, prefixes[c], total, direction, *penalties, low, high, left, right
        )  # fmt: skip
        scores[c] = _score(
            k, prefixes[c], 1.0, nothing, left, *penalties, settings.damped, scalable
        ) + _score(k, prefixes[c], -1.0, total, right, *penalties, settings.damped, scalable)


@kernel(allocates=True)
def constrained_directions(
    layout, gradient, curvature, x, reg_lambda, reg_alpha, low, high, out, slope, second
):
    """Steps to the minima of penalised quadratic models inside bounds.

    Parameters
    ----------
    gradient, x, low, high, out : (L, k) float64; curvature : (L, m), packed.
    slope : (L,), output: minus the directional derivative of the penalised model along
        the step, with the penalty's own change in place of its derivative.
    second : (L,), output: the model's curvature along the step, λ included.
    """
    k = x.shape[1]
    matrix = np.empty((k, k))
    r = np.empty(k)  # derivative of the smooth part at z
    z = np.empty(k)
    for leaf in range(x.shape[0]):
        _unpack_ridge(layout, curvature[leaf], reg_lambda, matrix)
        for j in range(k):
            z[j] = x[leaf, j]
            r[j] = gradient[leaf, j] + reg_lambda * x[leaf, j]
        _minimise(layout, matrix, r, z, reg_alpha, low[leaf], high[leaf])
        if layout == LAPLACIAN and reg_lambda == 0.0 and reg_alpha == 0.0:
            _centre(z, low[leaf], high[leaf])
        down = 0.0
        curved = 0.0
        for j in range(k):
            d = z[j] - x[leaf, j]
            out[leaf, j] = d
            g = gradient[leaf, j] + reg_lambda * x[leaf, j]
            down -= g * d + reg_alpha * (abs(z[j]) - abs(x[leaf, j]))
            curved += d * (r[j] - g)  # r = g + (A + λI) d
        slope[leaf] = down
        second[leaf] = curved


@kernel(allocates=True)
def _minimise(layout, matrix, r, z, reg_alpha, low, high):
    """Move z to the minimum of the penalised model inside the bounds, keeping r.

    Sweeps over the coordinates find the scores that stay at a bound or at the kink of the
    penalty; a Newton step on the others spares the many sweeps that scores tied to each
    other would take. The model falls with each of both, so that z is no worse than its
    start even where they end before they have converged.
    """
    k = z.shape[0]
    if layout == DIAGONAL:
        _sweep(layout, matrix, r, z, reg_alpha, low, high)
        return
    factor = np.empty((min(k, MAX_LEAP), min(k, MAX_LEAP)))
    for _ in range(int(min(max(CD_WORK / (k * k), 10.0), MAX_SWEEPS))):
        moved = _sweep(layout, matrix, r, z, reg_alpha, low, high)
        largest = 0.0
        for j in range(k):
            largest = max(largest, abs(z[j]))
        if moved <= CD_TOLERANCE * largest:
            break
        if k <= MAX_LEAP:
            _leap(matrix, r, z, reg_alpha, low, high, factor)


@kernel
def _sweep(layout, matrix, r, z, reg_alpha, low, high):
    """One pass over the coordinates; the largest move."""
    k = z.shape[0]
    moved = 0.0
    for j in range(k):
        a = matrix[j, j]
        if a <= TINY_CURVATURE:
            goal = min(max(z[j], low[j]), high[j])
        else:
            goal = constrained_value(r[j] - a * z[j], a, reg_alpha, low[j], high[j])
        step = goal - z[j]
        if step == 0.0:
            continue
        z[j] = goal
        moved = max(moved, abs(step))
        if layout == DIAGONAL:
            r[j] += a * step
        else:
            for i in range(k):
                r[i] += matrix[i, j] * step
    return moved


@kernel(allocates=True)
def _leap(matrix, r, z, reg_alpha, low, high, factor):
    """A Newton step of the free scores together, up to where the first one is held."""
    k = z.shape[0]
    free = np.empty(k, np.int64)
    step = np.empty(k)
    scale = reg_alpha
    n = 0
    for j in range(k):
        scale = max(scale, abs(r[j]) + matrix[j, j] * abs(z[j]))
        if low[j] < z[j] < high[j] and (reg_alpha == 0.0 or z[j] != 0.0):
            free[n] = j
            step[n] = -r[j] - (math.copysign(reg_alpha, z[j]) if reg_alpha > 0.0 else 0.0)
            n += 1
    if n < 2:
        return
    for a in range(n):
        for b in range(a + 1):
            factor[a, b] = matrix[free[a], free[b]]
    _solve_semidefinite(factor, step, n, 1e-10 * scale)
    length = 1.0
    held = -1
    wall = 0.0
    for a in range(n):
        j = free[a]
        bound = high[j] if step[a] > 0.0 else low[j]
        if reg_alpha > 0.0 and step[a] * z[j] < 0.0:  # the kink lies ahead
            bound = max(low[j], 0.0) if z[j] > 0.0 else min(high[j], 0.0)
        if abs(length * step[a]) > abs(bound - z[j]):
            length = (bound - z[j]) / step[a]
            held = j
            wall = bound
    for a in range(n):
        j = free[a]
        move = wall - z[j] if j == held else length * step[a]
        z[j] = wall if j == held else min(max(z[j] + move, low[j]), high[j])
        for i in range(k):
            r[i] += matrix[i, j] * move


@kernel
def _solve_semidefinite(factor, b, n, noise):
    """b becomes a solution of M b' = b, M the lower triangle of ``factor``, overwritten.

    A pivot that vanishes but for rounding belongs to a direction in which the model does
    not bend: with a slope beyond ``noise`` the step along it is long, else there is none.
    """
    for j in range(n):
        pivot = factor[j, j]
        rest = b[j]
        for l in range(j):
            pivot -= factor[j, l] * factor[j, l]
            rest -= factor[j, l] * b[l]
        floor = max(1e-13 * factor[j, j], TINY_CURVATURE)
        if pivot <= floor:
            pivot = floor if abs(rest) > noise else math.inf
        factor[j, j] = math.sqrt(pivot)
        b[j] = rest / factor[j, j]
        for i in range(j + 1, n):
            total = factor[i, j]
            for l in range(j):
                total -= factor[i, l] * factor[j, l]
            factor[i, j] = total / factor[j, j]
    for i in range(n - 1, -1, -1):
        total = b[i]
        for l in range(i + 1, n):
            total -= factor[l, i] * b[l]
        b[i] = total / factor[i, i]


@kernel
def _centre(z, low, high):
    """Shift all scores towards a mean of zero, as far as the bounds allow."""
    shift = -z.mean()
    least = -math.inf
    most = math.inf
    for j in range(z.shape[0]):
        least = max(least, low[j] - z[j])
        most = min(most, high[j] - z[j])
    shift = min(max(shift, least), most)
    for j in range(z.shape[0]):
        z[j] = min(max(z[j] + shift, low[j]), high[j])


@kernel
def _unpack_ridge(layout, curvature, reg_lambda, out):
    """A + λI as a full matrix; of a diagonal one only the diagonal is written."""
    k = out.shape[0]
    if layout == DIAGONAL:
        for j in range(k):
            out[j, j] = curvature[j] + reg_lambda
        return
    for i in range(k):
        for j in range(k):
            out[i, j] = 0.0
        out[i, i] = reg_lambda
    for i in range(k):
        if layout != LAPLACIAN:
            out[i, i] += curvature[packed_index(i, i, k)]
        for j in range(i + 1, k):
            if layout == LAPLACIAN:
                weight = curvature[edge_index(i, j, k)]
                out[i, j] = out[j, i] = -weight
                out[i, i] += weight
                out[j, j] += weight
            else:
                out[i, j] = out[j, i] = curvature[packed_index(i, j, k)]
