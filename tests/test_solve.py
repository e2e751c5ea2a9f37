"""The k×k systems of one node, against rational arithmetic and against the oracle."""

from __future__ import annotations

from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive import NaiveParams, node_solve, weighted_stats
from strategies import STAND_INS, rows_of, seeds

from fullhess.kernels import solve
from fullhess.kernels.solve import DENSE, DIAGONAL, LAPLACIAN

LAMBDAS = (0.0, 1e-8, 1e-3, 1.0, 100.0)
CODES = {"laplacian": LAPLACIAN, "dense": DENSE, "diagonal": DIAGONAL}
TAME = {"weights": ("ones", "integers"), "scores": ("zero", "moderate")}


def lambdas(minimum=0.0):
    return st.sampled_from([lam for lam in LAMBDAS if lam >= minimum])


def summed(rows, kind="full"):
    g, H = weighted_stats(rows, kind)
    return g.sum(axis=0), H.sum(axis=0)


def packed(g, A, layout):
    """One statistics row [count | g | A] in float64, without padding."""
    k = len(g)
    i, _ = naive._curvature_index(layout, k)
    return naive.pack(g[None], A[None], layout, np.float64)[0, : 1 + k + len(i)]


def curvature_of(A, layout):
    return packed(np.zeros(len(A)), A, layout)[1 + len(A) :]


# The Laplacian in rational arithmetic


def eliminate(matrix, columns):
    """Exact solutions of a system of Fractions, one for each right-hand side."""
    n = len(matrix)
    work = [list(matrix[i]) + [column[i] for column in columns] for i in range(n)]
    for i in range(n):
        pivot = next(r for r in range(i, n) if work[r][i] != 0)
        work[i], work[pivot] = work[pivot], work[i]
        for r in range(n):
            if r != i and work[r][i] != 0:
                factor = work[r][i] / work[i][i]
                work[r] = [a - factor * b for a, b in zip(work[r], work[i], strict=True)]
    return [[work[i][n + c] / work[i][i] for i in range(n)] for c in range(len(columns))]


def exact_laplacian(edges, b, lam):
    """x (k-1,), the last class at zero, its image of |b|, and both values b·x.

    |b| shows how far rounding of b alone can move x.
    """
    k = len(b)
    weight = {}
    for (i, j), edge in zip(zip(*np.triu_indices(k, 1), strict=True), edges, strict=True):
        weight[i, j] = weight[j, i] = Fraction(float(edge)) + Fraction(lam) / k
    L = [
        [
            sum(weight[i, m] for m in range(k) if m != i) if i == j else -weight[i, j]
            for j in range(k - 1)
        ]
        for i in range(k - 1)
    ]
    right = [Fraction(float(value)) for value in b[:-1]]
    size = [abs(value) for value in right]
    x, spread = eliminate(L, [right, size])
    value = sum(r * s for r, s in zip(right, x, strict=True))
    bound = sum(r * s for r, s in zip(size, spread, strict=True))
    return x, spread, value, bound


def permuted(edges, order):
    """The edges with the classes in another order."""
    k = len(order)
    weight = np.zeros((k, k))
    weight[np.triu_indices(k, 1)] = edges
    return (weight + weight.T)[np.ix_(order, order)][np.triu_indices(k, 1)]


@st.composite
def laplacians(draw):
    """Edge weights of one or few rows, of probabilities down to 1e-30, and b ⟂ 1."""
    rng = np.random.default_rng(draw(seeds()))
    k = draw(st.integers(2, 5))
    lowest = draw(st.sampled_from([-1.0, -8.0, -30.0]))
    p = 10.0 ** rng.uniform(lowest, 0, (int(rng.integers(1, 4)), k))
    p /= p.sum(axis=1, keepdims=True)
    i, j = np.triu_indices(k, 1)
    edges = (p[:, i] * p[:, j]).sum(axis=0)
    b = rng.standard_normal(k) * 10.0 ** rng.uniform(lowest, 0, k)
    b[-1] = -b[:-1].sum()
    return edges, b


