"""Splits of ordered categories: how many are listed, which, and at what price."""

from __future__ import annotations

from dataclasses import replace

import naive
import numpy as np
import pytest
from engine import Search, boost, can_be_split, oracle_params, same_tree
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive import NaiveParams, Rows
from naive_checks import check_tree
from naive_tree import score_partitions
from strategies import Problem, make_rows, problems, seeds

import fullhess
from fullhess.bins import BinnedMatrix

TAME = {"weights": ("ones", "integers"), "scores": ("zero", "moderate")}
RTOL = 1e-5


def categories_problem(seed, n=120, n_categories=10, missing=0.0, k=3):
    """One categorical column that decides the class, some categories rare."""
    rng = np.random.default_rng(seed)
    column = rng.choice(n_categories, n, p=rng.dirichlet(np.full(n_categories, 0.7)))
    column[:n_categories] = np.arange(n_categories)
    column = column.astype(np.float64)
    y = rng.integers(0, k, n_categories)[column.astype(int)]
    y = np.where(rng.random(n) < 0.3, rng.integers(0, k, n), y)
    column[rng.random(n) < missing] = np.nan
    codes = {0: rng.permutation(n_categories)}
    binned = BinnedMatrix.from_cuts(column[:, None], [[]], categories=codes, n_jobs=1)
    return Problem(binned, make_rows(rng, n, k)._replace(y=y))


def searched(problem, params, layout="laplacian", kind="full"):
    search = Search(problem, oracle_params(params, "softmax"), layout, *problem.stats(kind))
    search.run()
    return search


@settings(max_examples=80)
@given(
    seeds(),
    st.sampled_from([0.0, 0.2]),
    st.sampled_from([0, 1, 2, 4, 30]),
    st.sampled_from([1, 2, 8, 40]),
    st.sampled_from([0.0, 5.0]),
    st.sampled_from([("laplacian", "full"), ("diagonal", "diagonal")]),
)
def test_best_split_of_ordered_categories_is_the_oracles(seed, missing, most, least, l2, kinds):
    problem = categories_problem(seed, missing=missing)
    params = NaiveParams(
        max_cat_threshold=most, min_data_per_group=least, cat_l2=l2, reg_lambda=0.5
    )
    search = searched(problem, params, *kinds)
    candidates, _ = search.candidates(0, slack=0.0)
    assume(all(c["determined"] for c in candidates))
    split = search.splits[0]
    if split[0] == -np.inf:
        assert not candidates
        return
    mask = search.left_mask(0)
    mine = [c for c in candidates if np.array_equal(c["left_mask"], mask)]
    if not mine:  # either side may be listed where nothing is in the rest
        mine = [c for c in candidates if np.array_equal(c["left_mask"], ~mask)]
    assert mine
    best = max(c["gain"] for c in candidates)
    room = 3 * RTOL * mine[0]["score"] + 1e-9
    assert abs(split[0] - mine[0]["gain"]) <= room and mine[0]["gain"] >= best - room
    assert [split[4], split[5]] == [mask.sum(), (~mask).sum()]


@settings(max_examples=50)
@given(problems(("softmax",), **TAME, columns=("many", "few", "normal"), outputs=(2, 3)), st.data())
def test_trees_of_restricted_categories_are_the_oracles(problem, data):
    assume(can_be_split(problem))
    params = NaiveParams(
        max_cat_threshold=data.draw(st.sampled_from([0, 1, 3])),
        min_data_per_group=data.draw(st.sampled_from([1, 3, 8])),
        cat_l2=data.draw(st.sampled_from([0.0, 3.0])),
        max_cat_to_onehot=data.draw(st.sampled_from([1, 4])),
        max_depth=3,
        learning_rate=1.0,
    )
    params = oracle_params(params, "softmax")
    tree = boost(problem, params).trees[0]
    check_tree(tree, problem.binned, *problem.stats(), params)


# What each setting does


def listed_sizes(model):
    return [
        int(size)
        for tree in model.trees
        for size in np.diff(tree.category_offsets)[tree.is_categorical]
    ]


def train(problem, **settings_):
    params = {"max_depth": 4, "learning_rate": 0.5, "n_jobs": 1, "min_child_weight": 0.1}
    return boost(problem, NaiveParams(max_depth=4), n_rounds=4, **{**params, **settings_})


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_split_lists_more_categories_than_allowed(missing, limit):
    problem = categories_problem(1, n=400, n_categories=20, missing=missing)
    free = listed_sizes(train(problem, max_cat_to_onehot=1))
    held = listed_sizes(train(problem, max_cat_to_onehot=1, max_cat_threshold=limit))
    assert max(free) > limit and held and max(held) <= limit
    assert max(held) == limit


