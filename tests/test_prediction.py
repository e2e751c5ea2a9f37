"""Prediction kernels against a walk by hand, on raw values and on bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import (
    naive_leaves,
    naive_raw,
    random_binning,
    random_ensemble,
    random_rows,
    random_tree,
    same_bits,
    stump,
    telling_values,
)

from fullhess.bins import BinnedMatrix, Binning
from fullhess.ensemble import Ensemble
from fullhess.features import Comparison, FeatureSpace
from fullhess.forest import Forest, add_tree_on_bins
from fullhess.threads import Workers
from fullhess.tree import Tree

SEEDS = st.integers(0, 2**32 - 1)
COMPARISONS = st.sampled_from(["<", "<="])
DTYPES = st.sampled_from([np.float32, np.float64])


def sides(tree: Tree, features: FeatureSpace, column: list[float]) -> str:
    """L or R for each value of a single feature."""
    ensemble = Ensemble((tree,), np.zeros(1), features, "identity")
    raw = ensemble.predict_raw(np.array(column)[:, None])
    return "".join("L" if value < 0 else "R" for value in raw[:, 0])


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(("comparison", "expected"), [("<", "LRRLRR"), ("<=", "LLRLLR")])
def test_a_value_equal_to_the_threshold_goes_where_the_comparison_says(
    comparison: Comparison, expected: str
) -> None:
    below, above = np.nextafter(np.float32(1.0), [np.float32(0), np.float32(2)])
    column = [float(below), 1.0, float(above), -INF, 1.0, INF]
    assert sides(stump(threshold=1.0), FeatureSpace.of(1, comparison), column) == expected


@pytest.mark.parametrize("comparison", ["<", "<="])
@pytest.mark.parametrize("default_left", [False, True])
def test_an_infinite_threshold_splits_present_from_missing(
    comparison: Comparison, default_left: bool
) -> None:
    features = FeatureSpace.of(1, comparison)
    tree = stump(threshold=INF, default_left=default_left)
    assert sides(tree, features, [-INF, 0.0, 1e300, INF]) == "LLLL"
    assert sides(tree, features, [NAN]) == ("L" if default_left else "R")


@pytest.mark.parametrize(
    ("missing", "default_left", "expected"),
    # columns: NaN, 0.0, -0.0, 1e-36, 2e-35, 5.0 with the threshold 1.0
    [
        (0, False, "RLLLLR"),
        (0, True, "LLLLLR"),
        (1, False, "LLLLLR"),
        (1, True, "LLLLLR"),
        (2, False, "RRRRLR"),
        (2, True, "LLLLLR"),
    ],
)
def test_each_kind_of_missing_value_goes_its_way(
    missing: int, default_left: bool, expected: str
) -> None:
    features = FeatureSpace.of(1, "<=", missing=[missing])
    tree = stump(threshold=1.0, default_left=default_left)
    assert sides(tree, features, [NAN, 0.0, -0.0, 1e-36, 2e-35, 5.0]) == expected


@pytest.mark.parametrize(("comparison", "expected"), [("<", "R"), ("<=", "L")])
def test_nan_read_as_zero_meets_a_threshold_of_zero_like_zero(
    comparison: Comparison, expected: str
) -> None:
    features = FeatureSpace.of(1, comparison, missing=[1])
    tree = stump(threshold=0.0, default_left=expected == "R")
    assert sides(tree, features, [NAN, 0.0]) == 2 * expected


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("comparison", ["<", "<="])
def test_categories_are_cut_off_and_the_unknown_goes_right(
    comparison: Comparison, missing: int
) -> None:
    features = FeatureSpace.of(1, comparison, missing=[missing], categorical=[True])
    tree = stump(categories=(0, 3, 7))
    column = [0.0, -0.0, -0.5, 0.9, 3.0, 3.7, 7.99, 1.0, 4.0, 8.0]
    assert sides(tree, features, column) == "LLLLLLLRRR"
    column = [NAN, INF, -INF, -1.0, -3.0, 2.0**31, 2.0**32, 2.0**32 + 3, 1e300, -1e300]
    assert sides(tree, features, column) == "R" * len(column)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, comparison=COMPARISONS, dtype=DTYPES)
def test_raw_prediction_equals_the_walk_bit_for_bit(
    seed: int, comparison: Comparison, dtype: Any
) -> None:
    ensemble, binning = random_ensemble(seed, comparison, dtype)
    X = random_rows(np.random.default_rng(seed), binning, 40)
    assert same_bits(ensemble.predict_raw(X, n_jobs=1), naive_raw(ensemble, X))
    assert np.array_equal(ensemble.apply(X, n_jobs=1), naive_leaves(ensemble, X))


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, comparison=COMPARISONS, dtype=DTYPES)
def test_binned_prediction_equals_the_walk_bit_for_bit(
    seed: int, comparison: Comparison, dtype: Any
) -> None:
    ensemble, binning = random_ensemble(seed, comparison, dtype)
    X = random_rows(np.random.default_rng(seed), binning, 40)
    binned = binning.encode(X, n_jobs=1)
    assert same_bits(ensemble.predict_raw(binned, n_jobs=1), naive_raw(ensemble, X))
    assert np.array_equal(ensemble.apply(binned, n_jobs=1), naive_leaves(ensemble, X))


@pytest.mark.parametrize("comparison", ["<", "<="])
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_bins_and_raw_values_agree_at_every_cut_and_next_to_it(
    comparison: Comparison, missing: int
) -> None:
    cuts = np.array([-1.5, -1e-36, 0.0, 1e-36, 0.1, 7.0]).astype(np.float32)
    features = FeatureSpace.of(1, comparison, missing=[missing])
    binning = Binning(features, (cuts,), (None,))
    X = telling_values(binning, 0)[:, None]
    binned = binning.encode(X)
    for threshold in [*cuts.astype(np.float64), INF]:
        for default_left in (False, True):
            tree = stump(threshold=threshold, default_left=default_left)
            ensemble = Ensemble((tree,), np.zeros(1), features, "identity")
            assert same_bits(ensemble.predict_raw(X), ensemble.predict_raw(binned))
            assert same_bits(ensemble.predict_raw(X), naive_raw(ensemble, X))


def test_more_than_256_bins_and_categories_are_routed_alike() -> None:
    rng = np.random.default_rng(0)
    binning = random_binning(rng, "<=", max_cuts=400, n_categories=900)
    X = random_rows(rng, binning, 2000)
    binned = binning.encode(X)
    assert binned.codes.dtype == np.uint16
    trees = tuple(random_tree(rng, binning, 2, 30) for _ in range(5))
    ensemble = Ensemble(trees, np.zeros(2), binning.features, "identity")
    assert same_bits(ensemble.predict_raw(binned), ensemble.predict_raw(X))
    assert np.array_equal(ensemble.apply(binned), ensemble.apply(X))


@pytest.mark.parametrize("n_outputs", [1, 2, 7, 8, 9, 16, 17, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_outputs_is_added_bit_for_bit(n_outputs: int, dtype: Any) -> None:
    ensemble, binning = random_ensemble(n_outputs, "<=", dtype, n_outputs=n_outputs)
    X = random_rows(np.random.default_rng(5), binning, 130)
    assert same_bits(ensemble.predict_raw(X), naive_raw(ensemble, X))


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, n_rows=st.integers(1, 110), categorical=st.booleans())
def test_any_number_of_rows_and_depth_of_trees(seed: int, n_rows: int, categorical: bool) -> None:
    """Rows walk side by side, and a deep tree is left when the last of them has arrived."""
    rng = np.random.default_rng(seed)
    binning = random_binning(rng, "<", n_features=3 if categorical else 2)
    trees = tuple(random_tree(rng, binning, 2, int(rng.integers(1, 60))) for _ in range(3))
    trees = (*trees, chain(rng, binning, int(rng.integers(1, 40))))
    ensemble = Ensemble(trees, np.zeros(2), binning.features, "identity")
    X = random_rows(rng, binning, n_rows)
    assert same_bits(ensemble.predict_raw(X), naive_raw(ensemble, X))
    assert np.array_equal(ensemble.apply(X), naive_leaves(ensemble, X))
    binned = binning.encode(X)
    assert same_bits(ensemble.predict_raw(binned), naive_raw(ensemble, X))
    assert np.array_equal(ensemble.apply(binned), naive_leaves(ensemble, X))


def chain(rng: np.random.Generator, binning: Binning, depth: int) -> Tree:
    """A tree whose every split has a leaf on one side."""
    n = 2 * depth + 1
    node = np.arange(n)
    split = (node % 2 == 0) & (node < n - 1)  # 0, 2, 4, …: a leaf follows, then the next split
    next_left = rng.random(n) < 0.5
    leaf_number = np.cumsum(~split) - 1
    feature = rng.choice(np.flatnonzero(~binning.features.categorical), n)
    threshold = [float(rng.choice(np.append(binning.cuts[j], np.inf))) for j in feature]
    return Tree(
        feature=np.where(split, feature, -1),
        threshold=np.where(split, threshold, np.nan),
        default_left=split & (rng.random(n) < 0.5),
        left=np.where(split, np.where(next_left, node + 2, node + 1), -1),
        right=np.where(split, np.where(next_left, node + 1, node + 2), -1),
        leaf=np.where(split, -1, leaf_number),
        gain=np.zeros(n),
        cover=np.zeros(n),
        count=np.zeros(n),
        category_offsets=np.zeros(n + 1),
        category_values=[],
        values=rng.normal(size=(depth + 1, 2)),
    )


@pytest.mark.parametrize("height", [8, 9, 16, 17])
def test_any_number_of_thresholds_of_a_feature(height: int) -> None:
    """A full tree whose leaf is the value's integer part; codes of 8, 16 and 32 bits."""
    n_splits, n_nodes = 2**height - 1, 2 ** (height + 1) - 1
    node = np.arange(n_nodes)
    split = node < n_splits
    level = np.floor(np.log2(node + 1)).astype(int)
    position = node + 1 - 2**level
    threshold = (2 * position + 1) * 2.0 ** (height - 1 - level)
    tree = Tree(
        feature=np.where(split, 0, -1),
        threshold=np.where(split, threshold, np.nan),
        default_left=np.zeros(n_nodes),
        left=np.where(split, 2 * node + 1, -1),
        right=np.where(split, 2 * node + 2, -1),
        leaf=np.where(split, -1, position),
        gain=np.zeros(n_nodes),
        cover=np.zeros(n_nodes),
        count=np.zeros(n_nodes),
        category_offsets=np.zeros(n_nodes + 1),
        category_values=[],
        values=np.arange(2.0**height)[:, None],
    )
    ensemble = Ensemble((tree,), np.zeros(1), FeatureSpace.of(1, "<"), "identity")
    X = np.random.default_rng(0).uniform(0, 2**height, 500).astype(np.float32)
    X = np.append(X, [0, 1, 2**height - 1, 2**height - 0.5]).astype(np.float32)
    assert np.array_equal(ensemble.apply(X[:, None])[:, 0], np.floor(X))
    assert np.array_equal(ensemble.predict_raw(X[:, None])[:, 0], np.floor(X))
    assert ensemble.apply([[np.nan]]) == 2**height - 1  # missing goes right everywhere


