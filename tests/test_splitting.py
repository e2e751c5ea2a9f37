"""The split search of one node, feature by feature, against the oracle's candidates."""

from __future__ import annotations

from dataclasses import replace

import naive
import numpy as np
import pytest
from engine import Search, oracle_params
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive import NaiveParams, Rows, node_solve
from naive_checks import CLEAR_GAP, TIE
from naive_tree import (
    best_split,
    category_order,
    gain_floor,
    node_value,
    score_partitions,
)
from strategies import Problem, make_rows, problems, seeds, tree_params

from fullhess.bins import BinnedMatrix
from fullhess.kernels.categories import order_categories
from fullhess.kernels.lanes import HALF, evaluate_chunk, load_candidates, score_row
from fullhess.kernels.splitting import SPLIT_FIELDS, TIE_TOLERANCE, choose_feature

TAME = {"weights": ("ones", "integers"), "scores": ("zero", "moderate")}
RTOL = 1e-5  # of score(L) + score(R): float32 cells and lanes


def rounding(search: Search, mask, value) -> float:
    """How far float32 statistics can move the score of a partition.

    A gradient that is the small rest of large terms keeps the rounding of these.
    """
    room = 1e-9
    x = np.zeros(search.problem.k) if value is None else value
    for side in (mask, ~mask):
        g, H = search.g[side], search.H[side]
        step = node_solve(g.sum(axis=0), H.sum(axis=0), search.params, x).d
        room += 3e-7 * (np.abs(g).sum() + np.abs(H).sum() * np.abs(x).max()) * np.abs(step).max()
    return room


def check_feature(search: Search, feature: int) -> None:
    """The found split of a feature is valid, has the gain it says, and none is better."""
    params, split = search.params, search.splits[feature]
    candidates, value = search.candidates(feature, slack=0.0)
    enough = params.min_child_weight * (1 + RTOL)
    certain = [c for c in candidates if c["determined"] and c["child_weight"] >= enough]
    if split[0] == -np.inf:
        assert not certain
        return
    mask = search.left_mask(feature)
    scored = score_partitions(mask[None], search.g, search.H, params, value)
    gain, score = float(scored["gain"][0]), float(scored["score"][0])
    assert [split[4], split[5]] == [mask.sum(), (~mask).sum()]
    assert min(split[4], split[5]) >= max(1, params.min_samples_leaf)
    assert scored["child_weight"][0] >= params.min_child_weight * (1 - RTOL)
    room = RTOL * score + rounding(search, mask, value)
    assert abs(split[0] - gain) <= room and abs(split[1] - score) <= room
    for other in certain:
        unseen = (RTOL + TIE) * other["score"] + rounding(search, other["left_mask"], value)
        assert other["gain"] <= gain + room + unseen


@settings(max_examples=120)
@given(problems(**TAME, labels=("uniform", "single", "skewed")), st.data())
def test_best_split_of_every_feature_is_the_oracles(problem, data):
    objective = problem.rows.objective
    params = data.draw(tree_params(objective, min_split_gain=0.0))
    if objective == "softmax":
        kind = data.draw(st.sampled_from(["full", "full", "diagonal", "absolute_residual"]))
        layout = "laplacian" if kind == "full" else "diagonal"
    else:
        kind, layout = "full", "diagonal"
    search = Search(problem, oracle_params(params, objective), layout, *problem.stats(kind))
    search.run()
    for feature in search.features:
        check_feature(search, feature)


@settings(max_examples=60)
@given(problems(("softmax",), **TAME, outputs=(2, 3, 7)), st.data())
def test_dense_layout_finds_the_same_splits_as_the_oracle(problem, data):
    params = data.draw(tree_params(reg_lambda=data.draw(st.sampled_from([1.0, 10.0]))))
    search = Search(problem, params, "dense", *problem.stats())
    search.run()
    for feature in search.features:
        check_feature(search, feature)


