"""Leaf values: optimality, descent, bounds, and the ends of floating point."""

from __future__ import annotations

from dataclasses import replace

import naive
import numpy as np
import pytest
from engine import can_be_split, one_tree, oracle_params
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from naive import NaiveParams, Rows, leaf_objective, ridge_leaf, weighted_stats
from naive_checks import check_leaf_values, regularised_loss, tree_parents, tree_rows
from strategies import LABELS, STAND_INS, WEIGHTS, Problem, make_rows, problems, rows_of, seeds

import fullhess
from fullhess import leaves
from fullhess.bins import BinnedMatrix
from fullhess.leaf_problem import DEFAULT_MAX_RANGE
from fullhess.leaves import MATRIX_MAX_OUTPUTS, effective_solver
from fullhess.objectives import CustomObjective, Softmax, SquaredError, softmax
from fullhess.params import Params

CURVATURES = ("full", *STAND_INS)
SOLVERS = ("newton", "damped", "exact")
TAME = {"weights": ("ones", "integers"), "scores": ("zero", "moderate")}
MANY = MATRIX_MAX_OUTPUTS + 5  # classes that are solved without a matrix
LAMBDAS = (0.0, 1e-8, 1e-3, 1.0, 100.0)

hessians = st.sampled_from(CURVATURES)
priors = st.sampled_from(["ridge", "path"])


def lambdas(minimum=0.0):
    return st.sampled_from([lam for lam in LAMBDAS if lam >= minimum])


def single(rows: Rows) -> Problem:
    """The rows as a problem with one column; at least two rows are needed to part it."""
    column = (np.arange(len(rows.raw)) == 0).astype(np.float64)[:, None]
    return Problem(BinnedMatrix.from_cuts(column, [[0.5]], n_jobs=1), rows)


def leaf_value(rows: Rows, params: NaiveParams, hessian="full", split_hessian="full"):
    """(k,) the engine's value of one leaf with all rows."""
    params = replace(params, min_samples_leaf=len(rows.raw), learning_rate=1.0)
    tree = one_tree(single(rows), params, hessian, split_hessian)
    assert tree.n_leaves == 1
    return tree.values[0]


def check_stationary(rows: Rows, x, lam: float, rtol: float = 3e-7) -> None:
    """No slope of the regularised loss is left at x but for 1e-8 in the values."""
    g, H = weighted_stats(rows.shift(x))
    size = np.abs(g).sum() + lam * np.abs(x).sum()
    room = rtol * size + 2e-8 * (lam + np.trace(H.sum(axis=0)))
    assert np.abs(g.sum(axis=0) + lam * x).max() <= room + 1e-300


many_rows = rows_of(max_rows=60).filter(lambda rows: len(rows.raw) > 1)


# Exact leaves


@settings(max_examples=150)
@given(many_rows, lambdas(1e-3), st.sampled_from(["full", "diagonal"]))
def test_exact_leaf_has_no_regularised_gradient(rows, lam, split_hessian):
    params = NaiveParams(reg_lambda=lam)
    check_stationary(rows, leaf_value(rows, params, split_hessian=split_hessian), lam)


@given(rows_of(outputs=(MANY,), max_rows=60), lambdas(1e-3))
def test_exact_leaf_of_many_classes_has_no_regularised_gradient(rows, lam):
    assume(len(rows.raw) > 1)
    check_stationary(rows, leaf_value(rows, NaiveParams(reg_lambda=lam)), lam, rtol=3e-6)


