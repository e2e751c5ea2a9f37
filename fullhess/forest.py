"""Trees that predict from raw values or from binned data.

The kernels walk on bin codes. ``BinnedForest`` has a bin of a ``Binning`` in place of
every threshold, for data that are binned already. ``Forest`` first encodes raw values by
its own thresholds, which costs less than comparing numbers at every split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bins import BinnedMatrix, Binning
from .encoding import Encoder
from .features import FeatureSpace
from .threads import Workers
from .tree import Tree
from .tree_arrays import TreeArrays
from .walks import UnknownEdge, Walks

__all__ = ["BinnedForest", "Forest", "add_tree_on_bins"]

_MIN_WALKS = 16384  # of a task: fewer would not outweigh the calls around them
_MIN_ROWS = 256  # of a task
_MAX_ROWS = 16384
_TASKS_PER_THREAD = 4  # where there are rows enough, so that all threads end at one time
_ALL = slice(None)
_ADVICE = "bin the data with the model's own cuts, or pass raw data or base_margin"


def _over_rows(
    workers: Workers,
    n_rows: int,
    n_trees: int,
    task: Callable[[slice], None],
    most: int = _MAX_ROWS,
) -> None:
    """Call ``task`` with slices of at most ``most`` rows that are worth a thread's while."""
    least = max(_MIN_ROWS, _MIN_WALKS // max(1, n_trees))
    size = min(most, max(least, -(-n_rows // (_TASKS_PER_THREAD * workers.n_threads))))
    workers.run(-(-n_rows // size), lambda i: task(slice(i * size, (i + 1) * size)))


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees over raw values.

    Attributes
    ----------
    features : the input columns.
    arrays : the trees.
    """

    features: FeatureSpace
    arrays: TreeArrays

    @classmethod
    def of(cls, trees: Sequence[Tree], features: FeatureSpace) -> Forest:
        """The forest of trees that passed ``Tree.check``."""
        return cls(features, TreeArrays.of(trees))

    @cached_property
    def _encoder(self) -> Encoder:
        return _own_encoder(self.arrays, self.features)

    @cached_property
    def _walks(self) -> Walks:
        return Walks.of(self.arrays, self.features, self._encoder)

    def add_values(
        self, matrix: Any, out: NDArray[Any], workers: Workers, trees: slice = _ALL
    ) -> None:
        """Add the values of some trees to ``out``, (n, n_outputs), in place.

        ``matrix`` is what ``FeatureSpace.read`` returned, ``out`` has the dtype of the leaf
        values.
        """
        _check_margins(out, matrix.shape[0], self.arrays.values)

        def task(rows: slice) -> None:
            self._walks.add_values(self._codes(matrix, rows), out[rows], trees)

        self._over_rows(workers, matrix, trees, task)

    def find_leaves(self, matrix: Any, workers: Workers, trees: slice = _ALL) -> NDArray[np.int32]:
        """(n, trees) number of the leaf each row falls in, for some trees."""
        out = np.empty((matrix.shape[0], len(self._walks.roots[trees])), np.int32)

        def task(rows: slice) -> None:
            self._walks.find_leaves(self._codes(matrix, rows), out[rows], trees)

        self._over_rows(workers, matrix, trees, task)
        return out

    def on_bins(self, binning: Binning) -> BinnedForest:
        """The same forest with a bin of ``binning`` in place of every threshold.

        Raises ValueError where a row could fall in another leaf than by its raw
        values: the thresholds must be cuts, the categories bins of ``binning``.
        """
        return BinnedForest.of(self, binning)

    def _codes(self, matrix: Any, rows: slice) -> NDArray[Any]:
        """Codes of some rows, in the narrowest type that holds every code of a column."""
        block = self.features.block(matrix, rows)
        largest = self._encoder.n_bins.max(initial=0)
        dtype = np.uint8 if largest <= 255 else np.uint16 if largest <= 65535 else np.uint32
        codes = np.empty((len(block), len(self._encoder.columns)), dtype)
        self._encoder.encode(block, codes)
        return codes

    def _over_rows(
        self, workers: Workers, matrix: Any, trees: slice, task: Callable[[slice], None]
    ) -> None:
        n_trees = len(self._walks.roots[trees])  # made here, not by all threads at once
        _over_rows(workers, matrix.shape[0], n_trees, task, self.features.rows_per_block)


def _own_encoder(arrays: TreeArrays, features: FeatureSpace) -> Encoder:
    """An encoder of the columns that the trees use, with their thresholds as cuts."""
    split = np.flatnonzero(arrays.feature >= 0)
    columns = np.unique(arrays.feature[split])
    is_set = arrays.set_sizes > 0
    number = split[~is_set[split] & (arrays.threshold[split] != np.inf)]  # inf: all go left
    cuts = _distinct_by(
        columns, arrays.feature[number], arrays.threshold[number].astype(features.dtype)
    )
    owner = np.repeat(arrays.feature, arrays.set_sizes)
    codes = _distinct_by(columns, owner, arrays.category_values)
    categories = [
        codes[f] if is_categorical else None
        for f, is_categorical in enumerate(features.categorical[columns])
    ]
    return Encoder.of(features, columns, cuts, categories)


def _distinct_by(keys: NDArray[Any], key: NDArray[Any], value: NDArray[Any]) -> list[NDArray[Any]]:
    """For each of ``keys``, which ascend, the distinct values that have it, ascending."""
    order = np.lexsort((value, key))
    bounds = np.searchsorted(key[order], keys), np.searchsorted(key[order], keys, side="right")
    parts = (value[order[low:high]] for low, high in zip(*bounds, strict=True))
    return [part[np.append(True, part[1:] != part[:-1])[: len(part)]] for part in parts]


def _check_margins(out: NDArray[Any], n_rows: int, values: NDArray[Any]) -> None:
    expected = (n_rows, values.shape[1])
    if out.shape != expected or out.dtype != values.dtype or not out.flags.c_contiguous:
        raise ValueError(
            f"margins must be a contiguous {values.dtype} array of shape {expected}, "
            f"got {out.dtype} of shape {out.shape}"
        )


@dataclass(frozen=True, eq=False)
class BinnedForest:
    """Trees over the bin codes of one ``Binning``.

    Attributes
    ----------
    binning : what the codes mean.
    values : (n_leaves, n_outputs).
    walks : the trees for the kernels.
    """

    binning: Binning
    values: NDArray[Any]
    walks: Walks

    @classmethod
    def of(cls, forest: Forest, binning: Binning) -> BinnedForest:
        """See ``Forest.on_bins``."""
        arrays = forest.arrays
        used = np.unique(arrays.feature[arrays.feature >= 0])
        _check_same_features(forest.features, binning.features, used)
        try:
            walks = Walks.of(arrays, forest.features, binning.encoder)
        except UnknownEdge as error:
            name = binning.features.names[error.feature]
            what = (
                f"it does not know category {error.value} of feature {name!r}"
                if binning.features.categorical[error.feature]
                else f"{error.value!r} of feature {name!r}"
            )
            raise ValueError(
                f"the model's thresholds are not cuts of this binning: {what}; {_ADVICE}"
            ) from None
        return cls(binning, arrays.values, walks)

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
        at = None if rows is None else _checked_rows(rows, len(codes))

        def task(part: slice) -> None:
            if at is None:
                self.walks.add_values(codes[part], out[part], _ALL)
            else:
                margins = out[at[part]]
                self.walks.add_values(codes[at[part]], margins, _ALL)
                out[at[part]] = margins

        n_rows = len(codes) if at is None else len(at)
        _over_rows(workers, n_rows, len(self.walks.roots), task)

    def find_leaves(self, binned: BinnedMatrix, workers: Workers) -> NDArray[np.int32]:
        """(n_samples, n_trees) number of the leaf each row falls in."""
        codes = self._checked(binned)
        out = np.empty((len(codes), len(self.walks.roots)), np.int32)

        def task(part: slice) -> None:
            self.walks.find_leaves(codes[part], out[part], _ALL)

        _over_rows(workers, len(codes), len(self.walks.roots), task)
        return out

    def _checked(self, binned: BinnedMatrix) -> NDArray[Any]:
        if not binned.binning.same_as(self.binning):
            raise ValueError("the data are binned with other cuts than the forest was mapped to")
        return binned.codes


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


def _checked_rows(rows: NDArray[Any], n_samples: int) -> NDArray[np.int64]:
    """Row numbers; ascending, so that no two tasks write to one row."""
    rows = np.asarray(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise TypeError(f"rows must be 1-D integers, got {rows.dtype} of shape {rows.shape}")
    if len(rows) and (rows[0] < 0 or rows[-1] >= n_samples or not (rows[1:] > rows[:-1]).all()):
        raise ValueError(f"rows must ascend strictly within 0 to {n_samples - 1}")
    return rows.astype(np.int64)


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