@given(problems(("softmax",), outputs=(3, 12), labels=("uniform",)), st.data())
def test_saturated_scores_and_wide_weights_give_no_false_gain(problem, data):
    params = data.draw(tree_params(reg_lambda=1.0, leaf_prior="ridge", split_gain="guaranteed"))
    search = Search(problem, params, "laplacian", *problem.stats())
    for split, feature in zip(search.run(), search.features, strict=True):
        if split[0] > -np.inf:
            mask = search.left_mask(feature)
            scored = score_partitions(mask[None], search.g, search.H, params, None)
            assert abs(split[1] - scored["score"][0]) <= 1e-4 * scored["score"][0] + 1e-12


@pytest.mark.parametrize("k", [3, 7])
@pytest.mark.parametrize("lam", [0.0, 1e-6, 1e-3])
@pytest.mark.parametrize("path", [False, True])
def test_a_class_that_has_all_but_vanished_spoils_no_gain(rng, k, lam, path):
    X = rng.standard_normal((300, 2))
    binned = BinnedMatrix.from_quantiles(X, max_bins=32)
    params = NaiveParams(reg_lambda=lam, leaf_prior="path" if path else "ridge")
    for vanished in (0, k - 1):  # the last class is the reference of the lanes
        for log_p in (-10.0, -20.0):
            rows = make_rows(rng, 300, k)
            others = np.delete(np.arange(k), vanished)
            y = others[np.where(X[:, 0] > 0.5, 0, rng.integers(0, k - 1, 300))]
            rows = rows._replace(y=y).shift(log_p * np.eye(k)[vanished])
            search = Search(Problem(binned, rows), params, "laplacian", *naive.weighted_stats(rows))
            search.run()
            check_feature(search, 0)
            check_feature(search, 1)


@given(problems(**TAME), seeds())
def test_features_not_allowed_have_no_split(problem, seed):
    params = oracle_params(NaiveParams(), problem.rows.objective)
    layout = "laplacian" if problem.rows.objective == "softmax" else "diagonal"
    search = Search(problem, params, layout, *problem.stats())
    free = search.run().copy()
    rng = np.random.default_rng(seed)
    allowed = (rng.random(len(search.features)) < 0.5).astype(np.uint8)
    held = search.run(allowed)
    assert (held[allowed == 0, 0] == -np.inf).all()
    assert np.array_equal(held[allowed == 1], free[allowed == 1], equal_nan=True)


# Chunks of candidates


def numeric_search(rng, n_bins, k, params, missing=0.0):
    """One column of exactly ``n_bins`` bins, none of them empty."""
    n = 3 * n_bins
    codes = np.concatenate([np.arange(n_bins), rng.integers(0, n_bins, n - n_bins)])
    codes[n_bins:][rng.random(n - n_bins) < missing] = n_bins
    column = np.where(codes < n_bins, codes, np.nan).astype(np.float64)
    cuts = np.arange(n_bins - 1) + 0.5
    binned = BinnedMatrix.from_cuts(column[:, None], [cuts], n_jobs=1)
    rows = make_rows(rng, n, k)
    drift = np.sin(codes / n_bins * rng.uniform(1, 9))[:, None] * rng.standard_normal(k)
    y = (drift + 0.5 * rng.gumbel(size=(n, k))).argmax(axis=1)
    problem = Problem(binned, Rows("softmax", rows.raw, y, rows.weight))
    return Search(problem, params, "laplacian", *problem.stats())


@pytest.mark.parametrize(
    "n_candidates", [1, HALF - 1, HALF, HALF + 1, 2 * HALF - 1, 2 * HALF, 2 * HALF + 1, 150]
)
def test_every_candidate_counts_at_the_edges_of_a_chunk(rng, n_candidates):
    for k in (2, 3):
        for missing in (0.0, 0.3):
            search = numeric_search(rng, n_candidates + 1, k, NaiveParams(), missing)
            search.run()
            check_feature(search, 0)


@pytest.mark.parametrize("position", [0, HALF - 1, HALF, 2 * HALF - 1, 2 * HALF, 3 * HALF - 2])
def test_a_clear_best_candidate_is_found_wherever_it_stands_in_its_chunk(rng, position):
    search = numeric_search(rng, 3 * HALF, 3, NaiveParams())
    rows = search.problem.rows
    codes = search.problem.binned.codes[:, 0]
    problem = Problem(search.problem.binned, rows._replace(y=(codes > position).astype(np.int64)))
    clear = Search(problem, search.params, "laplacian", *problem.stats())
    assert clear.run()[0, 2] == position