@settings(max_examples=25)
@given(problems(("softmax",), weights=("ones", "integers"), outputs=(2, 3, 7)), lambdas(1e-3))
def test_exact_leaves_of_the_path_prior_have_no_joint_gradient(problem, lam):
    assume(can_be_split(problem))
    params = NaiveParams(reg_lambda=lam, leaf_prior="path", max_depth=3, learning_rate=1.0)
    tree = one_tree(problem, params)
    parent = tree_parents(tree)
    leaves = np.flatnonzero(tree.feature < 0)
    z = _with_inner_values(parent, leaves, tree.values[tree.leaf[leaves]])
    slope = naive.path_precision(parent, lam) @ z
    size = 1e-300
    for v, rows in enumerate(tree_rows(tree, problem.binned)):
        if tree.feature[v] < 0:
            g, H = weighted_stats(problem.rows.take(rows).shift(z[v]))
            slope[v] += g.sum(axis=0)
            size = max(size, np.abs(g).sum() + lam * np.abs(z).max())
            size = max(size, 1e-2 * (lam + np.trace(H.sum(axis=0))))  # 1e-8 in the values
    assert np.abs(slope[leaves]).max() <= 1e-6 * size


def _with_inner_values(parent, leaves, values):
    """(m, k) values of all nodes: given at the leaves, the best ones inside."""
    P = naive.path_precision(parent, 1.0)
    inner = np.setdiff1d(np.arange(len(parent)), leaves)
    z = np.zeros((len(parent), values.shape[1]))
    z[leaves] = values
    if len(inner):
        z[inner] = np.linalg.solve(P[np.ix_(inner, inner)], -P[np.ix_(inner, leaves)] @ values)
    return z


@settings(max_examples=30)
@given(problems(**TAME, outputs=(1, 2, 3, 7)), lambdas(1e-3), st.sampled_from(SOLVERS))
def test_path_prior_values_are_the_dense_joint_optimum(problem, lam, solver):
    assume(can_be_split(problem))
    params = NaiveParams(
        reg_lambda=lam, leaf_prior="path", leaf_solver=solver, max_depth=3, learning_rate=1.0
    )
    params = oracle_params(params, problem.rows.objective)
    tree = one_tree(problem, params)
    atol = 1e-6 * max(1.0, np.abs(tree.values).max())
    check_leaf_values(tree, problem.binned, problem.rows, params, atol=atol)


@given(
    rows_of(**TAME, labels=("uniform", "single"), max_rows=200), st.sampled_from([0.1, 1.0, 4.0])
)
def test_exact_leaf_inside_its_box_is_the_free_optimum(rows, lam):
    assume(len(rows.raw) > 1)
    free = leaf_value(rows, NaiveParams(reg_lambda=lam))
    limit = 1.25 * np.abs(free).max() + 1e-3
    held = leaf_value(rows, NaiveParams(reg_lambda=lam, max_delta_step=limit))
    np.testing.assert_allclose(held, free, atol=1e-7)


@given(seeds(), st.sampled_from([2, 3, 7, MANY]))
def test_exact_leaf_of_equal_rows_is_the_logarithm_of_the_shares(seed, k):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 200, k)
    counts[-1] = 1  # a class with a single row
    scores = rng.standard_normal(k)
    y = np.repeat(np.arange(k), counts)
    rows = Rows("softmax", np.tile(scores, (len(y), 1)), y, np.ones(len(y)))
    expected = np.log(counts) - scores
    expected -= expected.mean()
    assume(np.ptp(expected) < 0.9 * DEFAULT_MAX_RANGE)
    value = leaf_value(rows, NaiveParams(reg_lambda=0.0))
    np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-6)


@given(rows_of(weights=("wide",), scores=("zero", "moderate")), lambdas(1e-3))
def test_exact_leaf_with_weights_over_ten_orders_is_the_oracles(rows, lam):
    assume(len(rows.raw) > 1)
    params = NaiveParams(reg_lambda=lam)
    expected = ridge_leaf(rows, params)
    value = leaf_value(rows, params)
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
    room = 1e-12 * naive.total_loss(rows)
    assert leaf_objective(rows, value, lam) <= leaf_objective(rows, expected, lam) + room


# Single steps


