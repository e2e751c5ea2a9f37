"""Whole trees against the oracle: every split, gain, cover, count and leaf value."""

from __future__ import annotations

from dataclasses import replace

import naive
import numpy as np
import pytest
from engine import boost, can_be_split, engine_params, one_tree, oracle_params, same_tree
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive import NaiveParams, Rows
from naive_checks import check_leaf_values, check_tree, oracle_values, regularised_loss, tree_rows
from strategies import STAND_INS, Problem, make_binned, make_rows, problems, seeds, tree_params

import fullhess
from fullhess.curvature import Layout
from fullhess.grower import Grower
from fullhess.objectives import CustomObjective
from fullhess.params import Params
from fullhess.sampling import ColumnSampler, round_generator
from fullhess.threads import Workers

CURVATURES = ("full", *STAND_INS)
SOLVERS = ("newton", "damped", "exact")
TAME = {"weights": ("ones", "integers"), "scores": ("zero", "moderate")}
LABELS = ("uniform", "single", "skewed")


def tree_settings(objective, **fixed):
    """Oracle settings with a limit on the tree, which training asks for."""
    drawn = tree_params(objective, learning_rate=1.0, **fixed)
    return drawn.map(lambda p: p if p.max_depth or p.max_leaves else replace(p, max_leaves=6))


def check_values(tree, problem, params, hessian):
    """Leaf values to 1e-6: of the value itself, and of the scale of float32 statistics."""
    exact = params.leaf_solver == "exact"
    atol = 1e-7 if exact else 1e-6 * max(1.0, np.abs(tree.values).max())
    if exact and params.reg_lambda < 1e-3:
        # Nothing but its bounds may hold such a leaf: the loss is what must agree.
        best = tree.with_values(oracle_values(tree, problem.binned, problem.rows, params, hessian))
        mine, other = (
            regularised_loss(t, problem.binned, problem.rows, params) for t in (tree, best)
        )
        room = 1e-4 * float(problem.rows.weight.sum()) * np.exp(-0.5 * params.max_range)
        assert mine <= other + 1e-9 * abs(other) + room
        return
    check_leaf_values(tree, problem.binned, problem.rows, params, hessian, rtol=1e-6, atol=atol)


def check(problem, params, hessian="full", split_hessian="full", rtol=1e-5, **changes):
    """Train one tree and hold it against the oracle."""
    params = oracle_params(params, problem.rows.objective)
    tree = one_tree(problem, params, hessian, split_hessian, **changes)
    g, H = problem.stats(split_hessian)
    check_tree(tree, problem.binned, g, H, params, rtol=rtol)
    return tree, params


@settings(max_examples=120)
@given(problems(**TAME, labels=LABELS), st.data())
def test_tree_is_the_oracles(problem, data):
    assume(can_be_split(problem))
    objective = problem.rows.objective
    kinds = CURVATURES if objective == "softmax" else ("full",)
    hessian, split_hessian = (data.draw(st.sampled_from(kinds)) for _ in range(2))
    tree, params = check(problem, data.draw(tree_settings(objective)), hessian, split_hessian)
    check_values(tree, problem, params, hessian)


@settings(max_examples=80)
@given(problems(("softmax",), labels=LABELS), st.data())
def test_tree_is_the_oracles_with_saturated_scores_and_weights_over_ten_orders(problem, data):
    assume(can_be_split(problem))
    fixed = {"reg_lambda": data.draw(st.sampled_from([1.0, 10.0])), "leaf_prior": "ridge"}
    params = data.draw(tree_settings("softmax", **fixed))
    check(problem, params, split_hessian=data.draw(st.sampled_from(CURVATURES)), rtol=1e-4)


def planted(seed, k, n=90, kinds=("normal", "holes", "many", "ties"), objective="softmax"):
    """A problem whose columns carry signal, so that trees have several levels."""
    rng = np.random.default_rng(seed)
    binned = make_binned(rng, n, kinds, quantiles=True, max_bins=12)
    rows = make_rows(rng, n, k, objective, "integers")
    signal = binned.codes.astype(np.float64) @ rng.standard_normal((binned.n_features, k))
    if objective == "softmax":
        y = (signal + rng.gumbel(size=(n, k))).argmax(axis=1)
    else:
        y = signal + rng.standard_normal((n, k))
    return Problem(binned, rows._replace(y=y))


