"""What an exported model says besides its margins, the choices of layout, the cache."""

from __future__ import annotations

import gc
import json
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_trees import same_bits, stump

from fullhess import Ensemble, FeatureSpace
from fullhess.serialization import load

xgboost = pytest.importorskip("xgboost")

from fullhess_xgboost import export  # noqa: E402
from fullhess_xgboost.export import TreeCache, model_bytes, to_xgboost  # noqa: E402
from xgb_models import (  # noqa: E402
    exportable_ensemble,
    numeric_ensemble,
    replaced,
)

OLD = tuple(map(int, xgboost.__version__.split(".")[:2])) < (3, 4)
LAYOUTS = ("vector", "scalar")
loses_categories = pytest.mark.filterwarnings("ignore:XGBoost .* loses the categorical splits")
seeds = st.integers(0, 2**32 - 1)


def written(booster: Any) -> dict[str, Any]:
    return json.loads(booster.save_raw("json"))["learner"]


def written_trees(booster: Any) -> list[dict[str, Any]]:
    return written(booster)["gradient_booster"]["model"]["trees"]


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

    monkeypatch.setattr(export, "AT_LEAST_3_4", False)
    assert n_trees(model) == 27
    assert n_trees(plain) == len(plain.trees)
    with pytest.warns(UserWarning, match="loses the categorical splits") as caught:
        assert n_trees(model, "vector") == 9
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert n_trees(plain, "vector") == len(plain.trees)
        monkeypatch.setattr(export, "AT_LEAST_3_4", True)
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