def scan(search: Search, needed=None):
    """The search of a column without missing rows, chunk by chunk; all chunks in full
    unless ``needed`` says what may be dropped. Returns the winner and the dropped chunks.
    """
    settings_ = search.grower.settings
    cells = search.histogram[: search.problem.binned.binning.n_bins[0]].astype(np.float64)
    prefixes, total = np.cumsum(cells, axis=0)[:-1], cells.sum(axis=0)
    best, threshold, dropped = (-np.inf, -1, 0), -1.0, 0
    for start in range(0, len(prefixes), HALF):
        chunk = np.zeros((HALF, len(total)))
        n = min(HALF, len(prefixes) - start)
        chunk[:n] = prefixes[start : start + n]
        lanes = search.scratch.lanes
        load_candidates(lanes, n, chunk, total)
        may_drop = threshold if needed is None else needed
        if not evaluate_chunk(
            lanes, n, settings_, settings_.reg_lambda, search.center, False, may_drop
        ):
            dropped += 1
            continue
        row = lanes[score_row(settings_)].astype(np.float64)
        for c in range(n):
            score = row[c] + row[HALF + c]
            if score > threshold:
                threshold = score * (1.0 + TIE_TOLERANCE)
                best = (score - search.nodes.score[0], score, start + c)
    return best, dropped


@pytest.mark.parametrize("k", [3, 7])
def test_dropping_chunks_early_never_changes_the_result(rng, k):
    dropped = 0
    for _ in range(20):
        search = numeric_search(rng, 200, k, NaiveParams(reg_lambda=0.1))
        complete, none = scan(search, needed=-1.0)
        assert none == 0
        shortened, n = scan(search)
        dropped += n
        assert complete == shortened == tuple(search.run()[0, :3])
    assert dropped > 0  # else nothing was tested


# Categories


@settings(max_examples=80)
@given(problems(**TAME, columns=("few", "many"), max_features=2), st.data())
def test_categories_are_scanned_by_their_projection_and_each_once(problem, data):
    objective = problem.rows.objective
    params = oracle_params(data.draw(tree_params(objective)), objective)
    layout = "laplacian" if objective == "softmax" else "diagonal"
    search = Search(problem, params, layout, *problem.stats())
    binning, offsets = problem.binned.binning, search.grower.pool.offsets
    orders = np.full(search.grower.pool.shape[0], -9, np.int32)
    order_categories(
        search.histogram, search.features, np.ones(len(search.features), np.uint8),
        binning.n_bins, offsets, binning.features.categorical, search.grower.settings,
        search.center, orders,
    )  # fmt: skip
    value = node_value(search.g.sum(axis=0), search.H.sum(axis=0), params, None)
    for feature in search.features:
        order = orders[offsets[feature] : offsets[feature + 1]]
        codes = problem.binned.codes[:, feature]
        present = np.unique(codes[codes < binning.n_bins[feature]])
        used = order[: len(present)]
        assert np.array_equal(np.sort(used), present) and (order[len(present) :] == -1).all()
        if len(present) <= params.max_cat_to_onehot:
            assert np.array_equal(used, present)
            continue
        projection, sure = category_order(codes, present, search.g, search.H, params, value)
        if sure:
            steps = np.diff(projection[np.searchsorted(present, used)])
            room = CLEAR_GAP * np.ptp(projection)
            assert (steps >= -room).all() or (steps <= room).all()


def test_missing_rows_join_the_listed_categories_or_the_others_whichever_is_better():
    column = np.array([0.0, 1.0, 2.0, np.nan] * 10)
    binned = BinnedMatrix.from_cuts(column[:, None], [[]], categories={0: [0, 1, 2]}, n_jobs=1)
    for partner in range(3):  # missing rows are of the class of this category
        y = np.where((column == partner) | np.isnan(column), 1, 0)
        rows = Rows("softmax", np.zeros((40, 2)), y, np.ones(40))
        search = Search(
            Problem(binned, rows), NaiveParams(), "laplacian", *naive.weighted_stats(rows)
        )
        search.run()
        assert np.array_equal(search.left_mask(0), y == 0)


