"""A model as LightGBM's text: k trees of one structure for every vector tree.

LightGBM knows scalar leaves only. A vector tree becomes k trees that differ in
their leaf values, in the place of one iteration. The base score is folded into the
leaves of the first iteration, as the host does with its own: a sum that starts
there rounds in the same way, so raw scores agree bit for bit.

The gain of a split stands in the tree of class 0 and is zero in the others: the host
counts only splits with a gain, so importances count every vector split once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fullhess import Ensemble, FeatureSpace, Tree
from fullhess.features import MISSING_NAN, MISSING_NONE, MISSING_ZERO

if TYPE_CHECKING:
    from .booster import Booster

__all__ = ["constant_tree", "fold_base_score", "model_text", "to_lightgbm"]

_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_MISSING_BITS = {MISSING_NONE: 0, MISSING_ZERO: 4, MISSING_NAN: 8}
_UNSAFE = set('",:[]{}')  # the host refuses them in names: its models are dumped as JSON


def to_lightgbm(model: Ensemble) -> Booster:
    """A LightGBM Booster that predicts what the model predicts.

    Parameters
    ----------
    model : trained on bins of LightGBM, of XGBoost, or of ``BinnedMatrix``. With
        ``best_iteration`` set, the Booster predicts up to it by default.

    Raw scores are bit-equal for a model whose comparison is ``"<="`` and whose margins are
    float64. A comparison ``"<"`` in float32 is decided alike for every float32 value; other
    values are not rounded to float32 first, as such a model would do itself. Float32
    margins are added in float64. LightGBM reads values up to 1e-35 in size as zero, and
    entries that a sparse matrix does not store as zero too.
    """
    from .booster import Booster  # it needs this module

    names = [name.replace(" ", "_") for name in model.features.names]
    _check_names(names)
    text = model_text(
        fold_base_score(model),
        names=names,
        features=model.features,
        n_outputs=model.n_outputs,
        objective=f"multiclass num_class:{model.n_outputs}" if model.link == "softmax" else None,
        infos=_infos(model),
        params={
            "objective": "multiclass" if model.link == "softmax" else "none",
            "num_class": model.n_outputs,
        },
    )
    booster = Booster(model_str=text)
    if model.best_iteration is not None:
        booster.best_iteration = int(model.iteration_indptr[model.best_iteration + 1])
    return booster


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not name or _UNSAFE & set(name) or any(ord(c) < 33 for c in name):
            raise ValueError(
                f"LightGBM does not take {name!r} as the name of a feature; rename it without "
                "blanks, commas, colons, quotes and brackets"
            )
    if len(set(names)) != len(names):
        raise ValueError("feature names must stay unique when blanks become underscores")


def fold_base_score(model: Ensemble) -> list[Tree]:
    """The trees in float64, the base score in the leaves of the first."""
    base = model.base_score.astype(np.float64)
    trees = [tree.with_values(tree.values.astype(np.float64)) for tree in model.trees]
    if trees:
        trees[0] = trees[0].with_values(base + trees[0].values)
    elif base.any():
        trees = [constant_tree(base)]
    return trees


def constant_tree(value: NDArray[np.float64]) -> Tree:
    """A tree without splits."""
    return Tree(
        feature=np.array([-1], np.int32),
        threshold=np.array([np.nan]),
        default_left=np.array([False]),
        left=np.array([-1], np.int32),
        right=np.array([-1], np.int32),
        leaf=np.zeros(1, np.int32),
        gain=np.zeros(1),
        cover=np.ones(1),
        count=np.ones(1, np.int64),
        category_offsets=np.zeros(2, np.int32),
        category_values=np.empty(0, np.int32),
        values=value[None, :],
    )


def _infos(model: Ensemble) -> list[str]:
    """What the text says of features whose data are not known: used or not, and how."""
    infos = ["none"] * model.features.n_features
    for tree in model.trees:
        for j in np.unique(tree.feature[tree.feature >= 0]).tolist():
            infos[j] = "-1:0" if model.features.categorical[j] else "[-1e+300:1e+300]"
    return infos


def model_text(
    trees: Iterable[Tree],
    *,
    names: Sequence[str],
    features: FeatureSpace,
    n_outputs: int,
    objective: str | None,
    infos: Sequence[str],
    params: Mapping[str, Any],
) -> str:
    """A whole model. Sizes of trees are left out: wrong ones would end the process."""
    lines = [
        "tree",
        "version=v4",
        f"num_class={n_outputs}",
        f"num_tree_per_iteration={n_outputs}",
        "label_index=0",
        f"max_feature_idx={len(names) - 1}",
        *([f"objective={objective}"] if objective else []),
        "feature_names=" + " ".join(names),
        "feature_infos=" + " ".join(infos),
        "",
    ]
    for t, tree in enumerate(trees):
        structure = _Structure.of(tree, features)
        for k in range(n_outputs):
            lines += [f"Tree={t * n_outputs + k}", *structure.block(tree, k), "", ""]
    lines += ["end of trees", "", "parameters:"]
    lines += [f"[{name}: {_parameter(value)}]" for name, value in params.items()]
    lines += ["end of parameters", "", "pandas_categorical:null", ""]
    return "\n".join(lines)


def _parameter(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, list | tuple | set | np.ndarray):
        parts = [_parameter(item) for item in value]
        nested = any(isinstance(item, list | tuple | set | np.ndarray) for item in value)
        return ",".join(f"[{part}]" if nested else part for part in parts)
    return str(value).replace("\n", " ")


@dataclass(frozen=True, eq=False)
class _Structure:
    """The lines that the k trees of a vector tree share.

    Attributes
    ----------
    splits : nodes of the tree that split, in the order of the host's numbers.
    leaves : nodes that are leaves, by the number of the leaf.
    weights : (n_nodes,) rows of training data, positive: SHAP values divide by them.
    """

    splits: NDArray[np.int64]
    leaves: NDArray[np.int64]
    weights: NDArray[np.int64]
    lines: list[str]

    @classmethod
    def of(cls, tree: Tree, features: FeatureSpace) -> _Structure:
        splits = np.flatnonzero(tree.feature >= 0)
        leaves = np.flatnonzero(tree.feature < 0)
        leaves = leaves[np.argsort(tree.leaf[leaves])]
        categorical = tree.is_categorical[splits]
        links = np.empty(tree.n_nodes, np.int64)
        links[splits] = np.arange(len(splits))
        links[leaves] = ~tree.leaf[leaves].astype(np.int64)
        weights = _positive_counts(tree, splits, leaves)
        lines = [
            f"num_leaves={tree.n_leaves}",
            f"num_cat={np.count_nonzero(categorical)}",
            "leaf_weight=" + _join(tree.cover[leaves]),
            "leaf_count=" + _join(weights[leaves]),
            "is_linear=0",
            "shrinkage=1",  # leaf values are final
        ]
        if not len(splits):
            return cls(splits, leaves, weights, lines)
        lines += [
            "split_feature=" + _join(tree.feature[splits]),
            "threshold=" + _join(_thresholds(tree, splits, features)),
            "decision_type=" + _join(_decisions(tree, splits, features)),
            "left_child=" + _join(links[tree.left[splits]]),
            "right_child=" + _join(links[tree.right[splits]]),
            "internal_weight=" + _join(tree.cover[splits]),
            "internal_count=" + _join(weights[splits]),
            *_category_lines(tree, splits[categorical]),
        ]
        return cls(splits, leaves, weights, lines)

    def block(self, tree: Tree, k: int) -> list[str]:
        """The lines of class k's tree."""
        values = tree.values[:, k]
        lines = [*self.lines, "leaf_value=" + _join(values)]
        if len(self.splits):
            gain = tree.gain[self.splits] if k == 0 else np.zeros(len(self.splits))
            lines.append("split_gain=" + _join(gain))
            lines.append("internal_value=" + _join(self._internal_values(tree, values)))
        return lines

    def _internal_values(self, tree: Tree, values: NDArray[Any]) -> NDArray[np.float64]:
        """(n_splits,) mean leaf values below each split, weighted by rows."""
        sums = np.zeros(tree.n_nodes)
        sums[self.leaves] = values * self.weights[self.leaves]
        for node in self.splits[::-1].tolist():  # children stand after their parents
            sums[node] = sums[tree.left[node]] + sums[tree.right[node]]
        return np.asarray(sums[self.splits] / self.weights[self.splits])


