"""Newton directions of leaves, alone or tied along the tree."""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .simd import add_scaled
from .solve import (
    DENSE,
    DIAGONAL,
    LAPLACIAN,
    PIVOT_TOLERANCE,
    TINY_PIVOT,
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
def _unpack(layout, curvature, k, matrix, at):
    """The full k×k matrix of a packed curvature, row after row from ``matrix[at]`` on."""
    for e in range(at, at + k * k):
        matrix[e] = 0.0
    if layout == LAPLACIAN:
        for i in range(k):
            for j in range(i + 1, k):
                weight = curvature[edge_index(i, j, k)]
                matrix[at + i * k + j] = -weight
                matrix[at + j * k + i] = -weight
                matrix[at + i * k + i] += weight
                matrix[at + j * k + j] += weight
        return
    for i in range(k):
        for j in range(i, k):
            entry = curvature[packed_index(i, j, k)]
            matrix[at + i * k + j] = entry
            matrix[at + j * k + i] = entry


@kernel
def _factor(k, matrix, at, floor):
    """LDLᵀ of a positive definite matrix: Lᵀ with D⁻¹ on its diagonal in the upper triangle.

    A direction whose pivot vanishes gets no step. ``floor`` (k,) is scratch.
    """
    for i in range(k):
        floor[i] = max(PIVOT_TOLERANCE * matrix[at + i * k + i], TINY_PIVOT)
    for i in range(k):
        row_i = at + i * k
        pivot = matrix[row_i + i]
        inverse = 1.0 / pivot if pivot > floor[i] else 0.0
        for j in range(i + 1, k):
            row_j = at + j * k
            add_scaled(matrix, row_j + j, row_i + j, k - j, -matrix[row_i + j] * inverse)
        matrix[row_i + i] = inverse
        for j in range(i + 1, k):
            matrix[row_i + j] *= inverse


@kernel
def _solve_factored(k, matrix, at, b):
    """b becomes the solution of L D Lᵀ x = b."""
    for i in range(k):
        row_i = at + i * k
        for j in range(i + 1, k):
            b[j] -= matrix[row_i + j] * b[i]
    for i in range(k - 1, -1, -1):
        row_i = at + i * k
        b[i] *= matrix[row_i + i]
        for j in range(i + 1, k):
            b[i] -= matrix[row_i + j] * b[j]


@kernel
def _solve_rows(k, matrix, at, b):
    """The k×k matrix from ``matrix[b]`` on becomes the solution of L D Lᵀ X = B.

    All columns at once along its rows: a column at a time has no rows to vectorise.
    """
    for i in range(k):
        for j in range(i + 1, k):
            add_scaled(matrix, b + j * k, b + i * k, k, -matrix[at + i * k + j])
    for i in range(k - 1, -1, -1):
        inverse = matrix[at + i * k + i]
        for c in range(b + i * k, b + i * k + k):
            matrix[c] *= inverse
        for j in range(i + 1, k):
            add_scaled(matrix, b + i * k, b + j * k, k, -matrix[at + i * k + j])


@kernel
def sweep_path_prior(
    layout, parent, leaf, gradient, curvature, x, reg_lambda, matrix, message, out
):  # fmt: skip
    """Maximum a posteriori of all node values under the path prior.

    Minimises Σ_leaves (½ zᵀA z - zᵀ(A x - g)) + λ/2 Σ_v ‖z_v - z_parent(v)‖², the
    root's parent being zero: one sweep from the leaves up, one down.

    Parameters
    ----------
    parent : (n_nodes,) int32, -1 at the root; parents stand before children.
    leaf : (n_nodes,) int32 leaf index, -1 at a split.
    gradient, x : (n_leaves, k) float64; curvature : (n_leaves, m) float64 at x.
    matrix : ((n_nodes + 1) k²,) float64 scratch, of which a diagonal layout uses n_nodes·k.
    message : (k,) float64 scratch.
    out : (n_nodes, k) float64, output z.
    """
    for v in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[v, j] = 0.0
    if layout == DIAGONAL:
        _sweep_diagonal(parent, leaf, gradient, curvature, x, reg_lambda, matrix, out)
        return
    n_nodes, k = out.shape
    size = k * k
    for e in range(n_nodes * size):
        matrix[e] = 0.0
    spare = n_nodes * size
    for v in range(n_nodes - 1, -1, -1):  # A of a node, then the factor of A + λI
        at = v * size
        b = out[v]
        if leaf[v] >= 0:
            _unpack(layout, curvature[leaf[v]], k, matrix, at)
            multiply_curvature(layout, curvature[leaf[v]], x[leaf[v]], b)
            for j in range(k):
                b[j] -= gradient[leaf[v], j]
            if layout == LAPLACIAN:  # sums to zero but for rounding, which 1/λ would blow up
                _centre(b)
        if v > 0:
            for e in range(size):
                matrix[spare + e] = matrix[at + e]
        for j in range(k):
            matrix[at + j * k + j] += reg_lambda
        _factor(k, matrix, at, message)
        if v == 0:
            break
        for j in range(k):
            message[j] = b[j]
        _solve_factored(k, matrix, at, message)
        for j in range(k):
            out[parent[v], j] += reg_lambda * message[j]
        _solve_rows(k, matrix, at, spare)
        add_scaled(matrix, parent[v] * size, spare, size, reg_lambda)  # λ (A + λI)⁻¹ A
    for v in range(n_nodes):
        z = out[v]
        if v > 0:
            for j in range(k):
                z[j] += reg_lambda * out[parent[v], j]
        _solve_factored(k, matrix, v * size, z)
        if layout == LAPLACIAN:
            _centre(z)


@kernel
def _centre(b):
    mean = 0.0
    for j in range(b.shape[0]):
        mean += b[j]
    mean /= b.shape[0]
    for j in range(b.shape[0]):
        b[j] -= mean


@kernel
def _sweep_diagonal(parent, leaf, gradient, curvature, x, reg_lambda, diagonal, out):
    """The same score by score; ``out`` is zero."""
    n_nodes, k = out.shape
    for e in range(n_nodes * k):
        diagonal[e] = 0.0
    for v in range(n_nodes - 1, -1, -1):
        for j in range(k):
            a = diagonal[v * k + j]
            if leaf[v] >= 0:
                a = curvature[leaf[v], j]
                out[v, j] = a * x[leaf[v], j] - gradient[leaf[v], j]
            share = reg_lambda / max(a + reg_lambda, TINY_PIVOT)
            if v > 0:
                out[parent[v], j] += share * out[v, j]
                diagonal[parent[v] * k + j] += share * a
            diagonal[v * k + j] = a
    for v in range(n_nodes):
        for j in range(k):
            total = out[v, j]
            if v > 0:
                total += reg_lambda * out[parent[v], j]
            pivot = diagonal[v * k + j] + reg_lambda
            out[v, j] = total / pivot if pivot > TINY_PIVOT else 0.0