@settings(max_examples=150)
@given(laplacians(), lambdas())
def test_laplacian_solution_keeps_its_digits_however_small_the_probabilities(problem, lam):
    edges, b = problem
    # As b sums to zero but for rounding, the answer depends on the entry that is not read,
    # that of the heaviest class.
    heaviest, _ = solve.heaviest_class(edges, len(b))
    order = [*np.delete(np.arange(len(b)), heaviest), heaviest]
    exact, spread, value, bound = exact_laplacian(permuted(edges, order), b[order], lam)
    x = np.empty(len(b))
    q = solve.solve_laplacian(edges.copy(), b.copy(), lam, x)
    assert abs(Fraction(q) - value) <= Fraction(1e-13) * bound
    # Elimination subtracts nothing: each component is exact but for the rounding of b
    # (and, after centring, of the largest component).
    largest = max(spread)
    centred = [value - sum(exact) / len(b) for value in [*exact, Fraction(0)]]
    for mine, other in zip(x[order], centred, strict=True):
        assert abs(Fraction(float(mine)) - other) <= Fraction(1e-13) * largest


@given(laplacians())
def test_a_single_pull_is_solved_to_full_relative_precision(problem):
    edges, b = problem
    b = -np.abs(b)  # towards the reference class: nothing cancels
    b[-1] = -b[:-1].sum()
    exact, _, value, _ = exact_laplacian(edges, b, 0.0)
    x = np.empty(len(b))
    q = solve.solve_laplacian(edges.copy(), b.copy(), 0.0, x)
    np.testing.assert_allclose(q, float(value), rtol=1e-14)
    span = [float(component) for component in exact]
    np.testing.assert_allclose(np.ptp(x), max(map(abs, span)), rtol=1e-13)


@pytest.mark.parametrize("vanished", [0, 2, 4])
def test_rounding_of_the_gradient_does_not_move_a_class_that_has_all_but_vanished(vanished):
    p = np.array([0.1, 0.2, 0.3, 0.4])
    p = np.insert(p, vanished, 1e-12)
    i, j = np.triu_indices(5, 1)
    b = np.array([0.3, -0.1, 0.2, -0.4])
    b = np.insert(b + 1e-7, vanished, -1e-12)  # does not sum to zero, as float32 would leave it
    x = np.empty(5)
    solve.solve_laplacian(p[i] * p[j], b, 0.0, x)
    others = np.delete(np.arange(5), vanished)
    reduced = np.linalg.solve((np.diag(p) - np.outer(p, p))[np.ix_(others[:-1], others[:-1])],
                              [0.3, -0.1, 0.2])  # fmt: skip
    np.testing.assert_allclose(x[others] - x[others[-1]], [*reduced, 0.0], atol=1e-5)
    assert np.ptp(x) < 20.0  # its own pull is a step of one


@given(rows_of(**TAME), lambdas(1e-8))
def test_laplacian_dense_and_oracle_solve_the_same_system(rows, lam):
    g, A = summed(rows)
    direct = np.linalg.solve(A + lam * np.eye(len(g)), -(g - g.mean()))
    for layout, solver in (("laplacian", solve.solve_laplacian), ("dense", solve.solve_dense)):
        x = np.empty(len(g))
        q = solver(curvature_of(A, layout), -(g - g.mean()), lam, x)
        room = 1e-14 * np.abs(A).max() / lam * np.abs(direct).max() + 1e-12 / lam * 1e-4
        assert np.abs(x - direct).max() <= 1e-9 * np.abs(direct).max() + room
        np.testing.assert_allclose(q, -g @ x, rtol=1e-7, atol=1e-12)


@given(rows_of(**TAME))
def test_without_a_ridge_dropping_a_class_and_centring_give_one_solution(rows):
    g, A = summed(rows)
    reduced = np.append(np.linalg.solve(A[:-1, :-1], -g[:-1]), 0.0)
    x = np.empty(len(g))
    q = solve.solve_laplacian(curvature_of(A, "laplacian"), -g, 0.0, x)
    size = np.abs(reduced).max() + 1e-9
    assert np.abs(x - (reduced - reduced.mean())).max() <= 1e-8 * size
    assert abs(x.sum()) <= 1e-13 * np.abs(x).sum()
    np.testing.assert_allclose(q, -g[:-1] @ reduced[:-1], rtol=1e-8, atol=1e-12)


def test_one_class_alone_has_no_step():
    x = np.full(1, np.nan)
    assert solve.solve_laplacian(np.empty(0), np.ones(1), 0.0, x) == 0.0 and x[0] == 0.0


# The dense and the diagonal layout


