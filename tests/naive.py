"""Slow, obvious oracle of the mathematics: losses, curvatures, node solves, leaves.

Everything is float64 with dense k x k matrices. Splits and growing stand in
``naive_tree.py``, values under an L1 penalty or bounds in ``naive_penalty.py``, the
verification of a finished tree in ``naive_checks.py``.

Symbols: ``g`` (n, k) and ``H`` (n, k, k) are the gradients and curvatures of the
rows with the weights multiplied in; ``A`` (k, k) is a node's summed curvature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Objective = Literal["softmax", "squared_error"]

RCOND = 1e-12  # eigenvalues of a unit-diagonal matrix below this are rounding noise
SMALL = 1e-2  # below it the closed forms of the bound cancel and a series is used


@dataclass(frozen=True)
class NaiveParams:
    """Settings of one tree. Zero means no limit for the ``max_`` fields.

    ``bound`` is "range" where range(d) bounds the third derivative (softmax) and
    "none" where the loss is quadratic. ``max_range`` bounds range(x) of a softmax
    leaf where neither reg_lambda nor max_delta_step does.
    """

    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    min_child_weight: float = 0.0
    min_samples_leaf: int = 1
    min_split_gain: float = 0.0
    max_delta_step: float = 0.0
    split_gain: Literal["guaranteed", "quadratic"] = "guaranteed"
    leaf_solver: Literal["newton", "damped", "exact"] = "exact"
    leaf_prior: Literal["ridge", "path"] = "ridge"
    max_depth: int = 6
    max_leaves: int = 0
    grow_policy: Literal["depthwise", "lossguide"] = "depthwise"
    max_cat_to_onehot: int = 4
    max_cat_threshold: int = 0
    cat_smooth: float = 10.0
    cat_l2: float = 0.0
    min_data_per_group: int = 1
    learning_rate: float = 0.1
    bound: Literal["range", "none"] = "range"
    max_range: float = 30.0

    @property
    def is_constrained(self) -> bool:
        """Whether values have a penalty or bounds score by score."""
        return self.reg_alpha > 0.0 or (self.max_delta_step > 0.0 and self.leaf_prior == "ridge")


class Rows(NamedTuple):
    """Training rows: raw (n, k); y (n,) class labels or (n, k) targets; weight (n,)."""

    objective: Objective
    raw: Array
    y: Array
    weight: Array

    def take(self, rows: Array) -> Rows:
        return Rows(self.objective, self.raw[rows], self.y[rows], self.weight[rows])

    def shift(self, x: Array) -> Rows:
        """The same rows with x (k,) or (n, k) added to the raw scores."""
        return self._replace(raw=self.raw + x)


# Losses and curvatures of single rows


def softmax(raw: Array) -> Array:
    """(..., k) raw scores to probabilities."""
    e = np.exp(raw - raw.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def row_loss(rows: Rows) -> Array:
    """(n,) unweighted losses."""
    if rows.objective == "squared_error":
        return np.asarray(0.5 * ((rows.raw - rows.y) ** 2).sum(axis=1))
    mine = (np.arange(len(rows.y)), rows.y)
    z = rows.raw - rows.raw[mine][:, None]
    top = z.max(axis=1)  # >= 0, the own class has z = 0
    e = np.exp(z - top[:, None])
    with_own = top + np.log(e.sum(axis=1))
    e[mine] = 0.0
    return np.where(top > 0.0, with_own, np.log1p(e.sum(axis=1)))  # exact also near zero


def total_loss(rows: Rows) -> float:
    return float(rows.weight @ row_loss(rows))


def gradient(rows: Rows) -> Array:
    """(n, k) unweighted gradients of the loss with respect to the raw scores."""
    if rows.objective == "squared_error":
        return np.asarray(rows.raw - rows.y)
    g = softmax(rows.raw)
    mine = (np.arange(len(g)), rows.y)
    g[mine] = 0.0
    g[mine] = -g.sum(axis=1)  # p - 1 without cancellation where p is near 1
    return g


def curvature(rows: Rows, kind: str = "full") -> Array:
    """(n, k, k) unweighted curvatures; every kind but "full" is a diagonal matrix."""
    n, k = rows.raw.shape
    if rows.objective == "squared_error":
        return np.broadcast_to(np.eye(k), (n, k, k)).copy()
    p = softmax(rows.raw)
    H = -p[:, :, None] * p[:, None, :]
    H[:, range(k), range(k)] = 0.0
    diagonal = -H.sum(axis=2)  # p (1 - p) without cancellation where p is near 1
    if kind == "full":
        return np.asarray(H + _diagonal_matrices(diagonal))
    h = {
        "diagonal": diagonal,
        "upper_bound": 2.0 * diagonal,
        "scaled_diagonal": k / (k - 1.0) * diagonal,
        "absolute_residual": np.abs(gradient(rows)),
    }[kind]
    return _diagonal_matrices(h)


def _diagonal_matrices(h: Array) -> Array:
    """(n, k) to (n, k, k)."""
    return np.asarray(h[:, :, None] * np.eye(h.shape[1]))


def weighted_stats(rows: Rows, kind: str = "full") -> tuple[Array, Array]:
    """g (n, k) and H (n, k, k) with the weights multiplied in."""
    w = rows.weight
    return w[:, None] * gradient(rows), w[:, None, None] * curvature(rows, kind)


def intercepts(objective: Objective, y: Array, weight: Array, k: int, floor: float = 1e-6) -> Array:
    """(k,) centred logarithms of the weighted class shares, or the weighted means."""
    if objective == "squared_error":
        return np.asarray(weight @ y / weight.sum())
    share = np.bincount(y, weights=weight, minlength=k) / weight.sum()
    logs = np.log(np.maximum(share, floor))
    return np.asarray(logs - logs.mean())


# Layouts of a statistics row: [count | gradient | curvature | zeros]


def _curvature_index(layout: str, k: int) -> tuple[Array, Array]:
    """Row and column of each stored curvature entry."""
    if layout == "laplacian":
        return np.triu_indices(k, 1)
    if layout == "dense":
        return np.triu_indices(k)
    return np.arange(k), np.arange(k)  # "diagonal"


def layout_width(layout: str, k: int) -> int:
    """Numbers of a padded statistics row."""
    used = 1 + k + len(_curvature_index(layout, k)[0])
    return -(-used // 8) * 8


def pack(g: Array, H: Array, layout: str, dtype: Any = np.float32) -> Array:
    """(n, width) statistics rows of weighted g (n, k) and H (n, k, k)."""
    n, k = g.shape
    i, j = _curvature_index(layout, k)
    out = np.zeros((n, layout_width(layout, k)), dtype)
    out[:, 0] = 1.0
    out[:, 1 : 1 + k] = g
    out[:, 1 + k : 1 + k + len(i)] = -H[:, i, j] if layout == "laplacian" else H[:, i, j]
    return out


def unpack(cells: Array, layout: str, k: int) -> tuple[Array, Array, Array]:
    """count (...,), g (..., k) and A (..., k, k) of rows, cells or sums of them."""
    cells = np.asarray(cells, np.float64)
    i, j = _curvature_index(layout, k)
    stored = cells[..., 1 + k : 1 + k + len(i)]
    A = np.zeros((*cells.shape[:-1], k, k))
    A[..., i, j] = A[..., j, i] = -stored if layout == "laplacian" else stored
    if layout == "laplacian":
        A[..., range(k), range(k)] = -A.sum(axis=-1)
    return cells[..., 0], cells[..., 1 : 1 + k], A


# The quadratic model of a node and its guaranteed decrease


def h_factor(beta: Any) -> Array:
    """Share of the quadratic gain that is guaranteed: 2((1+b)ln(1+b)-b)/b**2, h(0) = 1."""
    beta = np.asarray(beta, np.float64)
    near, far = np.minimum(beta, SMALL), np.maximum(beta, SMALL)
    series = sum(2.0 * (-near) ** m / ((m + 1) * (m + 2)) for m in range(10))
    return np.where(beta < SMALL, series, 2.0 * ((1.0 + 1.0 / far) * np.log1p(far) - 1.0) / far)


def damped_step(beta: Any, ratio: Any = 1.0) -> Array:
    """t minimising -c1 t + c2 (e**(bt)-bt-1)/b**2, ratio = c1/c2: ln(1+b ratio)/b."""
    beta, ratio = np.broadcast_arrays(np.asarray(beta, np.float64), ratio)
    u = beta * ratio
    series = ratio * sum((-np.minimum(u, SMALL)) ** m / (m + 1) for m in range(10))
    return np.where(u < SMALL, series, np.log1p(u) / np.where(u < SMALL, 1.0, beta))


def bound_growth(t: Any, beta: Any) -> Array:
    """(e**(bt)-bt-1)/b**2, the bound's growth along a step; t**2/2 at beta = 0."""
    u = np.asarray(beta, np.float64) * t
    near, far = np.minimum(u, SMALL), np.maximum(u, SMALL)
    series = sum(near**m / math.factorial(m + 2) for m in range(10))
    return np.asarray(t**2 * np.where(u < SMALL, series, (np.expm1(far) - far) / far**2))