def test_a_limit_beyond_all_categories_changes_no_bit():
    problem = categories_problem(2, n=300, n_categories=12, missing=0.1)
    for changes in ({"max_cat_threshold": 12}, {"min_data_per_group": 1}, {"cat_l2": 0.0}):
        one, two = train(problem), train(problem, **changes)
        assert all(same_tree(a, b) for a, b in zip(one.trees, two.trees, strict=True))


def test_the_short_end_of_the_order_is_listed_whichever_it_is():
    """Classes part the highest category, or the lowest, from all others."""
    column = np.repeat(np.arange(8.0), 10)
    binned = BinnedMatrix.from_cuts(
        column[:, None], [[]], categories={0: np.arange(8)}, n_jobs=1
    )  # fmt: skip
    for odd in range(8):
        y = (column == odd).astype(np.int64)
        problem = Problem(binned, Rows("softmax", np.zeros((80, 2)), y, np.ones(80)))
        params = NaiveParams(max_cat_threshold=1)
        assert np.array_equal(searched(problem, params).left_mask(0), y == 1)


def test_small_categories_are_never_listed_and_go_with_the_missing_rows():
    problem = categories_problem(3, n=400, n_categories=20)
    codes = problem.binned.codes[:, 0]
    least = 25
    model = train(problem, min_data_per_group=least, max_depth=1)
    known = problem.binned.binning.categories[0]
    count = np.array([np.sum(codes == b) for b in range(len(known))])
    assert (count < least).any() and (count >= least).sum() > 4
    for tree in model.trees:
        listed = np.isin(known, tree.category_values)
        assert listed.any() and count[listed].min() >= least
    free = train(problem, max_depth=1)
    assert any(
        count[np.isin(known, tree.category_values)].min() < least for tree in free.trees
    )  # fmt: skip


def test_the_extra_ridge_lowers_the_gain_of_ordered_splits_alone():
    problem = categories_problem(4)
    plain = searched(problem, NaiveParams())
    dear = searched(problem, NaiveParams(cat_l2=20.0))
    assert dear.splits[0, 0] < plain.splits[0, 0]
    assert dear.nodes.score[0] == plain.nodes.score[0]
    g, H = problem.stats()
    mask = dear.left_mask(0)
    scored = score_partitions(mask[None], g, H, dear.params, None, 20.0)
    np.testing.assert_allclose(dear.splits[0, 1], scored["score"][0], rtol=1e-5)
    alone = [
        searched(problem, replace(NaiveParams(max_cat_to_onehot=50), cat_l2=l2)).splits[0]
        for l2 in (0.0, 20.0)
    ]
    assert np.array_equal(*alone)


def test_the_extra_ridge_leaves_the_values_of_leaves():
    """The structure may change, the values of a structure do not."""
    problem = categories_problem(5, n=300)
    one, two = (train(problem, cat_l2=l2, max_depth=1).trees[0] for l2 in (0.0, 0.01))
    assert np.array_equal(one.category_values, two.category_values)
    assert np.array_equal(one.values, two.values) and one.gain[0] > two.gain[0]


@pytest.mark.parametrize("settings_", [{"max_cat_threshold": 2}, {"min_data_per_group": 30}])
def test_predictions_on_raw_values_and_bins_agree(settings_):
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.integers(0, 30, 500), rng.standard_normal(500)]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(0, 3, 30)[np.nan_to_num(X[:, 0]).astype(int)]
    binned = BinnedMatrix.from_quantiles(X, categorical=[0])
    with fullhess.Trainer({**settings_, "n_jobs": 1}, binned, y) as trainer:
        for _ in range(3):
            trainer.step()
        model = trainer.model()
        assert np.array_equal(trainer.raw, model.predict_raw(X))
    unseen = np.array([[99.0, 0.0], [np.nan, 0.0]])
    assert np.array_equal(*model.predict_raw(unseen))


def test_naive_oracle_lists_both_ends_of_an_order():
    problem = categories_problem(7)
    params = NaiveParams(max_cat_threshold=2)
    found = Search(problem, params, "laplacian", *naive.weighted_stats(problem.rows)).candidates(
        0, 0.0
    )[0]
    sizes = sorted(len(c["left_set"]) for c in found)
    assert sizes == [1, 1, 2, 2]
