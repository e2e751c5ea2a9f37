"""A tree: what it accepts, what it refuses, and that it cannot be changed."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import random_binning, random_tree

from fullhess.tree import Tree


def small_tree(**changes: Any) -> Tree:
    """Root 0 (numeric) with leaf 1 and split 2 (categories 1 and 4), leaves 3 and 4."""
    parts: dict[str, Any] = {
        "feature": [0, -1, 1, -1, -1],
        "threshold": [0.5, np.nan, np.nan, np.nan, np.nan],
        "default_left": [True, False, False, False, False],
        "left": [1, -1, 3, -1, -1],
        "right": [2, -1, 4, -1, -1],
        "leaf": [-1, 2, -1, 0, 1],
        "gain": [3.0, 0.0, 1.0, 0.0, 0.0],
        "cover": [6.0, 2.0, 4.0, 1.0, 3.0],
        "count": [10, 4, 6, 2, 4],
        "category_offsets": [0, 0, 0, 2, 2, 2],
        "category_values": [1, 4],
        "values": np.arange(6.0).reshape(3, 2),
    }
    return Tree(**{**parts, **changes})


def test_a_sound_tree_passes_the_check() -> None:
    small_tree().check(n_features=2, n_outputs=2)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_leaves=st.integers(1, 20))
def test_every_random_tree_passes_the_check(seed: int, n_leaves: int) -> None:
    rng = np.random.default_rng(seed)
    binning = random_binning(rng, "<")
    tree = random_tree(rng, binning, n_outputs=2, n_leaves=n_leaves)
    tree.check(binning.features.n_features, 2)
    assert (tree.n_leaves, tree.n_nodes, tree.n_outputs) == (n_leaves, 2 * n_leaves - 1, 2)


DEFECTS: dict[str, tuple[dict[str, Any], str]] = {
    "feature out of range": ({"feature": [0, -1, 2, -1, -1]}, "beyond the model's 2"),
    "feature below -1": ({"feature": [0, -2, 1, -1, -1]}, "-1 at a leaf"),
    "child before its parent": ({"left": [1, -1, 1, -1, -1]}, "after its parent"),
    "child is its own parent": ({"right": [2, -1, 2, -1, -1]}, "after its parent"),
    "child outside": ({"right": [2, -1, 5, -1, -1]}, "inside the tree"),
    "negative child": ({"right": [2, -1, -7, -1, -1]}, "after its parent"),
    "child of two parents": ({"left": [3, -1, 3, -1, -1]}, "exactly one parent"),
    "child of a leaf": ({"left": [1, 3, 3, -1, -1]}, "a leaf must have the children -1"),
    "leaf index at a split": ({"leaf": [0, 2, -1, 0, 1]}, "leaf index -1"),
    "leaf twice": ({"leaf": [-1, 2, -1, 2, 1]}, "each once"),
    "leaf outside": ({"leaf": [-1, 3, -1, 0, 1]}, "each once"),
    "too few nodes": ({"values": np.zeros((2, 2))}, "cannot have 5 nodes"),
    "wrong outputs": ({"values": np.zeros((3, 3))}, "values must be"),
    "no threshold": ({"threshold": [np.nan] * 5}, "must have a threshold"),
    "missing left at categories": (
        {"default_left": [True, False, True, False, False]},
        "missing values to the right",
    ),
    "categories descend": ({"category_values": [4, 1]}, "must ascend"),
    "category twice": ({"category_values": [4, 4]}, "must ascend"),
    "negative category": ({"category_values": [-1, 4]}, "must not be negative"),
    "offsets descend": ({"category_offsets": [0, 0, 2, 0, 2, 2]}, "ascend"),
    "offsets too short": ({"category_offsets": [0, 0, 0, 2, 2]}, "must have shape"),
    "offsets do not span": ({"category_offsets": [0, 0, 0, 1, 1, 1]}, "must span"),
    "categories at a leaf": ({"category_offsets": [0, 0, 1, 2, 2, 2]}, "empty at a leaf"),
    "NaN value": ({"values": np.full((3, 2), np.nan)}, "values must be finite"),
    "infinite value": ({"values": np.full((3, 2), np.inf)}, "values must be finite"),
    "NaN gain": ({"gain": [np.nan] * 5}, "must be finite"),
    "infinite cover": ({"cover": [np.inf] * 5}, "must be finite"),
    "negative cover": ({"cover": [-1.0] * 5}, "must not be negative"),
    "negative count": ({"count": [-1] * 5}, "must not be negative"),
    "short array": ({"gain": [0.0]}, "must have shape"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_refused_and_named(defect: str) -> None:
    changes, message = DEFECTS[defect]
    with pytest.raises(ValueError, match=message):
        small_tree(**changes).check(n_features=2, n_outputs=2)


def test_offsets_that_ascend_only_by_overflow_are_refused() -> None:
    """The int32 differences are 2**31 - 1, 2**31 - 1, 4: all positive, after wrapping."""
    tree = Tree(
        feature=np.array([0, 0, 0, -1, -1, -1, -1], np.int32),
        threshold=np.full(7, np.nan),
        default_left=np.zeros(7, np.bool_),
        left=np.array([1, 3, 5, -1, -1, -1, -1], np.int32),
        right=np.array([2, 4, 6, -1, -1, -1, -1], np.int32),
        leaf=np.array([-1, -1, -1, 0, 1, 2, 3], np.int32),
        gain=np.zeros(7),
        cover=np.zeros(7),
        count=np.zeros(7, np.int64),
        category_offsets=np.array([0, 2**31 - 1, -2, 2, 2, 2, 2, 2], np.int32),
        category_values=np.array([1, 2], np.int32),
        values=np.zeros((4, 1)),
    )
    with pytest.raises(ValueError, match="must ascend"):
        tree.check(n_features=1, n_outputs=1)


def test_integer_leaf_values_are_refused() -> None:
    with pytest.raises(TypeError, match="float32 or float64"):
        small_tree(values=np.zeros((3, 2), np.int64))


def test_arrays_cannot_be_written() -> None:
    tree = small_tree()
    for part in dataclasses.fields(tree):
        with pytest.raises(ValueError, match="read-only"):
            getattr(tree, part.name)[...] = 0


def test_a_caller_s_array_stays_writable() -> None:
    values = np.zeros((3, 2))
    small_tree(values=values)
    values[0, 0] = 1.0
    assert values[0, 0] == 1.0


def test_depth_is_the_distance_from_the_root() -> None:
    assert small_tree().depth().tolist() == [0, 1, 1, 2, 2]


def test_is_categorical_marks_splits_by_sets() -> None:
    assert small_tree().is_categorical.tolist() == [False, False, True, False, False]


def test_with_values_keeps_the_structure() -> None:
    tree = small_tree()
    other = tree.with_values(np.ones((3, 4), np.float32))
    assert other.n_outputs == 4
    assert other.values.dtype == np.float32
    assert np.array_equal(other.left, tree.left)
    assert tree.n_outputs == 2
