"""Laws of whole models under an L1 penalty, bounds and constraints."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import naive
import numpy as np
import pytest
from engine import boost, can_be_split, oracle_params, same_tree
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive import NaiveParams
from naive_checks import check_leaf_values, check_tree
from naive_penalty import bounds_of, optimality_gap
from strategies import STAND_INS, Problem, make_binned, make_rows, problems

import fullhess
from fullhess import BinnedMatrix

CURVATURES = ("full", *STAND_INS)
TAME = {"weights": ("ones", "integers"), "scores": ("zero", "moderate")}


def planted(seed: int, k: int, n: int = 150, d: int = 4) -> tuple[Any, BinnedMatrix, Any]:
    """Raw values with holes, their bins, and classes that depend on them in no simple way."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    signal = np.sin(2 * X) @ rng.standard_normal((d, k)) + X @ rng.standard_normal((d, k))
    y = (signal + rng.gumbel(size=(n, k))).argmax(axis=1)
    X[rng.random((n, d)) < 0.1] = np.nan
    return X, BinnedMatrix.from_quantiles(X, max_bins=16), y


def log_losses(model: fullhess.Ensemble, X: Any, y: Any) -> list[float]:
    found = []
    for t in range(len(model) + 1):
        raw = np.tile(model.base_score, (len(X), 1)) if t == 0 else None
        raw = model.predict_raw(X, rounds=slice(0, t)) if raw is None else raw
        rows = naive.Rows("softmax", raw.astype(np.float64), y, np.ones(len(y)))
        found.append(naive.total_loss(rows))
    return found


# Trees under a penalty are the oracle's


