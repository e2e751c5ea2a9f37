"""Importances against sums by hand, and the table of nodes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import random_ensemble, stump

from fullhess.ensemble import Ensemble
from fullhess.features import FeatureSpace
from fullhess.importance import feature_importance
from fullhess.tree import Tree

KINDS = ["gain", "total_gain", "cover", "total_cover", "weight"]


def below(tree: Tree, node: int) -> list[int]:
    """Leaf nodes of a subtree."""
    if tree.feature[node] < 0:
        return [node]
    return below(tree, int(tree.left[node])) + below(tree, int(tree.right[node]))


def mean_value(tree: Tree, node: int) -> Any:
    leaves = below(tree, node)
    return np.average(tree.values[tree.leaf[leaves]], axis=0, weights=tree.count[leaves])


def naive_importance(ensemble: Ensemble, kind: str, per_output: bool) -> Any:
    total = np.zeros((ensemble.features.n_features, ensemble.n_outputs))
    splits = np.zeros(ensemble.features.n_features)
    for tree in ensemble.trees:
        for node in np.flatnonzero(tree.feature >= 0):
            apart = (mean_value(tree, tree.left[node]) - mean_value(tree, tree.right[node])) ** 2
            name = kind.removeprefix("total_")
            amount = 1.0 if kind == "weight" else getattr(tree, name)[node]
            total[tree.feature[node]] += amount * apart / apart.sum()
            splits[tree.feature[node]] += 1
    if kind in ("gain", "cover"):
        total /= np.maximum(splits, 1)[:, None]
    return total if per_output else total.sum(axis=1)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from([np.float32, np.float64]),
    kind=st.sampled_from(KINDS),
)
def test_importances_are_the_sums_over_splits(seed: int, dtype: Any, kind: Any) -> None:
    ensemble, _ = random_ensemble(seed, dtype=dtype)
    for per_output in (False, True):
        np.testing.assert_allclose(
            ensemble.importance(kind, per_output=per_output),
            naive_importance(ensemble, kind, per_output),
            rtol=1e-9,
            atol=1e-12,
        )


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_share_the_importance_of_a_feature(kind: Any) -> None:
    ensemble, _ = random_ensemble(5, n_trees=20)
    shared = ensemble.importance(kind, per_output=True)
    assert shared.shape == (6, 3)
    assert (shared >= 0).all()
    np.testing.assert_allclose(shared.sum(axis=1), ensemble.importance(kind), rtol=1e-12)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[0, 0], [1, 3]], [0.8, 7.2]),
        ([[2, 2], [2, 2]], [4.0, 4.0]),  # nothing separated: evenly
        ([[1, 0], [1, 5]], [0.0, 8.0]),
        ([[0, 0], [1e-200, 1e-200]], [4.0, 4.0]),  # squares would vanish
        ([[0, 0], [1e200, 1e200]], [4.0, 4.0]),  # squares would overflow
    ],
)
def test_a_split_is_shared_by_squared_difference(values: Any, expected: list[float]) -> None:
    tree = stump(0.5, values=np.array(values, np.float64), feature=[1, -1, -1])
    shared = feature_importance([tree], 3, 2, "total_gain", per_output=True)
    np.testing.assert_allclose(shared[1], expected)
    assert not shared[[0, 2]].any()


def test_without_counts_both_sides_of_a_split_weigh_alike() -> None:
    """Root: leaf (0, 0) against a split of (1, 0) and (1, 4), whose mean is (1, 2)."""
    tree = Tree(
        feature=np.array([0, -1, 1, -1, -1], np.int32),
        threshold=np.array([0.5, np.nan, 0.5, np.nan, np.nan]),
        default_left=np.zeros(5, np.bool_),
        left=np.array([1, -1, 3, -1, -1], np.int32),
        right=np.array([2, -1, 4, -1, -1], np.int32),
        leaf=np.array([-1, 0, -1, 1, 2], np.int32),
        gain=np.array([10.0, 0.0, 3.0, 0.0, 0.0]),
        cover=np.zeros(5),
        count=np.zeros(5, np.int64),
        category_offsets=np.zeros(6, np.int32),
        category_values=np.zeros(0, np.int32),
        values=np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 4.0]]),
    )
    shared = feature_importance([tree], 2, 2, per_output=True)
    np.testing.assert_allclose(shared, [[2.0, 8.0], [0.0, 3.0]])


def test_without_splits_every_importance_is_zero() -> None:
    for ensemble in (random_ensemble(0, n_trees=0)[0], random_ensemble(0, n_leaves=1)[0]):
        for kind in KINDS:
            assert not ensemble.importance(kind).any()  # type: ignore[arg-type]
            assert ensemble.importance(per_output=True).shape == (6, 3)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind must be one of"):
        feature_importance([], 1, 1, "shap")  # type: ignore[arg-type]


def test_the_table_holds_every_node_as_the_trees_do() -> None:
    ensemble, _ = random_ensemble(2, names=list("abcdef"))
    frame = ensemble.trees_to_dataframe()
    assert len(frame) == sum(tree.n_nodes for tree in ensemble.trees)
    for t, tree in enumerate(ensemble.trees):
        part = frame[frame["Tree"] == t].set_index("Node")
        assert part["Depth"].tolist() == tree.depth().tolist()
        assert part["Gain"].tolist() == tree.gain.tolist()
        assert part["Cover"].tolist() == tree.cover.tolist()
        assert part["Count"].tolist() == tree.count.tolist()
        for node in range(tree.n_nodes):
            check = assert_split_row if tree.feature[node] >= 0 else assert_leaf_row
            check(part.loc[node], tree, node, ensemble.features.names)


def row_values(row: Any) -> Any:
    return row[["Value_0", "Value_1", "Value_2"]].to_numpy(dtype=np.float64)


def assert_leaf_row(row: Any, tree: Tree, node: int, names: Any) -> None:
    assert row["Feature"] == "Leaf"
    assert np.array_equal(row_values(row), tree.values[tree.leaf[node]])
    assert row[["Yes", "No", "Missing"]].isna().all()
    assert row["Categories"] is None
    assert np.isnan(row["Split"])


def assert_split_row(row: Any, tree: Tree, node: int, names: Any) -> None:
    assert row["Feature"] == names[tree.feature[node]]
    assert np.isnan(row_values(row)).all()
    assert (row["Yes"], row["No"]) == (tree.left[node], tree.right[node])
    assert row["Missing"] == (tree.left[node] if tree.default_left[node] else tree.right[node])
    codes = tree.category_values[tree.category_offsets[node] : tree.category_offsets[node + 1]]
    if len(codes):
        assert row["Categories"] == tuple(codes)
        assert np.isnan(row["Split"])
    else:
        assert row["Categories"] is None
        assert row["Split"] == tree.threshold[node]


def test_the_table_has_the_documented_columns_also_without_trees() -> None:
    features = FeatureSpace.of(2, "<")
    frame = Ensemble((), np.zeros(2), features, "identity").trees_to_dataframe()
    first = ["Tree", "Node", "Depth", "Feature", "Split", "Categories", "Yes", "No", "Missing"]
    assert list(frame.columns) == [*first, "Gain", "Cover", "Count", "Value_0", "Value_1"]
    assert len(frame) == 0


def test_without_pandas_the_table_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas: install it"):
        random_ensemble(0)[0].trees_to_dataframe()
