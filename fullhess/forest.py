"""Trees ready for the prediction kernels.

``Forest`` walks over raw values. ``BinnedForest`` is the same forest with every
threshold replaced by a bin, for data that are binned already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bins import BinnedMatrix, Binning
from .features import MISSING_NONE, MISSING_ZERO, FeatureSpace, frozen
from .kernels import prediction as kernels
from .threads import Workers
from .tree import Tree
from .tree_arrays import TreeArrays, offsets_of

__all__ = ["BinnedForest", "Forest", "add_tree_on_bins"]

_ROWS_PER_TASK = 8192  # with one tree; a task this long hides the call of a kernel
_MIN_ROWS_PER_TASK = 256
_ADVICE = "bin the data with the model's own cuts, or pass raw data or base_margin"


def _over_rows(workers: Workers, n_rows: int, n_trees: int, task: Callable[[slice], None]) -> None:
    """Call ``task`` with slices of rows that are worth a thread's while."""
    size = max(_MIN_ROWS_PER_TASK, _ROWS_PER_TASK // max(1, n_trees))
    workers.run(-(-n_rows // size), lambda i: task(slice(i * size, (i + 1) * size)))


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees over raw values, ready for the kernels.

    Attributes
    ----------
    features : the input columns.
    splits : FLOAT32_SPLIT or FLOAT64_SPLIT records of all splits.
    roots : (n_trees,) int32 links.
    leaf_offsets : (n_trees + 1,) int64.
    values : (n_leaves, n_outputs).
    category_offsets, category_values : sets of the categorical splits.
    """

    features: FeatureSpace
    splits: NDArray[Any]
    roots: NDArray[np.int32]
    leaf_offsets: NDArray[np.int64]
    values: NDArray[Any]
    category_offsets: NDArray[np.int64]
    category_values: NDArray[np.int32]

    @classmethod
    def of(cls, trees: Sequence[Tree], features: FeatureSpace) -> Forest:
        """The forest of trees that passed ``Tree.check``."""
        arrays = TreeArrays.of(trees)
        split = np.flatnonzero(arrays.feature >= 0)
        links = arrays.links()
        single = features.dtype == np.float32
        splits = np.empty(len(split), kernels.FLOAT32_SPLIT if single else kernels.FLOAT64_SPLIT)
        splits["threshold"] = arrays.threshold[split]
        splits["feature"] = arrays.feature[split]
        splits["left"] = links[arrays.left[split]]
        splits["right"] = links[arrays.right[split]]
        splits["info"] = _numeric_info(
            arrays.threshold[split],
            arrays.default_left[split],
            features.missing[arrays.feature[split]],
            features.comparison == "<",
        )
        set_sizes = arrays.set_sizes[split]
        categorical = set_sizes > 0
        splits["info"][categorical] = ~np.arange(np.count_nonzero(categorical))
        return cls(
            features=features,
            splits=splits,
            roots=links[arrays.node_offsets[:-1]].astype(np.int32),
            leaf_offsets=arrays.leaf_offsets,
            values=arrays.values,
            category_offsets=offsets_of(set_sizes[categorical]),
            category_values=arrays.category_values,
        )

    @property
    def n_trees(self) -> int:
        return len(self.roots)

    def add_values(
        self,
        block: NDArray[Any],
        out: NDArray[Any],
        workers: Workers,
        first: int = 0,
        last: int | None = None,
    ) -> None:
        """Add the values of trees ``first`` to ``last - 1`` to ``out``, in place.

        ``block`` is (n, n_features) in the precision of the feature space,
        ``out`` (n, n_outputs) in that of the leaf values.
        """
        block = self._checked(block)
        _check_margins(out, len(block), self.values)
        roots = self.roots[first:last]

        def task(rows: slice) -> None:
            kernels.add_values(
                block[rows],
                self.splits,
                roots,
                self.values,
                self.category_offsets,
                self.category_values,
                out[rows],
            )

        _over_rows(workers, len(block), len(roots), task)

    def find_leaves(
        self, block: NDArray[Any], workers: Workers, first: int = 0, last: int | None = None
    ) -> NDArray[np.int32]:
        """(n, trees) number of the leaf each row falls in, for a range of trees."""
        block = self._checked(block)
        roots = self.roots[first:last]
        offsets = self.leaf_offsets[:-1][first:last]
        out = np.empty((len(block), len(roots)), np.int32)

        def task(rows: slice) -> None:
            kernels.find_leaves(
                block[rows],
                self.splits,
                roots,
                offsets,
                self.category_offsets,
                self.category_values,
                out[rows],
            )

        _over_rows(workers, len(block), len(roots), task)
        return out

    def on_bins(self, binning: Binning) -> BinnedForest:
        """The same forest with a bin of ``binning`` in place of every threshold.

        Raises ValueError where a row could fall in another leaf than by its raw
        values: the thresholds must be cuts, the categories bins of ``binning``.
        """
        return BinnedForest.of(self, binning)

    def _checked(self, block: NDArray[Any]) -> NDArray[Any]:
        if block.ndim != 2 or block.shape[1] != self.features.n_features:
            raise ValueError(
                f"expected a block of shape (n, {self.features.n_features}), got {block.shape}"
            )
        if block.dtype != self.features.dtype:
            raise TypeError(f"expected a block of {self.features.dtype}, got {block.dtype}")
        return frozen(block)  # one kind of array: Numba compiles read-only ones apart


def _numeric_info(
    threshold: NDArray[np.float64],
    default_left: NDArray[np.bool_],
    missing: NDArray[np.uint8],
    strict: bool,
) -> NDArray[np.int32]:
    """Bits of numeric splits; a column without missing values reads NaN as zero."""
    closed = (threshold == np.inf) | (not strict)
    zero_left = (threshold > 0) | ((threshold == 0) & closed)
    nan_left = np.where(missing == MISSING_NONE, zero_left, default_left)
    return np.asarray(
        nan_left * kernels.NAN_LEFT
        + (missing == MISSING_ZERO) * kernels.ZERO_MISSING
        + closed * kernels.CLOSED,
        np.int32,
    )


def _check_margins(out: NDArray[Any], n_rows: int, values: NDArray[Any]) -> None:
    expected = (n_rows, values.shape[1])
    if out.shape != expected or out.dtype != values.dtype or not out.flags.c_contiguous:
        raise ValueError(
            f"margins must be a contiguous {values.dtype} array of shape {expected}, "
            f"got {out.dtype} of shape {out.shape}"
        )


@dataclass(frozen=True, eq=False)
class BinnedForest:
    """Trees over the bin codes of one ``Binning``, ready for the kernels.

    Attributes
    ----------
    binning : what the codes mean.
    splits : BIN_SPLIT records of all splits.
    roots, leaf_offsets, values : as in ``Forest``.
    words : uint32 bitmaps of the bins that go left at categorical splits.
    """

    binning: Binning
    splits: NDArray[Any]
    roots: NDArray[np.int32]
    leaf_offsets: NDArray[np.int64]
    values: NDArray[Any]
    words: NDArray[np.uint32]

    @classmethod
    def of(cls, forest: Forest, binning: Binning) -> BinnedForest:
        """See ``Forest.on_bins``."""
        source = forest.splits
        feature = source["feature"].astype(np.int64)
        categorical = source["info"] < 0
        _check_same_features(forest.features, binning.features, feature)
        splits = np.empty(len(source), kernels.BIN_SPLIT)
        for name in ("feature", "left", "right"):
            splits[name] = source[name]
        nan_left = source["info"] & kernels.NAN_LEFT != 0
        splits["missing"] = np.where(nan_left, binning.n_bins[feature], kernels.NO_MISSING)
        splits["missing"][categorical] = kernels.CATEGORICAL
        splits["bin"][~categorical] = _bins_of_thresholds(
            binning, feature[~categorical], source["threshold"][~categorical].astype(np.float64)
        )
        words, word_offsets = _left_words(
            binning, feature[categorical], forest.category_offsets, forest.category_values
        )
        splits["bin"][categorical] = word_offsets
        return cls(binning, splits, forest.roots, forest.leaf_offsets, forest.values, words)

    def add_values(
        self,
        binned: BinnedMatrix,
        out: NDArray[Any],
        workers: Workers,
        rows: NDArray[Any] | None = None,
    ) -> None:
        """Add the values of all trees to ``out``, (n_samples, n_outputs), in place.

        ``rows`` are strictly ascending row numbers; None means every row.
        """
        codes = self._checked(binned)
        _check_margins(out, len(codes), self.values)
        if rows is None:
            n_rows = len(codes)

            def task(part: slice) -> None:
                kernels.add_values_on_bins(
                    codes[part], self.splits, self.roots, self.values, self.words, out[part]
                )
        else:
            at = _checked_rows(rows, len(codes))
            n_rows = len(at)

            def task(part: slice) -> None:
                kernels.add_values_on_bins_at(
                    codes, at[part], self.splits, self.roots, self.values, self.words, out
                )

        _over_rows(workers, n_rows, len(self.roots), task)

    def find_leaves(self, binned: BinnedMatrix, workers: Workers) -> NDArray[np.int32]:
        """(n_samples, n_trees) number of the leaf each row falls in."""
        codes = self._checked(binned)
        out = np.empty((len(codes), len(self.roots)), np.int32)

        def task(part: slice) -> None:
            kernels.find_leaves_on_bins(
                codes[part], self.splits, self.roots, self.leaf_offsets, self.words, out[part]
            )

        _over_rows(workers, len(codes), len(self.roots), task)
        return out

    def _checked(self, binned: BinnedMatrix) -> NDArray[Any]:
        if not binned.binning.same_as(self.binning):
            raise ValueError("the data are binned with other cuts than the forest was mapped to")
        return frozen(binned.codes)  # an unpickled array is writable: see Forest._checked


def add_tree_on_bins(
    tree: Tree,
    binned: BinnedMatrix,
    raw: NDArray[Any],
    workers: Workers,
    *,
    rows: NDArray[Any] | None = None,
    scale: float = 1.0,
) -> None:
    """Add the values of one tree to margins in place; the cost is one walk per row.

    Parameters
    ----------
    tree : its thresholds must be cuts of ``binned.binning``.
    binned : n_samples rows.
    raw : (n_samples, n_outputs) margins, dtype of ``tree.values``.
    rows : strictly ascending numbers of the rows to add to; None means all.
    scale : what the leaf values are multiplied with first, in their own dtype.
    """
    if scale != 1.0:
        tree = tree.with_values(tree.values * tree.values.dtype.type(scale))
    forest = Forest.of([tree], binned.binning.features).on_bins(binned.binning)
    forest.add_values(binned, raw, workers, rows)


def _checked_rows(rows: NDArray[Any], n_samples: int) -> NDArray[np.int32]:
    """Row numbers as int32; ascending, so that no two tasks write to one row."""
    rows = np.asarray(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise TypeError(f"rows must be 1-D integers, got {rows.dtype} of shape {rows.shape}")
    if len(rows) and (rows[0] < 0 or rows[-1] >= n_samples or not (rows[1:] > rows[:-1]).all()):
        raise ValueError(f"rows must ascend strictly within 0 to {n_samples - 1}")
    return np.asarray(frozen(rows.astype(np.int32)))


def _check_same_features(model: FeatureSpace, data: FeatureSpace, used: NDArray[Any]) -> None:
    """Raise ValueError where the two read a column that the model uses differently."""
    if model is data:
        return
    if model.n_features != data.n_features:
        raise ValueError(f"expected {model.n_features} features, got {data.n_features}")
    generic = tuple(f"f{j}" for j in range(model.n_features))
    if model.names != data.names and generic not in (model.names, data.names):
        j = next(j for j in range(model.n_features) if model.names[j] != data.names[j])
        raise ValueError(
            f"feature {j} is {model.names[j]!r} in the model and {data.names[j]!r} in the data"
        )
    if model.comparison != data.comparison:
        raise ValueError(
            f"the model compares with {model.comparison!r}, the binned data with "
            f"{data.comparison!r}; {_ADVICE}"
        )
    for what in ("missing", "categorical"):
        differ = getattr(model, what)[used] != getattr(data, what)[used]
        if differ.any():
            name = model.names[int(used[np.argmax(differ)])]
            raise ValueError(
                f"feature {name!r} has another {what!r} setting in the model than in the "
                f"binned data; {_ADVICE}"
            )


def _bins_of_thresholds(
    binning: Binning, feature: NDArray[np.int64], threshold: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The last bin that goes left at each numeric split."""
    edge = _find_edges(binning, feature, threshold)
    all_left = threshold == np.inf
    unknown = (edge < 0) & ~all_left
    if unknown.any():
        at = int(np.argmax(unknown))
        raise ValueError(
            f"the model's thresholds are not cuts of this binning: {float(threshold[at])!r} "
            f"of feature {binning.features.names[feature[at]]!r}; {_ADVICE}"
        )
    bins = (binning.n_bins[feature] - 1).astype(np.int64)
    bins[~all_left] = binning.edge_bins[edge[~all_left]]
    return bins


def _left_words(
    binning: Binning,
    feature: NDArray[np.int64],
    category_offsets: NDArray[np.int64],
    category_values: NDArray[np.int32],
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Bitmaps of the bins that go left at categorical splits, and where each begins.

    A category unknown to the binning would be binned as missing and go right.
    """
    owner = np.repeat(np.arange(len(feature)), np.diff(category_offsets))
    edge = _find_edges(binning, feature[owner], category_values.astype(np.float64))
    if (edge < 0).any():
        at = int(np.argmax(edge < 0))
        raise ValueError(
            "the model's thresholds are not cuts of this binning: it does not know category "
            f"{category_values[at]} of feature {binning.features.names[feature[owner[at]]]!r}; "
            f"{_ADVICE}"
        )
    offsets = offsets_of(binning.n_bins[feature] // 32 + 1)  # a bit for the missing code too
    words = np.zeros(offsets[-1], np.uint32)
    bins = binning.edge_bins[edge]
    np.bitwise_or.at(
        words, offsets[owner] + (bins >> 5), np.uint32(1) << (bins & 31).astype(np.uint32)
    )
    return words, offsets[:-1]


def _find_edges(
    binning: Binning, feature: NDArray[np.int64], value: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Where each value stands among its feature's edges, -1 where it does not.

    One bisection for all values at once: a loop over features would cost more
    than the walk of a small evaluation set.
    """
    low = binning.edge_offsets[feature]
    high = end = binning.edge_offsets[feature + 1]
    edges = np.append(binning.edges, np.nan)  # the last feature's end has an entry too
    while (low < high).any():
        middle = (low + high) >> 1
        below = (edges[middle] < value) & (low < high)
        high = np.where(below, high, np.minimum(middle, high))
        low = np.where(below, middle + 1, low)
    return np.where((low < end) & (edges[low] == value), low, -1)