def _join(values: NDArray[Any]) -> str:
    return " ".join(map(repr, values.tolist()))


def _positive_counts(
    tree: Tree, splits: NDArray[np.int64], leaves: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Rows of every node; in proportion to the cover where a model does not know them."""
    counts = tree.count.copy()
    if not (counts[leaves] > 0).all():
        cover = tree.cover[leaves]
        total = cover.sum()
        share = cover / total if total > 0 else np.full(len(leaves), 1.0 / len(leaves))
        counts[leaves] = np.maximum(1, np.rint(share * 1e6)).astype(np.int64)
    for node in splits[::-1].tolist():
        counts[node] = counts[tree.left[node]] + counts[tree.right[node]]
    return counts


def _thresholds(tree: Tree, splits: NDArray[np.int64], features: FeatureSpace) -> NDArray[Any]:
    """(n_splits,) upper bounds of what goes left; the number of the set at a categorical split."""
    threshold = tree.threshold[splits].copy()
    if features.comparison == "<":  # x < c for float32: x is at most the number before c
        with np.errstate(over="ignore"):
            below = np.nextafter(threshold.astype(np.float32), np.float32(-np.inf))
        threshold = np.where(threshold < np.inf, below.astype(np.float64), threshold)
    categorical = tree.is_categorical[splits]
    threshold[categorical] = np.arange(np.count_nonzero(categorical))
    return threshold


def _decisions(tree: Tree, splits: NDArray[np.int64], features: FeatureSpace) -> NDArray[np.int64]:
    bits = np.array([_MISSING_BITS[int(kind)] for kind in features.missing])[tree.feature[splits]]
    bits = bits + _DEFAULT_LEFT * tree.default_left[splits]
    return np.where(tree.is_categorical[splits], _CATEGORICAL + _MISSING_BITS[MISSING_NAN], bits)


def _category_lines(tree: Tree, nodes: NDArray[np.int64]) -> list[str]:
    """Bitmaps of the category codes that go left."""
    if not len(nodes):
        return []
    sets = [
        tree.category_values[tree.category_offsets[node] : tree.category_offsets[node + 1]]
        for node in nodes
    ]
    bitmaps = []
    for codes in sets:
        words = np.zeros(int(codes[-1]) // 32 + 1, np.uint32)
        np.bitwise_or.at(words, codes >> 5, np.uint32(1) << (codes & 31).astype(np.uint32))
        bitmaps.append(words)
    bounds = np.cumsum([0, *map(len, bitmaps)])
    return ["cat_boundaries=" + _join(bounds), "cat_threshold=" + _join(np.concatenate(bitmaps))]
