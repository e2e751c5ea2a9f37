"""Trees in XGBoost's terms, as the bytes of its model format.

Where the two ways of writing a split differ:

* XGBoost sends ``float32(x) < condition`` to the left, and nothing else.
* Of a categorical split it sends the listed codes to the *right* and every other
  value to the left. Ours go left, so the children are swapped.
* It finds the right child beside the left one, so nodes are numbered anew, level
  by level, with siblings next to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fullhess import FeatureSpace, Tree
from fullhess.features import MISSING_NONE, MISSING_ZERO
from fullhess.tree_arrays import TreeArrays, offsets_of

from .ubjson import encode_items

__all__ = ["MAX_CATEGORY", "encode_trees", "to_float32"]

MAX_CATEGORY = 2**24 - 1  # what a float32 holds exactly, and XGBoost accepts

_FLT_MAX = np.finfo(np.float32).max
_NO_CONDITION = np.float32(1e-45)  # written by XGBoost where no number is compared
_ZERO = np.float32(1e-35)  # |x| up to this is missing where zero is missing
_MIN_COVER = np.float32(1e-16)  # SHAP divides by covers
_SCALAR_ROOT = 2**31 - 1  # parent of the root of a tree with scalar leaves


def encode_trees(
    trees: Sequence[Tree], features: FeatureSpace, *, scalar: bool, difference: bool = False
) -> list[tuple[bytes, ...]]:
    """The entries of each tree's object in the format, all but its ``id``.

    Parameters
    ----------
    trees : trees that fit ``features``.
    scalar : a tree of scalar leaves for each output, instead of one tree.
    difference : the second of two outputs minus the first, as one output.
    """
    if not trees:
        return []
    values = np.concatenate([tree.values for tree in trees])
    if difference:
        values = values[:, 1:].astype(np.float64) - values[:, :1]
    splits = _Splits.of(trees, features)
    nodes = _Nodes.of(trees, splits, to_float32(values, "leaf values"), features.n_features)
    return [nodes.encode(t, scalar=scalar) for t in range(len(trees))]


def to_float32(values: NDArray[Any], what: str) -> NDArray[np.float32]:
    """The values rounded to float32; ValueError where they do not fit."""
    if np.abs(values).max(initial=0.0) > float(_FLT_MAX):
        raise ValueError(f"XGBoost stores {what} as float32, and these go beyond {_FLT_MAX:.3g}")
    return np.asarray(values, np.float32)


@dataclass(frozen=True, eq=False)
class _Splits:
    """The splits of trees, node by node in our order, as XGBoost compares.

    Attributes
    ----------
    arrays : the trees end to end.
    condition : (n_nodes,) float32.
    default_left : (n_nodes,) bool, in XGBoost's sense of left.
    left, right : (n_nodes,) int64 children in XGBoost's sense, -1 at a leaf.
    """

    arrays: TreeArrays
    condition: NDArray[np.float32]
    default_left: NDArray[np.bool_]
    left: NDArray[np.int64]
    right: NDArray[np.int64]

    @classmethod
    def of(cls, trees: Sequence[Tree], features: FeatureSpace) -> _Splits:
        arrays = TreeArrays.of(trees)
        if arrays.category_values.max(initial=0) > MAX_CATEGORY:
            raise ValueError(
                f"XGBoost knows category codes up to {MAX_CATEGORY}, the model splits by "
                f"{arrays.category_values.max()}; number the categories from 0 on"
            )
        categorical = arrays.set_sizes > 0
        numeric = (arrays.feature >= 0) & ~categorical
        condition = np.full(len(numeric), _NO_CONDITION)
        default_left = categorical.copy()  # a missing value is in no set of categories
        condition[numeric], default_left[numeric] = _numeric_splits(
            arrays.threshold[numeric],
            arrays.default_left[numeric],
            arrays.feature[numeric],
            features,
        )
        return cls(
            arrays,
            condition,
            default_left,
            left=np.where(categorical, arrays.right, arrays.left),
            right=np.where(categorical, arrays.left, arrays.right),
        )

    def levels(self) -> list[NDArray[np.int64]]:
        """Nodes of all trees by depth, siblings next to each other, left ones first."""
        levels = []
        level = self.arrays.node_offsets[:-1]
        while len(level):
            levels.append(level)
            splits = level[self.left[level] >= 0]
            level = np.column_stack([self.left[splits], self.right[splits]]).ravel()
        return levels


def _numeric_splits(
    threshold: NDArray[np.float64],
    default_left: NDArray[np.bool_],
    feature: NDArray[np.int32],
    features: FeatureSpace,
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Conditions and default directions; exact for every finite float32 and NaN."""
    condition = _conditions(threshold, strict=features.comparison == "<")
    missing = features.missing[feature]
    default_left = np.where(missing == MISSING_NONE, condition > 0, default_left)
    at = missing == MISSING_ZERO
    condition[at] = _with_zero_missing(condition[at], default_left[at])
    return condition, default_left