@settings(max_examples=60)
@given(rows_of(outputs=(2, 3, 7, MANY), **TAME), hessians, lambdas(1e-3),
       st.sampled_from(["newton", "damped"]), st.sampled_from([0.0, 0.3]))  # fmt: skip
def test_single_steps_are_the_oracles(rows, hessian, lam, solver, limit):
    assume(len(rows.raw) > 1)
    params = NaiveParams(reg_lambda=lam, leaf_solver=solver, max_delta_step=limit)
    expected = ridge_leaf(rows, params, hessian)
    atol = 2e-6 * max(1.0, np.abs(expected).max())
    for split_hessian in ("full", hessian):
        value = leaf_value(rows, params, hessian, split_hessian)
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=atol)


def test_solver_falls_back_to_newton_where_more_is_pointless_or_impossible():
    exact = Params(leaf_solver="exact")
    without_loss = CustomObjective(lambda raw, label: (raw, raw), 2)
    with_loss = CustomObjective(lambda raw, label: (raw, raw), 2, loss=lambda raw, label: raw[:, 0])
    assert effective_solver(Softmax(3), exact) == "exact"
    assert effective_solver(SquaredError(3), exact) == "newton"
    assert effective_solver(without_loss, exact) == "newton"
    assert effective_solver(with_loss, exact) == "exact"


# Descent


def check_descent(problem: Problem, params: NaiveParams, *kinds: str) -> None:
    tree = one_tree(problem, params, *kinds)
    assert np.isfinite(tree.values).all()
    unit = replace(params, learning_rate=1.0)  # the loss of what is really added
    before = regularised_loss(tree.with_values(0 * tree.values), problem.binned, problem.rows, unit)
    after = regularised_loss(tree, problem.binned, problem.rows, unit)
    assert after <= before * (1 + 1e-12) + 1e-300


@settings(max_examples=250)
@given(problems(("softmax",), outputs=(2, 3, 7), max_rows=40), st.data())
def test_damped_and_exact_leaves_never_raise_the_regularised_loss(problem, data):
    assume(can_be_split(problem))
    params = NaiveParams(
        reg_lambda=data.draw(lambdas()),
        leaf_solver=data.draw(st.sampled_from(["damped", "exact"])),
        leaf_prior=data.draw(priors),
        max_delta_step=data.draw(st.sampled_from([0.0, 0.0, 0.3])),
        learning_rate=data.draw(st.sampled_from([0.3, 1.0])),
        max_depth=2,
    )
    check_descent(problem, params, data.draw(hessians), data.draw(hessians))


@settings(max_examples=80)
@given(rows_of(outputs=(MANY, 40)), st.data())
def test_leaves_of_many_classes_never_raise_the_regularised_loss(rows, data):
    assume(len(rows.raw) > 1)
    params = NaiveParams(
        reg_lambda=data.draw(lambdas()),
        leaf_solver=data.draw(st.sampled_from(["damped", "exact"])),
        learning_rate=1.0,
        max_depth=1,
    )
    check_descent(single(rows), params, data.draw(hessians), "diagonal")


@settings(max_examples=120)
@given(seeds(), st.sampled_from([3, MANY]), st.sampled_from([0.0, 0.0, 1e-8, 1e-3]),
       st.sampled_from(["damped", "exact"]), hessians)  # fmt: skip
def test_leaves_of_almost_certain_rows_never_raise_the_regularised_loss(
    seed, k, lam, solver, hessian
):
    rng = np.random.default_rng(seed)
    rows = make_rows(rng, int(rng.integers(2, 60)), k)
    sure = rng.choice([10.0, 20.0, 30.0, 50.0]) * np.eye(k)[rows.y]  # p_y = 1 - 1e-4 … 1 - 1e-21
    params = NaiveParams(reg_lambda=lam, leaf_solver=solver, learning_rate=1.0, max_depth=1)
    check_descent(single(rows.shift(sure)), params, hessian)


