"""The k×k systems of one node, in float64.

The true Hessian of softmax is the Laplacian of a complete graph, and so is
λ(I - 11ᵀ/k): on vectors that sum to zero, A + λI acts as the Laplacian with the
edge weights p_i p_j + λ/k. Eliminating a vertex of a Laplacian adds positive
weights to the other edges and subtracts nothing: no digit is lost, for any λ ≥ 0
and however small some probabilities are. One class is the reference; the solution is
centred afterwards.

The reference never shows its own gradient: it gets whatever the others leave, their
rounding too. So it must be a class whose curvature can take that, the heaviest one. A
class that has all but vanished would answer the rounding with an enormous step.
"""

from __future__ import annotations

import math

from .compile import kernel
from .simd import add_scaled

LAPLACIAN = 0
DENSE = 1
DIAGONAL = 2

TINY_PIVOT = 1e-290  # below, a direction carries no information: no step along it
PIVOT_TOLERANCE = 1e-13  # of a dense matrix, relative to its diagonal entry
MAX_RANGE = 1e100  # steps beyond are scaled down, so that nothing overflows


@kernel
def edge_index(i, j, k):
    """Place of edge (i, j), i < j, in the packed rows of the upper triangle."""
    return i * (k - 1) - i * (i - 1) // 2 + (j - i - 1)


@kernel
def packed_index(i, j, k):
    """Place of entry (i, j), i <= j, in the packed rows including the diagonal."""
    return i * k - i * (i - 1) // 2 + (j - i)


@kernel
def heaviest_class(edges, k):
    """The class with the largest sum of edge weights, and that sum."""
    best = k - 1
    most = -1.0
    for j in range(k - 1, -1, -1):
        degree = 0.0
        entry = j - 1  # of edge (0, j)
        for i in range(j):
            degree += edges[entry]
            entry += k - 2 - i
        entry = edge_index(j, j + 1, k)
        for i in range(k - 1 - j):
            degree += edges[entry + i]
        if degree > most:
            best = j
            most = degree
    return best, most


@kernel
def exchange_edges(edges, c, k):
    """Let class c and the last one change places."""
    for i in range(k - 1):
        if i != c:
            one = edge_index(min(i, c), max(i, c), k)
            other = edge_index(i, k - 1, k)
            weight = edges[one]
            edges[one] = edges[other]
            edges[other] = weight


@kernel
def solve_laplacian(edges, b, reg_lambda, x):
    """Centred solution of (A + λI) x = b for b summing to zero; returns b·x.

    Parameters
    ----------
    edges : (k(k-1)/2,) float64 weights p_i p_j, i < j row by row; destroyed.
    b : (k,) float64, destroyed.
    x : (k,) float64, output.
    """
    k = b.shape[0]
    if k == 1:
        x[0] = 0.0
        return 0.0
    reference, _ = heaviest_class(edges, k)
    exchange_edges(edges, reference, k)
    last = b[reference]
    b[reference] = b[k - 1]
    b[k - 1] = last
    for e in range(edges.shape[0]):
        edges[e] += reg_lambda / k
    value = 0.0
    for i in range(k - 1):
        row_i = edge_index(i, i + 1, k)
        pivot = 0.0
        for e in range(row_i, row_i + k - 1 - i):
            pivot += edges[e]
        inverse = 1.0 / pivot if pivot > TINY_PIVOT else 0.0
        x[i] = inverse
        value += b[i] * b[i] * inverse
        for j in range(i + 1, k):
            factor = edges[row_i + j - i - 1] * inverse
            b[j] += factor * b[i]
            row_j = edge_index(j, j + 1, k)
            add_scaled(edges, row_j, row_i + j - i, k - 1 - j, factor)
    x[k - 1] = 0.0
    mean = 0.0
    for i in range(k - 2, -1, -1):
        row_i = edge_index(i, i + 1, k)
        total = b[i]
        for j in range(i + 1, k):
            total += edges[row_i + j - i - 1] * x[j]
        x[i] *= total
        mean += x[i]
    mean /= k
    for i in range(k):
        x[i] -= mean
    last = x[reference]
    x[reference] = x[k - 1]
    x[k - 1] = last
    return value


@kernel
def solve_dense(packed, b, reg_lambda, x):
    """Solution of (A + λI) x = b by LDLᵀ; returns b·x. Inputs are destroyed.

    A direction whose pivot vanishes (a singular or indefinite matrix) gets no step.
    """
    k = b.shape[0]
    value = 0.0
    for i in range(k):
        x[i] = packed[packed_index(i, i, k)]  # the diagonal before elimination
        packed[packed_index(i, i, k)] += reg_lambda
    for i in range(k):
        row_i = packed_index(i, i, k)
        pivot = packed[row_i]
        floor = max(PIVOT_TOLERANCE * (abs(x[i]) + reg_lambda), TINY_PIVOT)
        inverse = 1.0 / pivot if pivot > floor else 0.0
        x[i] = inverse
        value += b[i] * b[i] * inverse
        for j in range(i + 1, k):
            factor = packed[row_i + j - i] * inverse
            b[j] -= factor * b[i]
            row_j = packed_index(j, j, k)
            add_scaled(packed, row_j, row_i + j - i, k - j, -factor)
    for i in range(k - 1, -1, -1):
        row_i = packed_index(i, i, k)
        total = b[i]
        for j in range(i + 1, k):
            total -= packed[row_i + j - i] * x[j]
        x[i] *= total
    return value