def test_trees_without_splits_need_no_column() -> None:
    rng = np.random.default_rng(0)
    binning = random_binning(rng, "<=")
    trees = (random_tree(rng, binning, n_leaves=1), random_tree(rng, binning, n_leaves=1))
    ensemble = Ensemble(trees, np.zeros(3), binning.features, "identity")
    X = random_rows(rng, binning, 20)
    for data in (X, binning.encode(X)):
        assert same_bits(ensemble.predict_raw(data), naive_raw(ensemble, X))
        assert (ensemble.apply(data) == 0).all()


@pytest.mark.parametrize("wrap", ["csr_matrix", "csc_matrix"])
@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_sparse_rows_are_predicted_as_dense_ones(wrap: str, absent: Any) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    ensemble, binning = random_ensemble(4, "<", absent=absent)
    X = random_rows(np.random.default_rng(4), binning, 300)
    X[np.random.default_rng(5).random(X.shape) < 0.5] = 0.0
    dense = X if absent == "zero" else np.where(X == 0.0, np.nan, X)
    matrix = getattr(sparse, wrap)(X)
    assert same_bits(ensemble.predict_raw(matrix), naive_raw(ensemble, dense))
    assert np.array_equal(ensemble.apply(matrix), naive_leaves(ensemble, dense))


