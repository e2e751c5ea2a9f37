"""Imported models: XGBoost's own margins, bit for bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_trees import same_bits, stump

from fullhess import Ensemble, FeatureSpace

xgboost = pytest.importorskip("xgboost")

from fullhess_xgboost.export import to_xgboost  # noqa: E402
from fullhess_xgboost.importer import from_xgboost  # noqa: E402
from xgb_models import FLT_MAX, exportable_ensemble, host_rows, numeric_ensemble  # noqa: E402

OLD = tuple(map(int, xgboost.__version__.split(".")[:2])) < (3, 4)
N_ROWS = 400
SOFTMAX = {
    "objective": "multi:softprob",
    "num_class": 3,
    "multi_strategy": "one_output_per_tree",
}
VECTOR = {**SOFTMAX, "multi_strategy": "multi_output_tree"}
seeds = st.integers(0, 2**32 - 1)


def training_rows(missing: bool = True) -> np.ndarray[Any, Any]:
    """Column 0 holds the categories 0 to 11 in case they are wanted."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_ROWS, 4)).astype(np.float32)
    X[:, 0] = rng.integers(0, 12, N_ROWS)
    if missing:
        X[rng.random(X.shape) < 0.1] = math.nan
    return X


def new_rows(booster: Any) -> np.ndarray[Any, Any]:
    """Missing values, categories never seen, extremes, and the booster's own thresholds."""
    rng = np.random.default_rng(6)
    X = training_rows()
    X[:100, 0] = rng.integers(-3, 40, 100)
    for j in range(1, 4):
        name = (booster.feature_names or ["f0", "f1", "f2", "f3"])[j]
        histogram = booster.get_split_value_histogram(name, as_pandas=False)
        cuts = np.append(np.asarray(histogram)[:, 0], [0.0, FLT_MAX, -FLT_MAX, 1e-45])
        X[100:200, j] = rng.choice(cuts.astype(np.float32), 100)
    return X


def labels(n_classes: int = 3) -> np.ndarray[Any, Any]:
    X = np.nan_to_num(training_rows())
    return ((X[:, 1] > 0) + 1 * (X[:, 0] % 3 == 1)).astype(int) % n_classes


def trained(
    params: dict[str, Any],
    label: Any = None,
    *,
    categorical: bool = False,
    missing: bool = True,
    rounds: int = 4,
    **options: Any,
) -> Any:
    data = xgboost.DMatrix(
        training_rows(missing),
        labels() if label is None else label,
        feature_types=["c", "q", "q", "q"] if categorical else None,
        enable_categorical=True,
    )
    return xgboost.train(params, data, rounds, **options)


def assert_same_margins(booster: Any, **options: Any) -> Ensemble:
    model = from_xgboost(booster)
    X = new_rows(booster)
    data = xgboost.DMatrix(X, feature_types=booster.feature_types, enable_categorical=True)
    expected = booster.predict(data, output_margin=True, validate_features=False, **options)
    rounds = slice(*options["iteration_range"]) if options else slice(None)
    if model.n_rounds == 0:
        rounds = None
    assert same_bits(expected.reshape(len(X), -1), model.predict_raw(X, rounds=rounds))
    return model


@pytest.mark.parametrize(
    "params",
    [
        SOFTMAX,
        VECTOR,
        {**SOFTMAX, "objective": "multi:softmax"},
        {**SOFTMAX, "num_parallel_tree": 3, "subsample": 0.5},
        {**VECTOR, "num_parallel_tree": 2, "subsample": 0.5},
        {**SOFTMAX, "base_score": 0.3},
        {**SOFTMAX, "grow_policy": "lossguide", "max_leaves": 7},
        {**SOFTMAX, "tree_method": "exact", "gamma": 2.0, "max_depth": 8},
        {**SOFTMAX, "tree_method": "approx"},
    ],
    ids=str,
)
def test_multiclass_models(params: dict[str, Any]) -> None:
    booster = trained(params)
    model = assert_same_margins(booster)
    assert (model.link, model.n_outputs, model.n_rounds) == ("softmax", 3, 4)
    assert_same_margins(booster, iteration_range=(1, 3))
    X = training_rows()
    expected = booster.predict(xgboost.DMatrix(X))
    if params["objective"] == "multi:softmax":
        assert np.mean(model.predict(X).argmax(axis=1) == expected) > 0.99
    else:
        np.testing.assert_allclose(model.predict(X), expected, atol=1e-6)


