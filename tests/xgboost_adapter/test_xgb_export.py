"""Exported models: the same margins as ours, in every layout and way to predict."""

from __future__ import annotations

import gc
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
from fullhess.serialization import load

xgboost = pytest.importorskip("xgboost")

from fullhess_xgboost import export  # noqa: E402
from fullhess_xgboost.export import TreeCache, model_bytes, to_xgboost  # noqa: E402
from xgb_models import (  # noqa: E402
    FLT_MAX,
    exportable_ensemble,
    host_rows,
    numeric_ensemble,
    replaced,
)

OLD = tuple(map(int, xgboost.__version__.split(".")[:2])) < (3, 4)
LAYOUTS = ("vector", "scalar")
loses_categories = pytest.mark.filterwarnings("ignore:XGBoost .* loses the categorical splits")
seeds = st.integers(0, 2**32 - 1)


def margins(booster: Any, X: Any, **options: Any) -> Any:
    return booster.predict(xgboost.DMatrix(X), output_margin=True, **options)


def written(booster: Any) -> dict[str, Any]:
    return json.loads(booster.save_raw("json"))["learner"]


def written_trees(booster: Any) -> list[dict[str, Any]]:
    return written(booster)["gradient_booster"]["model"]["trees"]


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
    assert written(booster)["objective"]["name"] == "binary:logistic"


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


# What else is written


@pytest.mark.parametrize("layout", LAYOUTS)
@given(seed=seeds)
def test_covers_are_positive_and_add_up(layout: Any, seed: int) -> None:
    model = numeric_ensemble(seed)
    flat = replaced(model.trees[0], cover=np.zeros(model.trees[0].n_nodes))
    booster = to_xgboost(model.with_trees((flat, *model.trees[1:])), layout)
    for tree in written_trees(booster):
        cover = np.array(tree["sum_hessian"], np.float32)
        left = np.array(tree["left_children"])
        split = left >= 0
        right = np.array(tree["right_children"])[split]
        assert (cover > 0).all()
        assert same_bits(cover[split], cover[left[split]] + cover[right])


@given(seed=seeds)
def test_values_of_inner_nodes_are_means_of_their_leaves(seed: int) -> None:
    model = numeric_ensemble(seed, n_trees=1)
    tree = written_trees(to_xgboost(model, "vector"))[0]
    weights = np.array(tree["base_weights"]).reshape(-1, 3)
    cover = np.array(tree["sum_hessian"])
    leaves = np.array(tree["left_children"]) < 0
    mean = (weights[leaves] * cover[leaves, None]).sum(axis=0) / cover[leaves].sum()
    np.testing.assert_allclose(weights[0], mean, atol=1e-5)
    np.testing.assert_array_equal(
        np.float32(weights[leaves]).ravel(), np.float32(tree["leaf_weights"])
    )