@settings(max_examples=60)
@given(problems(**TAME, labels=("uniform", "single", "skewed")), st.data())
def test_penalised_tree_is_the_oracles(problem, data):
    assume(can_be_split(problem))
    objective = problem.rows.objective
    softmax = objective == "softmax"
    split_hessian = data.draw(st.sampled_from(STAND_INS)) if softmax else "full"
    hessian = data.draw(st.sampled_from(CURVATURES)) if softmax else "full"
    params = NaiveParams(
        reg_alpha=data.draw(st.sampled_from([0.01, 0.5, 3.0])),
        reg_lambda=data.draw(st.sampled_from([1e-3, 1.0])),
        max_delta_step=data.draw(st.sampled_from([0.0, 0.3])),
        split_gain=data.draw(st.sampled_from(["guaranteed", "quadratic"])),
        leaf_solver=data.draw(st.sampled_from(["newton", "damped", "exact"])),
        max_depth=3,
        learning_rate=1.0,
    )
    params = oracle_params(params, objective)
    tree = boost(problem, params, hessian, split_hessian).trees[0]
    check_tree(tree, problem.binned, *problem.stats(split_hessian), params, rtol=2e-5)
    atol = 3e-6 * max(1.0, np.abs(tree.values).max())
    check_leaf_values(tree, problem.binned, problem.rows, params, hessian, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("k", [3, 25])
@pytest.mark.parametrize("changes", [{"reg_alpha": 0.5}, {"max_delta_step": 0.2}, {
    "reg_alpha": 0.1, "max_delta_step": 0.2, "reg_lambda": 0.0}])  # fmt: skip
def test_no_slope_is_left_in_exact_leaves(k, changes):
    _, binned, y = planted(k, k)
    model = fullhess.train(
        {"learning_rate": 1.0, "max_depth": 2, "n_jobs": 1, **changes}, binned, y,
        num_boost_round=1,
    )  # fmt: skip
    params = oracle_params(NaiveParams(**changes), "softmax")
    low, high = bounds_of(params, k)
    raw = np.tile(model.base_score, (len(y), 1))
    leaves = model.apply(binned)[:, 0]
    for leaf, x in enumerate(model.trees[0].values):
        here = leaves == leaf
        rows = naive.Rows("softmax", raw[here], y[here], np.ones(here.sum())).shift(x)
        slope = naive.gradient(rows).sum(axis=0) + params.reg_lambda * x
        assert optimality_gap(slope, x, params.reg_alpha, low, high) <= 1e-5 * here.sum()


@pytest.mark.parametrize("solver", ["newton", "damped", "exact"])
def test_a_large_penalty_gives_zero_trees_and_a_small_one_zeros_in_leaves(solver):
    _, binned, y = planted(1, 4)
    params = {"leaf_solver": solver, "max_depth": 3, "learning_rate": 1.0, "n_jobs": 1}
    nothing = fullhess.train({**params, "reg_alpha": 1e4}, binned, y, num_boost_round=2)
    for tree in nothing.trees:
        assert tree.n_leaves == 1 and not tree.values.any()
    some = fullhess.train({**params, "reg_alpha": 2.0}, binned, y, num_boost_round=1)
    values = some.trees[0].values
    assert (values == 0.0).any() and (values != 0.0).any()
    free = fullhess.train(params, binned, y, num_boost_round=1)
    assert np.abs(values).sum() < np.abs(free.trees[0].values).sum()


# Descent


@settings(max_examples=120)
@given(problems(("softmax",), outputs=(2, 3, 7), max_rows=40, max_features=3,
                columns=("normal", "holes", "ties", "binary")), st.data())  # fmt: skip
def test_training_loss_never_rises_under_penalties_and_constraints(problem, data):
    assume(can_be_split(problem))
    changes: dict[str, Any] = {}
    if data.draw(st.booleans()):
        signs = st.lists(st.sampled_from([-1, 0, 1]), min_size=problem.binned.n_features,
                         max_size=problem.binned.n_features)  # fmt: skip
        changes["monotone_constraints"] = data.draw(signs)
    params = NaiveParams(
        reg_lambda=data.draw(st.sampled_from([0.0, 1e-8, 1e-3, 1.0])),
        reg_alpha=data.draw(st.sampled_from([0.0, 1e-3, 0.3])),
        leaf_solver=data.draw(st.sampled_from(["damped", "exact"])),
        max_delta_step=data.draw(st.sampled_from([0.0, 0.0, 0.7])),
        max_depth=3,
        learning_rate=data.draw(st.sampled_from([0.3, 1.0])),
    )
    hessian = data.draw(st.sampled_from(CURVATURES))
    model = boost(problem, params, hessian, "auto", n_rounds=4, **changes)
    raw, path = problem.rows.raw, [naive.total_loss(problem.rows)]
    for t in range(4):
        raw = model.predict_raw(problem.binned, base_margin=raw, rounds=slice(t, t + 1))
        path.append(naive.total_loss(problem.rows._replace(raw=raw)))
    assert np.isfinite(path).all()
    for before, after in pairwise(path):
        assert after <= before * (1 + 1e-12) + 1e-300


# Monotone in every score


def grid_of(binned: BinnedMatrix, j: int) -> Any:
    """Ascending values around every cut."""
    cuts = binned.binning.cuts[j]
    return np.unique(np.concatenate([cuts - 1e-3, cuts, cuts + 1e-3, [-9.0, 9.0]]))


def check_monotone(model: fullhess.Ensemble, X: Any, binned: BinnedMatrix, signs: Any) -> None:
    for j, sign in enumerate(signs):
        grid = grid_of(binned, j)
        moved = np.repeat(X, len(grid), axis=0)
        moved[:, j] = np.tile(grid, len(X))
        raw = model.predict_raw(moved).reshape(len(X), len(grid), -1)
        if sign:
            assert (sign * np.diff(raw, axis=1) >= 0.0).all()
        else:  # nothing is promised, and the signal goes both ways
            assert (np.diff(raw, axis=1) > 0.0).any() and (np.diff(raw, axis=1) < 0.0).any()


@pytest.mark.parametrize("solver", ["newton", "damped", "exact"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"reg_lambda": 0.0},
        {"reg_alpha": 0.2, "num_parallel_tree": 2, "subsample": 0.7},
        {"max_delta_step": 0.5, "margin_dtype": "float32"},
        {"split_gain": "quadratic", "hessian": "upper_bound"},
        {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 12},
    ],
)
def test_every_score_is_monotone_for_every_row(solver, changes):
    X, binned, y = planted(2, 3)
    signs = (1, -1, 0, 0)
    params = {"max_depth": 4, "learning_rate": 0.5, "min_child_weight": 0.1, "n_jobs": 1,
              "leaf_solver": solver, "monotone_constraints": signs, **changes}  # fmt: skip
    model = fullhess.train(params, binned, y, num_boost_round=6)
    check_monotone(model, X, binned, signs)
    used = np.concatenate([tree.feature for tree in model.trees])
    assert {0, 1} <= set(used)  # else nothing was constrained


