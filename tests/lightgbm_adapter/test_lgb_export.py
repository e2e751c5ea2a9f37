"""A model in LightGBM's form decides and adds as the engine does."""

from __future__ import annotations

import numpy as np
import pytest

lgb = pytest.importorskip("lightgbm")

from fullhess_lightgbm.export import fold_base_score, to_lightgbm  # noqa: E402
from fullhess_lightgbm.importer import ModelTextError, from_lightgbm_text  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from lgb_cases import SOFTMAX, binning_of, classes, odd_rows, random_model  # noqa: E402
from random_trees import random_ensemble, random_rows, stump, telling_values  # noqa: E402

import fullhess  # noqa: E402
from fullhess import Ensemble, FeatureSpace  # noqa: E402

QUIET = {"verbose": -1}


def folded(model):
    return model.with_trees(fold_base_score(model))


@given(st.integers(0, 10**9), st.sampled_from([1, 2, 3, 7]))
def test_raw_scores_leaves_and_native_models_agree_bit_for_bit(seed, k):
    model, binning = random_model(seed, k=k, link="softmax" if k > 1 else "identity")
    X = random_rows(np.random.default_rng(seed + 1), binning)
    booster = to_lightgbm(model)
    raw = booster.predict(X, raw_score=True).reshape(len(X), k)
    assert np.array_equal(raw, model.predict_raw(X))
    leaves = booster.predict(X, pred_leaf=True).reshape(len(X), -1)
    assert np.array_equal(leaves, np.repeat(model.apply(X), k, axis=1))
    native = booster.native
    assert np.array_equal(native.predict_raw(X), raw)
    assert [tree.n_leaves for tree in native.trees] == [tree.n_leaves for tree in model.trees]
    assert native.link == model.link
    for mine, theirs in zip(model.trees, native.trees, strict=True):
        thresholds = np.sort(mine.threshold), np.sort(theirs.threshold)
        assert np.array_equal(*thresholds, equal_nan=True)
        if mine.n_leaves > 1:  # of a single leaf 4.5 keeps no count
            assert np.array_equal(np.sort(mine.count), np.sort(theirs.count))


@given(st.integers(0, 10**9))
@settings(max_examples=15)
def test_every_cut_and_default_direction_is_decided_alike(seed):
    rng = np.random.default_rng(seed)
    binning = binning_of(rng, "<=")
    for j in range(binning.features.n_features):
        X = np.full((len(telling_values(binning, j)), 6), 0.5)
        X[:, j] = telling_values(binning, j)
        trees = []
        if binning.categories[j] is not None:
            trees = [stump(categories=(int(c),)) for c in np.sort(binning.categories[j])[:5]]
        else:
            for cut in [*binning.cuts[j], np.inf]:
                trees += [stump(float(cut), default) for default in (False, True)]
        one = [t.with_values(np.array([[-1.0], [1.0]])) for t in trees]
        moved = [_on_feature(tree, j) for tree in one]
        model = Ensemble(tuple(moved), np.zeros(1), binning.features, "identity")
        got = to_lightgbm(model).predict(X, pred_leaf=True).reshape(len(X), -1)
        assert np.array_equal(got, model.apply(X))


def _on_feature(tree, j):
    parts = {name: getattr(tree, name) for name in tree.__dataclass_fields__}
    return type(tree)(**{**parts, "feature": np.where(tree.feature >= 0, j, -1)})


@given(st.integers(0, 10**9))
def test_a_model_of_xgboost_decides_alike_for_every_float32(seed):
    model, binning = random_model(seed, "<")
    rng = np.random.default_rng(seed)
    X = random_rows(rng, binning)
    with np.errstate(over="ignore"):
        X = X.astype(np.float32)
    booster = to_lightgbm(model)
    assert np.array_equal(booster.predict(X, raw_score=True), model.predict_raw(X))
    assert np.array_equal(booster.native.predict_raw(X), model.predict_raw(X))


def test_a_cut_at_zero_is_kept(rng):
    model, binning = random_model(5, zero=True)
    X = random_rows(rng, binning, 400)
    X[np.abs(X) < 1e-30] = 0.0
    assert np.array_equal(to_lightgbm(model).predict(X, raw_score=True), model.predict_raw(X))


def test_float32_margins_are_exported_to_their_precision():
    model, _ = random_ensemble(3, "<", np.float32, n_categories=5)
    small = [t for t in model.trees if not (t.category_values > 10**6).any()]
    model = model.with_trees(small)
    X = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    got = to_lightgbm(model).predict(X, raw_score=True)
    assert np.allclose(got, model.predict_raw(X), rtol=1e-5, atol=1e-5)


def test_best_iteration_and_parallel_trees_are_counted_in_iterations():
    model, binning = random_model(1, n_trees=6)
    model = model.with_trees(model.trees, best_iteration=1, iteration_indptr=[0, 2, 4, 6])
    booster = to_lightgbm(model)
    X = random_rows(np.random.default_rng(0), binning)
    assert booster.best_iteration == 4 and booster.current_iteration() == 6
    assert np.array_equal(booster.predict(X, raw_score=True), model.predict_raw(X))


def test_a_model_without_trees_predicts_its_base_score(rng):
    model, _ = random_model(1, n_trees=0)
    X = rng.normal(size=(4, 6))
    assert np.array_equal(to_lightgbm(model).predict(X, raw_score=True), model.predict_raw(X))