@pytest.mark.parametrize(
    "objective",
    [
        *("binary:logistic", "binary:logitraw", "reg:logistic", "reg:squarederror"),
        *("count:poisson", "reg:gamma", "reg:tweedie", "reg:absoluteerror", "rank:pairwise"),
    ],
)
def test_single_outputs_are_margins(objective: str) -> None:
    label = labels() + 1.0
    if "logi" in objective:
        label = labels(2)
    booster = trained({"objective": objective}, label)
    model = assert_same_margins(booster)
    assert (model.link, model.n_outputs) == ("identity", 1)
    assert model.metadata["objective"] == objective


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
def test_several_targets(objective: str, strategy: str) -> None:
    label = np.random.default_rng(0).integers(0, 2, (N_ROWS, 3))
    booster = trained({"objective": objective, "multi_strategy": strategy}, label)
    assert assert_same_margins(booster).n_outputs == 3


@pytest.mark.parametrize("max_cat_to_onehot", [1, 100])
@pytest.mark.parametrize("params", [SOFTMAX, VECTOR], ids=["scalar", "vector"])
def test_categorical_splits(params: dict[str, Any], max_cat_to_onehot: int) -> None:
    if OLD and params is VECTOR:
        pytest.skip("XGBoost before 3.4 cannot train this")
    params = {**params, "max_cat_to_onehot": max_cat_to_onehot}
    booster = trained(params, categorical=True, missing=False)
    model = assert_same_margins(booster)
    assert model.features.categorical.tolist() == [True, False, False, False]
    sizes = np.concatenate([np.diff(tree.category_offsets) for tree in model.trees])
    assert sizes.max() > 1 if max_cat_to_onehot == 1 else sizes.max() == 1


def test_missing_values_among_the_listed_categories_are_refused() -> None:
    booster = trained(SOFTMAX, categorical=True)
    with pytest.raises(ValueError, match=r"tree \d+ .*missing values the way of its listed"):
        from_xgboost(booster)


@pytest.mark.parametrize(("first", "then"), [(SOFTMAX, VECTOR), (VECTOR, SOFTMAX)])
def test_scalar_and_vector_leaves_in_one_model(first: Any, then: Any) -> None:
    booster = trained(then, xgb_model=trained(first, rounds=2), rounds=2)
    model = assert_same_margins(booster)
    assert (model.n_rounds, len(model.trees)) == (4, 8)


def test_names_best_iteration_and_statistics() -> None:
    data = xgboost.DMatrix(training_rows(), labels(), feature_names=["a", "b", "c", "d"])
    booster = xgboost.train(
        SOFTMAX, data, 30, evals=[(data, "train")], early_stopping_rounds=2, verbose_eval=False
    )
    booster.set_attr(best_iteration="3")
    model = from_xgboost(booster)
    assert model.features.names == ("a", "b", "c", "d")
    assert (model.features.comparison, model.features.absent) == ("<", "missing")
    assert model.best_iteration == 3
    kinds: Any = ("total_gain", "total_cover", "weight")
    for kind in kinds:
        score = booster.get_score(importance_type=kind)
        ours = model.importance(kind, rounds=slice(None))
        np.testing.assert_allclose(ours, [score[name] for name in "abcd"], rtol=1e-5)
    X = training_rows()
    expected = booster.predict(
        xgboost.DMatrix(X), output_margin=True, iteration_range=(0, 4), validate_features=False
    )
    assert same_bits(model.predict_raw(X), expected)