@given(seeds(), st.integers(1, 8), lambdas())
def test_dense_solution_solves_positive_definite_systems(seed, k, lam):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((k, k + 3)) * 10.0 ** rng.uniform(-3, 3, (k, 1))
    A, b = root @ root.T, rng.standard_normal(k)
    x = np.empty(k)
    q = solve.solve_dense(curvature_of(A, "dense"), b.copy(), lam, x)
    expected = np.linalg.solve(A + lam * np.eye(k), b)
    np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(q, b @ expected, rtol=1e-6, atol=1e-12 * np.abs(b @ expected))


@given(seeds(), st.integers(2, 8), st.data())
def test_dense_solution_of_a_singular_system_is_a_solution(seed, k, data):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((k, data.draw(st.integers(1, k - 1))))
    A = root @ root.T
    b = A @ rng.standard_normal(k)
    x = np.empty(k)
    q = solve.solve_dense(curvature_of(A, "dense"), b.copy(), 0.0, x)
    assume(np.linalg.cond(root) < 30)  # else a small pivot is no sign of a singular matrix
    np.testing.assert_allclose(A @ x, b, atol=1e-6 * np.abs(b).max())
    np.testing.assert_allclose(q, b @ x, rtol=1e-6)


def test_a_direction_of_negative_curvature_gets_no_step():
    x = np.empty(2)
    q = solve.solve_dense(np.array([2.0, 0.0, -1.0]), np.array([1.0, 1.0]), 0.0, x)
    assert x.tolist() == [0.5, 0.0] and q == 0.5


@given(rows_of(("softmax", "squared_error")), st.sampled_from(STAND_INS), lambdas(1e-8))
def test_diagonal_solution_is_componentwise(rows, kind, lam):
    g, A = summed(rows, kind)
    x = np.empty(len(g))
    q = solve.solve_diagonal(np.diag(A).copy(), -g, lam, x)
    np.testing.assert_allclose(x, -g / (np.diag(A) + lam), rtol=1e-14)
    np.testing.assert_allclose(q, (g**2 / (np.diag(A) + lam)).sum(), rtol=1e-13)


def test_no_curvature_and_no_ridge_give_no_step():
    x = np.empty(2)
    assert solve.solve_diagonal(np.array([0.0, 4.0]), np.array([1.0, 2.0]), 0.0, x) == 1.0
    assert x.tolist() == [0.0, 0.5]


@given(rows_of(), st.sampled_from(["laplacian", "dense", "diagonal"]), seeds())
def test_product_with_the_curvature_and_trace_are_those_of_the_unpacked_matrix(rows, layout, seed):
    g, A = summed(rows, "full" if layout != "diagonal" else "upper_bound")
    x, out = np.random.default_rng(seed).standard_normal(len(g)), np.empty(len(g))
    solve.multiply_curvature(CODES[layout], curvature_of(A, layout), x, out)
    np.testing.assert_allclose(out, A @ x, rtol=1e-9, atol=1e-13 * np.abs(A).sum())
    row = packed(g, A, layout)
    trace = solve.trace_of(CODES[layout], len(g), row, 1 + len(g))
    np.testing.assert_allclose(trace, np.trace(A), rtol=1e-12)


def test_packed_places_are_those_of_numpy():
    for k in (1, 2, 5, 9):
        dense = [solve.packed_index(i, j, k) for i, j in zip(*np.triu_indices(k), strict=True)]
        edges = [solve.edge_index(i, j, k) for i, j in zip(*np.triu_indices(k, 1), strict=True)]
        assert dense == list(range(len(dense))) and edges == list(range(len(edges)))


# The bound along a step


def test_share_and_length_of_a_damped_step_follow_their_formulas():
    betas = np.concatenate([[0.0], np.logspace(-14, 60, 2000), [0.999999, 1.0, 1.000001]])
    share = np.array([solve.guaranteed_share(beta) for beta in betas])
    length = np.array([solve.damped_step(beta) for beta in betas])
    np.testing.assert_allclose(share, naive.h_factor(betas), rtol=1e-11)
    np.testing.assert_allclose(length, naive.damped_step(betas), rtol=1e-12)
    assert share[0] == length[0] == 1.0