def pseudo_solve(A: Array, b: Array) -> Array:
    """The least-norm solution of A d = b, A (..., k, k) symmetric PSD, b (..., k).

    A is scaled to a unit diagonal first: weights may span many orders of
    magnitude, and a small diagonal entry is no sign of a singular matrix.
    """
    shape, k = b.shape, b.shape[-1]
    A, b = A.reshape(-1, k, k), b.reshape(-1, k).copy()
    scale = np.sqrt(A[:, range(k), range(k)])
    scale[scale == 0.0] = 1.0
    e, V = np.linalg.eigh(A / (scale[:, :, None] * scale[:, None, :]))
    null = e <= RCOND * k
    bases = {}
    for m in np.flatnonzero(null.any(axis=1)):
        bases[m] = np.linalg.qr(V[m][:, null[m]] / scale[m][:, None])[0]
        b[m] -= bases[m] @ (bases[m].T @ b[m])
    inverse = np.where(null, 0.0, 1.0 / np.where(null, 1.0, e))
    d = np.einsum("mij,mj,mkj,mk->mi", V, inverse, V, b / scale) / scale
    for m, basis in bases.items():
        d[m] -= basis @ (basis.T @ d[m])
    return np.asarray(d.reshape(shape))


class NodeSolution(NamedTuple):
    """d (..., k) Newton step from the parent's value, q = b.d, beta, step t, score."""

    d: Array
    q: Array
    beta: Array
    t: Array
    score: Array


