"""The nodes of a tree while it grows, and the tree they become."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bins import Binning
from .curvature import Layout
from .histograms import Histogram
from .kernels.lanes import SplitSettings
from .objectives import LeafRows
from .params import Params
from .tree import Tree

__all__ = ["Bounds", "GrownTree", "Node", "Search", "assemble", "smoothed", "split_settings"]


def _nothing() -> Any:
    return _EMPTY


_EMPTY = np.empty(0, np.uint8)
Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]  # lowest, highest value (k,)


@dataclass(eq=False)
class Node:
    """A node while the tree grows."""

    index: int
    depth: int
    begin: int
    end: int
    sums: NDArray[np.float64]  # (width,) statistics of its rows
    center: NDArray[np.float64]  # (k,) its own value (path prior), or zeros
    value: NDArray[np.float64]  # (k,) its value as a leaf of one step (``path_smooth``)
    score: float
    cover: float
    path: frozenset[int]  # features of the splits above
    low: NDArray[np.float64]  # (k,) bounds of its value
    high: NDArray[np.float64]
    seed: int = -1  # of its random thresholds, negative: try all
    wanted: bool = False  # its best split is to be searched
    allowed: NDArray[np.uint8] = field(default_factory=_nothing)  # (d,) features it may be split on
    histogram: Histogram | None = None
    feature: int = -1  # of its best split, -1 without any
    split: NDArray[np.float64] = field(default_factory=_nothing)  # (SPLIT_FIELDS,)
    left_bins: NDArray[np.uint8] = field(
        default_factory=_nothing
    )  # (n_bins + 1,) of a categorical split
    children: tuple[Node, Node] | None = None

    @property
    def n_rows(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A structure with the rows and sums of its leaves.

    Attributes
    ----------
    tree : the tree; its leaf values are still zero.
    leaves : rows of each leaf.
    sums : (n_leaves, width) statistics of each leaf.
    low, high : (n_leaves, k) bounds of each leaf's values.
    above : (n_leaves, k) value of each leaf's parent, for ``path_smooth``; zeros at a root.
    """

    tree: Tree
    leaves: LeafRows
    sums: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    above: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Search:
    """Histogram work on two siblings, or on the root alone as ``small``.

    With ``subtract`` the larger child's histogram starts as the parent's.
    """

    small: Node
    large: Node | None
    subtract: bool

    @property
    def is_needed(self) -> bool:
        return self.small.wanted or (self.large is not None and self.large.wanted)


def assemble(nodes: list[Node], binning: Binning, rows: NDArray[np.int32]) -> GrownTree:
    """The tree of these nodes with zero leaf values, and what its leaves hold."""
    n = len(nodes)
    feature = np.full(n, -1, np.int32)
    left = np.full(n, -1, np.int32)
    right = np.full(n, -1, np.int32)
    threshold = np.full(n, np.nan)
    default_left = np.zeros(n, bool)
    gain = np.zeros(n)
    categories: list[NDArray[np.int32]] = [np.empty(0, np.int32)] * n
    for node in nodes:
        if node.children is None:
            continue
        i = node.index
        feature[i] = node.feature
        left[i], right[i] = (child.index for child in node.children)
        gain[i] = node.split[0]
        if binning.features.categorical[node.feature]:
            categories[i] = _left_categories(node, binning)
        else:
            threshold[i] = _threshold(node, binning)
            default_left[i] = bool(node.split[3])
    is_leaf = feature < 0
    leaves = [node for node in nodes if node.children is None]
    tree = Tree(
        feature=feature,
        threshold=threshold,
        default_left=default_left,
        left=left,
        right=right,
        leaf=np.where(is_leaf, np.cumsum(is_leaf) - 1, -1),
        gain=gain,
        cover=np.array([node.cover for node in nodes]),
        count=np.array([node.n_rows for node in nodes]),
        category_offsets=np.cumsum([0, *(len(c) for c in categories)]),
        category_values=np.concatenate(categories),
        values=np.zeros((len(leaves), len(nodes[0].low))),
    )
    leaf_rows = LeafRows(
        rows,
        np.array([node.begin for node in leaves]),
        np.array([node.end for node in leaves]),
    )
    sums, low, high = (
        np.array([getattr(node, name) for node in leaves]) for name in ("sums", "low", "high")
    )
    values = np.array([node.value for node in nodes])
    above = np.zeros_like(values)
    for side in (left, right):
        above[side[~is_leaf]] = values[~is_leaf]
    return GrownTree(tree, leaf_rows, sums, low, high, above[is_leaf])


def smoothed(
    value: NDArray[np.float64], above: NDArray[np.float64], n_rows: Any, path_smooth: float
) -> NDArray[np.float64]:
    """Values pulled to those of the parents: n rows against ``path_smooth`` of them."""
    share = n_rows / (n_rows + path_smooth)
    return np.asarray(share * value + (1.0 - share) * above)


def _threshold(node: Node, binning: Binning) -> float:
    """The cut of a numeric split; +inf where every present value goes left."""
    cuts = binning.cuts[node.feature]
    split_bin = int(node.split[2])
    return float(cuts[split_bin]) if split_bin < len(cuts) else np.inf


def _left_categories(node: Node, binning: Binning) -> NDArray[np.int32]:
    codes = binning.categories[node.feature]
    assert codes is not None
    return np.sort(codes[node.left_bins[: len(codes)] != 0])


def split_settings(layout: Layout, params: Params, damped: bool) -> SplitSettings:
    """What the kernels of the split search need to know.

    damped : score by the guaranteed gain.
    """
    return SplitSettings(
        layout=layout.code,
        k=layout.n_outputs,
        n_curvature=layout.n_curvature,
        width=layout.width,
        reg_lambda=float(params.reg_lambda),
        cat_smooth=float(params.cat_smooth),
        max_cat_to_onehot=int(params.max_cat_to_onehot),
        max_cat_threshold=int(params.max_cat_threshold),
        cat_l2=float(params.cat_l2),
        min_data_per_group=int(params.min_data_per_group),
        min_samples_leaf=int(params.min_samples_leaf),
        min_child_weight=float(params.min_child_weight),
        damped=bool(damped),
        max_delta_step=float(params.max_delta_step),
        reg_alpha=float(params.reg_alpha),
        constrained=params.is_constrained and layout.name == "diagonal",
    )
