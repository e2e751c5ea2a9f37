"""Leaves of softmax with many classes, without any k×k matrix.

A product of the true Hessian with a vector costs one sweep over the leaf's
probabilities, Hv = Σ w (p∘v - p (p·v)), so that conjugate gradients, preconditioned
by the diagonal, find the Newton direction in some tens of sweeps of n·k operations.
Summing and factoring the matrix would take n·k²/2 + k³/6.

Of an almost certain row p∘v - p (p·v) is the small difference of large numbers. Taken
relative to the component of the row's likeliest class it is not, and keeps the digits
of the small probabilities, also when these are stored in float32.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .softmax import BLOCK, _load_probabilities, _other_mass

MAX_PRODUCTS = 200  # a step from an unfinished system is still safe, its length is exact
RESIDUAL = 1e-4  # of the Newton system, relative to its right-hand side
SINGLE_STEP_RESIDUAL = 1e-10  # where no later step repairs it
CONVERGED_RANGE = 1e-4  # together with RESIDUAL: values to about 1e-8
MAX_STORED = 1 << 25  # probabilities kept between products (128 MB); beyond, recomputed


@kernel
def _fill_block(raw, start, n, shift, scratch, p, tops, rows):
    for r in range(n):
        rows[r] = start + r
    _load_probabilities(raw, shift, rows[:n], scratch, p, tops)


@kernel
def _likeliest(p):
    """The class of the largest probability."""
    best = 0
    for j in range(p.shape[0]):
        if p[j] > p[best]:
            best = j
    return best


@kernel
def _multiply_hessian(raw, weight, begin, end, x, stored, likeliest, work, v, reg_lambda, out):
    """out = (A + λI) v of a leaf at raw + x.

    stored : (rows, k) float32 probabilities, or (0, k) to compute them again.
    likeliest : (rows,) class of each stored row's largest probability.
    work : buffers of ``_fill_block``.
    """
    k = v.shape[0]
    scratch, p, tops, rows = work
    for j in range(k):
        out[j] = reg_lambda * v[j]
    for start in range(begin, end, BLOCK):
        n = min(BLOCK, end - start)
        keep = stored.shape[0] > 0
        if not keep:
            _fill_block(raw, start, n, x, scratch, p, tops, rows)
        for r in range(n):
            w = weight[start + r]
            mean = 0.0
            if keep:
                q = stored[start - begin + r]
                top = v[likeliest[start - begin + r]]
                for j in range(k):
                    mean += q[j] * (v[j] - top)
                for j in range(k):
                    out[j] += w * q[j] * ((v[j] - top) - mean)
            else:
                top = v[_likeliest(p[r])]
                for j in range(k):
                    mean += p[r, j] * (v[j] - top)
                for j in range(k):
                    out[j] += w * p[r, j] * ((v[j] - top) - mean)


@kernel
def _curvature_along(raw, weight, begin, end, x, work, v, reg_lambda):
    """vᵀ(A + λI)v as a sum of squares, which cannot cancel."""
    k = v.shape[0]
    scratch, p, tops, rows = work
    total = reg_lambda * _dot(v, v)
    for start in range(begin, end, BLOCK):
        n = min(BLOCK, end - start)
        _fill_block(raw, start, n, x, scratch, p, tops, rows)
        for r in range(n):
            top = v[_likeliest(p[r])]
            mean = 0.0
            for j in range(k):
                mean += p[r, j] * (v[j] - top)
            variance = 0.0
            for j in range(k):
                variance += p[r, j] * ((v[j] - top) - mean) ** 2
            total += weight[start + r] * variance
    return total


@kernel
def _linearise(raw, label, weight, begin, end, x, stored, likeliest, work, gradient, diagonal):
    """Gradient and diagonal of the Hessian at raw + x.

    Fills ``stored`` and ``likeliest`` if they have rows.
    """
    k = gradient.shape[0]
    scratch, p, tops, rows = work
    for j in range(k):
        gradient[j] = 0.0
        diagonal[j] = 0.0
    for start in range(begin, end, BLOCK):
        n = min(BLOCK, end - start)
        _fill_block(raw, start, n, x, scratch, p, tops, rows)
        for r in range(n):
            w = weight[start + r]
            y = label[start + r]
            if stored.shape[0] > 0:
                for j in range(k):
                    stored[start - begin + r, j] = p[r, j]
                likeliest[start - begin + r] = _likeliest(p[r])
            for j in range(k):
                diagonal[j] += w * p[r, j] * (1.0 - p[r, j])
            p[r, y] = -_other_mass(p[r], y)
            for j in range(k):
                gradient[j] += w * p[r, j]


@kernel
def _dot(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@kernel(allocates=True)
def _conjugate_gradients(
    raw, weight, begin, end, x, stored, likeliest, work, b, diagonal, reg_lambda, tolerance, step
):
    """Approximate solution of (A + λI) step = b."""
    k = b.shape[0]
    residual = b.copy()
    preconditioned = np.empty(k)
    direction = np.empty(k)
    image = np.empty(k)
    floor = 1e-12 * diagonal.max() + 1e-290
    for j in range(k):
        step[j] = 0.0
        preconditioned[j] = residual[j] / (diagonal[j] + reg_lambda + floor)
        direction[j] = preconditioned[j]
    rho = _dot(residual, preconditioned)
    target = tolerance * tolerance * rho
    for _ in range(min(MAX_PRODUCTS, 2 * k)):
        if not rho > target:
            return
        _multiply_hessian(
            raw, weight, begin, end, x, stored, likeliest, work, direction, reg_lambda, image
        )
        curvature = _dot(direction, image)
        if not curvature > 0.0:
            return
        alpha = rho / curvature
        for j in range(k):
            step[j] += alpha * direction[j]
            residual[j] -= alpha * image[j]
            preconditioned[j] = residual[j] / (diagonal[j] + reg_lambda + floor)
        previous = rho
        rho = _dot(residual, preconditioned)
        for j in range(k):
            direction[j] = preconditioned[j] + rho / previous * direction[j]


@kernel(allocates=True)
def solve_leaf_by_products(
    raw, label, weight, begin, end, reg_lambda, max_steps, damped, max_size, by_range, x
):
    """Newton steps from zero on one leaf's packed rows.

    Parameters
    ----------
    raw, label, weight : packed rows (``pack_rows``), the leaf's from begin to end.
    max_steps : 1 for a single step.
    damped : take the length that is certain not to raise the loss.
    max_size : bound on the range (``by_range``) or the largest component of x; 0: none.
    x : (k,) float64, output.
    """
    k = raw.shape[1]
    n = end - begin
    scratch = np.empty((2, BLOCK * k))
    work = (scratch, scratch[0].reshape(BLOCK, k), np.empty((2, BLOCK)), np.empty(BLOCK, np.int64))
    stored = np.empty((n if n * k <= MAX_STORED else 0, k), np.float32)
    b = np.empty(k)
    diagonal = np.empty(k)
    step = np.empty(k)
    likeliest = np.empty(stored.shape[0], np.int64)
    tolerance = RESIDUAL if max_steps > 1 else SINGLE_STEP_RESIDUAL
    for j in range(k):
        x[j] = 0.0
    for _ in range(max_steps):
        _linearise(raw, label, weight, begin, end, x, stored, likeliest, work, b, diagonal)
        for j in range(k):
            b[j] = -b[j] - reg_lambda * x[j]
        _conjugate_gradients(
            raw,
            weight,
            begin,
            end,
            x,
            stored,
            likeliest,
            work,
            b,
            diagonal,
            reg_lambda,
            tolerance,
            step,
        )
        step -= step.mean()
        slope = _dot(b, step)
        second = _curvature_along(raw, weight, begin, end, x, work, step, reg_lambda)
        low = high = step[0]
        for j in range(k):
            low = min(low, step[j])
            high = max(high, step[j])
        beta = high - low
        if not (slope > 0.0 and second > 0.0 and beta < 1e100):
            return
        t = 1.0
        if damped:
            ratio = slope / second
            t = math.log1p(beta * ratio) / beta if beta > 1e-12 else ratio
        for j in range(k):
            x[j] += t * step[j]
        if _scale_back(x, max_size, by_range) or beta < CONVERGED_RANGE:
            return


@kernel
def _scale_back(x, max_size, by_range):
    """Scale x into its bound; True if it had left it."""
    low = high = x[0]
    for j in range(x.shape[0]):
        low = min(low, x[j])
        high = max(high, x[j])
    size = high - low if by_range else max(high, -low)
    if max_size <= 0.0 or size <= max_size:
        return False
    for j in range(x.shape[0]):
        x[j] *= max_size / size
    return True