def value_range(d: Array, bound: str) -> Array:
    """beta: how fast the curvature can change along d (..., k)."""
    return np.zeros(d.shape[:-1]) if bound == "none" else d.max(axis=-1) - d.min(axis=-1)


def node_solve(
    g: Array, A: Array, params: NaiveParams, x_parent: Array | None = None
) -> NodeSolution:
    """Solve nodes with summed g (..., k) and A (..., k, k) from the parent's value (k,).

    Under a penalty or bounds, scores that do not interact are solved one by one; with a
    full matrix a step beyond max_delta_step is only scaled back.
    """
    if params.is_constrained and not A[..., ~np.eye(g.shape[-1], dtype=bool)].any():
        return separable_solve(g, np.diagonal(A, axis1=-2, axis2=-1), params)
    b = -g if x_parent is None else -g - A @ x_parent
    k = g.shape[-1]
    size = np.abs(A).max(axis=(-2, -1))
    flat = np.abs(A.sum(axis=-1)).max(axis=-1) <= 1e-12 * size
    level = np.abs(b.sum(axis=-1)) <= 1e-9 * np.abs(b).sum(axis=-1) + 1e-13 * size
    centre = (flat & level)[..., None]  # softmax: b and d are orthogonal to 1 but for rounding
    b = np.where(centre, b - b.mean(axis=-1, keepdims=True), b)
    # On what is orthogonal to 1, this ridge is lambda*I; its null vector is known beforehand.
    ridge = params.reg_lambda * (np.eye(k) - np.where(centre[..., None], 1.0 / k, 0.0))
    d = pseudo_solve(A + ridge, b)
    d = np.where(centre, d - d.mean(axis=-1, keepdims=True), d)
    q = (b * d).sum(axis=-1)
    beta = value_range(d, params.bound)
    if params.split_gain == "quadratic":
        t, full_score = np.ones_like(q), q
    else:
        t, full_score = damped_step(beta), q * h_factor(beta)
    if params.max_delta_step <= 0.0:
        return NodeSolution(d, q, beta, t, full_score)
    t = np.minimum(t, _step_to(d, params.max_delta_step))
    growth = 0.5 * t**2 if params.split_gain == "quadratic" else bound_growth(t, beta)
    return NodeSolution(d, q, beta, t, 2.0 * q * (t - growth))


