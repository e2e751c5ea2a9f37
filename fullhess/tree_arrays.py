"""The arrays of many trees end to end: for all sweeps that need no walk per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tree import Tree

__all__ = ["TreeArrays", "offsets_of"]

_MAX_LINK = 2**31 - 1  # links between nodes are int32


@dataclass(frozen=True, eq=False)
class TreeArrays:
    """The nodes of trees end to end; links count nodes and leaves of the whole.

    Attributes
    ----------
    node_offsets, leaf_offsets : (n_trees + 1,) int64, where each tree begins.
    feature, threshold, default_left : (n_nodes,) as in ``Tree``.
    left, right, leaf : (n_nodes,) int64, -1 where a node has none.
    set_sizes : (n_nodes,) int64 number of categories that go left.
    category_values : int32, the sets of all nodes end to end.
    values : (n_leaves, n_outputs).
    """

    node_offsets: NDArray[np.int64]
    leaf_offsets: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    default_left: NDArray[np.bool_]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    leaf: NDArray[np.int64]
    set_sizes: NDArray[np.int64]
    category_values: NDArray[np.int32]
    values: NDArray[Any]

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> TreeArrays:
        """The arrays of at least one tree; all with equal outputs and dtype of values."""
        if not trees:
            raise ValueError("expected at least one tree, got none")
        kinds = {(tree.values.dtype, tree.n_outputs) for tree in trees}
        if len(kinds) > 1:
            raise ValueError(f"the trees must agree in outputs and dtype of values, got {kinds}")
        node_offsets = offsets_of([tree.n_nodes for tree in trees])
        leaf_offsets = offsets_of([tree.n_leaves for tree in trees])
        first_node = np.repeat(node_offsets[:-1], np.diff(node_offsets))
        first_leaf = np.repeat(leaf_offsets[:-1], np.diff(node_offsets))

        def moved(name: str, first: NDArray[np.int64]) -> NDArray[np.int64]:
            local = np.concatenate([getattr(tree, name) for tree in trees]).astype(np.int64)
            return np.where(local >= 0, local + first, -1)

        return cls(
            node_offsets=node_offsets,
            leaf_offsets=leaf_offsets,
            feature=np.concatenate([tree.feature for tree in trees]),
            threshold=np.concatenate([tree.threshold for tree in trees]),
            default_left=np.concatenate([tree.default_left for tree in trees]),
            left=moved("left", first_node),
            right=moved("right", first_node),
            leaf=moved("leaf", first_leaf),
            set_sizes=np.concatenate([np.diff(tree.category_offsets) for tree in trees]).astype(
                np.int64
            ),
            category_values=np.concatenate([tree.category_values for tree in trees]),
            values=np.concatenate([tree.values for tree in trees]),
        )

    def levels(self) -> list[NDArray[np.int64]]:
        """Nodes of all trees by depth: roots, their children, and so on."""
        levels = []
        level = self.node_offsets[:-1]
        while len(level):
            levels.append(level)
            splits = level[self.feature[level] >= 0]
            level = np.concatenate([self.left[splits], self.right[splits]])
        return levels

    def depths(self) -> NDArray[np.int32]:
        """(n_trees,) levels of splits."""
        tree = np.repeat(np.arange(len(self.node_offsets) - 1), np.diff(self.node_offsets))
        depths = np.zeros(len(self.node_offsets) - 1, np.int32)
        for depth, level in enumerate(self.levels()):
            depths[tree[level]] = depth
        return depths

    def places(self) -> NDArray[np.int64]:
        """(n_nodes,) a numbering with siblings side by side, the left one first.

        Every tree keeps its range of numbers, and its root the first of them.
        """
        if max(len(self.feature), len(self.values)) > _MAX_LINK:
            raise ValueError(f"a forest may have at most {_MAX_LINK} nodes")
        split = np.flatnonzero(self.feature >= 0)
        n_before = np.searchsorted(split, self.node_offsets[:-1])
        sizes = np.diff(np.append(n_before, len(split)))
        # The children of a tree's p-th split stand at 1 + 2p and 2 + 2p of its range.
        first = np.repeat(self.node_offsets[:-1] - 2 * n_before, sizes) + 1
        first += 2 * np.arange(len(split))
        places = np.empty(len(self.feature), np.int64)
        places[self.node_offsets[:-1]] = self.node_offsets[:-1]
        places[self.left[split]] = first
        places[self.right[split]] = first + 1
        return places


def offsets_of(sizes: Any) -> NDArray[np.int64]:
    """(n + 1,) where parts of these sizes begin, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
