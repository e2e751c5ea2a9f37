"""The laws of the mathematics, held against the oracle itself.

A kernel that agrees with ``naive`` then obeys them too.
"""

from __future__ import annotations

from dataclasses import replace

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import NaiveParams, Rows, leaf_objective, node_solve, ridge_leaf, weighted_stats
from strategies import STAND_INS, lambdas, make_rows, rows_of, seeds

TAME = {"weights": ("ones", "integers"), "scores": ("zero", "moderate")}
SOLVERS = ("newton", "damped", "exact")


def summed(rows: Rows, kind: str = "full") -> tuple[naive.Array, naive.Array]:
    g, H = weighted_stats(rows, kind)
    return g.sum(axis=0), H.sum(axis=0)


def rounding(rows: Rows, x: naive.Array) -> float:
    """How far rounding can move the leaf objective between 0 and x."""
    slope = np.abs(weighted_stats(rows)[0]).sum()
    moved = 1e-12 * np.abs(x).max() + 1e-14 * np.abs(rows.raw).max()
    return float(slope * moved + 1e-12 * naive.total_loss(rows)) + 1e-300


# Derivatives


@given(rows_of(("softmax", "squared_error"), scores=("zero", "moderate"), max_rows=8))
def test_gradient_is_the_derivative_of_the_loss(rows):
    step = 1e-5
    for j, unit in enumerate(np.eye(rows.raw.shape[1])):
        slope = naive.row_loss(rows.shift(step * unit)) - naive.row_loss(rows.shift(-step * unit))
        np.testing.assert_allclose(naive.gradient(rows)[:, j], slope / (2 * step), atol=1e-8)


@given(rows_of(("softmax", "squared_error"), scores=("zero", "moderate"), max_rows=8))
def test_full_curvature_is_the_derivative_of_the_gradient(rows):
    step = 1e-5
    for j, unit in enumerate(np.eye(rows.raw.shape[1])):
        slope = naive.gradient(rows.shift(step * unit)) - naive.gradient(rows.shift(-step * unit))
        np.testing.assert_allclose(naive.curvature(rows)[:, j], slope / (2 * step), atol=1e-8)


@given(rows_of())
def test_diagonal_curvatures_are_multiples_of_the_true_diagonal(rows):
    k = rows.raw.shape[1]
    true = np.diagonal(naive.curvature(rows), axis1=1, axis2=2)
    for kind, factor in (("diagonal", 1), ("upper_bound", 2), ("scaled_diagonal", k / (k - 1))):
        H = naive.curvature(rows, kind)
        np.testing.assert_allclose(np.diagonal(H, axis1=1, axis2=2), factor * true, rtol=1e-12)
        assert np.count_nonzero(H) == np.count_nonzero(true)


@given(rows_of())
def test_upper_bound_dominates_the_true_hessian(rows):
    excess = naive.curvature(rows, "upper_bound") - naive.curvature(rows)
    assert np.linalg.eigvalsh(excess).min() >= -1e-15


@given(rows_of(scores=("zero", "moderate")))
def test_absolute_residual_is_the_upper_bound_on_average_over_labels(rows):
    p = naive.softmax(rows.raw)
    mean = sum(
        p[:, c, None, None]
        * naive.curvature(rows._replace(y=np.full_like(rows.y, c)), "absolute_residual")
        for c in range(p.shape[1])
    )
    np.testing.assert_allclose(mean, naive.curvature(rows, "upper_bound"), atol=1e-14)


@pytest.mark.parametrize("kind", ["absolute_residual", "diagonal", "scaled_diagonal"])
def test_other_diagonals_need_not_dominate_the_true_hessian(kind):
    rows = Rows("softmax", np.array([[2.0, 1.0, 0.0]]), np.array([0]), np.ones(1))
    excess = naive.curvature(rows, kind) - naive.curvature(rows)
    assert np.linalg.eigvalsh(excess).min() < -0.01


@given(rows_of(("softmax", "squared_error"), max_rows=60))
def test_intercepts_are_the_best_constant_scores(rows):
    base = naive.intercepts(rows.objective, rows.y, rows.weight, rows.raw.shape[1], floor=1e-99)
    flat = rows._replace(raw=np.tile(base, (len(rows.raw), 1)))
    size = rows.weight.sum() * (1.0 + np.abs(base).max())
    np.testing.assert_allclose(summed(flat)[0], 0.0, atol=1e-13 * size)
    if rows.objective == "softmax":
        assert abs(base.sum()) <= 1e-12 * np.abs(base).max()


