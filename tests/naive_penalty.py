"""Slow, obvious oracle of leaf values under an L1 penalty and bounds.

The minimum of a penalised quadratic is found by coordinate descent and one linear system
for the scores that are free; it is never trusted: the conditions of optimality are checked
before it is returned.
"""

from __future__ import annotations

import numpy as np
from naive import (
    Array,
    NaiveParams,
    Rows,
    damped_step,
    leaf_objective,
    value_range,
    weighted_stats,
)

OPTIMAL = 1e-9  # of the slopes that meet in a minimum


def bounds_of(params: NaiveParams, k: int) -> tuple[Array, Array]:
    """(k,) lowest and highest value of a leaf without monotone constraints."""
    limit = np.inf
    if params.max_delta_step > 0.0:
        limit = params.max_delta_step
    elif params.reg_lambda == 0.0 and params.bound == "range":
        limit = params.max_range
    return np.full(k, -limit), np.full(k, limit)


def optimality_gap(slope: Array, x: Array, alpha: float, low: Array, high: Array) -> float:
    """How far x (k,) is from a minimum: the largest slope that leads down and is not barred.

    slope (k,) is that of the smooth part.
    """
    up = slope + np.where(x >= 0.0, alpha, -alpha)  # derivative to the right
    down = -slope + np.where(x <= 0.0, alpha, -alpha)  # and to the left
    gap = np.maximum(np.where(x < high, -up, 0.0), np.where(x > low, -down, 0.0))
    return float(np.maximum(gap, 0.0).max())


def penalised_minimum(
    M: Array, g: Array, alpha: float, low: Array, high: Array, start: Array | None = None
) -> Array:
    """argmin of ½ xᵀMx + gᵀx + alpha |x|₁ in [low, high]; M (k, k) positive semidefinite."""
    k = len(g)
    x = np.clip(np.zeros(k) if start is None else start, low, high)
    scale = np.abs(g).max() + alpha + 1e-300
    for _ in range(2000):
        for j in range(k):
            if M[j, j] <= 0.0:
                continue
            rest = g[j] + M[j] @ x - M[j, j] * x[j]
            pull = np.sign(-rest) * max(abs(rest) - alpha, 0.0)
            x[j] = np.clip(pull / M[j, j], low[j], high[j])
        size = scale + np.abs(M).max() * np.abs(x).max()
        if optimality_gap(g + M @ x, x, alpha, low, high) <= 1e-15 * size:
            break
        x = _with_free_scores_solved(M, g, alpha, low, high, x)
    size = scale + np.abs(M).max() * np.abs(x).max()
    assert optimality_gap(g + M @ x, x, alpha, low, high) <= OPTIMAL * size
    return x


def _with_free_scores_solved(
    M: Array, g: Array, alpha: float, low: Array, high: Array, x: Array
) -> Array:
    """x moved to the minimum over its free scores, or up to where one of them is held."""
    free = (x > low) & (x < high) & ((alpha == 0.0) | (x != 0.0))
    if not free.any():
        return x
    slope = (g + M @ x + alpha * np.sign(x) * (x != 0.0))[free]
    e, V = np.linalg.eigh(M[np.ix_(free, free)])
    flat = e <= 1e-12 * np.abs(M).max()
    along = V.T @ slope
    size = np.abs(g).max() + alpha + np.abs(M).max() * np.abs(x).max()
    d = np.zeros_like(x)
    if np.abs(along[flat]).max(initial=0.0) > 1e-10 * size:  # straight down, to the next wall
        d[free] = -1e30 * V[:, flat] @ along[flat] / size
    else:
        d[free] = -V[:, ~flat] @ (along[~flat] / e[~flat])
    walls = np.where(d > 0.0, high, low)
    if alpha > 0.0:
        walls = np.where(d * x < 0.0, 0.0, walls)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(d != 0.0, (walls - x) / d, np.inf)
    t = min(1.0, float(room.min()))
    moved = x + t * d
    return np.where(room <= t, walls, np.clip(moved, low, high))


def penalised_leaf(rows: Rows, params: NaiveParams, kind: str = "full") -> Array:
    """(k,) value of a leaf before the learning rate, as ``naive.ridge_leaf``."""
    lam, alpha = params.reg_lambda, params.reg_alpha
    k = rows.raw.shape[1]
    low, high = bounds_of(params, k)
    if params.leaf_solver == "exact":
        return _exact(rows, params, low, high)
    g, H = (s.sum(axis=0) for s in weighted_stats(rows, kind))
    z = penalised_minimum(H + lam * np.eye(k), g, alpha, low, high)
    if params.leaf_solver == "newton":
        return z
    c1 = -g @ z - alpha * np.abs(z).sum()
    c2 = z @ weighted_stats(rows)[1].sum(axis=0) @ z + lam * (z @ z)
    if c1 <= 0.0 or c2 <= 0.0:
        return 0.0 * z
    return z * min(1.0, float(damped_step(value_range(z, params.bound), c1 / c2)))


def _exact(rows: Rows, params: NaiveParams, low: Array, high: Array) -> Array:
    """argmin of the penalised loss inside the bounds, by Newton steps and halving."""
    lam, alpha = params.reg_lambda, params.reg_alpha
    x = np.clip(np.zeros(len(low)), low, high)
    for _ in range(300):
        g, H = (s.sum(axis=0) for s in weighted_stats(rows.shift(x)))
        M = H + lam * np.eye(len(x))
        z = penalised_minimum(M, g + lam * x - M @ x, alpha, low, high, start=x)
        before = leaf_objective(rows, x, lam, alpha)
        t = 1.0
        while t > 1e-9 and leaf_objective(rows, x + t * (z - x), lam, alpha) > before:
            t *= 0.5
        if t <= 1e-9:
            break
        x = np.clip(x + t * (z - x), low, high)
        if (
            t == 1.0
            and np.abs(z - x).max() == 0.0
            and leaf_objective(rows, x, lam, alpha) == before
        ):
            break
    return x