def test_squared_error_is_monotone_in_every_output():
    X, binned, _ = planted(3, 3)
    y = np.nan_to_num(X) @ np.random.default_rng(0).standard_normal((4, 2)) + np.sin(
        3 * np.nan_to_num(X[:, :2])
    )
    signs = (1, 1, 0, -1)
    model = fullhess.train(
        {"objective": "squared_error", "monotone_constraints": signs, "learning_rate": 0.5,
         "n_jobs": 1}, binned, y, num_boost_round=5,
    )  # fmt: skip
    check_monotone(model, X, binned, signs)


def test_a_constraint_in_the_direction_of_the_signal_costs_little():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((400, 2))
    y = (X[:, 0] + 0.3 * rng.standard_normal(400)).clip(-1, 1)[:, None]
    binned = BinnedMatrix.from_quantiles(X, max_bins=32)
    losses = {}
    for sign in (-1, 0, 1):
        model = fullhess.train(
            {"objective": "squared_error", "monotone_constraints": (sign, 0), "n_jobs": 1,
             "max_depth": 3, "learning_rate": 0.3}, binned, y, num_boost_round=20,
        )  # fmt: skip
        losses[sign] = float(((model.predict(X) - y) ** 2).mean())
    assert losses[1] < 1.3 * losses[0] < 0.5 * losses[-1]


# Interaction


def paths_of(tree: Any) -> list[set[int]]:
    """The features on the way to each leaf."""
    above: list[set[int]] = [set() for _ in range(tree.n_nodes)]
    for v in np.flatnonzero(tree.feature >= 0):
        for child in (tree.left[v], tree.right[v]):
            above[child] = above[v] | {int(tree.feature[v])}
    return [above[v] for v in np.flatnonzero(tree.feature < 0)]


@pytest.mark.parametrize("extra", [{}, {"colsample_bynode": 0.6}, {"grow_policy": "lossguide"}])
def test_features_of_a_branch_share_a_set(extra):
    _, binned, y = planted(4, 3, n=400, d=6)
    groups = [[0, 1], [1, 2, 3], [4]]  # feature 5 is in none
    params = {"max_depth": 5, "min_child_weight": 0.0, "n_jobs": 1, **extra}
    model = fullhess.train({**params, "interaction_constraints": groups}, binned, y,
                           num_boost_round=8)  # fmt: skip
    paths = [path for tree in model.trees for path in paths_of(tree)]
    for path in paths:
        assert len(path) <= 1 or any(path <= set(group) for group in groups)
    assert any(len(path) > 1 for path in paths)
    free = fullhess.train(params, binned, y, num_boost_round=8)
    assert any(
        len(path) > 1 and not any(path <= set(group) for group in groups)
        for tree in free.trees
        for path in paths_of(tree)
    )


# What must not change a bit


@pytest.mark.parametrize(
    "changes",
    [
        {"reg_alpha": 0.3},
        {"max_delta_step": 0.4},
        {"monotone_constraints": (1, 0, -1, 0), "reg_alpha": 0.1},
        {"interaction_constraints": [[0, 1], [2, 3]], "colsample_bynode": 0.7},
        {"num_parallel_tree": 3, "subsample": 0.6},
    ],
)
def test_every_number_of_threads_gives_the_same_bits(changes):
    _, binned, y = planted(6, 5, n=3000)
    one, two = (
        fullhess.train({"n_jobs": n_jobs, "learning_rate": 0.5, **changes}, binned, y,
                       num_boost_round=3)
        for n_jobs in (1, 2)
    )  # fmt: skip
    assert all(same_tree(a, b) for a, b in zip(one.trees, two.trees, strict=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"monotone_constraints": (0, 0, 0, 0)},
        {"interaction_constraints": [[0, 1, 2, 3]]},
        {"reg_alpha": 0.0},
        {"num_parallel_tree": 1},
    ],
)
def test_settings_that_ask_for_nothing_change_no_bit(changes):
    _, binned, y = planted(7, 3)
    plain, other = (
        fullhess.train({"n_jobs": 1, **extra}, binned, y, num_boost_round=4)
        for extra in ({}, changes)
    )
    assert all(same_tree(a, b) for a, b in zip(plain.trees, other.trees, strict=True))


