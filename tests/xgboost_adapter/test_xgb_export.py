"""Exported models: the same margins as ours, in every layout and way to predict."""

from __future__ import annotations

import json
import math
import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_trees import goes_left, same_bits, stump

from fullhess import BinnedMatrix, Ensemble, FeatureSpace, train
from fullhess.features import MISSING_NAN, MISSING_NONE, MISSING_ZERO

xgboost = pytest.importorskip("xgboost")

from fullhess_xgboost.export import to_xgboost  # noqa: E402
from xgb_models import (  # noqa: E402
    FLT_MAX,
    exportable_ensemble,
    host_rows,
    numeric_ensemble,
)

OLD = tuple(map(int, xgboost.__version__.split(".")[:2])) < (3, 4)
LAYOUTS = ("vector", "scalar")
loses_categories = pytest.mark.filterwarnings("ignore:XGBoost .* loses the categorical splits")
seeds = st.integers(0, 2**32 - 1)


def margins(booster: Any, X: Any, **options: Any) -> Any:
    return booster.predict(xgboost.DMatrix(X), output_margin=True, **options)


@loses_categories
@pytest.mark.parametrize("comparison", ["<", "<="])
@pytest.mark.parametrize("layout", LAYOUTS)
@given(seed=seeds)
def test_margins_are_ours_bit_for_bit(layout: Any, comparison: Any, seed: int) -> None:
    model, binning = exportable_ensemble(seed, comparison)
    X = host_rows(np.random.default_rng(seed), binning)
    booster = to_xgboost(model, layout)
    expected = model.predict_raw(X)
    for threads in (1, 2):
        booster.set_param({"nthread": threads})
        assert same_bits(margins(booster, X), expected)
    assert same_bits(np.asarray(booster.inplace_predict(X, predict_type="margin")), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("raw_format", ["json", "ubj"])
@given(seed=seeds)
def test_what_xgboost_saves_again_predicts_the_same(
    layout: Any, raw_format: str, seed: int
) -> None:
    if layout == "vector" and OLD:  # it loses categorical splits, hence our default
        model, binning = exportable_ensemble(seed, n_features=2)
    else:
        model, binning = exportable_ensemble(seed)
    X = host_rows(np.random.default_rng(seed), binning)
    booster = xgboost.Booster(model_file=to_xgboost(model, layout).save_raw(raw_format))
    assert same_bits(margins(booster, X), model.predict_raw(X))


@loses_categories
@pytest.mark.parametrize("layout", LAYOUTS)
@given(seed=seeds, sizes=st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_rounds_and_base_margin(layout: Any, seed: int, sizes: list[int]) -> None:
    model, binning = exportable_ensemble(seed, n_trees=sum(sizes))
    model = model.with_trees(model.trees, iteration_indptr=np.cumsum([0, *sizes]))
    rng = np.random.default_rng(seed)
    X = host_rows(rng, binning)
    booster = to_xgboost(model, layout)
    assert booster.num_boosted_rounds() == (len(sizes) if any(sizes) else 0)
    if not any(sizes):
        return
    first = int(rng.integers(len(sizes)))
    last = int(rng.integers(first + 1, len(sizes) + 1))
    expected = model.predict_raw(X, rounds=slice(first, last))
    assert same_bits(margins(booster, X, iteration_range=(first, last)), expected)
    base_margin = rng.normal(size=(len(X), 3)).astype(np.float32)
    data = xgboost.DMatrix(X, base_margin=base_margin)
    expected = model.predict_raw(X, base_margin=base_margin)
    assert same_bits(booster.predict(data, output_margin=True), expected)


@loses_categories
@pytest.mark.parametrize("layout", LAYOUTS)
@given(seed=seeds)
def test_float64_models_are_rounded_leaf_by_leaf(layout: Any, seed: int) -> None:
    model, binning = exportable_ensemble(seed, dtype=np.float64)
    X = host_rows(np.random.default_rng(seed), binning)
    rounded = Ensemble(
        tuple(tree.with_values(tree.values.astype(np.float32)) for tree in model.trees),
        model.base_score.astype(np.float32),
        model.features,
        model.link,
    )
    got = margins(to_xgboost(model, layout), X)
    assert same_bits(got, rounded.predict_raw(X))
    np.testing.assert_allclose(got, model.predict_raw(X), rtol=1e-5, atol=1e-5)


@loses_categories
@pytest.mark.parametrize("layout", LAYOUTS)
@given(seed=seeds)
def test_leaves_are_ours(layout: Any, seed: int) -> None:
    """XGBoost names leaves by nodes: equal nodes where and only where leaves are equal."""
    model, binning = exportable_ensemble(seed)
    X = host_rows(np.random.default_rng(seed), binning)
    theirs = to_xgboost(model, layout).predict(xgboost.DMatrix(X), pred_leaf=True)
    ours = np.repeat(model.apply(X), 1 if layout == "vector" else 3, axis=1)
    assert theirs.shape == ours.shape
    for a, b in zip(theirs.T, ours.T, strict=True):
        assert len(np.unique(a)) == len(np.unique(b)) == len(np.unique([a, b], axis=1).T)


@given(seed=seeds)
def test_any_base_score_survives(seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 2**32, 40, dtype=np.uint32)
    base_score = bits.view(np.float32)
    base_score = np.append(base_score[np.isfinite(base_score)], np.float32([0, -0.0, 1e-45, 7]))
    booster = to_xgboost(Ensemble((), base_score, FeatureSpace.of(1, "<"), "identity"))
    assert same_bits(margins(booster, np.zeros((1, 1)))[0], base_score)


THRESHOLDS = [
    *(-math.inf, -1e300, -FLT_MAX, -1.5, -1e-30, -1e-35, -1e-36, -1e-45, -1e-320, -0.0, 0.0),
    *(1e-320, 1e-45, 1.3e-45, 1e-36, float(np.float32(1e-35)), 1e-30, 0.1, 1.0, 1.5),
    *(FLT_MAX, math.nextafter(FLT_MAX, 0), math.nextafter(FLT_MAX, math.inf), 1e300, math.inf),
]


def close_float32s() -> np.ndarray[Any, Any]:
    """The thresholds in float32 with their neighbours on both sides, as far as finite; NaN."""
    near = np.clip(THRESHOLDS, -FLT_MAX, FLT_MAX)
    up, down = np.float32(math.inf), np.float32(-math.inf)
    with np.errstate(over="ignore", under="ignore"):
        near = near.astype(np.float32)
        near = np.concatenate([near, np.nextafter(near, up), np.nextafter(near, down)])
    return np.append(near[np.isfinite(near)], np.float32(math.nan))


@pytest.mark.parametrize("missing", [MISSING_NAN, MISSING_NONE, MISSING_ZERO])
@pytest.mark.parametrize("comparison", ["<", "<="])
def test_every_float32_goes_our_way_at_every_threshold(comparison: Any, missing: int) -> None:
    """The oracle is the documentation's text; a split that is refused must need two cuts."""
    features = FeatureSpace.of(1, comparison, missing=[missing])
    x = close_float32s()
    ascending = np.sort(x[:-1])
    n_refused = 0
    for threshold, default_left in product(THRESHOLDS, [False, True]):
        if comparison == "<":
            with np.errstate(over="ignore", under="ignore"):
                threshold = float(np.float32(threshold))
        tree = stump(threshold, default_left, values=np.float32([[-1], [1]]))
        model = Ensemble((tree,), np.zeros(1, np.float32), features, "identity")
        left = np.array([goes_left(tree, 0, features, float(value)) for value in x])
        sides = [goes_left(tree, 0, features, float(value)) for value in ascending]
        if np.count_nonzero(np.diff(sides)) > 1:
            n_refused += 1
            with pytest.raises(ValueError, match="zero counts as missing"):
                to_xgboost(model)
            continue
        assert same_bits(margins(to_xgboost(model), x[:, None]), np.where(left, -1, 1).astype("f"))
    assert (n_refused > 0) == (missing == MISSING_ZERO)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_largest_category_and_the_one_beyond(layout: Any) -> None:
    features = FeatureSpace.of(1, "<", categorical=[True])
    values = np.float32([[1, 2, 3], [4, 5, 6]])

    def model(*codes: int) -> Ensemble:
        tree = stump(categories=codes, values=values)
        return Ensemble((tree,), np.zeros(3, np.float32), features, "softmax")

    X = np.float32([0, 3, 3.9, 4, 2**24 - 1, 2**24 - 2, 2**24, 2**31, -1, -(2**31), math.nan])[
        :, None
    ]
    fits = model(0, 3, 2**24 - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert same_bits(margins(to_xgboost(fits, layout), X), fits.predict_raw(X))
        with pytest.raises(ValueError, match=r"category codes up to 16777215.*16777216"):
            to_xgboost(model(0, 2**24), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_single_leaves_and_no_trees(layout: Any) -> None:
    model = numeric_ensemble(0, n_leaves=1)
    X = np.zeros((2, 2), np.float32)
    assert all(tree.n_nodes == 1 for tree in model.trees)
    assert same_bits(margins(to_xgboost(model, layout), X), model.predict_raw(X))
    empty = model.with_trees(())
    booster = to_xgboost(empty, layout)
    assert booster.num_boosted_rounds() == 0
    assert same_bits(margins(booster, X), empty.predict_raw(X))
    np.testing.assert_allclose(booster.predict(xgboost.DMatrix(X)), empty.predict(X), rtol=1e-6)


# Two classes


@pytest.mark.parametrize("shift", [0.0, 5.0, -5.0, 14.0, 40.0, -40.0, -200.0])
def test_two_classes_become_one_logistic_tree(shift: float) -> None:
    model = numeric_ensemble(1, n_outputs=2)
    model = Ensemble(model.trees, np.float32([0.3, 0.3 + shift]), model.features, "softmax")
    X = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    booster = to_xgboost(model)
    raw = model.predict_raw(X)
    difference = raw[:, 1].astype(np.float64) - raw[:, 0]
    np.testing.assert_allclose(margins(booster, X), difference, rtol=3e-6, atol=3e-6)
    probability = booster.predict(xgboost.DMatrix(X))
    np.testing.assert_allclose(probability, model.predict(X)[:, 1], rtol=1e-5, atol=1e-6)
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    assert objective == "binary:logistic"


@pytest.mark.parametrize("shift", [-30.0, -1.0, 0.0, 2.0, 30.0])
def test_two_classes_without_trees(shift: float) -> None:
    base_score = np.float32([0.0, shift])
    model = Ensemble((), base_score, FeatureSpace.of(1, "<"), "softmax")
    probability = to_xgboost(model).predict(xgboost.DMatrix(np.zeros((1, 1))))
    np.testing.assert_allclose(probability, model.predict(np.zeros((1, 1)))[:, 1], atol=3e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_classes_in_a_chosen_layout_keep_both_margins(layout: Any) -> None:
    model = numeric_ensemble(1, n_outputs=2)
    X = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    booster = to_xgboost(model, layout)
    assert same_bits(margins(booster, X), model.predict_raw(X))
    np.testing.assert_allclose(booster.predict(xgboost.DMatrix(X)), model.predict(X), atol=1e-6)


def test_a_classifier_of_two_classes_predicts_labels() -> None:
    model = numeric_ensemble(1, n_outputs=2)
    X = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    classifier = xgboost.XGBClassifier()
    classifier.load_model(to_xgboost(model).save_raw("ubj"))
    labels = classifier.predict(X)
    np.testing.assert_array_equal(labels, model.predict(X).argmax(axis=1))
    assert set(labels) == {0, 1}
    np.testing.assert_allclose(classifier.predict_proba(X), model.predict(X), atol=1e-6)


# Trained models


@loses_categories
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("margin_dtype", ["float32", "float64"])
def test_trained_models(layout: Any, margin_dtype: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    X[:, 3] = rng.integers(0, 9, 300)
    y = (np.nan_to_num(X[:, 0]) > 0) + 1 * (X[:, 3] % 3 == 0)
    X[rng.random(X.shape) < 0.2] = math.nan
    binned = BinnedMatrix.from_quantiles(X, categorical=[3])
    params = {"objective": "softmax", "margin_dtype": margin_dtype, "num_parallel_tree": 2}
    model = train({**params, "subsample": 0.7}, binned, y, num_boost_round=5)
    booster = to_xgboost(model, layout)
    if margin_dtype == "float32":
        assert same_bits(margins(booster, X), model.predict_raw(X))
    np.testing.assert_allclose(margins(booster, X), model.predict_raw(X), atol=1e-5)
    expected = model.predict_raw(X, rounds=slice(1, 3))
    np.testing.assert_allclose(margins(booster, X, iteration_range=(1, 3)), expected, atol=1e-5)
    contributions = to_xgboost(model, "scalar").predict(xgboost.DMatrix(X), pred_contribs=True)
    np.testing.assert_allclose(contributions.sum(axis=2), model.predict_raw(X), atol=1e-4)
