"""``path_smooth``: the pull of leaf values to their parents'."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from engine import oracle_params, same_tree
from naive import NaiveParams, Rows, node_solve, weighted_stats
from naive_checks import tree_rows

import fullhess
from fullhess import BinnedMatrix, Trainer

FAST = {"max_depth": 3, "learning_rate": 0.3, "min_child_weight": 0.01, "n_jobs": 1}


def problem(n: int = 400, k: int = 3) -> tuple[Any, BinnedMatrix]:
    rng = np.random.default_rng(0)
    label = rng.integers(0, k, n)
    X = rng.normal(size=(n, 5)) + np.array([np.cos(label + j) for j in range(5)]).T
    return label, BinnedMatrix.from_quantiles(X, max_bins=32)


def smooth_by_hand(tree: Any, nodes_value: Any, solved: Any, strength: float) -> Any:
    """(n_leaves, k) values pulled to the parents', from the root down."""
    value = nodes_value.copy()
    out = np.empty_like(solved)
    for v in np.flatnonzero(tree.feature >= 0):
        for child in (tree.left[v], tree.right[v]):
            share = tree.count[child] / (tree.count[child] + strength)
            own = solved[tree.leaf[child]] if tree.feature[child] < 0 else value[child]
            value[child] = share * own + (1 - share) * value[v]
            if tree.feature[child] < 0:
                out[tree.leaf[child]] = value[child]
    return out


@pytest.mark.parametrize("strength", [0.5, 20.0])
@pytest.mark.parametrize("objective", ["softmax", "squared_error"])
def test_leaves_are_pulled_to_their_parents_by_rows(strength, objective):
    """Squared error, and softmax leaves of one step: inner values in closed form."""
    label, binned = problem()
    y = label if objective == "softmax" else np.eye(3)[label] + label[:, None]
    params = {**FAST, "objective": objective, "leaf_solver": "damped", "learning_rate": 1.0}
    raw = np.zeros((400, 3))
    kwargs: Any = {"base_margin": raw, "num_boost_round": 1}
    plain = fullhess.train(params, binned, y, **kwargs).trees[0]
    smooth = fullhess.train({**params, "path_smooth": strength}, binned, y, **kwargs).trees[0]
    assert np.array_equal(plain.feature, smooth.feature)
    oracle = oracle_params(replace(NaiveParams(), leaf_solver="damped"), objective)
    rows = Rows(objective, raw, y, np.ones(400))
    g, H = weighted_stats(rows)
    inner = np.zeros((plain.n_nodes, 3))
    for v, here in enumerate(tree_rows(plain, binned)):
        solution = node_solve(g[here].sum(axis=0), H[here].sum(axis=0), oracle)
        inner[v] = solution.t * solution.d
    expected = smooth_by_hand(plain, inner, plain.values, strength)
    np.testing.assert_allclose(smooth.values, expected, rtol=1e-5, atol=1e-6)
    assert np.abs(smooth.values - plain.values).max() > 1e-3


def test_a_tree_of_one_leaf_has_no_parent_to_go_to():
    label, binned = problem()
    params = {**FAST, "min_samples_leaf": 400, "learning_rate": 1.0, "leaf_prior": "ridge"}
    margin = np.tile([1.0, 0.0, 0.0], (400, 1))
    one, two = (
        fullhess.train({**params, "path_smooth": s}, binned, label, base_margin=margin,
                       num_boost_round=1)
        for s in (0.0, 50.0)
    )  # fmt: skip
    assert same_tree(one.trees[0], two.trees[0]) and one.trees[0].values.any()


@pytest.mark.parametrize("solver", ["damped", "exact"])
@pytest.mark.parametrize("extra", [{}, {"reg_alpha": 0.1}, {"max_delta_step": 0.3}])
@pytest.mark.parametrize("strength", [1.0, 1e4])
def test_the_pull_never_raises_the_training_loss(solver, extra, strength):
    label, binned = problem()
    params = {**FAST, "leaf_solver": solver, "path_smooth": strength, "learning_rate": 1.0,
              "max_depth": 6, "reg_lambda": 0.01, **extra}  # fmt: skip
    path = []
    with Trainer(params, binned, label) as trainer:
        for _ in range(10):
            path.append(trainer.objective.losses(trainer.raw, trainer.label).sum())
            trainer.step()
        if "max_delta_step" in extra:
            assert max(np.abs(tree.values).max() for tree in trainer.trees) <= 0.3 * (1 + 1e-12)
    assert (np.diff(path) <= 1e-12 * path[0]).all() and path[-1] < path[0]