def many_rows(n_samples: int = 20_000) -> tuple[Ensemble, Any, BinnedMatrix]:
    ensemble, binning = random_ensemble(3, "<", np.float32, n_trees=40, n_leaves=30)
    X = random_rows(np.random.default_rng(1), binning, n_samples)
    return ensemble, X, binning.encode(X)


def test_the_number_of_threads_changes_no_bit() -> None:
    ensemble, X, binned = many_rows()
    raw, leaves = ensemble.predict_raw(X, n_jobs=1), ensemble.apply(X, n_jobs=1)
    for n_jobs in (1, 2, 3):
        for data in (X, binned):
            assert same_bits(ensemble.predict_raw(data, n_jobs=n_jobs), raw)
            assert np.array_equal(ensemble.apply(data, n_jobs=n_jobs), leaves)


def test_a_row_is_predicted_alike_alone_and_in_any_block() -> None:
    ensemble, X, _ = many_rows(17_000)  # more than one block of the feature space
    raw = ensemble.predict_raw(X)
    for part in (slice(0, 1), slice(255, 258), slice(16_380, 16_390)):
        assert same_bits(ensemble.predict_raw(X[part]), raw[part])


def test_no_rows_give_no_predictions() -> None:
    ensemble, X, binned = many_rows(10)
    empty = BinnedMatrix(binned.codes[:0], binned.binning)
    for data in (X[:0], empty):
        assert ensemble.predict_raw(data).shape == (0, 3)
        assert ensemble.apply(data).shape == (0, 40)


