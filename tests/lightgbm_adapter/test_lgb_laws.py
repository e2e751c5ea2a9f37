"""Laws of whole runs, for random data and parameters."""

from __future__ import annotations

import numpy as np
import pytest

lgb = pytest.importorskip("lightgbm")

import scipy.sparse as sp  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from lgb_cases import classes, odd_rows  # noqa: E402

import fullhess.lightgbm as ours  # noqa: E402

CHOICES = {
    "num_leaves": [2, 5, 31],
    "max_depth": [-1, 2],
    "min_data_in_leaf": [1, 10],
    "lambda_l2": [0.0, 1.0],
    "lambda_l1": [0.0, 0.5],
    "learning_rate": [0.1, 1.0],
    "max_delta_step": [0.0, 0.5],
    "min_gain_to_split": [0.0, 1.0],
    "feature_fraction": [1.0, 0.5],
    "feature_fraction_bynode": [1.0, 0.6],
    "bagging_fraction": [1.0, 0.6],
    "bagging_freq": [0, 1],
    "max_bin": [4, 255],
    "zero_as_missing": [False, True],
    "use_missing": [True, False],
    "boost_from_average": [True, False],
    "max_cat_to_onehot": [1, 4, 100],
    "hessian": ["full", "diagonal", "upper_bound"],
    "leaf_solver": ["exact", "damped", "newton"],
    "split_gain": ["guaranteed", "quadratic"],
    "interaction_constraints": [None, [[0, 1, 4], [2]]],
    "extra_trees": [False, True],
    "path_smooth": [0.0, 2.0],
    "max_cat_threshold": [None, 2],
    "cat_l2": [None, 1.0],
    "min_data_per_group": [None, 5],
}


@st.composite
def parameters(draw):
    chosen = {name: draw(st.sampled_from(values)) for name, values in CHOICES.items()}
    if chosen["learning_rate"] == 1.0 and chosen["leaf_solver"] == "newton":
        chosen["learning_rate"] = 0.1  # the plain step promises nothing
    return chosen


@given(
    st.integers(0, 10**9),
    st.sampled_from([2, 3, 5]),
    st.sampled_from(["dense", "float32", "csr"]),
    st.booleans(),
    st.booleans(),
    parameters(),
)
@settings(max_examples=40)
def test_scores_of_training_prediction_and_native_model_are_the_same_bits(
    seed, k, form, weighted, started, params
):
    rng = np.random.default_rng(seed)
    X, y = classes(rng, n=150, k=k)
    if form == "float32":
        X = X.astype(np.float32)
    elif form == "csr":
        X[rng.random(X.shape) < 0.5] = 0.0
    raw = sp.csr_matrix(X) if form == "csr" else X
    start = rng.normal(size=(len(X), k)) if started else None
    weight = rng.random(len(X)) + 0.1 if weighted else None
    data = lgb.Dataset(raw, y, weight=weight, init_score=start, categorical_feature=[4])
    settings_ = {**params, "objective": "multiclass", "num_class": k, "verbose": -1}
    booster = ours.Booster(settings_, data)
    booster.add_valid(data.create_valid(raw[:70], y[:70]), "valid")
    for _ in range(3):
        booster.update()
    predicted = booster.predict(raw, raw_score=True)
    scores = booster._run.scores(0)
    assert np.isfinite(predicted).all()
    if started:
        assert np.allclose(predicted + start, scores, rtol=1e-12, atol=1e-12)
    else:
        assert np.array_equal(predicted, scores)
    assert np.array_equal(booster._run.scores(1), predicted[:70])
    rows = odd_rows(rng, np.asarray(X, np.float64))
    found = booster.predict(rows, raw_score=True)
    assert np.array_equal(booster.native.predict_raw(rows), found)
    assert np.array_equal(booster.native.predict_raw(raw), predicted)
    leaves = booster.predict(rows, pred_leaf=True)[:, ::k]
    assert np.array_equal(leaves, booster.native.apply(rows))


@given(st.integers(0, 10**9), st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from([0.0, 1.0]))
@settings(max_examples=10)
def test_the_training_loss_never_rises(seed, rate, penalty):
    rng = np.random.default_rng(seed)
    X, y = classes(rng, n=200)
    data = lgb.Dataset(X, y, categorical_feature=[4])
    history: dict = {}
    ours.train(
        {"objective": "multiclass", "num_class": 3, "verbose": -1, "learning_rate": rate,
         "lambda_l2": penalty, "min_data_in_leaf": 3},
        data, 10, [data], callbacks=[lgb.record_evaluation(history)],
    )  # fmt: skip
    assert (np.diff(history["training"]["multi_logloss"]) <= 1e-12).all()