BASE = NaiveParams(max_depth=3, learning_rate=1.0, min_child_weight=0.1)


@pytest.mark.parametrize("hessian", CURVATURES)
@pytest.mark.parametrize("split_hessian", CURVATURES)
def test_every_pair_of_curvatures_grows_the_oracles_tree(hessian, split_hessian):
    problem = planted(1, 3)
    for solver in ("newton", "damped"):
        tree, params = check(problem, replace(BASE, leaf_solver=solver), hessian, split_hessian)
        assert tree.n_leaves >= 4
        check_values(tree, problem, params, hessian)


@pytest.mark.parametrize("k", [2, 3, 7, 12])
@pytest.mark.parametrize("gain", ["guaranteed", "quadratic"])
@pytest.mark.parametrize("prior", ["ridge", "path"])
def test_every_gain_and_prior_grows_the_oracles_tree(k, gain, prior):
    problem = planted(k, k)
    for solver in SOLVERS:
        params = replace(BASE, split_gain=gain, leaf_prior=prior, leaf_solver=solver)
        tree, params = check(problem, params)
        assert tree.n_leaves >= 4
        check_values(tree, problem, params, "full")


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("prior", ["ridge", "path"])
def test_squared_error_grows_the_oracles_tree(k, prior):
    problem = planted(k, k, objective="squared_error")
    tree, params = check(problem, replace(BASE, leaf_prior=prior))
    assert tree.n_leaves >= 4
    check_values(tree, problem, params, "full")


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
@pytest.mark.parametrize("max_leaves", [2, 5, 9])
def test_leaves_are_spent_as_the_policy_says(policy, max_leaves):
    for k in (2, 7):
        params = replace(BASE, grow_policy=policy, max_leaves=max_leaves, max_depth=0)
        tree, _ = check(planted(3, k), params)
        assert tree.n_leaves == max_leaves


@pytest.mark.parametrize("prior", ["ridge", "path"])
def test_trees_of_later_rounds_are_the_oracles(prior):
    problem = planted(5, 3)
    params = oracle_params(
        replace(BASE, learning_rate=0.5, max_depth=2, leaf_prior=prior), "softmax"
    )
    model = boost(problem, params, n_rounds=4)
    raw = problem.rows.raw.copy()
    for tree in model.trees:
        now = Problem(problem.binned, problem.rows._replace(raw=raw.copy()))
        check_tree(tree, now.binned, *now.stats(), params)
        check_leaf_values(tree, now.binned, now.rows, params, atol=1e-7)
        for leaf, rows in zip(tree.leaf, tree_rows(tree, now.binned), strict=True):
            if leaf >= 0:
                raw[rows] += tree.values[leaf]
    predicted = model.predict_raw(problem.binned, base_margin=problem.rows.raw)
    np.testing.assert_array_equal(predicted, raw)


def test_sampled_rows_and_columns_alone_decide_the_tree():
    problem = planted(6, 3)
    model = boost(problem, BASE, subsample=0.6, colsample_bytree=0.5, random_state=3)
    tree = model.trees[0]
    generator = round_generator(3, 0)
    settings_ = Params(**{**engine_params(BASE, problem), "colsample_bytree": 0.5})
    columns = ColumnSampler(problem.binned.n_features, settings_, generator).of_tree()
    rows = np.sort(generator.choice(90, 54, replace=False))
    assert set(tree.feature[tree.feature >= 0]) <= set(columns)
    codes = problem.binned.codes.copy()
    codes[:, np.setdiff1d(np.arange(problem.binned.n_features), columns)] = 0
    visible = fullhess.BinnedMatrix(codes, problem.binned.binning)
    params = oracle_params(BASE, "softmax")
    check_tree(tree, visible, *problem.stats(), params, rows=rows)
    check_leaf_values(tree, visible, problem.rows, params, sample=rows, atol=1e-7)


