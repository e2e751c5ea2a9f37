"""Newton directions of leaves, alone or tied along the tree."""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .solve import (
    DENSE,
    DIAGONAL,
    LAPLACIAN,
    edge_index,
    multiply_curvature,
    packed_index,
    solve_dense,
    solve_diagonal,
    solve_laplacian,
)


@kernel
def newton_direction(layout, gradient, curvature, x, reg_lambda, packed, b, out):
    """out = -(A + λI)⁻¹(g + λx) of one leaf; ``packed`` (m,) and ``b`` (k,) are scratch."""
    for j in range(b.shape[0]):
        b[j] = -gradient[j] - reg_lambda * x[j]
    for e in range(packed.shape[0]):
        packed[e] = curvature[e]
    if layout == LAPLACIAN:
        solve_laplacian(packed, b, reg_lambda, out)
    elif layout == DENSE:
        solve_dense(packed, b, reg_lambda, out)
    else:
        solve_diagonal(packed, b, reg_lambda, out)


@kernel(allocates=True)
def newton_directions(layout, gradient, curvature, x, reg_lambda, out):
    """out[i] = -(A_i + λI)⁻¹(g_i + λx_i) of every leaf.

    gradient, x, out : (L, k) float64; curvature : (L, m) float64, packed as ``layout``
    says.
    """
    b = np.empty(x.shape[1])
    packed = np.empty(curvature.shape[1])
    for leaf in range(x.shape[0]):
        newton_direction(
            layout, gradient[leaf], curvature[leaf], x[leaf], reg_lambda, packed, b, out[leaf]
        )


@kernel(allocates=True)
def curvature_along(layout, curvature, direction):
    """dᵀ A d of one leaf."""
    product = np.empty(direction.shape[0])
    multiply_curvature(layout, curvature, direction, product)
    return (product * direction).sum()


@kernel
def _unpack(layout, curvature, out):
    """The full k×k matrix of a packed curvature."""
    k = out.shape[0]
    out[:, :] = 0.0
    for i in range(k):
        if layout == DIAGONAL:
            out[i, i] = curvature[i]
            continue
        if layout == DENSE:
            out[i, i] = curvature[packed_index(i, i, k)]
        for j in range(i + 1, k):
            if layout == LAPLACIAN:
                weight = curvature[edge_index(i, j, k)]
                out[i, j] = out[j, i] = -weight
                out[i, i] += weight
                out[j, j] += weight
            else:
                out[i, j] = out[j, i] = curvature[packed_index(i, j, k)]


@kernel(fastmath={"reassoc", "contract"})
def _factor(matrix):
    """LLᵀ of a positive definite matrix, in its lower triangle."""
    k = matrix.shape[0]
    for j in range(k):
        for i in range(j, k):
            total = matrix[i, j]
            for l in range(j):
                total -= matrix[i, l] * matrix[j, l]
            if i == j:
                matrix[j, j] = np.sqrt(max(total, 1e-300))
            else:
                matrix[i, j] = total / matrix[j, j]


@kernel
def _solve_factored(factor, b):
    """b becomes the solution of L Lᵀ x = b."""
    k = factor.shape[0]
    for i in range(k):
        total = b[i]
        for l in range(i):
            total -= factor[i, l] * b[l]
        b[i] = total / factor[i, i]
    for i in range(k - 1, -1, -1):
        total = b[i]
        for l in range(i + 1, k):
            total -= factor[l, i] * b[l]
        b[i] = total / factor[i, i]


@kernel
def _solve_rows(factor, b):
    """b (k, k) becomes the solution of L Lᵀ X = b, all columns at once along its rows."""
    k = factor.shape[0]
    for i in range(k):
        for l in range(i):
            entry = factor[i, l]
            for c in range(k):
                b[i, c] -= entry * b[l, c]
        inverse = 1.0 / factor[i, i]
        for c in range(k):
            b[i, c] *= inverse
    for i in range(k - 1, -1, -1):
        for l in range(i + 1, k):
            entry = factor[l, i]
            for c in range(k):
                b[i, c] -= entry * b[l, c]
        inverse = 1.0 / factor[i, i]
        for c in range(k):
            b[i, c] *= inverse


@kernel(allocates=True)
def sweep_path_prior(layout, parent, leaf, gradient, curvature, x, reg_lambda, out):
    """Maximum a posteriori of all node values under the path prior.

    Minimises Σ_leaves (½ zᵀA z - zᵀ(A x - g)) + λ/2 Σ_v ‖z_v - z_parent(v)‖², the
    root's parent being zero: one sweep from the leaves up, one down.

    Parameters
    ----------
    parent : (n_nodes,) int32, -1 at the root; parents stand before children.
    leaf : (n_nodes,) int32 leaf index, -1 at a split.
    gradient, x : (n_leaves, k) float64; curvature : (n_leaves, m) float64 at x.
    out : (n_nodes, k) float64, output z.
    """
    n_nodes = parent.shape[0]
    k = x.shape[1]
    matrix = np.zeros((n_nodes, k, k))  # A of a node, then the factor of A + λI
    vector = np.zeros((n_nodes, k))
    message = np.empty(k)
    product = np.empty(k)
    for v in range(n_nodes - 1, -1, -1):
        if leaf[v] >= 0:
            _unpack(layout, curvature[leaf[v]], matrix[v])
            multiply_curvature(layout, curvature[leaf[v]], x[leaf[v]], product)
            vector[v] = product - gradient[leaf[v]]
            if layout == LAPLACIAN:  # sums to zero but for rounding, which 1/λ would blow up
                vector[v] -= vector[v].mean()
        original = matrix[v].copy()
        for j in range(k):
            matrix[v, j, j] += reg_lambda
        _factor(matrix[v])
        if v == 0:
            break
        up = parent[v]
        message[:] = vector[v]
        _solve_factored(matrix[v], message)
        for j in range(k):
            vector[up, j] += reg_lambda * message[j]
        _solve_rows(matrix[v], original)
        for i in range(k):  # λ (A + λI)⁻¹ A, symmetric
            for j in range(k):
                matrix[up, i, j] += reg_lambda * original[i, j]
    for v in range(n_nodes):
        out[v] = vector[v]
        if v > 0:
            for j in range(k):
                out[v, j] += reg_lambda * out[parent[v], j]
        _solve_factored(matrix[v], out[v])
        if layout == LAPLACIAN:
            out[v] -= out[v].mean()
