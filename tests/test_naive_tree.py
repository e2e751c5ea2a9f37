"""Laws of the oracle's trees, and proof that the verification of a tree can fail."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import NaiveParams, Rows, weighted_stats
from naive_checks import check_leaf_values, check_tree, regularised_loss, to_tree
from naive_tree import (
    all_splits,
    apply,
    best_split,
    goes_left,
    grow_tree,
    histogram,
    naive_boost,
    score_partitions,
    set_outputs,
)
from strategies import Problem, make_binned, make_rows, problems, seeds, tree_params

from fullhess.bins import BinnedMatrix
from fullhess.tree import Tree

NAN = np.nan


def regression(X, y, cuts, **kwargs) -> tuple[BinnedMatrix, naive.Array, naive.Array]:
    """One target, unit weights, scores zero: columns of X, g (n, 1) and H (n, 1, 1)."""
    binned = BinnedMatrix.from_cuts(np.array(X).T, cuts, n_jobs=1, **kwargs)
    g = -np.array(y, np.float64)[:, None]
    return binned, g, np.ones((len(g), 1, 1))


SCALAR = NaiveParams(reg_lambda=0.0, bound="none", cat_smooth=1e-9)


# Histograms and candidates


@given(problems())
def test_cells_of_every_feature_sum_to_the_node(problem):
    g, H = problem.stats()
    for count, G, A in histogram(problem.binned.codes, problem.binned.binning.n_bins, g, H):
        assert count.sum() == len(g)
        np.testing.assert_allclose(G.sum(axis=0), g.sum(axis=0), atol=1e-12 * np.abs(g).sum())
        np.testing.assert_allclose(A.sum(axis=0), H.sum(axis=0), atol=1e-12 * np.abs(H).sum())


@given(problems(weights=("ones", "integers"), scores=("moderate",)))
def test_cumulated_cells_give_the_gain_of_every_numeric_candidate(problem):
    g, H = problem.stats()
    params = NaiveParams()
    codes, binning = problem.binned.codes, problem.binned.binning
    cells = histogram(codes, binning.n_bins, g, H)
    parent = naive.node_solve(g.sum(axis=0), H.sum(axis=0), params).score
    for split in all_splits(codes, binning, g, H, params):
        if split["left_set"] is None:
            taken = np.arange(len(cells[split["feature"]][0])) <= split["bin"]
            taken[-1] = split["missing_left"]
            _, G, A = cells[split["feature"]]
            scores = [
                naive.node_solve(G[side].sum(axis=0), A[side].sum(axis=0), params).score
                for side in (taken, ~taken)
            ]
            np.testing.assert_allclose(split["gain"], sum(scores) - parent, rtol=1e-9, atol=1e-9)


@given(problems())
def test_candidates_part_the_rows_as_their_description_says(problem):
    codes, binning = problem.binned.codes, problem.binned.binning
    g, H = problem.stats()
    for split in all_splits(codes, binning, g, H, NaiveParams(max_cat_to_onehot=2)):
        j = split["feature"]
        left = goes_left(codes[:, j], split, binning.n_bins[j])
        assert np.array_equal(left, split["left_mask"]) and 0 < left.sum() < len(left)
        if split["left_set"] is not None:
            assert not left[codes[:, j] == binning.n_bins[j]].any()


def test_present_against_missing_is_tried_once_and_sends_missing_right():
    binned, g, H = regression([[1.0, 2.0, NAN, NAN]], [0, 0, 5, 5], [[1.5]])
    splits = all_splits(binned.codes, binned.binning, g, H, SCALAR)
    assert [(s["bin"], s["missing_left"]) for s in splits] == [(0, False), (0, True), (1, False)]
    best = best_split(splits, SCALAR)
    assert best["bin"] == 1 and best["left_mask"].tolist() == [True, True, False, False]


def test_ties_go_to_the_lowest_feature_and_bin_and_to_missing_right():
    column = [1.0, 1.0, 4.0, 4.0, 4.0]
    binned, g, H = regression([column, column], [0, 0, 1, 1, 1], [[2.0, 3.0], [2.0, 3.0]])
    best = best_split(all_splits(binned.codes, binned.binning, g, H, SCALAR), SCALAR)
    assert (best["feature"], best["bin"], best["missing_left"]) == (0, 0, False)
    binned, g, H = regression([[*column, NAN]], [0, 0, 1, 1, 1, 0.6], [[2.0, 3.0]])
    params = replace(SCALAR, min_samples_leaf=3)
    best = best_split(all_splits(binned.codes, binned.binning, g, H, params), params)
    assert best["missing_left"]  # right would leave two rows on the left


def test_without_missing_rows_the_larger_child_takes_them():
    binned, g, H = regression([[0.0, 1.0, 2.0]], [0, 1, 2], [[0.5, 1.5]])
    splits = all_splits(binned.codes, binned.binning, g, H, SCALAR)
    assert [s["missing_left"] for s in splits] == [False, True]


def test_rounding_of_equal_scores_is_no_gain():
    binned, g, H = regression([[0.0, 1.0]], [1.0, 1.0 + 1e-7], [[0.5]])
    splits = all_splits(binned.codes, binned.binning, g, H, SCALAR)
    assert splits and best_split(splits, SCALAR) is None


@given(seeds(), st.integers(2, 6))
def test_ordered_categories_hold_the_best_of_all_subsets_of_one_output(seed, n_categories):
    rng = np.random.default_rng(seed)
    column = np.concatenate([np.arange(n_categories), rng.integers(0, n_categories, 12)])
    y = rng.standard_normal(len(column)) + rng.standard_normal(n_categories)[column]
    binned, g, H = regression([column], y, [[]], categories={0: np.arange(n_categories)})
    params = replace(SCALAR, max_cat_to_onehot=1)
    best = max(s["gain"] for s in all_splits(binned.codes, binned.binning, g, H, params))
    subsets = [c for m in range(1, n_categories) for c in combinations(range(n_categories), m)]
    masks = np.stack([np.isin(column, c) for c in subsets])
    np.testing.assert_allclose(best, score_partitions(masks, g, H, SCALAR)["gain"].max())


def test_few_categories_stand_alone_and_missing_rows_are_never_listed():
    column = [3.0, 3.0, 5.0, 5.0, 8.0, NAN]
    binned, g, H = regression([column], [0, 1, 2, 3, 4, 5], [[]], categories={0: [8, 5, 3]})
    splits = all_splits(binned.codes, binned.binning, g, H, SCALAR)
    assert [s["left_set"] for s in splits] == [(0,), (1, 2), (1,), (0, 2), (2,), (0, 1)]


# Growing and boosting


def small_problem(seed=0, n=60, k=3, objective="softmax", kinds=("normal", "holes", "many")):
    rng = np.random.default_rng(seed)
    binned = make_binned(rng, n, kinds, quantiles=True, max_bins=8)
    rows = make_rows(rng, n, k, objective)
    signal = binned.codes[:, 0].astype(np.int64)
    if objective == "softmax":
        rows = rows._replace(y=np.where(rng.random(n) < 0.7, signal % k, rows.y))
    return Problem(binned, rows)


@settings(max_examples=20)
@given(problems(max_rows=30, max_features=2, outputs=(1, 2, 3)), st.data())
def test_leaves_part_the_rows_and_obey_the_limits(problem, data):
    params = data.draw(tree_params(problem.rows.objective))
    nodes = grow_tree(problem.binned, *problem.stats(), params)
    leaves = [v for v, node in enumerate(nodes) if node.split is None]
    assert np.array_equal(
        np.sort(np.concatenate([nodes[v].rows for v in leaves])),
        np.arange(problem.binned.n_samples),
    )
    at = apply(nodes, problem.binned)
    assert all((at[nodes[v].rows] == v).all() for v in leaves)
    assert not params.max_leaves or len(leaves) <= params.max_leaves
    assert not params.max_depth or max(node.depth for node in nodes) <= params.max_depth
    if len(nodes) > 1:
        assert min(node.count for node in nodes) >= params.min_samples_leaf
        lightest = min(node.cover for node in nodes) / problem.k
        assert lightest >= params.min_child_weight * (1 - 1e-9)


def test_both_policies_grow_one_tree_where_leaves_are_free():
    problem = small_problem()
    params = NaiveParams(max_depth=3)
    leaves = []
    for policy in ("depthwise", "lossguide"):
        nodes = grow_tree(problem.binned, *problem.stats(), replace(params, grow_policy=policy))
        leaves.append({tuple(node.rows) for node in nodes if node.split is None})
    assert leaves[0] == leaves[1] and len(leaves[0]) > 4


@pytest.mark.parametrize("prior", ["ridge", "path"])
@pytest.mark.parametrize("solver", ["damped", "exact"])
@pytest.mark.parametrize("hessian", ["full", "absolute_residual"])
def test_training_loss_never_rises_at_learning_rate_one(prior, solver, hessian):
    problem = small_problem(seed=1)
    for lam in (0.0, 1.0):
        params = NaiveParams(
            reg_lambda=lam, learning_rate=1.0, leaf_solver=solver, leaf_prior=prior, max_depth=2
        )
        run = naive_boost(
            problem.binned, "softmax", problem.rows.y, problem.rows.weight, 3, params, 5, hessian
        )
        assert (np.diff(run["losses"]) <= 1e-9).all()
        assert run["losses"][-1] < 0.8 * run["losses"][0]


def boosted(problem: Problem, rows: Rows, **settings) -> naive.Array:
    params = NaiveParams(max_depth=2, learning_rate=0.5, **settings)
    k = rows.raw.shape[1]
    run = naive_boost(problem.binned, rows.objective, rows.y, rows.weight, k, params, 3)
    return run["raw"]


@pytest.mark.parametrize("prior", ["ridge", "path"])
def test_boosting_follows_a_permutation_of_the_classes(prior):
    problem = small_problem(seed=2)
    order = np.array([2, 0, 1])
    rows = problem.rows._replace(y=np.argsort(order)[problem.rows.y])
    before = boosted(problem, problem.rows, leaf_prior=prior)
    np.testing.assert_allclose(boosted(problem, rows, leaf_prior=prior), before[:, order])


@pytest.mark.parametrize("prior", ["ridge", "path"])
def test_boosting_with_doubled_weights_equals_boosting_with_duplicated_rows(prior):
    problem = small_problem(seed=3)
    twice = np.repeat(np.arange(problem.binned.n_samples), 2)
    duplicated = Problem(
        BinnedMatrix(problem.binned.codes[twice], problem.binned.binning), problem.rows.take(twice)
    )
    doubled = problem.rows._replace(weight=2 * problem.rows.weight)
    np.testing.assert_allclose(
        boosted(duplicated, duplicated.rows, leaf_prior=prior),
        boosted(problem, doubled, leaf_prior=prior)[twice],
    )


# The verification of finished trees


def grown(problem: Problem, params: NaiveParams) -> tuple[Tree, naive.Array, naive.Array]:
    g, H = problem.stats()
    nodes = grow_tree(problem.binned, g, H, params)
    set_outputs(nodes, problem.rows, params, "full")
    return to_tree(nodes, problem.binned), g, H


@settings(max_examples=25)
@given(problems(max_rows=40, max_features=3, outputs=(1, 2, 3, 7)), st.data())
def test_the_oracles_own_trees_pass(problem, data):
    params = data.draw(tree_params(problem.rows.objective))
    tree, g, H = grown(problem, params)
    check_tree(tree, problem.binned, g, H, params, rtol=1e-9)
    check_leaf_values(tree, problem.binned, problem.rows, params)


def altered(tree: Tree, **changes) -> Tree:
    return Tree(**{**{f.name: getattr(tree, f.name) for f in fields(tree)}, **changes})


def changed(array: naive.Array, position: int, value) -> naive.Array:
    array = array.copy()
    array[position] = value
    return array


PARAMS = NaiveParams(max_depth=3, leaf_prior="path")


def test_a_wrong_gain_count_or_cover_is_found():
    problem = small_problem()
    tree, g, H = grown(problem, PARAMS)
    for name in ("gain", "count", "cover"):
        wrong = changed(getattr(tree, name), 0, getattr(tree, name)[0] * 1.01 + 1)
        with pytest.raises(AssertionError, match=name):
            check_tree(altered(tree, **{name: wrong}), problem.binned, g, H, PARAMS)


def test_a_split_that_is_not_the_best_is_found():
    problem = small_problem(kinds=("normal", "holes"))  # the first column is the signal
    stump = replace(PARAMS, max_depth=1)
    codes = problem.binned.codes.copy()
    codes[:, 0] = 0
    blind = Problem(BinnedMatrix(codes, problem.binned.binning), problem.rows)
    tree, g, H = grown(blind, stump)
    check_tree(tree, blind.binned, g, H, stump)
    with pytest.raises(AssertionError, match="but feature 0"):
        check_tree(tree, problem.binned, g, H, stump)


def test_an_unsplit_leaf_with_a_gain_is_found():
    problem = small_problem()
    tree, g, H = grown(problem, PARAMS)
    with pytest.raises(AssertionError, match="could gain"):
        check_tree(tree, problem.binned, g, H, replace(PARAMS, max_depth=6))


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
def test_leaves_spent_on_the_lesser_gain_are_found(policy):
    problem = small_problem()
    other = "lossguide" if policy == "depthwise" else "depthwise"
    for seed in range(20):  # until the two policies differ
        problem = small_problem(seed)
        params = replace(PARAMS, max_depth=0, max_leaves=5, grow_policy=policy)
        tree, g, H = grown(problem, params)
        check_tree(tree, problem.binned, g, H, params)
        if (
            tree.depth().max()
            != grown(problem, replace(params, grow_policy=other))[0].depth().max()
        ):
            break
    wrong, _, _ = grown(problem, replace(params, grow_policy=other))
    with pytest.raises(AssertionError, match=r"could gain|was better"):
        check_tree(wrong, problem.binned, g, H, params)


@pytest.mark.parametrize("prior", ["ridge", "path"])
def test_a_wrong_leaf_value_is_found_and_raises_the_regularised_loss(prior):
    problem = small_problem()
    params = replace(PARAMS, leaf_prior=prior)
    tree, _, _ = grown(problem, params)
    wrong = tree.with_values(tree.values * 1.001)
    with pytest.raises(AssertionError):
        check_leaf_values(wrong, problem.binned, problem.rows, params)
    best, worse = (regularised_loss(t, problem.binned, problem.rows, params) for t in (tree, wrong))
    assert worse > best


def test_statistics_of_another_curvature_are_found():
    problem = small_problem()
    tree, g, _ = grown(problem, PARAMS)
    _, H = weighted_stats(problem.rows, "diagonal")
    with pytest.raises(AssertionError):
        check_tree(tree, problem.binned, g, H, PARAMS)