def test_text_is_stable_under_loading_and_saving(rng, tmp_path):
    model, binning = random_model(11)
    booster = to_lightgbm(model)
    text = booster.model_to_string()
    assert lgb.Booster(model_str=text).model_to_string() == text
    booster.save_model(tmp_path / "model.txt")
    again = lgb.Booster(model_file=str(tmp_path / "model.txt"))
    X = random_rows(rng, binning)
    assert np.array_equal(again.predict(X), booster.predict(X))


def test_contributions_add_up_also_for_models_that_know_no_counts(rng):
    model, _ = random_model(4)
    blind = [_without_counts(tree) for tree in model.trees]
    X = rng.normal(size=(30, 6))
    for candidate in (model, model.with_trees(blind)):
        contrib = to_lightgbm(candidate).predict(X, pred_contrib=True).reshape(30, 3, 7)
        assert np.isfinite(contrib).all()
        assert np.allclose(contrib.sum(axis=2), candidate.predict_raw(X), atol=1e-9)


def _without_counts(tree):
    parts = {name: getattr(tree, name) for name in tree.__dataclass_fields__}
    return type(tree)(**{**parts, "count": np.zeros(tree.n_nodes, np.int64)})


def test_names_that_the_host_cannot_hold_are_refused():
    tree = stump(0.5)
    for names in (["a,b"], ["a\tb"], [""]):
        model = Ensemble((tree,), np.zeros(1), FeatureSpace.of(1, "<=", names), "identity")
        with pytest.raises(ValueError, match="name of a feature"):
            to_lightgbm(model)
    blank = Ensemble((tree,), np.zeros(1), FeatureSpace.of(1, "<=", ["a b"]), "identity")
    assert to_lightgbm(blank).feature_name() == ["a_b"]


def test_models_of_the_engine_itself_are_exported(rng):
    X, y = classes(rng)
    binned = fullhess.BinnedMatrix.from_quantiles(X, categorical=[4])
    model = fullhess.train({"max_depth": 3}, binned, y, num_boost_round=5)
    rows = odd_rows(rng, X)
    rows[np.abs(rows) < 1e-30] = 0.0
    assert np.array_equal(to_lightgbm(model).predict(rows, raw_score=True), model.predict_raw(rows))


@pytest.mark.parametrize(
    "params",
    [
        SOFTMAX,
        {**SOFTMAX, "zero_as_missing": True},
        {**SOFTMAX, "use_missing": False},
        {"objective": "regression", "verbose": -1},
        {"objective": "binary", "verbose": -1},
        {"objective": "multiclassova", "num_class": 3, "verbose": -1},
    ],
)
def test_models_of_the_host_are_read(rng, params):
    X, y = classes(rng)
    label = (y > 0).astype(int) if params["objective"] == "binary" else y
    data = lgb.Dataset(X, label, categorical_feature=[4])
    booster = lgb.train(params, data, 6)
    native = from_lightgbm_text(booster.model_to_string())
    rows = odd_rows(rng, X)
    raw = booster.predict(rows, raw_score=True)
    assert np.array_equal(native.predict_raw(rows).reshape(raw.shape), raw)
    assert native.n_rounds == 6
    if params["objective"] == "multiclass":
        assert np.allclose(native.predict(rows), booster.predict(rows), atol=1e-14)


def test_features_that_get_missing_values_later_are_read(rng):
    X, y = classes(rng, missing=0.0)
    first = lgb.train(SOFTMAX, lgb.Dataset(X, y), 3)
    X[rng.random(X.shape) < 0.2] = np.nan
    both = lgb.train(SOFTMAX, lgb.Dataset(X, y, free_raw_data=False), 3, init_model=first)
    rows = odd_rows(rng, X)
    native = from_lightgbm_text(both.model_to_string())
    assert np.array_equal(native.predict_raw(rows), both.predict(rows, raw_score=True))


def test_what_vector_trees_cannot_express_is_refused(rng):
    X, y = classes(rng)
    X = np.nan_to_num(X)
    forest = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}
    with pytest.raises(ModelTextError, match="random forest"):
        from_lightgbm_text(lgb.train({**SOFTMAX, **forest}, lgb.Dataset(X, y), 2).model_to_string())
    linear = lgb.train({**SOFTMAX, "linear_tree": True}, lgb.Dataset(X, y), 2)
    with pytest.raises(ModelTextError, match="linear"):
        from_lightgbm_text(linear.model_to_string())


@given(st.integers(0, 10**9))
@settings(max_examples=60)
def test_damaged_text_ends_in_an_error_or_in_a_sound_model(seed):
    rng = np.random.default_rng(seed)
    model, _ = random_model(seed % 5, n_trees=2)
    text = to_lightgbm(model).model_to_string()
    lines = text.split("\n")
    end = lines.index("end of trees")
    at = int(rng.integers(0, end + 1))
    kind = rng.integers(3)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        words = lines[at].split(" ")
        words[int(rng.integers(len(words)))] = str(rng.integers(-5, 50))
        lines[at] = " ".join(words)
    else:
        lines = lines[:at]
    try:
        native = from_lightgbm_text("\n".join(lines))
    except ValueError:
        return
    native.predict_raw(rng.normal(size=(3, native.features.n_features)))
