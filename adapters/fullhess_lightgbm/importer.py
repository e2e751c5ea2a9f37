"""LightGBM's model text as an ensemble of vector trees.

k trees of one structure, as ``export`` writes them, become one vector tree. Other
models stay k trees a round, each with one column of values that is not zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fullhess import Ensemble, FeatureSpace, Tree
from fullhess.features import MISSING_NAN, MISSING_NONE, MISSING_ZERO

__all__ = ["ModelTextError", "from_lightgbm_text"]

_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_KINDS = {0: MISSING_NONE, 4: MISSING_ZERO, 8: MISSING_NAN}
_SHARED = ("split_feature", "threshold", "decision_type", "left_child", "right_child",
           "cat_boundaries", "cat_threshold")  # fmt: skip

Block = dict[str, str]


class ModelTextError(ValueError):
    """A model text that is damaged, or that vector trees cannot express."""


def from_lightgbm_text(text: str) -> Ensemble:
    """The model in the engine's form; its raw scores are the host's, bit for bit.

    Predictions are probabilities for the objective multiclass, else raw scores.
    """
    header, blocks = _parse(text)
    if "average_output" in header:
        raise ModelTextError(
            "a random forest averages its trees, which a sum of trees cannot express; use the "
            "Booster itself"
        )
    try:
        k = int(header["num_tree_per_iteration"])
        names = header["feature_names"].split(" ")
        scalars = [_ScalarTree(block) for block in blocks]
    except (KeyError, ValueError, IndexError, OverflowError) as error:
        raise ModelTextError(f"the model text is damaged: {error!r}") from error
    if k < 1 or len(scalars) % k:
        raise ModelTextError(f"expected {k} trees an iteration, got {len(scalars)} in all")
    features = _feature_space(names, scalars)
    trees: list[Tree] = []
    indptr = [0]
    for first in range(0, len(scalars), k):
        trees += _vector_trees(scalars[first : first + k], features)
        indptr.append(len(trees))
    return Ensemble(
        tuple(trees),
        np.zeros(k),
        features,
        "softmax" if header.get("objective", "").split(" ")[0] == "multiclass" else "identity",
        {"source": "lightgbm", "objective": header.get("objective", "custom")},
        iteration_indptr=np.array(indptr),
    )


def _parse(text: str) -> tuple[Block, list[Block]]:
    """The header and the trees as names and values."""
    lines = iter(text.replace("\r\n", "\n").split("\n"))
    if next(lines, "") != "tree":
        raise ModelTextError("a LightGBM model begins with a line 'tree'")
    header = _read_block(lines)
    blocks = []
    for line in lines:
        if line.startswith("Tree="):
            blocks.append(_read_block(lines))
        elif line == "end of trees":
            return header, blocks
    raise ModelTextError("the model text ends before its trees do")


def _read_block(lines: Iterator[str]) -> Block:
    block = {}
    for line in lines:
        if not line:
            break
        name, _, value = line.partition("=")
        block[name] = value
    return block


class _ScalarTree:
    """The arrays of one of the host's trees."""

    def __init__(self, block: Block) -> None:
        if block.get("is_linear", "0") != "0":
            raise ModelTextError(
                "linear trees have no constant leaves, which vector trees need; use the Booster "
                "itself"
            )
        self.structure = tuple(block.get(name, "") for name in _SHARED)
        self.n_leaves = int(block["num_leaves"])
        n = self.n_leaves - 1
        self.values = _numbers(block["leaf_value"], np.float64, self.n_leaves)
        self.feature = _numbers(block.get("split_feature", ""), np.int64, n)
        self.threshold = _numbers(block.get("threshold", ""), np.float64, n)
        self.decision = _numbers(block.get("decision_type", ""), np.int64, n)
        self.left = _numbers(block.get("left_child", ""), np.int64, n)
        self.right = _numbers(block.get("right_child", ""), np.int64, n)
        self.gain = _numbers(block.get("split_gain", ""), np.float64, n, 0.0)
        self.weight = _numbers(block.get("leaf_weight", ""), np.float64, self.n_leaves, 0.0)
        self.count = _numbers(block.get("leaf_count", ""), np.int64, self.n_leaves, 0)
        self.sets = self._category_sets(block, int(block.get("num_cat", "0")))

    @property
    def categorical(self) -> NDArray[np.bool_]:
        return np.asarray((self.decision & _CATEGORICAL) != 0)

    def _category_sets(self, block: Block, n_sets: int) -> list[NDArray[np.int64]]:
        """Per split the category codes that go left, ascending."""
        bounds = _numbers(block.get("cat_boundaries", ""), np.int64, n_sets + 1, 0)
        words = _numbers(block.get("cat_threshold", ""), np.uint32, int(bounds[-1]))
        sets = []
        for threshold, categorical in zip(self.threshold, self.categorical, strict=True):
            codes = np.empty(0, np.int64)
            if categorical:
                at = int(threshold)
                if not 0 <= at < n_sets:
                    raise IndexError(f"there is no set {at} of categories")
                first, last = bounds[at], bounds[at + 1]
                bits = np.unpackbits(words[first:last].view(np.uint8), bitorder="little")
                codes = np.flatnonzero(bits)
            sets.append(codes)
        return sets

    def order(self) -> list[int]:
        """Splits and ``~leaf`` from the root on, every parent before its children."""
        order = [0 if self.n_leaves > 1 else ~0]
        for link in order:  # grows while it is read
            if link >= 0:
                order += [int(self.left[link]), int(self.right[link])]
            if len(order) > 2 * self.n_leaves - 1:
                raise ValueError("the children of a tree do not form a tree")
        return order


