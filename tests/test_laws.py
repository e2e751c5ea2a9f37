"""Laws of whole models: descent, symmetry, and the scalar formulas they contain."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import naive
import numpy as np
import pytest
from engine import boost, can_be_split, one_tree, oracle_params, packed_leaves
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive import NaiveParams, Rows, node_solve
from naive_checks import regularised_loss
from strategies import LABELS, STAND_INS, WEIGHTS, Problem, make_binned, make_rows, problems, seeds

import fullhess
from fullhess.bins import BinnedMatrix
from fullhess.kernels import softmax as kernels
from fullhess.kernels.histogram import sum_rows
from fullhess.kernels.leaves import newton_directions
from fullhess.kernels.softmax_leaves import accumulate_leaves
from fullhess.kernels.solve import DIAGONAL, LAPLACIAN, solve_node

CURVATURES = ("full", *STAND_INS)


def planted(seed, k, n=120, kinds=("normal", "holes", "normal"), weights="ones"):
    """Classes that depend on the columns."""
    rng = np.random.default_rng(seed)
    binned = make_binned(rng, n, kinds, quantiles=True, max_bins=32)
    signal = binned.codes / 8.0 @ rng.standard_normal((len(kinds), k))
    y = (signal - signal.mean(axis=0) + rng.gumbel(size=(n, k))).argmax(axis=1)
    rows = make_rows(rng, n, k, weights=weights, scores="zero")
    return Problem(binned, rows._replace(y=y))


def losses(problem: Problem, model: fullhess.Ensemble) -> list[float]:
    """Total training loss before the first round and after each."""
    raw, found = problem.rows.raw, [naive.total_loss(problem.rows)]
    for t in range(len(model.trees)):
        raw = model.predict_raw(problem.binned, base_margin=raw, rounds=slice(t, t + 1))
        found.append(naive.total_loss(problem.rows._replace(raw=raw)))
    return found


# Descent


@st.composite
def descent_problems(draw):
    """Rare and absent classes, saturated scores up to ±1000, weights over ten orders."""
    problem = draw(problems(("softmax",), outputs=(2, 3, 7), max_rows=40, max_features=3))
    if draw(st.booleans()):
        rng = np.random.default_rng(draw(seeds()))
        extreme = rng.choice([-1e3, -30.0, 0.0, 30.0, 1e3], problem.rows.raw.shape)
        problem = Problem(problem.binned, problem.rows.shift(extreme))
    return problem


@settings(max_examples=300)
@given(descent_problems(), st.data())
def test_training_loss_never_rises_at_learning_rate_one(problem, data):
    assume(can_be_split(problem))
    params = NaiveParams(
        reg_lambda=data.draw(st.sampled_from([0.0, 0.0, 1e-8, 1e-3, 1.0])),
        leaf_solver=data.draw(st.sampled_from(["damped", "exact"])),
        leaf_prior=data.draw(st.sampled_from(["ridge", "path"])),
        max_delta_step=data.draw(st.sampled_from([0.0, 0.0, 0.7])),
        max_depth=2,
        learning_rate=1.0,
    )
    kinds = [data.draw(st.sampled_from(CURVATURES)) for _ in range(2)]
    path = losses(problem, boost(problem, params, *kinds, n_rounds=4))
    assert np.isfinite(path).all()
    for before, after in pairwise(path):
        assert after <= before * (1 + 1e-12) + 1e-300


def test_training_loss_never_rises_over_many_rounds_as_the_history_tells_it():
    problem = planted(0, 5, n=400)
    history: dict = {}
    boost(
        problem,
        NaiveParams(reg_lambda=0.0, learning_rate=1.0, max_depth=4),
        n_rounds=40,
        evals=[fullhess.EvalSet(problem.binned, problem.rows.y, base_margin=problem.rows.raw)],
        callbacks=[lambda state: history.update(state.history)],
    )
    path = np.array(history["valid"]["log_loss"])
    assert len(path) == 40 and (np.diff(path) <= 1e-12 * path[:-1]).all() and path[-1] < 1e-3


def test_undamped_newton_leaves_can_raise_the_loss():
    """What the law above would find: without damping it does not hold."""
    rows = Rows("softmax", np.array([[0.0, -6.0]] * 4), np.array([0, 0, 0, 1]), np.ones(4))
    column = np.array([[0.0], [0.0], [1.0], [1.0]])
    problem = Problem(BinnedMatrix.from_cuts(column, [[0.5]], n_jobs=1), rows)
    params = NaiveParams(reg_lambda=0.0, learning_rate=1.0, leaf_solver="newton", max_depth=1)
    before, after = losses(problem, boost(problem, params))
    assert after > before


@settings(max_examples=100)
@given(problems(("softmax",), outputs=(2, 3, 7), weights=("ones", "integers"), max_rows=60),
       st.sampled_from([1e-3, 1.0, 10.0]))  # fmt: skip
def test_guaranteed_scores_of_a_split_are_no_more_than_twice_the_true_decrease(problem, lam):
    assume(can_be_split(problem))
    params = oracle_params(NaiveParams(reg_lambda=lam, max_depth=1, learning_rate=1.0), "softmax")
    tree = one_tree(problem, params)
    assume(tree.n_leaves == 2)
    g, H = problem.stats()
    parent = float(node_solve(g.sum(axis=0), H.sum(axis=0), params).score)
    promised = tree.gain[0] + parent
    before, after = (
        regularised_loss(t, problem.binned, problem.rows, params)
        for t in (tree.with_values(0 * tree.values), tree)
    )
    assert promised <= 2 * (before - after) + 1e-5 * promised + 1e-12 * before


# One score: the textbook


def textbook_leaves(X, g, h, lam, depth, min_child_weight=0.0):
    """(n,) -G/(H+λ) of each row's leaf in a greedy tree by G²/(H+λ), and the root's gain."""

    def score(rows):
        return g[rows].sum() ** 2 / (h[rows].sum() + lam)

    everything = np.ones(len(g), bool)
    best, chosen = 0.0, None
    for j in range(X.shape[1]):
        for cut in np.unique(X[:, j])[:-1]:
            left = X[:, j] <= cut
            if min(h[left].sum(), h[~left].sum()) >= min_child_weight:
                gain = score(left) + score(~left) - score(everything)
                if gain > best * (1 + 1e-6):
                    best, chosen = gain, left
    if depth == 0 or chosen is None:
        return np.full(len(g), -g.sum() / (h.sum() + lam)), 0.0
    out = np.empty(len(g))
    for side in (chosen, ~chosen):
        out[side] = textbook_leaves(X[side], g[side], h[side], lam, depth - 1, min_child_weight)[0]
    return out, best


@pytest.mark.parametrize("lam", [0.0, 1.0, 20.0])
def test_squared_error_of_one_output_is_the_textbook_regression_tree(rng, lam):
    X = rng.standard_normal((80, 3))
    y = X[:, 0] * X[:, 1] + rng.standard_normal(80)
    weight = rng.integers(1, 4, 80).astype(np.float64)
    binned = BinnedMatrix.from_quantiles(X, max_bins=200)
    model = fullhess.train(
        {"objective": "squared_error", "reg_lambda": lam, "max_depth": 3, "learning_rate": 0.5,
         "min_child_weight": 3.0, "n_jobs": 1},
        binned, y, weight=weight, num_boost_round=3,
    )  # fmt: skip
    raw = np.full(80, np.average(y, weights=weight))
    for t, tree in enumerate(model.trees):
        leaves, gain = textbook_leaves(X, weight * (raw - y), weight, lam, 3, 3.0)
        raw += 0.5 * leaves
        predicted = model.predict_raw(binned, rounds=slice(0, t + 1))[:, 0]
        np.testing.assert_allclose(predicted, raw, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(tree.gain[0], gain, rtol=1e-5)


@pytest.mark.parametrize("hessian", ["full", "upper_bound"])
@pytest.mark.parametrize("lam", [0.0, 1.0, 20.0])
def test_two_classes_are_the_textbook_logistic_trees_with_half_the_ridge(rng, lam, hessian):
    """With z = s_1 - s_0 and h = p(1-p): d_1 - d_0 = -G/(H + λ/2), score G²/(H + λ/2).

    2p(1-p) on both scores is the same thing: each moves by G/(2H + λ).
    """
    X = rng.standard_normal((80, 3))
    y = (X[:, 0] + X[:, 1] ** 2 + rng.standard_normal(80) > 0.7).astype(np.int64)
    binned = BinnedMatrix.from_quantiles(X, max_bins=200)
    model = fullhess.train(
        {"reg_lambda": lam, "max_depth": 3, "learning_rate": 0.5, "min_child_weight": 1.5,
         "split_gain": "quadratic", "leaf_solver": "newton", "hessian": hessian,
         "split_hessian": hessian, "n_jobs": 1},
        binned, y, num_boost_round=3,
    )  # fmt: skip
    z = np.full(80, np.log(y.mean() / (1 - y.mean())))
    factor = 2.0 if hessian == "upper_bound" else 1.0  # of trace(A)/k
    for t, tree in enumerate(model.trees):
        p = 1 / (1 + np.exp(-z))
        least = 1.5 / factor
        leaves, gain = textbook_leaves(X, p - y, p * (1 - p), lam / 2, 3, least)
        z += 0.5 * leaves
        raw = model.predict_raw(binned, rounds=slice(0, t + 1))
        np.testing.assert_allclose(raw[:, 1] - raw[:, 0], z, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(raw.sum(axis=1), 0.0, atol=1e-6)
        np.testing.assert_allclose(tree.gain[0], gain, rtol=1e-5)


# Symmetries


def same_structure(a, b):
    names = ("feature", "threshold", "default_left", "left", "right", "category_values")
    return all(
        np.array_equal(getattr(s, n), getattr(t, n), equal_nan=n == "threshold")
        for s, t in zip(a.trees, b.trees, strict=True)
        for n in names
    )


def values(model):
    return np.concatenate([tree.values for tree in model.trees])


MODEL = NaiveParams(max_depth=3, learning_rate=0.5, min_child_weight=0.5)


@pytest.mark.parametrize("prior", ["ridge", "path"])
@pytest.mark.parametrize("k", [3, 7, 25])
def test_a_permutation_of_the_classes_permutes_the_model(prior, k):
    problem = planted(1, k)
    order = np.random.default_rng(k).permutation(k)
    permuted = Problem(problem.binned, problem.rows._replace(y=np.argsort(order)[problem.rows.y]))
    params = replace(MODEL, leaf_prior=prior)
    one, two = (boost(p, params, n_rounds=4) for p in (problem, permuted))
    assert same_structure(one, two) and one.trees[0].n_leaves > 3
    rtol = 1e-9 if k < 20 else 1e-7  # many classes: conjugate gradients stop at a residual
    expected = values(one)[:, order]
    np.testing.assert_allclose(values(two), expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("prior", ["ridge", "path"])
@pytest.mark.parametrize("solver", ["newton", "exact"])
def test_doubled_weights_are_duplicated_rows(prior, solver):
    problem = planted(2, 3, weights="integers")
    twice = np.repeat(np.arange(problem.binned.n_samples), 2)
    duplicated = Problem(
        BinnedMatrix(problem.binned.codes[twice], problem.binned.binning), problem.rows.take(twice)
    )
    doubled = Problem(problem.binned, problem.rows._replace(weight=2 * problem.rows.weight))
    params = replace(MODEL, leaf_prior=prior, leaf_solver=solver)
    one, two = (boost(p, params, n_rounds=4) for p in (duplicated, doubled))
    assert same_structure(one, two)
    assert all(
        np.array_equal(a.count, 2 * b.count) for a, b in zip(one.trees, two.trees, strict=True)
    )
    np.testing.assert_allclose(values(one), values(two), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.base_score, two.base_score, rtol=1e-12)


@given(seeds(), st.sampled_from(WEIGHTS), st.sampled_from(LABELS[:3]), st.sampled_from([-2, 5]))
def test_scaling_weights_and_limits_by_a_power_of_two_changes_no_bit(seed, weights, labels, power):
    rng = np.random.default_rng(seed)
    binned = make_binned(rng, 50, ("normal", "holes", "many"), True, 8)
    problem = Problem(binned, make_rows(rng, 50, 3, weights=weights, labels=labels))
    scale = 2.0**power
    scaled = Problem(binned, problem.rows._replace(weight=scale * problem.rows.weight))
    one = boost(problem, MODEL, n_rounds=2, cat_smooth=10.0)
    two = boost(
        scaled, MODEL, n_rounds=2, cat_smooth=10.0 * scale,
        reg_lambda=scale * MODEL.reg_lambda, min_child_weight=scale * MODEL.min_child_weight,
    )  # fmt: skip
    assert same_structure(one, two) and np.array_equal(values(one), values(two))
    for a, b in zip(one.trees, two.trees, strict=True):
        assert np.array_equal(scale * a.gain, b.gain) and np.array_equal(scale * a.cover, b.cover)


@pytest.mark.parametrize("prior", ["ridge", "path"])
def test_a_constant_added_to_all_scores_of_a_row_changes_nothing(prior):
    problem = planted(3, 3)
    shift = np.random.default_rng(3).integers(-40, 40, (problem.binned.n_samples, 1)).astype(float)
    moved = Problem(problem.binned, problem.rows.shift(shift))
    params = replace(MODEL, leaf_prior=prior)
    one, two = (boost(p, params, n_rounds=4) for p in (problem, moved))
    assert same_structure(one, two)
    np.testing.assert_allclose(values(one), values(two), rtol=1e-9, atol=1e-10)


# The paper's first experiment: intercepts of 5000 rows of Covertype, starting from zero


COUNTS = np.array([557.0, 948.0, 643.0, 1249.0, 945.0, 479.0, 179.0])


def excess(x) -> float:
    """Multinomial loss over all rows, above its optimum (the entropy of the shares)."""
    share = COUNTS / COUNTS.sum()
    return float(COUNTS @ (np.log(share) - np.log(naive.softmax(x))))


def test_true_hessian_finds_the_intercepts_in_four_iterations():
    k = len(COUNTS)
    raw, label = np.zeros((k, k)), np.arange(k, dtype=np.int32)
    x, step, path = np.zeros(k), np.empty(k), []
    gradient, edges = np.empty((1, k)), np.empty((1, k * (k - 1) // 2))
    packed = packed_leaves(raw, label, COUNTS, np.array([0]), np.array([k]))
    while excess(x) > 1e-6:
        accumulate_leaves(*packed, x[None], gradient, edges)
        sums = np.concatenate([[COUNTS.sum()], gradient[0], edges[0]])
        scratch = (np.empty(len(edges[0])), np.empty(k))
        solve_node(LAPLACIAN, k, sums, np.zeros(k), 0.0, False, 0.0, *scratch, step)
        x += step
        path.append(excess(x))
    assert len(path) == 4 and path[2] > 1e-6


def test_upper_bound_needs_four_hundred_iterations_with_a_reference_class():
    k = len(COUNTS)
    label, rows = np.arange(k, dtype=np.int32), np.arange(k, dtype=np.int32)
    x, n_steps = np.zeros(k), 0
    stats, sums = np.zeros((k, 16), np.float32), np.empty(16)
    start, step = np.zeros((1, k - 1)), np.empty((1, k - 1))
    while excess(x) > 1e-6:
        raw = np.tile(x, (k, 1))
        kernels.write_statistics(raw, label, COUNTS, rows, kernels.UPPER_BOUND, stats)
        sum_rows(rows, stats, sums)
        free = sums[None, 1:k], sums[None, 1 + k : 2 * k]  # the last class stays at zero
        newton_directions(DIAGONAL, *(s.copy() for s in free), start, 0.0, step)
        x[:-1] += step[0]
        n_steps += 1
        assert n_steps < 1000
    assert 350 <= n_steps <= 450


@pytest.mark.parametrize(("solver", "n_rounds"), [("newton", 4), ("exact", 1)])
def test_one_leaf_trees_find_the_intercepts_as_the_paper_says(solver, n_rounds):
    y = np.repeat(np.arange(7), COUNTS.astype(int))
    column = (np.arange(len(y)) % 2).astype(np.float64)[:, None]
    rows = Rows("softmax", np.zeros((len(y), 7)), y, np.ones(len(y)))
    problem = Problem(BinnedMatrix.from_cuts(column, [[0.5]], n_jobs=1), rows)
    params = NaiveParams(
        reg_lambda=0.0, learning_rate=1.0, leaf_solver=solver, min_samples_leaf=len(y)
    )
    model = boost(problem, params, n_rounds=n_rounds)
    path = [excess(x) for x in np.cumsum([tree.values[0] for tree in model.trees], axis=0)]
    assert path[-1] <= 1e-6
    assert solver == "exact" or path[-2] > 1e-6
