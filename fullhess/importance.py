"""How much each feature matters, and a table of all nodes.

A split's share per output: the values it separates are the mean leaf values of
its two subtrees, weighted by training rows. Its gain belongs to the outputs in
proportion to the square of what it separates in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .features import FeatureSpace
from .tree import Tree
from .tree_arrays import TreeArrays

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ImportanceKind", "feature_importance", "trees_to_dataframe"]

ImportanceKind = Literal["gain", "total_gain", "cover", "total_cover", "weight"]


def feature_importance(
    trees: Sequence[Tree],
    n_features: int,
    n_outputs: int,
    kind: ImportanceKind = "gain",
    *,
    per_output: bool = False,
) -> NDArray[np.float64]:
    """Importances of features.

    Parameters
    ----------
    kind : ``"weight"``: number of splits; ``"total_gain"``, ``"total_cover"``: sums
        over the splits of a feature; ``"gain"``, ``"cover"``: their means.
    per_output : share each split among the outputs.

    Returns
    -------
    (n_features,) float64, or (n_features, n_outputs) with ``per_output``, whose
    rows add up to the former. A feature without a split has zero.
    """
    if kind not in get_args(ImportanceKind):
        raise ValueError(f"kind must be one of {get_args(ImportanceKind)}, got {kind!r}")
    importance = np.zeros((n_features, n_outputs if per_output else 1))
    if trees:
        arrays = TreeArrays.of(trees)
        split = np.flatnonzero(arrays.feature >= 0)
        feature = arrays.feature[split]
        weight = np.bincount(feature, minlength=n_features)
        amount = _amounts(trees, kind)[split]
        shares = _output_shares(trees, arrays, split) if per_output else np.ones((len(split), 1))
        for j in range(importance.shape[1]):
            importance[:, j] = np.bincount(feature, amount * shares[:, j], n_features)
        if kind in ("gain", "cover"):
            importance /= np.maximum(weight, 1)[:, None]
    return importance if per_output else importance[:, 0]


def _amounts(trees: Sequence[Tree], kind: ImportanceKind) -> NDArray[np.float64]:
    """(n_nodes,) what a split of each node adds to its feature."""
    if kind == "weight":
        return np.ones(sum(tree.n_nodes for tree in trees))
    name = kind.removeprefix("total_")
    return np.concatenate([getattr(tree, name) for tree in trees])


def _output_shares(
    trees: Sequence[Tree], arrays: TreeArrays, split: NDArray[np.intp]
) -> NDArray[np.float64]:
    """(n_splits, n_outputs) share of each output in each split; rows add up to one."""
    means = _mean_values(trees, arrays)
    apart = np.abs(means[arrays.left[split]] - means[arrays.right[split]])
    largest = apart.max(axis=1, keepdims=True)
    equal = largest == 0
    # Scaled before squaring: tiny leaves must not vanish, nor huge ones overflow.
    squares = np.where(equal, 1.0, apart / np.where(equal, 1.0, largest)) ** 2
    return np.asarray(squares / squares.sum(axis=1, keepdims=True))


def _mean_values(trees: Sequence[Tree], arrays: TreeArrays) -> NDArray[np.float64]:
    """(n_nodes, n_outputs) mean leaf value below each node, weighted by training rows.

    One sweep from the deepest nodes up, for all trees at once. Where no training
    row is known the two children count alike.
    """
    count = np.concatenate([tree.count for tree in trees]).astype(np.float64)
    leaf = arrays.leaf >= 0
    means = np.zeros((len(count), arrays.values.shape[1]))
    means[leaf] = arrays.values[arrays.leaf[leaf]]
    weight = np.where(leaf, count, 0.0)
    for level in reversed(arrays.levels()):
        node = level[arrays.feature[level] >= 0]
        left, right = arrays.left[node], arrays.right[node]
        total = weight[left] + weight[right]
        part = np.where(total > 0, weight[left] / np.where(total > 0, total, 1.0), 0.5)[:, None]
        means[node] = part * means[left] + (1.0 - part) * means[right]
        weight[node] = total
    return means


def trees_to_dataframe(
    trees: Sequence[Tree], features: FeatureSpace, n_outputs: int
) -> pd.DataFrame:
    """One row per node, tree after tree.

    Columns: Tree, Node (number within the tree), Depth, Feature (name, or "Leaf"),
    Split (threshold, NaN where there is none), Categories (tuple of the codes that
    go left, or None), Yes, No, Missing (left and right child, and where a missing
    value goes; <NA> at a leaf), Gain, Cover, Count and Value_0, Value_1, … (NaN at
    a split).
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "trees_to_dataframe needs pandas: install it, or read the arrays of the trees"
        ) from error
    columns = _node_columns(trees, features, n_outputs)
    for name in ("Yes", "No", "Missing"):
        child = columns[name]
        columns[name] = pd.array(np.where(child < 0, 0, child), dtype="Int64")
        columns[name][child < 0] = pd.NA
    return pd.DataFrame(columns)


def _node_columns(trees: Sequence[Tree], features: FeatureSpace, n_outputs: int) -> dict[str, Any]:
    def joined(name: str, dtype: Any) -> NDArray[Any]:
        return np.concatenate([np.empty(0, dtype), *(getattr(tree, name) for tree in trees)])

    sizes = [tree.n_nodes for tree in trees]
    feature = joined("feature", np.int32)
    split = feature >= 0
    left, right = joined("left", np.int32), joined("right", np.int32)
    names = np.array([*features.names, "Leaf"], dtype=object)
    columns: dict[str, Any] = {
        "Tree": np.repeat(np.arange(len(trees)), sizes),
        "Node": np.concatenate([np.empty(0, np.int64), *(np.arange(size) for size in sizes)]),
        "Depth": _depths(trees),
        "Feature": names[feature],  # -1 is the last
        "Split": np.where(split, joined("threshold", np.float64), np.nan),
        "Categories": _left_categories(trees, len(feature)),
        "Yes": left,
        "No": right,
        "Missing": np.where(joined("default_left", np.bool_), left, right),
        "Gain": joined("gain", np.float64),
        "Cover": joined("cover", np.float64),
        "Count": joined("count", np.int64),
    }
    values = np.full((len(feature), n_outputs), np.nan)
    if trees:
        arrays = TreeArrays.of(trees)
        values[~split] = arrays.values[arrays.leaf[~split]]
    columns.update({f"Value_{j}": values[:, j] for j in range(n_outputs)})
    return columns


def _depths(trees: Sequence[Tree]) -> NDArray[np.int64]:
    depth = np.zeros(sum(tree.n_nodes for tree in trees), np.int64)
    for distance, level in enumerate(TreeArrays.of(trees).levels() if trees else ()):
        depth[level] = distance
    return depth


def _left_categories(trees: Sequence[Tree], n_nodes: int) -> NDArray[np.object_]:
    """(n_nodes,) tuple of the codes that go left, None at every other node."""
    categories = np.full(n_nodes, None, dtype=object)
    first = 0
    for tree in trees:
        for node in np.flatnonzero(tree.is_categorical):
            codes = slice(tree.category_offsets[node], tree.category_offsets[node + 1])
            categories[first + node] = tuple(tree.category_values[codes].tolist())
        first += tree.n_nodes
    return categories