def _numbers(text: str, dtype: Any, n: int, default: Any = None) -> NDArray[Any]:
    values = np.array([dtype(word) for word in text.split()], dtype)
    if not len(values) and default is not None:
        return np.full(n, default, dtype)
    if len(values) != n:
        raise ValueError(f"expected {n} numbers, got {len(values)}")
    return values


def _feature_space(names: list[str], trees: list[_ScalarTree]) -> FeatureSpace:
    """Columns as the splits read them.

    A column that some splits read without missing values and others with NaN as
    missing counts as the latter: the direction of NaN can be written at every split.
    """
    n = len(names)
    kinds: list[set[int]] = [set() for _ in range(n)]
    categorical: list[set[bool]] = [set() for _ in range(n)]
    for tree in trees:
        if len(tree.feature) and (tree.feature.min() < 0 or tree.feature.max() >= n):
            raise ModelTextError(f"a split uses a feature beyond the model's {n}")
        for j, bits in zip(tree.feature.tolist(), tree.decision.tolist(), strict=True):
            categorical[j].add(bool(bits & _CATEGORICAL))
            if not bits & _CATEGORICAL:
                kinds[j].add(_KINDS.get(bits & 12, -1))
    missing = np.zeros(n, np.uint8)
    for j in range(n):
        if len(categorical[j]) > 1:
            raise ModelTextError(f"feature {names[j]!r} is numeric and categorical in one model")
        if -1 in kinds[j] or (MISSING_ZERO in kinds[j] and len(kinds[j]) > 1):
            raise ModelTextError(
                f"feature {names[j]!r} is read with zero as missing in some splits only, which "
                "the engine cannot express; use the Booster itself"
            )
        missing[j] = max(kinds[j], default=MISSING_NAN) if len(kinds[j]) < 2 else MISSING_NAN
    return FeatureSpace.of(
        n, "<=", names=names, missing=missing, categorical=[True in c for c in categorical]
    )


def _vector_trees(group: list[_ScalarTree], features: FeatureSpace) -> list[Tree]:
    """The trees of one iteration: one if they share a structure."""
    k = len(group)
    if len({(tree.structure, tree.n_leaves) for tree in group}) == 1:
        values = np.column_stack([tree.values for tree in group])
        gain = np.sum([tree.gain for tree in group], axis=0)
        return [_vector_tree(group[0], values, gain, features)]
    trees = []
    for column, tree in enumerate(group):
        values = np.zeros((tree.n_leaves, k))
        values[:, column] = tree.values
        trees.append(_vector_tree(tree, values, tree.gain, features))
    return trees


def _vector_tree(
    scalar: _ScalarTree, values: NDArray[np.float64], gain: Any, features: FeatureSpace
) -> Tree:
    try:
        order = scalar.order()
    except (ValueError, IndexError) as error:
        raise ModelTextError(f"the model text is damaged: {error}") from error
    place = {link: at for at, link in enumerate(order)}
    n = len(order)
    links = np.array(order)
    splits, leaves = np.flatnonzero(links >= 0), np.flatnonzero(links < 0)
    of_split, of_leaf = links[splits], ~links[leaves]
    tree: dict[str, NDArray[Any]] = {
        "feature": np.full(n, -1), "threshold": np.full(n, np.nan), "left": np.full(n, -1),
        "right": np.full(n, -1), "leaf": np.full(n, -1), "gain": np.zeros(n),
        "default_left": np.zeros(n, bool), "cover": np.zeros(n), "count": np.zeros(n, np.int64),
    }  # fmt: skip
    tree["feature"][splits] = scalar.feature[of_split]
    numeric = splits[~scalar.categorical[of_split]]
    tree["threshold"][numeric] = scalar.threshold[links[numeric]]
    tree["default_left"][numeric] = _defaults(scalar, features)[links[numeric]]
    for name, children in (("left", scalar.left), ("right", scalar.right)):
        tree[name][splits] = [place[int(link)] for link in children[of_split]]
    tree["leaf"][leaves] = of_leaf
    tree["gain"][splits] = np.asarray(gain)[of_split]
    tree["cover"][leaves] = np.maximum(scalar.weight[of_leaf], 0.0)
    tree["count"][leaves] = np.maximum(scalar.count[of_leaf], 0)
    for node in splits[::-1].tolist():
        for name in ("cover", "count"):
            tree[name][node] = tree[name][tree["left"][node]] + tree[name][tree["right"][node]]
    sets = [scalar.sets[link] if link >= 0 else np.empty(0, np.int64) for link in order]
    return Tree(
        **tree,
        category_offsets=np.cumsum([0, *map(len, sets)]),
        category_values=np.concatenate(sets),
        values=values,
    )


def _defaults(scalar: _ScalarTree, features: FeatureSpace) -> NDArray[np.bool_]:
    """(n_splits,) where NaN goes; as zero does where a split knows no missing values."""
    stated = (scalar.decision & _DEFAULT_LEFT) != 0
    as_zero = (scalar.decision & 12) == 0
    promoted = as_zero & (features.missing[scalar.feature] == MISSING_NAN)
    return np.where(promoted, scalar.threshold >= 0.0, stated)
