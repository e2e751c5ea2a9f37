"""The two adapters are one engine: the same bins give the same trees."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")

import fullhess.lightgbm as lgb
import fullhess.xgboost as xgb

K = 4
ROUNDS = 6


@pytest.fixture
def table(rng):
    """Columns of few distinct values, for which both libraries make one bin a value."""
    X = rng.integers(0, 12, (1500, 6)).astype(np.float64)
    X[:, 5] = rng.integers(0, 2, 1500)
    score = X @ rng.normal(size=(6, K)) / 6 + rng.gumbel(size=(1500, K))
    return X, score.argmax(axis=1)


def parts(ensemble, X):
    """Of every tree: the features of its splits, and the leaves' values at every row."""
    leaves = ensemble.apply(X)
    values = [tree.values[leaves[:, t]] for t, tree in enumerate(ensemble.trees)]
    return [sorted(tree.feature[tree.feature >= 0]) for tree in ensemble.trees], values


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"leaf_prior": "path"},
        {"hessian": "upper_bound", "leaf_solver": "newton", "split_gain": "quadratic"},
    ],
    ids=["default", "path prior", "stand-in"],
)
def test_same_bins_give_the_same_trees(table, settings):
    X, y = table
    by_xgboost = xgb.train(
        {
            "objective": "multi:softprob", "num_class": K, "eta": 0.2, "lambda": 2.0,
            "grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0,
            "min_child_weight": 0.5, "nthread": 1, **settings,
        },
        xgb.DMatrix(X, label=y),
        ROUNDS,
    )  # fmt: skip
    by_lightgbm = lgb.train(
        {
            "objective": "multiclass", "num_class": K, "learning_rate": 0.2, "lambda_l2": 2.0,
            "num_leaves": 12, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.5,
            "min_data_in_bin": 1, "feature_pre_filter": False, "num_threads": 1,
            "verbosity": -1, **settings,
        },
        lgb.Dataset(X, label=y),
        ROUNDS,
    )  # fmt: skip
    one, other = (parts(booster.native, X) for booster in (by_xgboost, by_lightgbm))
    assert one[0] == other[0]
    # LightGBM's first round holds the intercept, and its scores are not centred.
    for a, b in zip(one[1], other[1], strict=True):
        a, b = (values - values.mean(axis=1, keepdims=True) for values in (a, b))
        shift = (b - a).mean(axis=0)
        assert a + shift == pytest.approx(b, abs=1e-5)
    assert by_xgboost.predict(xgb.DMatrix(X)) == pytest.approx(by_lightgbm.predict(X), abs=1e-5)