@given(st.floats(0, 1e6), st.floats(1e-3, 1.0), st.floats(1e-6, 1e6))
def test_score_of_a_shortened_step_is_the_bound_at_its_length(beta, part, q):
    t = part * float(naive.damped_step(beta))
    expected = 2.0 * q * (t - naive.bound_growth(t, beta))
    np.testing.assert_allclose(solve.capped_score(q, beta, t), expected, rtol=1e-8)


# Whole nodes


def scratch(k):
    return np.full(k * (k + 1) // 2, np.nan), np.full(k, np.nan)


def solved(layout, g, A, center, params):
    k = len(g)
    x = np.empty(k)
    damped = params.split_gain == "guaranteed" and params.bound == "range"
    score = solve.solve_node(
        CODES[layout], k, packed(g, A, layout), center, params.reg_lambda, damped,
        params.max_delta_step, *scratch(k), x,
    )  # fmt: skip
    return x, score


@st.composite
def node_params(draw, minimum=0.0, **fixed):
    return NaiveParams(
        reg_lambda=draw(lambdas(minimum)),
        split_gain=draw(st.sampled_from(["guaranteed", "quadratic"])),
        max_delta_step=draw(st.sampled_from([0.0, 0.3])),
        leaf_prior="path",  # with the ridge a diagonal node has bounds score by score
        **fixed,
    )


def assert_node(layout, g, A, center, params, rtol=1e-8):
    x, score = solved(layout, g, A, center, params)
    expected = node_solve(g, A, params, center)
    step = expected.t * expected.d
    noise = 1e-15 * (np.abs(g).sum() + np.abs(A).sum() * np.abs(center).max())
    noise = noise / max(params.reg_lambda, 1e-3 * np.diag(A).min()) + 1e-14
    np.testing.assert_allclose(x, step, rtol=rtol, atol=rtol * np.abs(step).max() + noise)
    np.testing.assert_allclose(score, expected.score, rtol=10 * rtol, atol=noise**2 + 1e-14)


@settings(max_examples=100)
@given(rows_of(**TAME), node_params(), st.booleans(), seeds())
def test_softmax_node_equals_the_oracle(rows, params, path, seed):
    g, A = summed(rows)
    center = path * np.random.default_rng(seed).standard_normal(len(g))
    assert_node("laplacian", g, A, center, params)
    if params.reg_lambda >= 1e-3:
        assert_node("dense", g, A, center, params)


@given(rows_of(), node_params(1e-3))
def test_softmax_node_equals_the_oracle_for_saturated_scores_and_wide_weights(rows, params):
    g, A = summed(rows)
    assert_node("laplacian", g, A, np.zeros(len(g)), params, rtol=1e-6)


@given(rows_of(("softmax", "squared_error")), st.sampled_from(STAND_INS), node_params(1e-3),
       st.booleans(), seeds())  # fmt: skip
def test_diagonal_node_equals_the_oracle(rows, kind, params, path, seed):
    bound = "range" if rows.objective == "softmax" else "none"
    params = NaiveParams(**{**vars(params), "bound": bound})
    g, A = summed(rows, kind)
    center = path * np.random.default_rng(seed).standard_normal(len(g))
    assert_node("diagonal", g, A, center, params)


@given(seeds(), st.sampled_from([1, 2, 7]), st.sampled_from(list(CODES)), lambdas(), st.booleans())
def test_node_is_finite_whatever_the_magnitudes(seed, k, layout, lam, damped):
    rng = np.random.default_rng(seed)
    n_curvature = len(naive._curvature_index(layout, k)[0])
    row = np.concatenate([[1.0], rng.standard_normal(k), np.ones(n_curvature)])
    row[1:] *= 10.0 ** rng.uniform(-320, 30, k + n_curvature)
    x = np.empty(k)
    score = solve.solve_node(CODES[layout], k, row, np.zeros(k), lam, damped, 0.0, *scratch(k), x)
    assert np.isfinite(x).all() and np.isfinite(score) and score >= 0.0


@pytest.mark.parametrize("damped", [False, True])
def test_a_step_beyond_floating_point_is_none(damped):
    row = np.array([1.0, -1.0, 1.0, 1e-200])  # one class pulls, nothing holds it
    x = np.full(2, np.nan)
    node = (LAPLACIAN, 2, row, np.zeros(2), 0.0, damped, 0.0)
    assert solve.solve_node(*node, *scratch(2), x) == 0.0
    assert x.tolist() == [0.0, 0.0]