def test_gains_are_written() -> None:
    model = numeric_ensemble(3, n_trees=4)
    booster = to_xgboost(model)
    gain = model.importance("total_gain")
    score = booster.get_score(importance_type="total_gain")
    np.testing.assert_allclose([score[f"f{j}"] for j in range(2)], gain, rtol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parallel_trees_are_ordered_as_xgboost_orders_them(layout: Any) -> None:
    rng = np.random.default_rng(0)
    data = xgboost.DMatrix(rng.normal(size=(60, 2)), rng.integers(0, 3, 60))
    strategy = {"vector": "multi_output_tree", "scalar": "one_output_per_tree"}[layout]
    native = xgboost.train(
        {
            "objective": "multi:softprob",
            "num_class": 3,
            "num_parallel_tree": 2,
            "multi_strategy": strategy,
        },
        data,
        3,
    )
    model = numeric_ensemble(0, n_trees=6)
    model = model.with_trees(model.trees, iteration_indptr=[0, 2, 4, 6])
    ours = written(to_xgboost(model, layout))["gradient_booster"]["model"]
    theirs = written(native)["gradient_booster"]["model"]
    for key in ("iteration_indptr", "tree_info", "gbtree_model_param"):
        assert ours[key] == theirs[key]


def test_attributes_and_best_iteration() -> None:
    model = numeric_ensemble(0)
    assert to_xgboost(model).attributes() == {}
    stopped = model.with_trees(model.trees, best_iteration=2)
    booster = to_xgboost(stopped, attributes={"best_score": "0.25", "note": "é"})
    assert booster.attributes() == {"best_iteration": "2", "best_score": "0.25", "note": "é"}
    assert booster.best_iteration == 2
    with pytest.raises(TypeError, match="strings to strings"):
        to_xgboost(model, attributes={"best_score": 0.25})


def test_names_and_types() -> None:
    model, _ = exportable_ensemble(0)
    booster = to_xgboost(model, "scalar")
    assert booster.feature_names is None
    assert booster.feature_types == ["q", "q", "c"] * 2
    names = [f"färbe {j}" for j in range(6)]
    booster = to_xgboost(model, "scalar", feature_names=names, feature_types=["int", "q", "c"] * 2)
    assert (booster.feature_names, booster.feature_types) == (names, ["int", "q", "c"] * 2)
    named = FeatureSpace.of(2, "<", names=["a", "b"])
    booster = to_xgboost(Ensemble((), np.zeros(3), named, "softmax"))
    assert (booster.feature_names, booster.feature_types) == (["a", "b"], None)
    with pytest.raises(ValueError, match="feature_names must have one entry for each of the 6"):
        to_xgboost(model, "scalar", feature_names=["a"])
    odd = Ensemble((), np.zeros(3), FeatureSpace.of(1, "<", names=["a<b"]), "softmax")
    with pytest.raises(ValueError, match=r"no \[, \] or < in the name of a feature, got 'a<b'"):
        to_xgboost(odd)
    assert to_xgboost(odd, feature_names=[]).feature_names is None
    with pytest.raises(ValueError, match=r"'f2' is categorical in the model.*'q'"):
        to_xgboost(model, "scalar", feature_types=["q"] * 6)


@pytest.mark.parametrize(
    "params", [{"num_class": 3}, {"num_class": 3, "objective": "multi:softprob"}]
)
@pytest.mark.parametrize("strategy", ["multi_output_tree", "one_output_per_tree"])
def test_models_of_custom_objectives_carry_the_names_xgboost_gives_them(
    params: dict[str, Any], strategy: str
) -> None:
    def derivatives(margin: Any, data: Any) -> Any:
        margin = margin.reshape(60, 3)
        return margin - 0.3, np.ones_like(margin)

    data = xgboost.DMatrix(np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3)
    native = xgboost.train({**params, "multi_strategy": strategy}, data, 1, obj=derivatives)
    model = numeric_ensemble(0)
    model = Ensemble(model.trees, np.full(3, 0.5, np.float32), model.features, "identity")
    objective = params.get("objective", "multi:softmax")
    ours, theirs = written(to_xgboost(model, objective=objective)), written(native)
    assert ours["objective"] == theirs["objective"]
    ours["learner_model_param"]["boost_from_average"] = "1"  # there the score was not given
    assert ours["learner_model_param"] == theirs["learner_model_param"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_several_targets(layout: Any) -> None:
    model = numeric_ensemble(0)
    model = Ensemble(model.trees, model.base_score, model.features, "identity")
    X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    booster = to_xgboost(model, layout)
    assert same_bits(booster.predict(xgboost.DMatrix(X)), model.predict(X))
    param = written(booster)["learner_model_param"]
    assert (param["num_target"], param["num_class"]) == ("3", "0")


def test_a_category_block_is_the_one_xgboost_writes() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    names = ["zz", "b", "a"] if OLD else ["zz", "b", "", "é", "a", "日本"]
    frame = pandas.DataFrame(
        {
            "x": rng.normal(size=300),
            "s": pandas.Categorical(rng.choice(names, 300), categories=names),
            "i": pandas.Categorical(rng.choice([5, -3, 9], 300), categories=[9, -3, 5]),
            "i8": pandas.Categorical(rng.choice(np.int8([5, 3]), 300)),
        }
    )
    params = {"objective": "multi:softprob", "num_class": 3}
    data = xgboost.DMatrix(frame, rng.integers(0, 3, 300), enable_categorical=True)
    native = xgboost.train(params, data, 1)
    features = FeatureSpace.of(4, "<", categorical=[False, True, True, True])
    model = Ensemble((), np.zeros(3, np.float32), features, "softmax")
    given_categories = [("x", None), ("s", names), ("i", np.array([9, -3, 5]))]
    given_categories.append(("i8", frame["i8"].cat.categories.to_numpy()))
    ours = written(to_xgboost(model, categories=given_categories))
    theirs = written(native)
    key = ("gradient_booster", "model", "cats")
    for part in key:
        ours, theirs = ours[part], theirs[part]
    assert ours == theirs


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "values",
    [["c", "a", "b"], np.int32([30, 10, 20]), np.uint8([200, 10, 20]), np.uint16([60000, 1, 2])],
    ids=["str", "int32", "uint8", "uint16"],
)
@loses_categories
def test_reordered_categories_of_a_data_frame_are_recoded(layout: Any, values: Any) -> None:
    pandas = pytest.importorskip("pandas")
    tree = stump(categories=(0, 2), values=np.float32([[1, 2, 3], [4, 5, 6]]))
    features = FeatureSpace.of(1, "<", names=["x"], categorical=[True])
    model = Ensemble((tree,), np.zeros(3, np.float32), features, "softmax")
    if OLD and isinstance(values, np.ndarray) and values.dtype == np.uint16:
        with pytest.raises(ValueError, match="cannot store the uint16 categories of feature 'x'"):
            to_xgboost(model, layout, categories=[("x", values)])
        return
    booster = to_xgboost(model, layout, categories=[("x", values)])
    frame = pandas.DataFrame({"x": pandas.Categorical(values, categories=sorted(values))})
    if isinstance(values, np.ndarray):
        index = pandas.Index(np.sort(values))
        frame = pandas.DataFrame({"x": pandas.Categorical(pandas.Series(values), categories=index)})
    expected = model.predict_raw(np.arange(3.0)[:, None])
    data = xgboost.DMatrix(frame, enable_categorical=True)
    assert same_bits(booster.predict(data, output_margin=True), expected)


def test_categories_are_checked() -> None:
    features = FeatureSpace.of(2, "<", categorical=[False, True])
    model = Ensemble((), np.zeros(3, np.float32), features, "softmax")
    for categories, message in [
        ([("a", None)], "one entry for each of the 2 features, got 1"),
        ([("a", ["x"]), ("b", ["y"])], "'f0' is numeric"),
    ]:
        with pytest.raises(ValueError, match=message):
            to_xgboost(model, categories=categories)
    with pytest.raises(TypeError, match="'f1' must be strings or integers"):
        to_xgboost(model, categories=[("a", None), ("b", [1.5])])


# Choices and refusals


def test_old_xgboost_gets_scalar_trees_for_categorical_splits(monkeypatch: Any) -> None:
    model, _ = exportable_ensemble(1, n_trees=9)
    plain = numeric_ensemble(1)

    def n_trees(model: Ensemble, layout: Any = None) -> int:
        return len(to_xgboost(model, layout).get_dump())

    monkeypatch.setattr(export, "host_version", lambda: (3, 2))
    assert n_trees(model) == 27
    assert n_trees(plain) == len(plain.trees)
    with pytest.warns(UserWarning, match="loses the categorical splits") as caught:
        assert n_trees(model, "vector") == 9
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert n_trees(plain, "vector") == len(plain.trees)
        monkeypatch.setattr(export, "host_version", lambda: (3, 4))
        assert n_trees(model) == n_trees(model, "vector") == 9


@pytest.mark.parametrize(
    ("link", "n_outputs", "layout", "objective", "message"),
    [
        ("softmax", 3, "wide", None, "layout must be None, 'vector' or 'scalar', got 'wide'"),
        ("softmax", 3, None, "multi:softmin", "objective must be None or one of"),
        ("softmax", 3, None, "binary:logistic", "softmax model of two outputs"),
        ("softmax", 2, "vector", "binary:logistic", "leave layout at None instead of 'vector'"),
        ("identity", 1, None, "multi:softprob", "needs at least two outputs"),
        ("identity", 2, None, "binary:logistic", "identity model of one"),
        ("softmax", 1, None, None, "softmax of one output"),
    ],
)
def test_refusals(link: Any, n_outputs: int, layout: Any, objective: Any, message: str) -> None:
    model = Ensemble((), np.zeros(n_outputs), FeatureSpace.of(1, "<"), link)
    with pytest.raises(ValueError, match=message):
        to_xgboost(model, layout, objective=objective)


def test_values_beyond_float32_are_refused() -> None:
    features = FeatureSpace.of(1, "<")
    wide = Ensemble((stump(0.5, values=[[1e39], [0.0]]),), np.zeros(1), features, "identity")
    with pytest.raises(ValueError, match="leaf values as float32"):
        to_xgboost(wide)
    with pytest.raises(ValueError, match="the base score as float32"):
        to_xgboost(Ensemble((), np.array([-1e39]), features, "identity"))


# The cache


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cache_changes_no_byte_and_encodes_a_tree_once(layout: Any, monkeypatch: Any) -> None:
    encoded = []

    def counting(trees: Any, *args: Any, **options: Any) -> Any:
        encoded.append(len(trees))
        return encode_trees(trees, *args, **options)

    encode_trees = export.encode_trees
    monkeypatch.setattr(export, "encode_trees", counting)
    model = numeric_ensemble(0)
    cache = TreeCache()
    for n in (2, 3, 5, 5):
        grown = model.with_trees(model.trees[:n])
        assert model_bytes(grown, layout, cache=cache) == model_bytes(grown, layout)
    assert encoded[::2] == [2, 1, 2, 0]
    other: Any = {"vector": "scalar", "scalar": "vector"}[layout]
    assert model_bytes(model, other, cache=cache) == model_bytes(model, other)


def test_a_cache_does_not_confuse_models_with_other_features() -> None:
    tree = stump(0.5, values=np.float32([[1], [2]]))
    cache = TreeCache()
    for comparison in ("<", "<=", "<"):
        features = FeatureSpace.of(1, comparison)
        model = Ensemble((tree,), np.zeros(1, np.float32), features, "identity")
        assert model_bytes(model, cache=cache) == model_bytes(model)


def test_a_cache_keeps_no_tree_alive(tmp_path: Any) -> None:
    numeric_ensemble(0).save(tmp_path / "model")
    model = load(tmp_path / "model")
    cache = TreeCache()
    model_bytes(model, cache=cache)
    assert len(cache._parts) == len(model.trees)
    del model
    gc.collect()
    assert len(cache._parts) == 0