# What must not change a tree


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
@pytest.mark.parametrize("capacity", [2, 3, 5])
def test_a_small_histogram_budget_grows_a_right_tree(policy, capacity):
    problem = planted(7, 3, n=300)
    params = replace(BASE, grow_policy=policy, max_depth=0, max_leaves=20)
    stats = naive.pack(*problem.stats(), "laplacian")
    trees = []
    for limit in (capacity, 1000):
        with Workers(1) as workers:
            settings_ = Params(**engine_params(params, problem))
            grower = Grower(problem.binned, Layout("laplacian", 3), settings_, True, workers)
            grower.pool.capacity = limit
            columns = ColumnSampler(4, settings_, round_generator(0, 0))
            for _ in range(2):  # the second tree finds every histogram given back
                rows = np.arange(300, dtype=np.int32)
                grown = grower.grow(stats, rows, columns)
                assert grower.pool.in_use == 0
        trees.append(grown.tree)
        check_tree(grown.tree, problem.binned, *problem.stats(), params)
    small, large = trees
    for name in ("feature", "threshold", "left", "right", "count", "category_values"):
        assert np.array_equal(getattr(small, name), getattr(large, name), equal_nan=True)
    np.testing.assert_allclose(small.gain, large.gain, rtol=1e-4, atol=1e-5)


def test_one_megabyte_of_histograms_is_enough(rng):
    n, d = 600, 40
    X = rng.standard_normal((n, d))
    binned = fullhess.BinnedMatrix.from_quantiles(X, max_bins=250)
    y = (X[:, :7] + rng.gumbel(size=(n, 7))).argmax(axis=1)
    rows = Rows("softmax", np.zeros((n, 7)), y, np.ones(n))
    problem = Problem(binned, rows)
    params = replace(BASE, max_depth=4)
    small = one_tree(problem, params, max_histogram_mb=1)
    large = one_tree(problem, params)
    assert binned.binning.cell_offsets[-1] * Layout("laplacian", 7).width * 4 > 2**20
    assert np.array_equal(small.feature, large.feature)
    assert np.array_equal(small.threshold, large.threshold, equal_nan=True)
    np.testing.assert_allclose(small.values, large.values, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("prior", ["ridge", "path"])
@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
def test_every_number_of_threads_gives_the_same_bits(prior, policy):
    problem = planted(8, 3, n=5000)
    params = replace(BASE, grow_policy=policy, leaf_prior=prior, max_depth=0, max_leaves=15)
    models = [
        boost(problem, params, n_rounds=3, n_jobs=n_jobs, subsample=0.9) for n_jobs in (1, 2, 3)
    ]
    for other in models[1:]:
        assert all(same_tree(a, b) for a, b in zip(models[0].trees, other.trees, strict=True))


@settings(max_examples=25)
@given(problems(("softmax",), **TAME, labels=LABELS, outputs=(3,)), seeds())
def test_a_permutation_of_the_rows_leaves_the_splits(problem, seed):
    assume(can_be_split(problem))
    order = np.random.default_rng(seed).permutation(problem.binned.n_samples)
    binned = fullhess.BinnedMatrix(problem.binned.codes[order], problem.binned.binning)
    params = oracle_params(BASE, "softmax")
    shuffled = Problem(binned, problem.rows.take(order))
    check_tree(one_tree(shuffled, params), problem.binned, *problem.stats(), params)


# Dense curvature, end to end


def softmax_derivatives(raw, label):
    rows = Rows("softmax", raw, label, np.ones(len(raw)))
    return naive.gradient(rows), naive.curvature(rows)


@pytest.mark.parametrize("prior", ["ridge", "path"])
@pytest.mark.parametrize("k", [2, 3, 7])
def test_dense_matrices_of_a_custom_objective_grow_the_oracles_tree(prior, k):
    problem = planted(9, k)
    params = replace(BASE, bound="none", leaf_prior=prior, leaf_solver="newton", reg_lambda=3.0)
    model = fullhess.train(
        {**engine_params(params, problem), "num_class": None},
        problem.binned,
        problem.rows.y,
        weight=problem.rows.weight,
        base_margin=problem.rows.raw,
        num_boost_round=1,
        objective=CustomObjective(softmax_derivatives, k),
    )
    tree = model.trees[0]
    assert tree.n_leaves >= 4
    check_tree(tree, problem.binned, *problem.stats(), params)
    check_leaf_values(tree, problem.binned, problem.rows, params, atol=1e-6)