@pytest.mark.parametrize("base_score", [None, 0.3])
def test_models_without_trees(base_score: float | None) -> None:
    given_score = {} if base_score is None else {"base_score": base_score}
    assert assert_same_margins(trained({**SOFTMAX, **given_score}, rounds=0)).trees == ()
    params = {"objective": "binary:logistic", **given_score}
    assert assert_same_margins(trained(params, labels(2), rounds=0)).trees == ()


@pytest.mark.filterwarnings("ignore:.*is deprecated")
@pytest.mark.parametrize("params", [{"booster": "dart", "rate_drop": 0.5}, {"booster": "gblinear"}])
def test_other_boosters_are_refused(params: dict[str, Any]) -> None:
    booster = trained({**params, "one_drop": 1} if "rate_drop" in params else params)
    with pytest.raises(ValueError, match=r"kind 'gbtree'|dropout"):
        from_xgboost(booster)
    with pytest.raises(TypeError, match=r"expected an xgboost\.Booster, got dict"):
        from_xgboost({})


@pytest.mark.parametrize("layout", ["vector", "scalar"])
@given(seed=seeds)
def test_our_exports_come_back(layout: Any, seed: int) -> None:
    if layout == "vector" and OLD:
        model, binning = exportable_ensemble(seed, n_features=2)
    else:
        model, binning = exportable_ensemble(seed)
    again = from_xgboost(to_xgboost(model, layout))
    X = host_rows(np.random.default_rng(seed), binning)
    assert same_bits(again.predict_raw(X), model.predict_raw(X))
    assert again.n_rounds == model.n_rounds
    if layout == "vector":
        assert [tree.n_leaves for tree in again.trees] == [tree.n_leaves for tree in model.trees]


def test_a_binary_export_comes_back_as_one_output() -> None:
    model = numeric_ensemble(4, n_outputs=2)
    booster = to_xgboost(model)
    again = from_xgboost(booster)
    X = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    expected = booster.predict(xgboost.DMatrix(X), output_margin=True)
    assert same_bits(again.predict_raw(X)[:, 0], expected)
    third = to_xgboost(again, objective="binary:logistic")
    np.testing.assert_allclose(
        third.predict(xgboost.DMatrix(X), output_margin=True), expected, atol=1e-6
    )


def test_signs_of_zeros_survive_scalar_trees() -> None:
    base_score = np.float32([-0.0, 0.0, -0.0])
    tree = stump(0.5, values=np.float32([[1, 2, -0.0], [1, 2, -0.0]]))
    model = Ensemble((tree,), base_score, FeatureSpace.of(1, "<"), "softmax")
    booster = to_xgboost(model, "scalar")
    X = np.zeros((1, 1), np.float32)
    expected = booster.predict(xgboost.DMatrix(X), output_margin=True)
    assert math.copysign(1, expected[0, 2]) == -1
    assert same_bits(from_xgboost(booster).predict_raw(X), expected)


@pytest.mark.skipif(not OLD, reason="XGBoost 3.4 saves all categories")
@pytest.mark.filterwarnings("ignore:XGBoost .* loses the categorical splits")
def test_sets_of_categories_that_xgboost_lost_are_noticed() -> None:
    for seed in range(20):
        model, _ = exportable_ensemble(seed, n_leaves=16)
        booster = to_xgboost(model, "vector")
        X = np.zeros((1, 6), np.float32)
        assert same_bits(
            booster.predict(xgboost.DMatrix(X), output_margin=True), model.predict_raw(X)
        )
        n_sets = sum(int(tree.is_categorical[1:].sum()) for tree in model.trees)
        if n_sets:
            with pytest.raises(ValueError, match="split without a set of categories"):
                from_xgboost(booster)