def test_a_box_that_nothing_meets_leaves_the_values():
    _, binned, y = planted(8, 3)
    plain, wide = (
        fullhess.train(
            {"n_jobs": 1, "leaf_prior": "ridge", "max_delta_step": limit}, binned, y,
            num_boost_round=2,
        )
        for limit in (0.0, 1e3)
    )  # fmt: skip
    for a, b in zip(plain.trees, wide.trees, strict=True):
        assert np.array_equal(a.feature, b.feature)
        np.testing.assert_allclose(a.values, b.values, rtol=1e-6, atol=1e-8)


# Categories under a penalty, many classes


def test_categories_and_missing_values_are_split_under_a_penalty(rng):
    binned = make_binned(rng, 200, ("many", "few", "holes"), True, 8)
    problem = Problem(binned, make_rows(rng, 200, 3))
    params = oracle_params(NaiveParams(reg_alpha=0.2, max_depth=3, learning_rate=1.0), "softmax")
    tree = boost(problem, params, "full", "diagonal").trees[0]
    assert tree.is_categorical.any()
    check_tree(tree, binned, *problem.stats("diagonal"), params, rtol=2e-5)


def test_many_classes_inside_and_outside_their_box_are_the_oracles():
    _, binned, y = planted(9, 25, n=400)
    params = {"max_depth": 3, "learning_rate": 1.0, "n_jobs": 1, "split_hessian": "diagonal"}
    free = fullhess.train(params, binned, y, num_boost_round=1).trees[0]
    limit = float(np.median(np.abs(free.values).max(axis=1)))
    model = fullhess.train({**params, "max_delta_step": limit}, binned, y, num_boost_round=1)
    met = (np.abs(model.trees[0].values) == limit).any(axis=1)
    assert met.any() and not met.all()
    oracle = oracle_params(NaiveParams(max_delta_step=limit, learning_rate=1.0), "softmax")
    rows = naive.Rows("softmax", np.tile(model.base_score, (400, 1)), y, np.ones(400))
    check_leaf_values(model.trees[0], binned, rows, oracle, atol=1e-6)


# Objectives of one's own


def quartic_loss(raw, label):
    return ((raw - label) ** 4).sum(axis=1) + 0.5 * (raw.sum(axis=1)) ** 2


def quartic_derivatives(raw, label):
    r = raw - label
    hessian = 12 * r[:, :, None] ** 2 * np.eye(raw.shape[1]) + 1.0
    return 4 * r**3 + raw.sum(axis=1, keepdims=True), hessian


@pytest.mark.parametrize("solver", ["damped", "exact"])
@pytest.mark.parametrize(
    "changes",
    [{"reg_alpha": 2.0}, {"max_delta_step": 0.3}, {"monotone_constraints": (1, -1)},
     {"path_smooth": 10.0}],
)  # fmt: skip
def test_a_custom_loss_never_rises_under_penalties(rng, solver, changes):
    X, y = rng.standard_normal((80, 2)), rng.standard_normal((80, 3))
    y += X[:, :1] - X[:, 1:]  # as the constraints have it
    binned = BinnedMatrix.from_quantiles(X, max_bins=8)
    objective = fullhess.CustomObjective(quartic_derivatives, 3, loss=quartic_loss)
    params = {"leaf_solver": solver, "learning_rate": 1.0, "max_depth": 3, "n_jobs": 1}
    path = []
    with fullhess.Trainer({**params, **changes}, binned, y, objective=objective) as trainer:
        for _ in range(6):
            path.append(quartic_loss(trainer.raw, y).sum())
            trainer.step()
        model = trainer.model()
    assert (np.diff(path) <= 1e-12 * path[0]).all() and path[-1] < 0.95 * path[0]
    if "monotone_constraints" in changes:
        check_monotone(model, X, binned, (1, -1))
