"""Random rows, columns and thresholds of trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine import Search, oracle_params, same_tree
from naive import NaiveParams, Rows, gradient, weighted_stats
from naive_tree import score_partitions
from strategies import Problem, make_binned, make_rows

import fullhess
from fullhess import BinnedMatrix, Ensemble, Trainer
from fullhess.kernels.candidates import random_below
from fullhess.sampling import round_generator, sample_goss

FAST = {"max_depth": 3, "learning_rate": 0.3, "min_child_weight": 0.01, "n_jobs": 1}


def problem(n: int = 400, k: int = 3) -> tuple[Any, BinnedMatrix]:
    rng = np.random.default_rng(0)
    label = rng.integers(0, k, n)
    X = rng.normal(size=(n, 5)) + np.array([np.cos(label + j) for j in range(5)]).T
    X[rng.random((n, 5)) < 0.1] = np.nan
    X[:, 4] = (label + rng.integers(0, 6, n)) % 9
    return label, BinnedMatrix.from_quantiles(X, max_bins=32, categorical=[4])


def equal(one: Ensemble, two: Ensemble) -> bool:
    return all(same_tree(a, b) for a, b in zip(one.trees, two.trees, strict=True))


def drawn_rows(trainer: Trainer, monkeypatch: pytest.MonkeyPatch, n_rounds: int) -> list[Any]:
    """The rows and weights of the trees of the next rounds."""
    seen = []
    sample = Trainer._sample

    def record(self: Trainer, generator: Any) -> Any:
        rows, weight = sample(self, generator)
        seen.append((rows.copy(), weight.copy()))
        return rows, weight

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_sample", record)
        for _ in range(n_rounds):
            trainer.step()
    return seen


# Rows in use for several rounds


@pytest.mark.parametrize("n_trees", [1, 2])
def test_rows_stay_for_as_many_rounds_as_asked(monkeypatch, n_trees):
    label, binned = problem()
    params = {**FAST, "subsample": 0.5, "subsample_freq": 3, "num_parallel_tree": n_trees,
              "colsample_bynode": 0.5}  # fmt: skip
    with Trainer(params, binned, label) as trainer:
        seen = [rows for rows, _ in drawn_rows(trainer, monkeypatch, 7)]
    by_round = [seen[n_trees * t : n_trees * (t + 1)] for t in range(7)]
    for t in range(7):
        for tree in range(n_trees):
            assert len(by_round[t][tree]) == 200
            assert np.array_equal(by_round[t][tree], by_round[t - t % 3][tree])
    firsts = [by_round[t][0] for t in (0, 3, 6)] + [by_round[0][n_trees - 1]] * (n_trees > 1)
    for i in range(len(firsts)):
        assert not any(np.array_equal(firsts[i], firsts[j]) for j in range(i))


def test_continued_training_keeps_the_rows_of_its_block():
    label, binned = problem()
    params = {**FAST, "subsample": 0.5, "subsample_freq": 4}
    whole = fullhess.train(params, binned, label, num_boost_round=6)
    first = fullhess.train(params, binned, label, num_boost_round=2)
    assert equal(
        whole, fullhess.train(params, binned, label, num_boost_round=4, init_model=first)
    )  # fmt: skip


# Gradient-based one-side sampling


def test_goss_keeps_the_largest_and_weighs_the_drawn_as_all_others():
    rng = np.random.default_rng(1)
    importance = rng.exponential(size=1000)
    rows, factor = sample_goss(importance, 0.2, 0.1, rng)
    top = np.argsort(-importance)[:200]
    assert np.array_equal(rows, np.flatnonzero(factor)) and len(rows) == 300
    assert (factor[top] == 1.0).all()
    others = np.setdiff1d(rows, top)
    assert len(others) == 100 and (factor[others] == 8.0).all()
    assert factor.sum() == pytest.approx(1000)


def test_goss_sums_are_unbiased():
    rng = np.random.default_rng(2)
    importance, value = rng.exponential(size=60), rng.normal(size=60)
    sums = [value @ sample_goss(importance, 0.3, 0.2, rng)[1] for _ in range(4000)]
    assert np.mean(sums) == pytest.approx(value.sum(), abs=4 * np.std(sums) / np.sqrt(4000))


@pytest.mark.parametrize("n", [1, 2, 3, 10])
@pytest.mark.parametrize(("top", "other"), [(1.0, 1e-9), (0.5, 0.5), (1e-9, 1e-9), (0.1, 0.9)])
def test_goss_of_few_rows_draws_some_and_no_more_than_all(n, top, other):
    rows, factor = sample_goss(np.zeros(n), top, other, np.random.default_rng(0))
    assert 1 <= len(rows) <= n and (np.diff(rows) > 0).all()
    assert np.isfinite(factor).all() and (factor[rows] > 0).all()


@pytest.mark.parametrize("objective", ["softmax", "squared_error"])
def test_goss_ranks_by_gradient_times_curvature_after_the_first_rounds(monkeypatch, objective):
    label, binned = problem()
    weight = np.random.default_rng(3).integers(1, 4, len(label)).astype(float)
    y = label if objective == "softmax" else np.eye(3)[label] + 0.1 * label[:, None]
    params = {**FAST, "objective": objective, "sampling_method": "goss", "learning_rate": 0.3}
    with Trainer(params, binned, y, weight=weight) as trainer:
        early = drawn_rows(trainer, monkeypatch, 3)  # int(1 / 0.3)
        for rows, used in early:
            assert len(rows) == 400 and np.array_equal(used, weight)
        raw = trainer.raw.copy()
        ((rows, used),) = drawn_rows(trainer, monkeypatch, 1)
    g, H = weighted_stats(Rows(objective, raw, trainer.label, weight))
    importance = np.abs(g * np.einsum("nii->ni", H)).sum(axis=1)
    kept = np.flatnonzero(used == weight)
    assert len(rows) == 80 + 40
    clear = np.setdiff1d(np.arange(400), rows)
    assert importance[clear].max() <= importance[kept].min() * (1 + 1e-5)
    np.testing.assert_allclose(used[np.setdiff1d(rows, kept)] / weight[np.setdiff1d(rows, kept)], 8)


def test_goss_learns_and_depends_on_the_seed():
    label, binned = problem()
    params = {**FAST, "sampling_method": "goss"}
    models = [
        fullhess.train({**params, **extra}, binned, label, num_boost_round=15)
        for extra in ({}, {}, {"random_state": 1}, {"n_jobs": 2}, {"top_rate": 0.4})
    ]
    assert equal(models[0], models[1]) and equal(models[0], models[3])
    assert not equal(models[0], models[2]) and not equal(models[0], models[4])
    p = models[0].predict(binned)
    assert -np.log(p[np.arange(400), label]).mean() < 0.5


# Random thresholds


def test_random_numbers_below_a_bound_are_even():
    drawn = np.array([random_below(seed, f, 7) for seed in range(1000) for f in range(7)])
    assert np.array_equal(np.unique(drawn), np.arange(7))
    assert np.bincount(drawn).min() > 900 and np.bincount(drawn).max() < 1100


def test_one_random_candidate_of_a_feature_is_tried_in_a_node(rng):
    """Every candidate turns up, and the recorded score is that of the one that did."""
    binned = make_binned(rng, 80, ("holes", "ties", "many", "few"), True, 6)
    data = Problem(binned, make_rows(rng, 80, 3))
    params = oracle_params(NaiveParams(cat_l2=2.0), "softmax")
    search = Search(data, params, "laplacian", *data.stats())
    for feature in range(4):
        partitions = set()
        everything = search.candidates(feature, 0.0)[0]
        for seed in range(400):
            split = search.run(seed=seed)[feature]
            assert np.isfinite(split[0])
            mask = search.left_mask(feature)
            partitions.add(mask.tobytes())
            extra = 2.0 if feature == 2 else 0.0
            scored = score_partitions(mask[None], search.g, search.H, params, None, extra)
            np.testing.assert_allclose(split[1], scored["score"][0], rtol=1e-4)
        best = search.run()[feature]
        assert search.left_mask(feature).tobytes() in partitions
        assert len(partitions) >= len(np.unique(binned.codes[:, feature])) - 2
        assert len(partitions) <= len(everything)
        assert best[0] >= max(0.0, split[0])


@pytest.mark.parametrize("limit", [1, 2])
def test_random_splits_of_ordered_categories_keep_their_limit(limit):
    label, binned = problem()
    params = {**FAST, "extra_trees": True, "max_cat_threshold": limit, "colsample_bytree": 1.0}
    model = fullhess.train(params, binned, label, num_boost_round=20)
    sizes = [s for t in model.trees for s in np.diff(t.category_offsets)[t.is_categorical]]
    assert sizes and max(sizes) == limit


def test_extra_trees_depend_on_the_seed_and_the_node_alone():
    label, binned = problem(n=3000)
    params = {**FAST, "extra_trees": True, "max_depth": 5}
    models = [
        fullhess.train({**params, **extra}, binned, label, num_boost_round=4)
        for extra in ({}, {"n_jobs": 2}, {"random_state": 1}, {"extra_trees": False})
    ]
    assert equal(models[0], models[1])
    assert not equal(models[0], models[2]) and not equal(models[0], models[3])
    # The best of all thresholds gains more at the root than the best of random ones.
    assert models[0].trees[0].gain[0] < models[3].trees[0].gain[0]
    thresholds = np.concatenate([t.threshold[np.isfinite(t.threshold)] for t in models[0].trees])
    assert len(np.unique(thresholds)) > 20


def test_continued_extra_trees_equal_training_in_one_go():
    label, binned = problem()
    params = {**FAST, "extra_trees": True, "num_parallel_tree": 2}
    whole = fullhess.train(params, binned, label, num_boost_round=4)
    first = fullhess.train(params, binned, label, num_boost_round=2)
    more = fullhess.train(params, binned, label, num_boost_round=2, init_model=first)
    assert equal(whole, more)
    assert not same_tree(whole.trees[0], whole.trees[1])


def test_extra_trees_never_raise_the_training_loss():
    label, binned = problem()
    path = []
    with Trainer({**FAST, "extra_trees": True, "learning_rate": 1.0}, binned, label) as trainer:
        for _ in range(10):
            path.append(trainer.objective.losses(trainer.raw, trainer.label).sum())
            trainer.step()
    assert (np.diff(path) <= 1e-12 * path[0]).all() and path[-1] < 0.8 * path[0]


def test_random_state_and_round_give_streams_of_their_own():
    streams = [(0, 0), (0, 1), (1, 0), (0, 0, 1), (0, 1, 1)]
    assert len({round_generator(*stream).integers(2**60) for stream in streams}) == 5


def test_gradients_of_the_oracle_are_those_of_the_run():
    """What the tests above rank by."""
    label, binned = problem()
    with Trainer(FAST, binned, label) as trainer:
        g, h = trainer._row_statistics()
        rows = Rows("softmax", trainer.raw, trainer.label, np.ones(400))
        np.testing.assert_allclose(g, gradient(rows), rtol=1e-5, atol=1e-6)
        assert h.shape == g.shape and (h > 0).all()