# Ties, and the choice among features


def test_equal_columns_go_to_the_first_one_and_equal_bins_to_the_lowest(rng):
    column = rng.integers(0, 5, 80).astype(np.float64)
    cuts = np.arange(0.25, 5, 0.5)  # every second bin is empty
    binned = BinnedMatrix.from_cuts(np.column_stack([column, column]), [cuts, cuts], n_jobs=1)
    rows = make_rows(rng, 80, 3)._replace(y=(column > 2).astype(np.int64))
    search = Search(Problem(binned, rows), NaiveParams(), "laplacian", *naive.weighted_stats(rows))
    splits = search.run()
    assert np.array_equal(splits[0], splits[1])
    assert splits[0, 2] == 4  # cut 2.25; cut 2.75 parts the rows alike
    assert choose_feature(search.features, 0.0, splits) == 0


@given(problems(**TAME, labels=("uniform",)), st.data())
def test_chosen_feature_has_the_best_gain_of_the_oracle(problem, data):
    objective = problem.rows.objective
    params = oracle_params(data.draw(tree_params(objective)), objective)
    layout = "laplacian" if objective == "softmax" else "diagonal"
    search = Search(problem, params, layout, *problem.stats())
    splits = search.run()
    found = [c for j in search.features for c in search.candidates(j, 0.0)[0]]
    assume(all(c["determined"] for c in found))
    assume(all(abs(c["child_weight"] - params.min_child_weight) > 1e-4 for c in found))
    expected = best_split(found, params)
    chosen = choose_feature(search.features, params.min_split_gain, splits)
    room = 3 * RTOL * max((c["score"] for c in found), default=0.0) + 1e-9
    if chosen >= 0 and expected is not None:
        assert abs(splits[chosen, 0] - expected["gain"]) <= room
    elif chosen >= 0:  # one gain just above the floor, the other just below
        assert splits[chosen, 0] <= gain_floor(splits[chosen, 1], params) + room
    elif expected is not None:
        assert expected["gain"] <= gain_floor(expected["score"], params) + room


@pytest.mark.parametrize(
    ("splits", "min_split_gain", "chosen"),
    [
        ([(5.0, 9.0), (5.0, 9.0)], 0.0, 0),
        ([(5.0, 9.0), (5.0 + 1e-7, 9.0 + 1e-7)], 0.0, 0),  # within rounding
        ([(5.0, 9.0), (5.1, 9.1)], 0.0, 1),
        ([(5.0, 9.0), (-np.inf, np.nan)], 0.0, 0),
        ([(5.0, 9.0), (5.1, 9.1)], 5.05, 1),
        ([(5.0, 9.0), (5.1, 9.1)], 5.1, -1),
        ([(1e-5, 9.0), (-1.0, 8.0)], 0.0, -1),  # no more than the rounding of the scores
        ([(-np.inf, np.nan)], 0.0, -1),
    ],
)
def test_choice_follows_the_tie_rule_and_the_limits(splits, min_split_gain, chosen):
    table = np.zeros((len(splits), SPLIT_FIELDS))
    table[:, :2] = splits
    features = np.arange(len(splits), dtype=np.int32)
    assert choose_feature(features, min_split_gain, table) == chosen


def test_limits_on_children_hold_exactly_at_their_bound():
    column = np.arange(10.0)[:, None]
    binned = BinnedMatrix.from_cuts(column, [np.arange(9) + 0.5], n_jobs=1)
    rows = Rows("squared_error", np.zeros((10, 1)), np.eye(10)[:, :1] * 9.0, np.ones(10))
    base = oracle_params(NaiveParams(), "squared_error")
    for limit in (1, 2, 5):
        for change in ({"min_samples_leaf": limit}, {"min_child_weight": float(limit)}):
            params = replace(base, **change)
            search = Search(Problem(binned, rows), params, "diagonal", *naive.weighted_stats(rows))
            assert search.run()[0, 2] == limit - 1  # the first row alone would be best