@pytest.mark.parametrize("scale", [1.0, -1.0, 0.3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adding_one_tree_on_bins_adds_its_scaled_values(scale: float, dtype: Any) -> None:
    ensemble, binning = random_ensemble(8, "<=", dtype)
    binned = binning.encode(random_rows(np.random.default_rng(8), binning, 500))
    raw = np.random.default_rng(9).normal(size=(500, 3)).astype(dtype)
    tree = max(ensemble.trees, key=lambda tree: tree.n_leaves)
    leaves = ensemble.with_trees([tree]).apply(binned)[:, 0]
    expected = raw + (tree.values * dtype(scale))[leaves]
    with Workers(2) as workers:
        add_tree_on_bins(tree, binned, raw, workers, scale=scale)
    assert same_bits(raw, expected)


def test_round_by_round_on_bins_is_the_ensemble_s_prediction() -> None:
    ensemble, X, binned = many_rows(3000)
    raw = np.tile(ensemble.base_score, (3000, 1))
    with Workers(2) as workers:
        for tree in ensemble.trees:
            add_tree_on_bins(tree, binned, raw, workers)
    assert same_bits(raw, ensemble.predict_raw(X))


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_listed_rows_are_added_to_and_no_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ensemble, binning = random_ensemble(seed, "<")
    binned = binning.encode(random_rows(rng, binning, 600))
    rows = np.flatnonzero(rng.random(600) < rng.random())
    raw, whole = np.zeros((600, 3)), np.zeros((600, 3))
    with Workers(2) as workers:
        add_tree_on_bins(ensemble.trees[0], binned, whole, workers)
        add_tree_on_bins(ensemble.trees[0], binned, raw, workers, rows=rows)
    listed = np.isin(np.arange(600), rows)
    assert same_bits(raw, np.where(listed[:, None], whole, 0.0))


@pytest.mark.parametrize("rows", [[3, 3], [5, 2], [-1, 2], [0, 10]])
def test_rows_that_repeat_descend_or_lie_outside_are_refused(rows: list[int]) -> None:
    ensemble, _, binned = many_rows(10)
    with Workers(1) as workers, pytest.raises(ValueError, match="ascend strictly within 0 to 9"):
        add_tree_on_bins(
            ensemble.trees[0], binned, np.zeros((10, 3), np.float32), workers, rows=np.array(rows)
        )


def test_margins_of_another_dtype_or_shape_are_refused() -> None:
    ensemble, _, binned = many_rows(10)
    with Workers(1) as workers:
        for raw in (np.zeros((10, 3)), np.zeros((10, 2), np.float32), np.zeros((9, 3), np.float32)):
            with pytest.raises(ValueError, match="margins must be a contiguous float32"):
                add_tree_on_bins(ensemble.trees[0], binned, raw, workers)


def test_a_threshold_between_cuts_is_refused() -> None:
    binned = BinnedMatrix.from_cuts(np.zeros((3, 1)), [[0.0, 1.0]])
    for threshold in (0.5, -INF, np.nextafter(1.0, 2.0)):
        forest = Forest.of([stump(threshold=threshold)], binned.binning.features)
        with pytest.raises(
            ValueError, match=r"not cuts of this binning: [-.\dinf]+ of .* raw data"
        ):
            forest.on_bins(binned.binning)


def test_a_category_the_binning_does_not_know_is_refused() -> None:
    binned = BinnedMatrix.from_cuts(np.zeros((3, 1)), [[]], categories={0: [0, 2, 9]})
    features = binned.binning.features
    Forest.of([stump(categories=(2, 9))], features).on_bins(binned.binning)
    with pytest.raises(ValueError, match="does not know category 3 of feature 'f0'"):
        Forest.of([stump(categories=(2, 3))], features).on_bins(binned.binning)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"comparison": "<"}, "compares with '<='"),
        ({"missing": [2, 0]}, "'f0' has another 'missing'"),
        ({"feature_names": ["b", "a"]}, "is 'a' in the model and 'b'"),
        ({"categories": {0: [1, 2]}}, "'f0' has another 'categorical'"),
    ],
)
def test_binned_data_that_read_a_column_differently_are_refused(
    options: dict[str, Any], message: str
) -> None:
    names = ["a", "b"] if "feature_names" in options else None
    ensemble = Ensemble(
        (stump(threshold=1.0),), np.zeros(1), FeatureSpace.of(2, "<=", names), "identity"
    )
    cuts = [[] if "categories" in options else [1.0], [1.0]]
    binned = BinnedMatrix.from_cuts(np.zeros((2, 2)), cuts, **options)
    with pytest.raises(ValueError, match=message):
        ensemble.predict_raw(binned)


def test_a_column_the_model_does_not_use_may_be_binned_anyhow() -> None:
    ensemble = Ensemble((stump(threshold=1.0),), np.zeros(1), FeatureSpace.of(2, "<="), "identity")
    X = np.array([[1.0, 0.0], [2.0, 5.0]])
    binned = BinnedMatrix.from_cuts(
        X, [[1.0], []], missing=[0, 2], categories={1: [5]}, feature_names=["a", "b"]
    )
    assert same_bits(ensemble.predict_raw(binned), ensemble.predict_raw(X))


def test_trees_of_different_outputs_make_no_forest() -> None:
    other = stump(threshold=1.0, values=np.zeros((2, 3)))
    with pytest.raises(ValueError, match="must agree in outputs"):
        Forest.of([stump(threshold=1.0), other], FeatureSpace.of(1, "<"))
    with pytest.raises(ValueError, match="at least one tree"):
        Forest.of([], FeatureSpace.of(1, "<"))
