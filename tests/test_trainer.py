"""A training run in steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine import same_tree

import fullhess
from fullhess import BinnedMatrix, CustomObjective, Ensemble, ParameterError, Trainer

FAST = {"max_depth": 3, "min_child_weight": 0.01, "learning_rate": 0.3, "n_jobs": 1}


def problem(n: int = 300, k: int = 3, d: int = 5) -> tuple[Any, Any, BinnedMatrix]:
    rng = np.random.default_rng(0)
    label = rng.integers(0, k, n)
    X = rng.normal(size=(n, d)) + np.array([np.cos(label + j) for j in range(d)]).T
    X[rng.random((n, d)) < 0.1] = np.nan
    X[:, -1] = (label + rng.integers(0, 3, n)) % 7
    return X, label, BinnedMatrix.from_quantiles(X, max_bins=32, categorical=[d - 1])


def same_model(one: Ensemble, two: Ensemble) -> bool:
    return (
        len(one.trees) == len(two.trees)
        and np.array_equal(one.iteration_indptr, two.iteration_indptr)
        and np.array_equal(one.base_score, two.base_score)
        and all(same_tree(a, b) for a, b in zip(one.trees, two.trees, strict=True))
    )


def state_of(trainer: Trainer) -> Any:
    return trainer.n_rounds, list(trainer.trees), trainer.raw.copy(), trainer.params


def same_state(one: Any, two: Any) -> bool:
    return one[0] == two[0] and one[1] == two[1] and (one[2] == two[2]).all() and one[3] == two[3]


SAMPLED = {"subsample": 0.7, "colsample_bynode": 0.6, "random_state": 3}


@pytest.mark.parametrize("extra", [{}, SAMPLED, {"num_parallel_tree": 3, **SAMPLED}])
def test_steps_are_the_rounds_of_train(extra):
    X, label, binned = problem()
    params = {**FAST, **extra}
    with Trainer(params, binned, label) as trainer:
        for t in range(4):
            assert trainer.n_rounds == t == len(trainer.model())
            trainer.step()
            assert np.array_equal(trainer.raw, trainer.model().predict_raw(X))
        model = trainer.model()
    assert same_model(model, fullhess.train(params, binned, label, num_boost_round=4))


def test_settings_hold_from_the_next_round_on():
    _, label, binned = problem()
    later = {**FAST, "max_depth": 2, "reg_alpha": 0.2, "subsample": 0.5}
    with Trainer(FAST, binned, label) as trainer:
        trainer.step()
        trainer.step()
        trainer.set_params(later)
        trainer.step()
        model = trainer.model()
    first = fullhess.train(FAST, binned, label, num_boost_round=2)
    both = fullhess.train(later, binned, label, num_boost_round=1, init_model=first)
    assert same_model(model, both)
    assert not same_model(model, fullhess.train(FAST, binned, label, num_boost_round=3))
    assert model.metadata["max_depth"] == 2


def test_a_learning_rate_may_be_given_to_a_step_alone():
    _, label, binned = problem()
    with Trainer(FAST, binned, label) as one, Trainer(FAST, binned, label) as two:
        one.step(0.05)
        two.set_params({**FAST, "learning_rate": 0.05})
        two.step()
        assert same_model(one.model(), two.model())
        assert one.params.learning_rate == 0.3
        for rate in (0.0, -1.0, 1.5, np.nan, np.inf, "0.1", True):
            before = state_of(one)
            with pytest.raises(ParameterError, match="learning_rate: expected a finite number"):
                one.step(rate)  # type: ignore[arg-type]
            assert same_state(before, state_of(one))


@pytest.mark.parametrize(
    "change",
    [
        {"n_jobs": 2},
        {"margin_dtype": "float32"},
        {"num_class": 5},
        {"objective": "squared_error"},
        {"monotone_constraints": (1,)},
        {"interaction_constraints": [[9]]},
        {"max_depth": -3},
        {"unknown": 1},
    ],
)
def test_settings_that_cannot_be_changed_or_used_leave_the_run_as_it_was(change):
    _, label, binned = problem()
    with Trainer(FAST, binned, label) as trainer, Trainer(FAST, binned, label) as other:
        trainer.step()
        before = state_of(trainer)
        with pytest.raises(ParameterError, match=next(iter(change))):
            trainer.set_params({**FAST, **change})
        assert same_state(before, state_of(trainer))
        trainer.step()
        other.step()
        other.step()
        assert same_model(trainer.model(), other.model())


# Followers


def test_followers_hold_the_models_predictions_whenever_they_are_asked():
    X, label, binned = problem()
    start = fullhess.train(FAST, binned, label, num_boost_round=2)
    for init_model in (None, start):
        with Trainer(FAST, binned, label, init_model=init_model) as trainer:
            other = binned.binning.encode(X[::-2])
            early = trainer.follow(other)
            assert np.array_equal(early.raw, trainer.model().predict_raw(X[::-2]))
            for _ in range(3):  # asked once for several rounds
                trainer.step()
            late = trainer.follow(other)
            expected = trainer.model().predict_raw(X[::-2])
            assert np.array_equal(early.raw, expected) and np.array_equal(late.raw, expected)


def test_followers_start_from_margins_of_their_own():
    X, label, binned = problem()
    other, margin = binned.binning.encode(X[:7]), np.full((7, 3), 0.5)
    start = fullhess.train(FAST, binned, label, num_boost_round=2)
    with Trainer(FAST, binned, label, init_model=start) as trainer:
        based = trainer.follow(other, base_margin=margin)
        begun = trainer.follow(other, init_margin=margin)
        trainer.step()
        model = trainer.model()
        assert np.array_equal(based.raw, model.predict_raw(other, base_margin=margin))
        expected = model.predict_raw(other, base_margin=margin, rounds=slice(2, 3))
        assert np.array_equal(begun.raw, expected)
        assert (margin == 0.5).all()


def test_followers_refuse_what_does_not_fit():
    X, label, binned = problem()
    with Trainer(FAST, binned, label) as trainer:
        with pytest.raises(ValueError, match="'other' is binned with other cuts"):
            trainer.follow(BinnedMatrix.from_quantiles(X, max_bins=5), name="other")
        for name in ("base_margin", "init_margin"):
            with pytest.raises(ValueError, match=f"{name} of 'valid' must have shape"):
                trainer.follow(binned, **{name: np.zeros((3, 3))}, name="valid")


# Where a run starts


def test_given_scores_of_the_first_model_replace_their_computation():
    X, label, binned = problem()
    start = fullhess.train(FAST, binned, label, num_boost_round=2)
    with (
        Trainer(FAST, binned, label, init_model=start) as one,
        Trainer(FAST, binned, label, init_model=start, init_margin=start.predict_raw(X)) as two,
    ):
        one.step()
        two.step()
        assert same_model(one.model(), two.model()) and np.array_equal(one.raw, two.raw)


def test_given_scores_are_copied():
    _, label, binned = problem()
    margin = np.zeros((300, 3))
    for name in ("base_margin", "init_margin"):
        with Trainer(FAST, binned, label, **{name: margin}) as trainer:
            trainer.step()
        assert not margin.any()


def test_a_base_score_is_where_the_model_starts():
    X, label, binned = problem()
    with Trainer(FAST, binned, label, base_score=[0.5, 0.0, -0.5]) as trainer:
        assert (trainer.raw == [0.5, 0.0, -0.5]).all()
        trainer.step()
        model = trainer.model()
    assert model.base_score.tolist() == [0.5, 0.0, -0.5]
    assert np.array_equal(trainer.raw, model.predict_raw(X))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"base_score": [0.0, 1.0]}, ValueError, "base_score must be 3 finite"),
        ({"base_score": [0.0, 1.0, np.nan]}, ValueError, "base_score must be 3 finite"),
        ({"base_score": ["a", "b", "c"]}, TypeError, "base_score must hold numbers"),
        ({"init_margin": np.zeros((4, 3))}, ValueError, "init_margin must have shape"),
        ({"init_margin": np.full((300, 3), np.inf)}, ValueError, "init_margin must be finite"),
        ({"base_margin": np.zeros((300, 3)), "init_margin": np.zeros((300, 3))}, ValueError,
         "pass one of them"),
        ({"feature_weights": np.ones(4)}, ValueError, r"of shape \(5,\)"),
        ({"feature_weights": -np.ones(5)}, ValueError, "not negative"),
        ({"feature_weights": np.zeros(5)}, ValueError, "not all zero"),
        ({"feature_weights": np.full(5, np.nan)}, ValueError, "finite"),
        ({"feature_weights": ["a"] * 5}, TypeError, "feature weights must be numbers"),
    ],
)  # fmt: skip
def test_unusable_starts_and_weights_are_refused(given, error, message):
    _, label, binned = problem()
    with pytest.raises(error, match=message):
        Trainer(FAST, binned, label, **given)


def test_margins_beyond_float32_are_refused_where_it_is_the_precision():
    _, label, binned = problem()
    params = {**FAST, "margin_dtype": "float32"}
    with pytest.raises(ValueError, match="finite in float32"):
        Trainer(params, binned, label, base_margin=np.full((300, 3), 1e300))
    with pytest.raises(ValueError, match="base_score must be 3 finite"):
        Trainer(params, binned, label, base_score=[1e300, 0.0, 0.0])


# Failures


class Fragile:
    """Derivatives that fail on demand."""

    def __init__(self) -> None:
        self.broken = False

    def __call__(self, raw: Any, label: Any) -> Any:
        if self.broken:
            raise RuntimeError("no derivatives today")
        return raw - label, np.ones_like(raw)


@pytest.mark.parametrize("n_trees", [1, 2])
def test_a_failing_step_leaves_the_run_as_it_was(n_trees):
    X, _, binned = problem()
    label = np.nan_to_num(X[:, :2])
    params = {**FAST, "num_parallel_tree": n_trees, "subsample": 0.8}
    fragile = Fragile()
    objective = CustomObjective(fragile, 2)
    with Trainer(params, binned, label, objective=objective) as trainer:
        follower = trainer.follow(binned)
        trainer.step()
        before = state_of(trainer)
        fragile.broken = True
        with pytest.raises(RuntimeError, match="no derivatives today"):
            trainer.step()
        assert same_state(before, state_of(trainer)) and len(trainer.model()) == 1
        fragile.broken = False
        trainer.step()
        assert np.array_equal(follower.raw, trainer.raw)
        model = trainer.model()
    whole = fullhess.train(params, binned, label, num_boost_round=2, objective=objective)
    assert same_model(model, whole)


@pytest.mark.parametrize("n_trees", [1, 2])
def test_an_interrupt_while_scores_are_added_leaves_them_as_they_were(n_trees, monkeypatch):
    _, label, binned = problem()
    params = {**FAST, "num_parallel_tree": n_trees, "subsample": 0.8}
    with Trainer(params, binned, label) as trainer:
        trainer.step()
        before = state_of(trainer)

        def add_and_stop(tree: Any, binned: Any, raw: Any, workers: Any) -> None:
            raw += 1.0
            raise KeyboardInterrupt

        monkeypatch.setattr("fullhess.trainer.add_tree_on_bins", add_and_stop)
        with pytest.raises(KeyboardInterrupt):
            trainer.step()
        assert same_state(before, state_of(trainer))


@pytest.mark.parametrize("n_calls", [1, 2, 4])
def test_a_search_that_fails_half_way_gives_all_histograms_back(n_calls, monkeypatch):
    _, label, binned = problem()
    with Trainer(FAST, binned, label) as trainer, Trainer(FAST, binned, label) as other:
        calls = 0
        grow = fullhess.grower.grow

        def grow_or_fail(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == n_calls:
                raise MemoryError
            return grow(*args)

        with monkeypatch.context() as patch:
            patch.setattr("fullhess.grower.grow", grow_or_fail)
            patch.setattr("fullhess.grower._BREATH", -1)
            before = state_of(trainer)
            with pytest.raises(MemoryError):
                trainer.step()
            assert same_state(before, state_of(trainer))
        trainer.step()
        other.step()
        assert trainer.grower.pool.in_use == 0 and same_model(trainer.model(), other.model())


def test_a_closed_run_can_go_on():
    _, label, binned = problem()
    params = {**FAST, "n_jobs": 2}
    with Trainer(params, binned, label) as one, Trainer(params, binned, label) as two:
        one.step()
        one.close()
        one.close()
        one.step()
        two.step()
        two.step()
        assert same_model(one.model(), two.model())


def test_scores_taken_from_the_run_do_not_change_later():
    _, label, binned = problem()
    with Trainer(FAST, binned, label) as trainer:
        trainer.step()
        raw = trainer.raw
        kept = raw.copy()
        trainer.step()
        assert np.array_equal(raw, kept)


# Parallel trees and feature weights


def test_parallel_trees_without_sampling_are_one_tree_shared_out():
    X, label, binned = problem()
    one = fullhess.train(FAST, binned, label, num_boost_round=3)
    four = fullhess.train({**FAST, "num_parallel_tree": 4}, binned, label, num_boost_round=3)
    assert len(four) == 3 and four.iteration_indptr.tolist() == [0, 4, 8, 12]
    for t in range(3):
        same = four.trees[4 * t : 4 * t + 4]
        assert all(same_tree(same[0], tree) for tree in same)
    np.testing.assert_allclose(four.predict_raw(X), one.predict_raw(X), rtol=1e-9, atol=1e-12)


def test_parallel_trees_draw_rows_and_columns_each_for_itself():
    _, label, binned = problem()
    params = {**FAST, "num_parallel_tree": 3, **SAMPLED}
    model = fullhess.train(params, binned, label, num_boost_round=1)
    assert len(model.trees) == 3
    assert not any(same_tree(model.trees[i], model.trees[j]) for i in range(3) for j in range(i))


def test_parallel_trees_never_raise_the_loss():
    _, label, binned = problem()
    path: list[float] = []
    with Trainer({**FAST, "num_parallel_tree": 3, "colsample_bytree": 0.4, "learning_rate": 1.0},
                 binned, label) as trainer:  # fmt: skip
        for _ in range(8):
            path.append(trainer.objective.losses(trainer.raw, trainer.label).sum())
            trainer.step()
    assert (np.diff(path) <= 1e-12 * path[0]).all()


@pytest.mark.parametrize("extra", [{}, {"colsample_bytree": 0.7}, {"colsample_bynode": 0.5}])
def test_features_of_weight_zero_are_never_used(extra):
    _, label, binned = problem()
    weights = np.array([0.0, 1.0, 0.0, 1.0, 1e-3])
    used: set[int] = set()
    with Trainer({**FAST, **extra}, binned, label, feature_weights=weights) as trainer:
        for _ in range(10):
            trainer.step()
        for tree in trainer.trees:
            used |= set(tree.feature[tree.feature >= 0].tolist())
    assert used <= {1, 3, 4} and {1, 3} <= used


def test_features_are_drawn_in_proportion_to_their_weights():
    _, label, binned = problem()
    counts = np.zeros(5)
    weights = 1e300 * np.array([1.0, 1.0, 1.0, 1.0, 16.0])  # whose sum is no float
    params = {**FAST, "colsample_bytree": 0.2, "max_depth": 1}
    with Trainer(params, binned, label, feature_weights=weights) as trainer:
        for _ in range(200):
            trainer.step(1e-6)
        for tree in trainer.trees:
            counts[tree.feature[tree.feature >= 0]] += 1
    assert 130 <= counts[4] <= 185 and (counts > 0).all()  # 160 ± 4 standard deviations