def separable_solve(
    g: Array, h: Array, params: NaiveParams, low: Any = None, high: Any = None
) -> NodeSolution:
    """Solve nodes with summed g and diagonal curvature h (..., k) inside bounds (k,).

    Without bounds those of max_delta_step hold. Where they leave zero out, the score is
    that of the whole step.
    """
    limit = params.max_delta_step or np.inf
    low = np.full(g.shape[-1], -limit) if low is None else low
    high = np.full(g.shape[-1], limit) if high is None else high
    h = h + params.reg_lambda
    pull = np.sign(-g) * np.maximum(np.abs(g) - params.reg_alpha, 0.0)
    w = np.clip(np.where(h > 0.0, pull / np.where(h > 0.0, h, 1.0), 0.0), low, high)
    slope = (-g * w - params.reg_alpha * np.abs(w)).sum(axis=-1)
    second = (h * w * w).sum(axis=-1)
    beta = value_range(w, params.bound)
    if params.split_gain == "quadratic":
        return NodeSolution(w, slope, beta, np.ones_like(slope), 2.0 * slope - second)
    t = np.ones_like(slope)
    if (low <= 0.0).all() and (high >= 0.0).all():
        ratio = np.maximum(slope, 0.0) / np.where(second > 0.0, second, 1.0)
        t = np.where(second > 0.0, np.minimum(1.0, damped_step(beta, ratio)), 1.0)
    return NodeSolution(w, slope, beta, t, 2.0 * (t * slope - second * bound_growth(t, beta)))


def _step_to(d: Array, limit: float) -> Array:
    """Largest multiple of d (..., k) inside max|d| <= limit."""
    return np.asarray(limit / np.maximum(np.abs(d).max(axis=-1), 1e-300))


# Leaves with the ridge prior


def bound_factor(x: Array, params: NaiveParams, default: bool = True) -> float:
    """The largest factor <= 1 that brings a leaf value (k,) into its bounds.

    These are the box of max_delta_step, or (``default``) the range of a softmax leaf
    that nothing else bounds.
    """
    if params.max_delta_step > 0.0:
        return min(1.0, float(_step_to(x, params.max_delta_step)))
    if not default or params.reg_lambda > 0.0:
        return 1.0
    return min(1.0, params.max_range / max(float(value_range(x, params.bound)), 1e-300))


def leaf_objective(rows: Rows, x: Array, reg_lambda: float, reg_alpha: float = 0.0) -> float:
    """Loss of the leaf with x (k,) added to every score, plus the penalties."""
    penalty = 0.5 * reg_lambda * float(x @ x) + reg_alpha * float(np.abs(x).sum())
    return total_loss(rows.shift(x)) + penalty


def ridge_leaf(rows: Rows, params: NaiveParams, kind: str = "full") -> Array:
    """(k,) value of a leaf, before the learning rate.

    ``kind`` is the curvature of a Newton or damped step; exact leaves have no
    use for a stand-in.
    """
    if params.is_constrained:
        from naive_penalty import penalised_leaf  # it imports this module

        return penalised_leaf(rows, params, kind)
    if params.leaf_solver == "exact":
        return exact_leaf(rows, params)
    g, H = (s.sum(axis=0) for s in weighted_stats(rows, kind))
    free = _without_cap(params)
    d = node_solve(g, H, free).d
    if params.leaf_solver == "newton":
        return d * bound_factor(d, params, default=False)
    c2 = d @ weighted_stats(rows, "full")[1].sum(axis=0) @ d + params.reg_lambda * (d @ d)
    ratio = -(g @ d) / c2 if kind != "full" and c2 > 0.0 else 1.0
    x = float(damped_step(value_range(d, params.bound), ratio)) * d
    return x * bound_factor(x, params)


def _without_cap(params: NaiveParams) -> NaiveParams:
    return NaiveParams(reg_lambda=params.reg_lambda, bound=params.bound)


def exact_leaf(rows: Rows, params: NaiveParams) -> Array:
    """argmin over x (k,) of the leaf objective by damped Newton steps.

    The optimum can lie at infinity or beyond max_delta_step: the iteration ends where
    x leaves its bounds, and x is scaled back into them.
    """
    lam = params.reg_lambda
    x = np.zeros(rows.raw.shape[1])
    for _ in range(500):
        g, H = (s.sum(axis=0) for s in weighted_stats(rows.shift(x)))
        step = node_solve(g + lam * x, H, _without_cap(params))
        x = x + float(step.t) * step.d
        factor = bound_factor(x, params)
        if factor < 1.0:
            return x * factor
        small = np.abs(step.d).max() <= 1e-13 * (1.0 + np.abs(x).max())
        if small or step.q <= 1e-26 * rows.weight.sum():
            break
    return x


# Leaves with the path prior: every node has a value z (k,), a leaf's is its z