@pytest.mark.parametrize(("solver", "limit"), [("damped", 0.0), ("exact", 0.02)])
def test_a_slope_too_small_for_float32_still_points_down(rng, solver, limit):
    """Rows that are all surely wrong and pull in turn: each gradient is 1 - 1e-7."""
    y = np.repeat([0, 1], 10)
    params = NaiveParams(reg_lambda=0.0, leaf_solver=solver, max_delta_step=limit)
    for _ in range(200):
        raw = np.eye(2)[1 - y] * rng.uniform(15.0, 17.5, (20, 1))
        rows = Rows("softmax", raw, y, np.ones(20))
        before = leaf_objective(rows, np.zeros(2), 0.0)
        assert leaf_objective(rows, leaf_value(rows, params), 0.0) <= before * (1 + 1e-12)


@given(many_rows, lambdas(1e-3), hessians)
def test_exact_leaf_is_no_worse_than_a_damped_step(rows, lam, hessian):
    exact = leaf_value(rows, NaiveParams(reg_lambda=lam), hessian)
    damped = leaf_value(rows, NaiveParams(reg_lambda=lam, leaf_solver="damped"), hessian)
    best, other = (leaf_objective(rows, x, lam) for x in (exact, damped))
    assert best <= other + 1e-11 * abs(other)


@settings(max_examples=60)
@given(seeds(), st.sampled_from([2, 7, MANY]), st.sampled_from(WEIGHTS), st.sampled_from(LABELS),
       hessians, priors, lambdas(), st.sampled_from(SOLVERS))  # fmt: skip
@example(0, 2, "ones", "uniform", "full", "ridge", 0.0, "exact")
def test_scores_of_a_thousand_give_finite_leaves(
    seed, k, weights, labels, hessian, prior, lam, solver
):
    rng = np.random.default_rng(seed)
    rows = make_rows(rng, 20, k, weights=weights, labels=labels)
    rows = rows._replace(raw=rng.choice([-1e3, 0.0, 1e3], rows.raw.shape))
    params = NaiveParams(
        reg_lambda=lam, leaf_solver=solver, leaf_prior=prior, learning_rate=1.0, max_depth=2
    )
    if solver == "newton":
        assert np.isfinite(one_tree(single(rows), params, hessian).values).all()
    else:
        check_descent(single(rows), params, hessian)


# Bounds