@kernel
def solve_diagonal(diagonal, b, reg_lambda, x):
    """Solution of (diag + λI) x = b; returns b·x."""
    value = 0.0
    for j in range(b.shape[0]):
        pivot = diagonal[j] + reg_lambda
        x[j] = b[j] / pivot if pivot > TINY_PIVOT else 0.0
        value += b[j] * x[j]
    return value


@kernel
def multiply_curvature(layout, curvature, x, out):
    """out = A x for a packed curvature of any layout."""
    k = x.shape[0]
    if layout == DIAGONAL:
        for j in range(k):
            out[j] = curvature[j] * x[j]
        return
    for j in range(k):
        out[j] = 0.0
    if layout == LAPLACIAN:
        for i in range(k):
            for j in range(i + 1, k):
                flow = curvature[edge_index(i, j, k)] * (x[i] - x[j])
                out[i] += flow
                out[j] -= flow
        return
    for i in range(k):
        out[i] += curvature[packed_index(i, i, k)] * x[i]
        for j in range(i + 1, k):
            entry = curvature[packed_index(i, j, k)]
            out[i] += entry * x[j]
            out[j] += entry * x[i]


@kernel
def trace_of(layout, k, sums, first):
    """Trace of the packed curvature that starts at ``sums[first]``."""
    total = 0.0
    if layout == LAPLACIAN:
        for e in range(k * (k - 1) // 2):
            total += 2.0 * sums[first + e]
    elif layout == DIAGONAL:
        for j in range(k):
            total += sums[first + j]
    else:
        for j in range(k):
            total += sums[first + packed_index(j, j, k)]
    return total


@kernel
def guaranteed_share(beta):
    """h(β) = 2((1+β)ln(1+β) - β)/β²: the guaranteed part of the quadratic decrease."""
    if beta < 1.0:  # the same in s = β/(2+β), without cancellation
        s = beta / (2.0 + beta)
        z = s * s
        tail = 1 / 3 + z * (
            1 / 5
            + z
            * (
                1 / 7
                + z
                * (
                    1 / 9
                    + z
                    * (1 / 11 + z * (1 / 13 + z * (1 / 15 + z * (1 / 17 + z * (1 / 19 + z / 21)))))
                )
            )
        )
        return (1.0 - s) * (1.0 + (1.0 + s) * s * tail)
    return 2.0 * ((1.0 + beta) * math.log1p(beta) - beta) / (beta * beta)


@kernel
def damped_step(beta):
    """t = ln(1 + β)/β, the length that minimises the bound along a Newton direction."""
    return math.log1p(beta) / beta if beta > 1e-12 else 1.0


@kernel
def capped_score(q, beta, t):
    """Score of the step t·d, t below the best one, in the hosts' scale."""
    if beta < 1e-4:
        return q * (2.0 * t - t * t - beta * t**3 / 3.0)
    return 2.0 * q * (t - (math.expm1(beta * t) - beta * t) / (beta * beta))


@kernel
def solve_node(
    layout, k, statistics, center, reg_lambda, damped, max_delta_step, curvature, b, x
):  # fmt: skip
    """Newton direction, step length and score of a node.

    Parameters
    ----------
    statistics : (width,) float64 sums [count | gradient | curvature].
    center : (k,) the value around which the node is solved (path prior), or zeros.
    curvature, b : scratch, (at least width - 1 - k,) and (k,) float64.
    x : (k,) float64, output: the step t·d, to be added to ``center``.

    Returns
    -------
    score : float64, twice the (guaranteed, if damped) decrease of the loss.
    """
    multiply_curvature(layout, statistics[1 + k :], center, b)
    for j in range(k):
        b[j] = -statistics[1 + j] - b[j]
    for e in range(statistics.shape[0] - 1 - k):
        curvature[e] = statistics[1 + k + e]
    if layout == LAPLACIAN:
        q = solve_laplacian(curvature[: k * (k - 1) // 2], b, reg_lambda, x)
    elif layout == DENSE:
        q = solve_dense(curvature, b, reg_lambda, x)
    else:
        q = solve_diagonal(curvature, b, reg_lambda, x)
    low = high = x[0]
    for j in range(1, k):
        low = min(low, x[j])
        high = max(high, x[j])
    beta = high - low if damped else 0.0
    if not high - low < MAX_RANGE or not q < MAX_RANGE:
        for j in range(k):
            x[j] = 0.0  # beyond what floating point can follow: no step, no gain
        return 0.0
    t = damped_step(beta)
    largest = max(high, -low)
    if max_delta_step > 0.0 and t * largest > max_delta_step:
        t = max_delta_step / largest
        score = capped_score(q, beta, t)
    else:
        score = q * guaranteed_share(beta)
    for j in range(k):
        x[j] *= t
    return score


@kernel
def value_free_node(
    layout, k, statistics, center, reg_lambda, damped, max_delta_step, curvature, b, x, score, index
):  # fmt: skip
    """``solve_node`` with its score in ``score[index]``."""
    score[index] = solve_node(
        layout, k, statistics, center, reg_lambda, damped, max_delta_step, curvature, b, x
    )  # fmt: skip