def path_sweep(parent: Array, A: Array, b: Array, lam: float) -> Array:
    """z (m, k) by one sweep up and one down; parents stand before children.

    parent (m,), -1 at the root; A (m, k, k) and b (m, k) are the leaves'
    quadratic models, zero at inner nodes.
    """
    A, b, eye = A.copy(), b.copy(), np.eye(b.shape[1])
    for v in range(len(parent) - 1, 0, -1):
        A[parent[v]] += lam * A[v] @ np.linalg.inv(A[v] + lam * eye)
        b[parent[v]] += lam * np.linalg.solve(A[v] + lam * eye, b[v])
    z = np.zeros_like(b)
    for v in range(len(parent)):
        above = z[parent[v]] if v else np.zeros(b.shape[1])
        z[v] = np.linalg.solve(A[v] + lam * eye, b[v] + lam * above)
    return z


def path_precision(parent: Array, lam: float) -> Array:
    """(m, m) matrix P with lam * sum |z_v - z_parent(v)|**2 = trace(z.T P z)."""
    D = np.eye(len(parent))
    D[np.arange(1, len(parent)), parent[1:]] -= 1.0
    return np.asarray(lam * D.T @ D)


def path_dense(parent: Array, A: Array, b: Array, lam: float) -> Array:
    """The same z (m, k) from one dense system over all nodes."""
    m, k = b.shape
    M = np.kron(path_precision(parent, lam), np.eye(k))
    for v in range(m):
        M[v * k : (v + 1) * k, v * k : (v + 1) * k] += A[v]
    return np.asarray(np.linalg.solve(M, b.ravel()).reshape(m, k))


def path_objective(parent: Array, leaves: Mapping[int, Rows], z: Array, lam: float) -> float:
    """Loss of all leaves at z (m, k) plus half the path penalty."""
    loss = sum(total_loss(rows.shift(z[v])) for v, rows in leaves.items())
    return float(loss + 0.5 * np.einsum("vj,vw,wj->", z, path_precision(parent, lam), z))


def _leaf_models(leaves: Mapping[int, Rows], z: Array, kind: str) -> tuple[Array, Array]:
    """A (m, k, k) and b = -g + A z (m, k) of the leaves at z, zero at inner nodes."""
    m, k = z.shape
    A, b = np.zeros((m, k, k)), np.zeros((m, k))
    for v, rows in leaves.items():
        g, A[v] = (s.sum(axis=0) for s in weighted_stats(rows.shift(z[v]), kind))
        b[v] = A[v] @ z[v] - g
    return A, b


def path_leaves(
    parent: Array, leaves: Mapping[int, Rows], params: NaiveParams, kind: str = "full"
) -> Array:
    """z (m, k) of all nodes before the learning rate.

    ``leaves`` maps a leaf's node number to its rows. Without a penalty nothing
    ties the nodes together and every leaf stands alone. Where a leaf leaves its
    bounds, all values are scaled back by one factor: that keeps the joint descent.
    """
    lam, solver = params.reg_lambda, params.leaf_solver
    k = next(iter(leaves.values())).raw.shape[1]
    z = np.zeros((len(parent), k))
    if lam == 0.0:
        for v, rows in leaves.items():
            z[v] = ridge_leaf(rows, params, kind)
        return z
    for _ in range(500 if solver == "exact" else 1):
        A, b = _leaf_models(leaves, z, "full" if solver == "exact" else kind)
        d = path_dense(parent, A, b, lam) - z
        beta = max(float(value_range(d[v], params.bound)) for v in leaves)
        ratio = 1.0
        if solver == "damped" and kind != "full":
            ratio = _path_ratio(parent, leaves, d, b, lam)
        z = z + (1.0 if solver == "newton" else float(damped_step(beta, ratio))) * d
        factor = min(bound_factor(z[v], params) for v in leaves)
        if factor < 1.0:
            return z * factor
        if np.abs(d).max() <= 1e-13 * (1.0 + np.abs(z).max()):
            break
    return z


def _path_ratio(parent: Array, leaves: Mapping[int, Rows], d: Array, b: Array, lam: float) -> float:
    """c1/c2 of a joint step d (m, k) from zero: true slope over true curvature."""
    A_true, _ = _leaf_models(leaves, np.zeros_like(d), "full")
    c1 = float((b * d).sum())
    c2 = np.einsum("vi,vij,vj->", d, A_true, d)
    c2 += np.einsum("vj,vw,wj->", d, path_precision(parent, lam), d)
    return c1 / float(c2) if c2 > 0.0 else 1.0
