"""The nodes of a tree while it grows, and the tree they become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bins import Binning
from .curvature import Layout
from .kernels.constraints import evaluate_constrained
from .kernels.lanes import SplitSettings
from .kernels.tables import Nodes
from .kernels.team import address_of
from .objectives import LeafRows
from .params import Params
from .tree import Tree

__all__ = ["GrownTree", "assemble", "smoothed", "split_settings"]

_NO_CATEGORIES = np.empty(0, np.int32)


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


def assemble(nodes: Nodes, n: int, binning: Binning, rows: NDArray[np.int32]) -> GrownTree:
    """The tree of the first n nodes with zero leaf values, and what its leaves hold."""
    is_split = nodes.left[:n] >= 0
    split = np.flatnonzero(is_split)
    feature = np.where(is_split, nodes.feature[:n], -1).astype(np.int32)
    threshold = np.full(n, np.nan)
    categories = [_NO_CATEGORIES] * n
    for i in split.tolist():
        f = feature[i]
        if binning.features.categorical[f]:
            categories[i] = _left_categories(nodes.left_bins[i], binning.categories[f])
        else:
            threshold[i] = _threshold(int(nodes.split[i, 2]), binning.cuts[f])
    numeric = is_split & ~binning.features.categorical[feature]
    leaves = np.flatnonzero(~is_split)
    tree = Tree(
        feature=feature,
        threshold=threshold,
        default_left=numeric & (nodes.split[:n, 3] != 0.0),
        left=nodes.left[:n].astype(np.int32),
        right=nodes.right[:n].astype(np.int32),
        leaf=np.where(is_split, -1, np.cumsum(~is_split) - 1),
        gain=np.where(is_split, nodes.split[:n, 0], 0.0),
        cover=nodes.cover[:n].copy(),
        count=nodes.end[:n] - nodes.begin[:n],
        category_offsets=np.cumsum([0, *map(len, categories)]),
        category_values=np.concatenate(categories),
        values=np.zeros((len(leaves), nodes.low.shape[1])),
    )
    above = np.zeros_like(nodes.value[:n])
    for side in (nodes.left, nodes.right):
        above[side[split]] = nodes.value[split]
    return GrownTree(
        tree,
        LeafRows(rows, nodes.begin[leaves], nodes.end[leaves]),
        nodes.sums[leaves],
        nodes.low[leaves],
        nodes.high[leaves],
        above[leaves],
    )


def smoothed(
    value: NDArray[np.float64], above: NDArray[np.float64], n_rows: Any, path_smooth: float
) -> NDArray[np.float64]:
    """Values pulled to those of the parents: n rows against ``path_smooth`` of them."""
    share = n_rows / (n_rows + path_smooth)
    return np.asarray(share * value + (1.0 - share) * above)


def _threshold(split_bin: int, cuts: NDArray[np.floating[Any]]) -> float:
    """The cut of a numeric split; +inf where every present value goes left."""
    return float(cuts[split_bin]) if split_bin < len(cuts) else np.inf


def _left_categories(
    left_bins: NDArray[np.uint8], codes: NDArray[np.int32] | None
) -> NDArray[np.int32]:
    assert codes is not None
    return np.sort(codes[left_bins[: len(codes)] != 0])


def split_settings(layout: Layout, params: Params, damped: bool) -> SplitSettings:
    """What the kernels of the split search need to know.

    damped : score by the guaranteed gain.
    """
    constrained = params.is_constrained and layout.name == "diagonal"
    settings = SplitSettings(
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
        constrained=constrained,
        evaluate_at=0,
    )
    return settings._replace(evaluate_at=_evaluation(settings)) if constrained else settings


def _evaluation(settings: SplitSettings) -> int:
    """Address of the kernel that scores candidates under constraints."""
    row, rows = np.empty(settings.width), np.empty((1, settings.width))
    bound = np.empty(settings.k)
    address: int = address_of(
        evaluate_constrained, (0, rows, row, settings, 0.0, np.int8(0), bound, bound, row)
    )
    return address
