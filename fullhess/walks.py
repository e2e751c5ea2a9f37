"""Trees over bin codes, as the prediction kernels read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .encoding import Encoder
from .features import MISSING_NONE, FeatureSpace, frozen
from .kernels import prediction as kernels
from .kernels.simd import VECTOR
from .tree_arrays import TreeArrays, offsets_of

__all__ = ["UnknownEdge", "Walks"]


_BLOCK_SCORES = 32768  # 256 KB in float64


class UnknownEdge(LookupError):
    """A threshold that is no cut, or a category that has no bin."""

    def __init__(self, feature: int, value: float) -> None:
        super().__init__(feature, value)
        self.feature = feature
        self.value = value


@dataclass(frozen=True, eq=False)
class Walks:
    """Trees over the codes that one ``Encoder`` makes.

    Attributes
    ----------
    nodes : NODE records of all trees.
    roots, depths : (n_trees,) int32, first node and levels of splits of each tree.
    leaves : (n_nodes,) int32, the row of ``values`` at a leaf.
    leaf_offsets : (n_trees + 1,) int64.
    values : (n_leaves, w), w the next multiple of VECTOR from n_outputs on.
    n_outputs : columns of ``values`` in use.
    words : uint32 bitmaps of the bins that go left at categorical splits.
    """

    nodes: NDArray[Any]
    roots: NDArray[np.int32]
    depths: NDArray[np.int32]
    leaves: NDArray[np.int32]
    leaf_offsets: NDArray[np.int64]
    values: NDArray[Any]
    n_outputs: int
    words: NDArray[np.uint32]

    @classmethod
    def of(cls, arrays: TreeArrays, features: FeatureSpace, encoder: Encoder) -> Walks:
        """Trees over codes.

        Every feature of a split must be among the columns of the encoder, which ascend.
        ``UnknownEdge`` where a row could fall in another leaf than by its raw values.
        """
        split = np.flatnonzero(arrays.feature >= 0)
        column = np.searchsorted(encoder.columns, arrays.feature[split])
        is_set = arrays.set_sizes[split] > 0
        number = split[~is_set]
        low, span = np.empty((2, len(split)), np.uint32)
        low[~is_set], span[~is_set] = _right_codes(
            encoder,
            column[~is_set],
            arrays.threshold[number].astype(features.dtype).astype(np.float64),
            _missing_left(arrays, number, features),
        )
        words, word_offsets = _left_words(encoder, column[is_set], arrays, split[is_set])
        low[is_set], span[is_set] = word_offsets, kernels.IN_SET
        places = arrays.places()
        nodes = np.empty(len(places), kernels.NODE)
        nodes["feature"], nodes["low"], nodes["span"] = 0, kernels.NEVER, 0
        nodes["child"] = np.arange(len(nodes))  # a leaf stays where it is
        at = places[split]
        nodes["feature"][at], nodes["low"][at], nodes["span"][at] = column, low, span
        nodes["child"][at] = places[arrays.left[split]]
        leaves = np.empty(len(places), np.int32)
        leaves[places] = arrays.leaf
        return cls(
            nodes=nodes,
            roots=arrays.node_offsets[:-1].astype(np.int32),
            depths=arrays.depths(),
            leaves=leaves,
            leaf_offsets=arrays.leaf_offsets,
            values=_padded(arrays.values),
            n_outputs=arrays.values.shape[1],
            words=words,
        )

    def add_values(self, codes: NDArray[Any], out: NDArray[Any], trees: slice) -> None:
        """Add the values of some trees to ``out``, (n, n_outputs), for its rows of codes."""
        kernels.add_values(
            *_flat(codes),
            self.nodes,
            self.roots[trees],
            self.depths[trees],
            self.leaves,
            self.values,
            self.words,
            np.empty(kernels.LANES, np.int64),
            np.zeros((self._block_rows, self.values.shape[1]), self.values.dtype),
            out,
        )

    @property
    def _block_rows(self) -> int:
        """Rows whose scores lie in the cache together."""
        rows = min(kernels.BLOCK_ROWS, _BLOCK_SCORES // len(self.values[0]))
        return max(rows // kernels.LANES, 1) * kernels.LANES

    def find_leaves(self, codes: NDArray[Any], out: NDArray[np.int32], trees: slice) -> None:
        """Write the leaf of each row in some trees to ``out``, (n, trees)."""
        kernels.find_leaves(
            *_flat(codes),
            self.nodes,
            self.roots[trees],
            self.depths[trees],
            self.leaves,
            self.leaf_offsets[:-1][trees],
            self.words,
            np.empty(kernels.LANES, np.int64),
            out,
        )


def _flat(codes: NDArray[Any]) -> tuple[NDArray[Any], int, int]:
    """Codes row after row, at least as many rows as walk side by side, and their shape.

    Always read-only: Numba compiles read-only arrays apart. Flat, because a kernel that
    reshapes takes a quarter of a second longer to compile.
    """
    if len(codes) < kernels.LANES:
        padded = np.zeros((kernels.LANES, codes.shape[1]), codes.dtype)
        padded[: len(codes)] = codes
        codes = padded
    return frozen(codes).reshape(-1), *codes.shape


def _padded(values: NDArray[Any]) -> NDArray[Any]:
    n_leaves, n_outputs = values.shape
    padded = np.zeros((n_leaves, -(-n_outputs // VECTOR) * VECTOR), values.dtype)
    padded[:, :n_outputs] = values
    return padded


def _missing_left(
    arrays: TreeArrays, split: NDArray[np.int64], features: FeatureSpace
) -> NDArray[np.bool_]:
    """Whether a missing value goes left; a column that knows none reads NaN as zero."""
    threshold = arrays.threshold[split]
    at_zero = (threshold == 0.0) & (features.comparison == "<=")
    reads_zero = features.missing[arrays.feature[split]] == MISSING_NONE
    return np.where(reads_zero, (threshold > 0.0) | at_zero, arrays.default_left[split])


def _right_codes(
    encoder: Encoder,
    column: NDArray[np.int64],
    threshold: NDArray[np.float64],
    missing_left: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First code that goes right at each numeric split, and how many more do."""
    n_bins = encoder.n_bins[column].astype(np.int64)
    edge = encoder.find(column, threshold)
    all_left = threshold == np.inf  # all that are present
    unknown = (edge < 0) & ~all_left
    if unknown.any():
        at = int(np.argmax(unknown))
        raise UnknownEdge(int(encoder.columns[column[at]]), float(threshold[at]))
    low = n_bins.copy()
    low[~all_left] = encoder.edge_bins[edge[~all_left]] + 1
    span = n_bins - missing_left - low  # the missing code comes last
    nothing = span < 0
    return np.where(nothing, kernels.NEVER, low), np.where(nothing, 0, span)


def _left_words(
    encoder: Encoder, column: NDArray[np.int64], arrays: TreeArrays, split: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Bitmaps of the bins that go left at categorical splits, and where each begins.

    A category unknown to the encoder would be encoded as missing and go right.
    """
    owner = np.repeat(np.arange(len(split)), arrays.set_sizes[split])
    values = arrays.category_values
    edge = encoder.find(column[owner], values.astype(np.float64))
    if (edge < 0).any():
        at = int(np.argmax(edge < 0))
        raise UnknownEdge(int(encoder.columns[column[owner[at]]]), int(values[at]))
    offsets = offsets_of(encoder.n_bins[column] // 32 + 1)  # a bit for the missing code too
    words = np.zeros(offsets[-1], np.uint32)
    bins = encoder.edge_bins[edge]
    bits = np.uint32(1) << (bins & 31).astype(np.uint32)
    np.bitwise_or.at(words, offsets[owner] + (bins >> 5), bits)
    return words, offsets[:-1]