@settings(max_examples=60)
@given(problems(("softmax",), outputs=(2, 3, 7)), st.data())
def test_max_delta_step_bounds_every_value(problem, data):
    assume(can_be_split(problem))
    limit = data.draw(st.sampled_from([1e-3, 0.3, 2.0]))
    params = NaiveParams(
        reg_lambda=data.draw(lambdas()),
        leaf_solver=data.draw(st.sampled_from(SOLVERS)),
        leaf_prior=data.draw(priors),
        max_delta_step=limit,
        learning_rate=0.5,
        max_depth=2,
    )
    tree = one_tree(problem, params, data.draw(hessians))
    assert np.abs(tree.values).max() <= 0.5 * limit * (1 + 1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("k", [2, 7, MANY])
def test_pure_leaves_without_a_ridge_stop_at_the_default_range(rng, solver, k):
    for scores in ("zero", "moderate", "saturated"):
        rows = make_rows(rng, 30, k, labels="pure", scores=scores)
        x = leaf_value(rows, NaiveParams(reg_lambda=0.0, leaf_solver=solver))
        assert np.isfinite(x).all() and x.argmax() == rows.y[0]
        if solver != "newton":
            assert np.ptp(x) <= DEFAULT_MAX_RANGE * (1 + 1e-12)
        if solver == "exact" and scores != "saturated":
            np.testing.assert_allclose(np.ptp(x), DEFAULT_MAX_RANGE)


def test_a_small_ridge_is_no_bound_on_the_range(rng):
    rows = make_rows(rng, 50, 3, labels="pure", scores="zero")
    x = leaf_value(rows, NaiveParams(reg_lambda=1e-6))
    assert np.ptp(x) > DEFAULT_MAX_RANGE
    check_stationary(rows, x, 1e-6)


# Objectives without a bound: backtracking on the loss


def quartic_loss(raw, label):
    return ((raw - label) ** 4).sum(axis=1) + 0.5 * (raw.sum(axis=1)) ** 2


def quartic_derivatives(raw, label):
    r = raw - label
    hessian = 12 * r[:, :, None] ** 2 * np.eye(raw.shape[1]) + 1.0
    return 4 * r**3 + raw.sum(axis=1, keepdims=True), hessian


def misleading_derivatives(raw, label):
    """A Hessian a hundred times too small: full steps overshoot."""
    gradient, hessian = quartic_derivatives(raw, label)
    return gradient, hessian / 100


@pytest.mark.parametrize("derivatives", [quartic_derivatives, misleading_derivatives])
@pytest.mark.parametrize("prior", ["ridge", "path"])
@pytest.mark.parametrize("solver", ["damped", "exact"])
@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_backtracking_never_raises_a_custom_loss(rng, derivatives, prior, solver, lam):
    X, y = rng.standard_normal((60, 2)), rng.standard_normal((60, 3))
    binned = BinnedMatrix.from_quantiles(X, max_bins=8)
    model = fullhess.train(
        {"leaf_solver": solver, "leaf_prior": prior, "reg_lambda": lam, "learning_rate": 1.0,
         "max_depth": 2, "n_jobs": 1},
        binned,
        y,
        num_boost_round=4,
        objective=CustomObjective(derivatives, 3, loss=quartic_loss),
    )  # fmt: skip
    raws = [model.predict_raw(binned, rounds=slice(0, t)) for t in range(1, 5)]
    losses = [quartic_loss(raw, y).sum() for raw in (np.zeros((60, 3)), *raws)]
    assert (np.diff(losses) <= 1e-12 * losses[0]).all() and losses[-1] < 0.9 * losses[0]


def softmax_rounds(rng, **params):
    """The leaf values of two trees, one of which has a leaf with most of the rows."""
    X = rng.standard_normal((3000, 5))
    X[:, 0] *= rng.random(3000) < 0.1  # most rows are equal here
    label = (X + rng.gumbel(size=X.shape)).argmax(axis=1)
    binned = BinnedMatrix.from_quantiles(X, max_bins=16)
    settings_ = {"max_depth": 3, "leaf_prior": "ridge", "n_jobs": 2, **params}
    return [tree.values for tree in fullhess.train(settings_, binned, label).trees[:2]]


@pytest.mark.parametrize("split_hessian", ["full", "diagonal"])
def test_leaves_solved_whole_or_run_by_run_have_the_same_values(rng, monkeypatch, split_hessian):
    seed = int(rng.integers(2**31))
    found = []
    for rows in (0, 500, 10**6):  # all leaves run by run, large ones, none
        monkeypatch.setattr(softmax, "_WHOLE_ROWS", rows)
        monkeypatch.setattr(softmax, "_WHOLE_SHARE", 0.0)
        rng = np.random.default_rng(seed)
        found.append(softmax_rounds(rng, split_hessian=split_hessian, reg_lambda=1e-3))
    for values in found[1:]:
        for mine, theirs in zip(found[0], values, strict=True):
            assert np.allclose(mine, theirs, rtol=0.0, atol=1e-7)


def test_leaves_that_guesses_do_not_solve_are_solved_by_safe_steps(rng, monkeypatch):
    seed = int(rng.integers(2**31))
    expected = softmax_rounds(np.random.default_rng(seed))
    monkeypatch.setattr(leaves, "MAX_GUESSES", 1)  # then no leaf has converged
    found = softmax_rounds(np.random.default_rng(seed))
    for mine, theirs in zip(found, expected, strict=True):
        assert np.allclose(mine, theirs, rtol=0.0, atol=1e-6)