def _conditions(threshold: NDArray[np.float64], *, strict: bool) -> NDArray[np.float32]:
    """float32 conditions such that ``x < condition`` says the same of a finite float32 x.

    Where all present values go to one side they are infinite. A finite one would not do:
    no float32 is above the largest, and the lowest bin of a ``QuantileDMatrix`` is -inf
    for XGBoost from 3.4 on.
    """
    down, up = np.float32(-np.inf), np.float32(np.inf)
    with np.errstate(over="ignore", under="ignore"):
        rounded = threshold.astype(np.float32)
        if strict:  # the thresholds are float32 values
            return rounded
        below = np.where(rounded > threshold, np.nextafter(rounded, down), rounded)
        return np.where(below == down, down, np.nextafter(below, up))


def _with_zero_missing(
    condition: NDArray[np.float32], default_left: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Conditions that send the values around zero to the default side.

    Possible where what goes to one side stays an interval; else ValueError.
    """
    above = np.nextafter(_ZERO, np.float32(1))
    to_left = default_left & (condition < above)
    to_right = ~default_left & (condition > -_ZERO)
    torn = (to_left & (condition < -_ZERO)) | (to_right & (condition > above))
    if torn.any():
        raise ValueError(
            "a split on a column where zero counts as missing sends zero to the side of larger "
            "or smaller values than its own; XGBoost cannot say this. Train with NaN for missing "
            "values instead of zero"
        )
    return np.where(to_left, above, np.where(to_right, -_ZERO, condition))


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of trees in XGBoost's order and under its names, tree after tree.

    Besides those: ``node_offsets`` (n_trees + 1,), where each tree begins;
    ``set_offsets`` (n_nodes + 1,), slices of ``categories``; ``is_leaf`` (n_nodes,).
    ``base_weights`` are (n_nodes, n_outputs).
    """

    n_features: int
    node_offsets: NDArray[np.int64]
    set_offsets: NDArray[np.int64]
    is_leaf: NDArray[np.bool_]
    left_children: NDArray[np.int32]
    right_children: NDArray[np.int32]
    parents: NDArray[np.int32]
    split_indices: NDArray[np.int32]
    split_conditions: NDArray[np.float32]
    default_left: NDArray[np.uint8]
    categories: NDArray[np.int32]
    loss_changes: NDArray[np.float32]
    sum_hessian: NDArray[np.float32]
    base_weights: NDArray[np.float32]

    @classmethod
    def of(
        cls,
        trees: Sequence[Tree],
        splits: _Splits,
        values: NDArray[np.float32],
        n_features: int,
    ) -> _Nodes:
        """``values`` (n_leaves, n_outputs) are those of the leaves, in our order."""
        arrays = splits.arrays
        levels = splits.levels()
        tree = np.repeat(np.arange(len(trees)), np.diff(arrays.node_offsets))
        order = np.concatenate(levels)
        order = order[np.argsort(tree[order], kind="stable")]
        number = np.empty(len(order), np.int64)  # of our node in XGBoost's order
        number[order] = np.arange(len(order))
        number -= arrays.node_offsets[tree]
        split = np.flatnonzero(splits.left >= 0)
        parents = np.full(len(order), -1)
        parents[splits.left[split]] = parents[splits.right[split]] = number[split]
        cover, weights = _sums_upwards(trees, splits, levels, values)
        sets = offsets_of(arrays.set_sizes)
        set_offsets = offsets_of(arrays.set_sizes[order])
        is_leaf = splits.left[order] < 0

        def children(links: NDArray[np.int64]) -> NDArray[np.int32]:
            return np.where(is_leaf, -1, number[links[order]]).astype(np.int32)

        return cls(
            n_features=n_features,
            node_offsets=arrays.node_offsets,
            set_offsets=set_offsets,
            is_leaf=is_leaf,
            left_children=children(splits.left),
            right_children=children(splits.right),
            parents=parents[order].astype(np.int32),
            split_indices=np.maximum(arrays.feature[order], 0),
            split_conditions=splits.condition[order],
            default_left=splits.default_left[order].astype(np.uint8),
            categories=arrays.category_values[
                np.arange(set_offsets[-1])
                + np.repeat(sets[:-1][order] - set_offsets[:-1], arrays.set_sizes[order])
            ],
            loss_changes=_clipped(np.concatenate([tree.gain for tree in trees])[order]),
            sum_hessian=cover[order],
            base_weights=weights[order],
        )

    def encode(self, t: int, *, scalar: bool) -> tuple[bytes, ...]:
        """The entries of tree ``t``, or of its trees of scalar leaves."""
        nodes = slice(int(self.node_offsets[t]), int(self.node_offsets[t + 1]))
        shared = encode_items(self._shared_fields(nodes))
        weights = self.base_weights[nodes]
        if scalar or weights.shape[1] == 1:
            return tuple(
                shared + encode_items(self._scalar_fields(nodes, weights[:, j]))
                for j in range(weights.shape[1])
            )
        return (shared + encode_items(self._vector_fields(nodes, weights)),)

    def _shared_fields(self, nodes: slice) -> dict[str, Any]:
        offsets = self.set_offsets[nodes.start : nodes.stop + 1] - self.set_offsets[nodes.start]
        first = int(self.set_offsets[nodes.start])
        sizes = np.diff(offsets)
        categorical = np.flatnonzero(sizes)
        return {
            "left_children": self.left_children[nodes],
            "split_indices": self.split_indices[nodes],
            "default_left": self.default_left[nodes],
            "split_type": (sizes > 0).astype(np.uint8),
            "categories": self.categories[first : first + int(offsets[-1])],
            "categories_nodes": categorical.astype(np.int32),
            "categories_segments": offsets[categorical],
            "categories_sizes": sizes[categorical],
            "loss_changes": self.loss_changes[nodes],
            "sum_hessian": self.sum_hessian[nodes],
        }

    def _vector_fields(self, nodes: slice, weights: NDArray[np.float32]) -> dict[str, Any]:
        is_leaf = self.is_leaf[nodes]
        # XGBoost keeps the row of leaf_weights where a leaf's right child would be.
        right = np.where(is_leaf, np.cumsum(is_leaf) - 1, self.right_children[nodes])
        return {
            "right_children": right.astype(np.int32),
            "parents": self.parents[nodes],
            "split_conditions": self.split_conditions[nodes],
            "leaf_weights": weights[is_leaf].ravel(),
            "base_weights": weights.ravel(),
            "tree_param": self._tree_param(len(is_leaf), weights.shape[1]),
        }

    def _scalar_fields(self, nodes: slice, weights: NDArray[np.float32]) -> dict[str, Any]:
        parents = self.parents[nodes].copy()
        parents[0] = _SCALAR_ROOT
        return {
            "right_children": self.right_children[nodes],
            "parents": parents,
            "split_conditions": np.where(
                self.is_leaf[nodes], weights, self.split_conditions[nodes]
            ),
            "base_weights": weights,
            "tree_param": self._tree_param(len(weights), 1),
        }

    def _tree_param(self, n_nodes: int, size_leaf_vector: int) -> dict[str, str]:
        return {
            "num_nodes": str(n_nodes),
            "num_feature": str(self.n_features),
            "num_deleted": "0",
            "size_leaf_vector": str(size_leaf_vector),
        }


def _sums_upwards(
    trees: Sequence[Tree],
    splits: _Splits,
    levels: list[NDArray[np.int64]],
    values: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Covers (n_nodes,) and values (n_nodes, n_outputs), in our order of nodes.

    Covers are positive, and in float32 a parent's is the sum of its children's: SHAP
    relies on both. A value is a leaf's own, above it the mean weighted by covers.
    """
    arrays = splits.arrays
    cover = np.maximum(_clipped(np.concatenate([tree.cover for tree in trees])), _MIN_COVER)
    weights = np.zeros((len(cover), values.shape[1]))
    leaf = arrays.leaf >= 0
    weights[leaf] = values[arrays.leaf[leaf]]
    for level in reversed(levels):
        at = level[splits.left[level] >= 0]
        left, right = splits.left[at], splits.right[at]
        with np.errstate(over="ignore"):
            cover[at] = np.minimum(cover[left] + cover[right], _FLT_MAX)
        share = (cover[left] / cover[at].astype(np.float64))[:, None]
        weights[at] = share * weights[left] + (1.0 - share) * weights[right]
    return cover, weights.astype(np.float32)


def _clipped(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Statistics in float32; what is beyond its range becomes the largest number."""
    with np.errstate(under="ignore"):
        return np.clip(values, -_FLT_MAX, _FLT_MAX).astype(np.float32)