# Layouts


@given(rows_of(max_rows=9), st.sampled_from(["laplacian", "dense"]))
def test_unpacking_sums_of_packed_rows_gives_the_summed_statistics(rows, layout):
    k = rows.raw.shape[1]
    g, H = weighted_stats(rows)
    packed = naive.pack(g, H, layout, np.float64)
    count, G, A = naive.unpack(packed.sum(axis=0), layout, k)
    size = np.abs(H).sum()
    assert count == len(g) and packed.shape[1] % 8 == 0
    np.testing.assert_allclose(G, g.sum(axis=0), rtol=1e-12, atol=1e-13 * np.abs(g).sum())
    np.testing.assert_allclose(A, H.sum(axis=0), rtol=1e-12, atol=1e-13 * size)


@given(rows_of(("softmax", "squared_error"), max_rows=9), st.sampled_from(STAND_INS))
def test_diagonal_layout_keeps_diagonal_curvatures(rows, kind):
    g, H = weighted_stats(rows, kind)
    packed = naive.pack(g, H, "diagonal", np.float64)
    _, _, A = naive.unpack(packed, "diagonal", g.shape[1])
    assert np.array_equal(A, H)
    assert packed[:, 1 + 2 * g.shape[1] :].sum() == 0.0


@pytest.mark.parametrize(
    ("layout", "k", "used"), [("laplacian", 7, 29), ("dense", 7, 36), ("diagonal", 7, 15)]
)
def test_width_is_what_is_used_rounded_up_to_eight(layout, k, used):
    assert naive.layout_width(layout, k) == -(-used // 8) * 8


# The quadratic model


@given(rows_of(**TAME, max_rows=30), seeds())
def test_leaf_is_a_linear_regression_and_its_gain_a_fall_of_the_residual_sum(rows, seed):
    k = rows.raw.shape[1]
    g, H = (s[:, : k - 1] for s in weighted_stats(rows))
    H = H[:, :, : k - 1]
    constant = sum(g_i @ np.linalg.solve(H_i, g_i) for g_i, H_i in zip(g, H, strict=True))

    def regression(part):
        C = [np.linalg.cholesky(H_i).T for H_i in H[part]]
        v = [np.linalg.solve(C_i.T, -g_i) for C_i, g_i in zip(C, g[part], strict=True)]
        x, *_ = np.linalg.lstsq(np.vstack(C), np.concatenate(v), rcond=None)
        return x, ((np.vstack(C) @ x - np.concatenate(v)) ** 2).sum()

    params = NaiveParams(reg_lambda=0.0, split_gain="quadratic")
    everything = np.arange(len(g))
    x, rss = regression(everything)
    whole = node_solve(g.sum(axis=0), H.sum(axis=0), params)
    q_at_optimum = 0.5 * x @ H.sum(axis=0) @ x + x @ g.sum(axis=0)
    np.testing.assert_allclose(whole.d, x, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(rss, 2 * q_at_optimum + constant, rtol=1e-8, atol=1e-8)
    left = np.random.default_rng(seed).random(len(g)) < 0.5
    if left.all() or not left.any():
        return
    parts = [everything[left], everything[~left]]
    scores = [node_solve(g[p].sum(axis=0), H[p].sum(axis=0), params).score for p in parts]
    fall = rss - sum(regression(p)[1] for p in parts)
    np.testing.assert_allclose(sum(scores) - whole.score, fall, rtol=1e-6, atol=1e-7 * constant)


@given(rows_of(**TAME))
def test_dropping_a_class_centring_and_a_rank_one_term_give_one_solution(rows):
    g, A = summed(rows)
    k = len(g)
    solution = node_solve(g, A, NaiveParams(reg_lambda=0.0, split_gain="quadratic"))
    reduced = np.append(np.linalg.solve(A[:-1, :-1], -g[:-1]), 0.0)
    tau = np.linalg.solve(A + np.trace(A) * np.ones((k, k)), -g)
    np.testing.assert_allclose(solution.d, reduced - reduced.mean(), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(solution.d, tau, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(solution.score, -g @ reduced, rtol=1e-6, atol=1e-12)


@given(rows_of(), lambdas())
def test_newton_step_of_the_full_hessian_is_centred(rows, lam):
    d = node_solve(*summed(rows), NaiveParams(reg_lambda=lam)).d
    assert abs(d.sum()) <= 1e-9 * np.abs(d).sum() + 1e-12


@given(rows_of(("squared_error",), outputs=(1,)), lambdas(), st.floats(-3, 3))
def test_one_output_reduces_to_the_scalar_formulas(rows, lam, x_parent):
    G = float(rows.weight @ (rows.raw - rows.y)[:, 0])
    n = float(rows.weight.sum())
    params = NaiveParams(reg_lambda=lam, bound="none")
    solution = node_solve(*summed(rows), params)
    rounded = 1e-13 * float(rows.weight @ np.abs(rows.raw - rows.y)[:, 0])
    np.testing.assert_allclose(solution.d, -G / (n + lam), atol=rounded / (n + lam))
    np.testing.assert_allclose(solution.score, G**2 / (n + lam), atol=rounded**2 / (n + lam))
    from_parent = node_solve(*summed(rows), params, np.array([x_parent]))
    slope = G + n * x_parent
    np.testing.assert_allclose(from_parent.d, -slope / (n + lam), rtol=1e-9, atol=1e-12)
    for solver in SOLVERS:
        value = ridge_leaf(rows, replace(params, leaf_solver=solver))
        np.testing.assert_allclose(value, -G / (n + lam), rtol=1e-9, atol=1e-12)


# The guaranteed decrease


def test_share_of_the_gain_and_step_have_the_right_limits():
    np.testing.assert_allclose([naive.h_factor(0.0), naive.damped_step(0.0)], 1.0)
    np.testing.assert_allclose(naive.h_factor(1e-4), 1 - 1e-4 / 3, rtol=1e-8)
    np.testing.assert_allclose(naive.damped_step(1e-4), 1 - 1e-4 / 2, rtol=1e-8)
    large = 1e12
    np.testing.assert_allclose(naive.h_factor(large) * large / 2, np.log(large) - 1, rtol=1e-9)
    np.testing.assert_allclose(naive.damped_step(large) * large, np.log(large), rtol=1e-9)
    betas = np.concatenate([[0.0], np.logspace(-12, 12, 400)])
    for curve in (naive.h_factor(betas), naive.damped_step(betas)):
        assert (np.diff(curve) <= 0).all() and curve.min() > 0


@given(st.floats(1e-6, 1e6), st.floats(1e-3, 1e3))
def test_damped_step_maximises_the_bound_and_the_share_is_its_value(beta, ratio):
    def decrease(t):
        return ratio * t - naive.bound_growth(t, beta)

    best = float(naive.damped_step(beta, ratio))
    for factor in (0.9, 0.999, 1.001, 1.1):
        assert decrease(best * factor) <= decrease(best) * (1 + 1e-12)
    step = float(naive.damped_step(beta))
    guaranteed = 2 * (step - naive.bound_growth(step, beta))
    np.testing.assert_allclose(guaranteed, naive.h_factor(beta), rtol=1e-7)


@settings(max_examples=150)
@given(rows_of(), lambdas())
def test_guaranteed_decrease_is_never_more_than_the_true_one(rows, lam):
    solution = node_solve(*summed(rows), NaiveParams(reg_lambda=lam))
    x = solution.t * solution.d
    true = leaf_objective(rows, 0 * x, lam) - leaf_objective(rows, x, lam)
    p = naive.softmax(rows.raw)
    deviation = solution.d - (p @ solution.d)[:, None]
    curvature = rows.weight @ (p * deviation**2).sum(axis=1) + lam * solution.d @ solution.d
    solve_error = abs(curvature - solution.q) * naive.bound_growth(solution.t, solution.beta)
    assert 0.5 * solution.score <= true + solve_error + rounding(rows, x)


@given(rows_of(), lambdas(), st.sampled_from(STAND_INS), st.floats(0.01, 1.0))
def test_damped_step_with_a_stand_in_never_raises_the_true_loss(rows, lam, kind, rate):
    params = NaiveParams(reg_lambda=lam, leaf_solver="damped")
    x = rate * ridge_leaf(rows, params, kind)
    before, after = leaf_objective(rows, 0 * x, lam), leaf_objective(rows, x, lam)
    assert after <= before + rounding(rows, x)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_undamped_newton_can_raise_the_loss(kind):
    rows = Rows("softmax", np.array([[0.0, -3.0], [0.0, -3.0]]), np.array([0, 1]), np.ones(2))
    params = NaiveParams(reg_lambda=0.0, leaf_solver="newton")
    assert naive.total_loss(rows.shift(ridge_leaf(rows, params, kind))) > naive.total_loss(rows)


@given(rows_of(), lambdas(), st.sampled_from(["quadratic", "guaranteed"]), st.floats(1e-3, 10))
def test_step_limit_lowers_the_score_only_where_it_binds(rows, lam, gain, limit):
    params = NaiveParams(reg_lambda=lam, split_gain=gain)
    free = node_solve(*summed(rows), params)
    held = node_solve(*summed(rows), replace(params, max_delta_step=limit))
    assert np.abs(held.t * held.d).max() <= limit * (1 + 1e-12)
    assert held.score <= free.score * (1 + 1e-9)
    if np.abs(free.t * free.d).max() <= limit:
        np.testing.assert_allclose(held.score, free.score, rtol=1e-7)


# Leaves


@given(rows_of(), lambdas(1.0))
def test_exact_leaf_has_no_slope_left_and_beats_a_single_step(rows, lam):
    params = NaiveParams(reg_lambda=lam, max_range=np.inf)
    x = ridge_leaf(rows, params)
    slope = summed(rows.shift(x))[0] + lam * x
    size = np.abs(weighted_stats(rows.shift(x))[0]).sum() + lam * np.abs(x).sum()
    assert np.abs(slope).max() <= 1e-8 * max(size, 1e-300)
    one_step = ridge_leaf(rows, replace(params, leaf_solver="damped"))
    better = leaf_objective(rows, one_step, lam) - leaf_objective(rows, x, lam)
    assert better >= -rounding(rows, x)


@given(rows_of(), st.sampled_from(SOLVERS), st.sampled_from([0.0, 0.7]))
def test_leaves_without_a_ridge_are_finite_and_keep_their_cap(rows, solver, limit):
    params = NaiveParams(reg_lambda=0.0, leaf_solver=solver, max_delta_step=limit, max_range=20)
    x = ridge_leaf(rows, params)
    assert np.isfinite(x).all()
    if limit:
        assert np.abs(x).max() <= limit * (1 + 1e-12)
    elif solver == "exact":
        assert np.ptp(x) <= 20 * (1 + 1e-12)


@given(rows_of(("softmax", "squared_error"), **TAME), lambdas(1e-6), st.sampled_from(SOLVERS))
def test_leaves_follow_a_permutation_of_the_classes(rows, lam, solver):
    k = rows.raw.shape[1]
    order = np.random.default_rng(k).permutation(k)
    y = np.argsort(order)[rows.y] if rows.objective == "softmax" else rows.y[:, order]
    permuted = rows._replace(raw=rows.raw[:, order], y=y)
    bound = "range" if rows.objective == "softmax" else "none"
    params = NaiveParams(reg_lambda=lam, leaf_solver=solver, bound=bound)
    value = ridge_leaf(rows, params)
    np.testing.assert_allclose(ridge_leaf(permuted, params), value[order], rtol=1e-6, atol=1e-8)


@given(rows_of(("softmax", "squared_error"), **TAME), lambdas(), st.sampled_from(SOLVERS))
def test_doubling_weights_is_duplicating_rows(rows, lam, solver):
    twice = rows.take(np.repeat(np.arange(len(rows.raw)), 2))
    doubled = rows._replace(weight=2 * rows.weight)
    bound = "range" if rows.objective == "softmax" else "none"
    params = NaiveParams(reg_lambda=lam, leaf_solver=solver, bound=bound)
    rtol = 1e-6 if lam > 0.0 else 1e-5  # at the cut-off of values that have no optimum
    np.testing.assert_allclose(
        ridge_leaf(twice, params), ridge_leaf(doubled, params), rtol=rtol, atol=1e-8
    )


# The path prior


def random_tree(rng: np.random.Generator, n_splits: int) -> tuple[naive.Array, list[int]]:
    """Parents of a random binary tree, and its leaves."""
    parent, leaves = [-1], [0]
    for _ in range(n_splits):
        node = leaves.pop(int(rng.integers(len(leaves))))
        leaves += [len(parent), len(parent) + 1]
        parent += [node, node]
    return np.array(parent), leaves


@st.composite
def path_problems(draw, solver="exact"):
    rng = np.random.default_rng(draw(seeds()))
    parent, leaves = random_tree(rng, draw(st.integers(0, 6)))
    k = draw(st.sampled_from([2, 3, 7]))
    scores = draw(st.sampled_from(["zero", "moderate", "saturated"]))
    rows = {v: make_rows(rng, int(rng.integers(1, 9)), k, scores=scores) for v in leaves}
    params = NaiveParams(
        reg_lambda=draw(st.sampled_from([0.1, 1.0, 10.0])), leaf_solver=solver, leaf_prior="path"
    )
    return parent, rows, params


@given(seeds(), st.integers(0, 12), st.sampled_from([1, 2, 3, 7]), st.floats(1e-3, 1e3))
def test_sweep_along_the_path_equals_the_dense_solution(seed, n_splits, k, lam):
    rng = np.random.default_rng(seed)
    parent, leaves = random_tree(rng, n_splits)
    A, b = np.zeros((len(parent), k, k)), np.zeros((len(parent), k))
    for v in leaves:
        root = rng.standard_normal((k, rng.integers(1, k + 1)))
        A[v], b[v] = root @ root.T, rng.standard_normal(k)
    sweep, dense = naive.path_sweep(parent, A, b, lam), naive.path_dense(parent, A, b, lam)
    np.testing.assert_allclose(sweep, dense, rtol=1e-7, atol=1e-9 * np.abs(dense).max())


@settings(max_examples=25)
@given(path_problems())
def test_exact_path_leaves_have_no_slope_left(problem):
    parent, leaves, params = problem
    z = naive.path_leaves(parent, leaves, replace(params, max_range=np.inf))
    slope = naive.path_precision(parent, params.reg_lambda) @ z
    for v, rows in leaves.items():
        slope[v] += summed(rows.shift(z[v]))[0]
    np.testing.assert_allclose(slope, 0.0, atol=1e-8)


@settings(max_examples=25)
@given(path_problems("damped"), st.sampled_from(["full", *STAND_INS]), st.floats(0.01, 1.0))
def test_damped_path_step_never_raises_the_joint_objective(problem, kind, rate):
    parent, leaves, params = problem
    z = rate * naive.path_leaves(parent, leaves, params, kind)
    before = naive.path_objective(parent, leaves, 0 * z, params.reg_lambda)
    after = naive.path_objective(parent, leaves, z, params.reg_lambda)
    assert after <= before * (1 + 1e-12)


@given(rows_of(**TAME), lambdas(1.0), st.sampled_from(SOLVERS))
def test_path_prior_of_a_single_leaf_is_the_ridge(rows, lam, solver):
    params = NaiveParams(reg_lambda=lam, leaf_solver=solver)
    z = naive.path_leaves(np.array([-1]), {0: rows}, replace(params, leaf_prior="path"))
    np.testing.assert_allclose(z[0], ridge_leaf(rows, params), rtol=1e-7, atol=1e-9)


# The paper's first experiment: intercepts of 5000 rows of Covertype, starting from zero


COUNTS = np.array([557.0, 948.0, 643.0, 1249.0, 945.0, 479.0, 179.0])


def multinomial_loss(p: naive.Array) -> float:
    return -float(COUNTS @ np.log(p))


def binary_losses(p: naive.Array) -> float:
    """Sum over the classes of binary cross-entropies, which the paper's notebook prints."""
    return multinomial_loss(p) - float((COUNTS.sum() - COUNTS) @ np.log1p(-p))


def iterations_to_optimum(kind: str, estimated: int, loss=multinomial_loss) -> int:
    """Undamped steps until the summed loss is within 1e-6 of the optimum.

    The first ``estimated`` scores move; the others stay at zero.
    """
    k = len(COUNTS)
    rows = Rows("softmax", np.zeros((k, k)), np.arange(k), COUNTS)
    x, free = np.zeros(k), slice(0, estimated)
    for iteration in range(1000):
        if loss(naive.softmax(x)) <= loss(COUNTS / COUNTS.sum()) + 1e-6:
            return iteration
        g, A = summed(rows.shift(x), kind)
        x[free] += node_solve(g[free], A[free, free], NaiveParams(reg_lambda=0.0)).d
    raise AssertionError("no convergence")


def test_true_hessian_finds_the_intercepts_in_four_iterations():
    assert iterations_to_optimum("full", 7) == 4
    assert iterations_to_optimum("full", 6) == 4  # a reference class changes nothing
    assert iterations_to_optimum("full", 6, binary_losses) == 4


def test_upper_bound_needs_four_hundred_iterations_with_a_reference_class():
    """The paper's notebook holds the last class at zero."""
    assert iterations_to_optimum("upper_bound", 6, binary_losses) == 404
    assert iterations_to_optimum("upper_bound", 6) == 403


def test_upper_bound_needs_fifteen_iterations_with_all_classes_free():
    """Unlike the true Hessian's, a diagonal's steps depend on the parametrisation."""
    assert iterations_to_optimum("upper_bound", 7) == 15
