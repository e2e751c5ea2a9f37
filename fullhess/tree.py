"""One tree: a structure over raw feature values and a matrix of leaf values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .features import frozen

__all__ = ["Tree"]

_DTYPES: dict[str, Any] = {
    "feature": np.int32,
    "threshold": np.float64,
    "default_left": np.bool_,
    "left": np.int32,
    "right": np.int32,
    "leaf": np.int32,
    "gain": np.float64,
    "cover": np.float64,
    "count": np.int64,
    "category_offsets": np.int32,
    "category_values": np.int32,
}


@dataclass(frozen=True, eq=False)
class Tree:
    """An immutable tree. Node 0 is the root; children come after their parent.

    Attributes, each of shape (n_nodes,) unless said:

    feature : split feature, -1 at a leaf.
    threshold : cut value of a numeric split (left on ``x < t`` or ``x <= t``,
        as the feature space says; +inf: all present values go left), else NaN.
    default_left : where a missing value goes (always right at a categorical split).
    left, right : children, -1 at a leaf.
    leaf : row of ``values`` at a leaf, -1 at a split.
    gain : gain of the split in the hosts' scale (twice the loss change), 0 at a leaf.
    cover : trace of the summed curvature.
    count : training rows.
    category_offsets : (n_nodes + 1,) slices of ``category_values``; empty but at a
        categorical split.
    category_values : category codes that go left, ascending within a node; every
        other value, also missing and never seen ones, goes right.
    values : (n_leaves, n_outputs) float32 or float64, learning rate included.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    default_left: NDArray[np.bool_]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    leaf: NDArray[np.int32]
    gain: NDArray[np.float64]
    cover: NDArray[np.float64]
    count: NDArray[np.int64]
    category_offsets: NDArray[np.int32]
    category_values: NDArray[np.int32]
    values: NDArray[Any]

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            object.__setattr__(self, name, frozen(np.asarray(getattr(self, name), dtype=dtype)))
        values = np.asarray(self.values)
        if values.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise TypeError(f"leaf values must be float32 or float64, got {values.dtype}")
        object.__setattr__(self, "values", frozen(values))

    @property
    def n_nodes(self) -> int:
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        return len(self.values)

    @property
    def n_outputs(self) -> int:
        return int(self.values.shape[1])

    @property
    def is_categorical(self) -> NDArray[np.bool_]:
        """(n_nodes,) whether a node splits by a set of categories."""
        return np.diff(self.category_offsets) > 0

    def depth(self) -> NDArray[np.int32]:
        """(n_nodes,) distance from the root."""
        depth = np.zeros(self.n_nodes, np.int32)
        for node in np.flatnonzero(self.feature >= 0):  # parents stand before children
            depth[self.left[node]] = depth[self.right[node]] = depth[node] + 1
        return depth

    def parents(self) -> NDArray[np.int32]:
        """(n_nodes,) the node above each node, -1 at the root."""
        parent = np.full(self.n_nodes, -1, np.int32)
        split = np.flatnonzero(self.feature >= 0)
        parent[self.left[split]] = parent[self.right[split]] = split
        return parent

    def with_values(self, values: NDArray[Any]) -> Tree:
        """The same structure with other leaf values."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return Tree(**{**parts, "values": values})

    def check(self, n_features: int, n_outputs: int) -> None:
        """Raise ValueError unless every index, shape and value is usable."""
        n = self.n_nodes
        if n < 1 or n != 2 * self.n_leaves - 1:
            raise ValueError(f"a binary tree of {self.n_leaves} leaves cannot have {n} nodes")
        for name in _DTYPES:
            shape = getattr(self, name).shape
            if name == "category_offsets":
                expected: tuple[int, ...] = (n + 1,)
            elif name == "category_values":
                expected = (len(self.category_values),)
            else:
                expected = (n,)
            if shape != expected:
                raise ValueError(f"{name} must have shape {expected}, got {shape}")
        if self.values.ndim != 2 or self.values.shape[1] != n_outputs:
            raise ValueError(f"values must be (n_leaves, {n_outputs}), got {self.values.shape}")
        self._check_links()
        self._check_splits(n_features)
        if not np.isfinite(self.values).all():
            raise ValueError("leaf values must be finite")
        if not (np.isfinite(self.gain).all() and np.isfinite(self.cover).all()):
            raise ValueError("gain and cover must be finite")
        if (self.count < 0).any() or (self.cover < 0).any():
            raise ValueError("count and cover must not be negative")

    def _check_links(self) -> None:
        split = self.feature >= 0
        node = np.arange(self.n_nodes)
        if (self.feature < -1).any():
            raise ValueError("feature must be -1 at a leaf and a column index at a split")
        children = np.concatenate([self.left[split], self.right[split]])
        parents = np.concatenate([node[split], node[split]])
        if (children <= parents).any() or (children >= self.n_nodes).any():
            raise ValueError("a child must stand after its parent and inside the tree")
        if len(np.unique(children)) != self.n_nodes - 1:
            raise ValueError("every node but the root must have exactly one parent")
        if (self.left[~split] != -1).any() or (self.right[~split] != -1).any():
            raise ValueError("a leaf must have the children -1")
        if (self.leaf[split] != -1).any():
            raise ValueError("a split must have the leaf index -1")
        if not np.array_equal(np.sort(self.leaf[~split]), np.arange(self.n_leaves)):
            raise ValueError("the leaves must be numbered 0 to n_leaves - 1, each once")

    def _check_splits(self, n_features: int) -> None:
        split = self.feature >= 0
        if (self.feature >= n_features).any():
            raise ValueError(f"a split uses a feature beyond the model's {n_features}")
        offsets = self.category_offsets
        if offsets[0] != 0 or offsets[-1] != len(self.category_values):
            raise ValueError("category_offsets must span category_values")
        sizes = np.diff(offsets.astype(np.int64))  # a difference of int32 may wrap around
        if (sizes < 0).any() or self.is_categorical[~split].any():
            raise ValueError("category_offsets must ascend and be empty at a leaf")
        if (self.category_values < 0).any():
            raise ValueError("category codes must not be negative")
        inside = np.ones(len(self.category_values), bool)
        inside[offsets[:-1][self.is_categorical]] = False  # first entry of each set
        if (np.diff(self.category_values.astype(np.int64), prepend=-1)[inside] <= 0).any():
            raise ValueError("the categories of a split must ascend")
        if np.isnan(self.threshold[split & ~self.is_categorical]).any():
            raise ValueError("a numeric split must have a threshold")
        if self.default_left[self.is_categorical].any():
            raise ValueError("a categorical split must send missing values to the right")
