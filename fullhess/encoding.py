"""Cuts and categories of columns as the encoding kernels read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .features import FeatureSpace, frozen
from .kernels.binning import SCRATCH_ROWS, encode_categories, encode_numbers

__all__ = ["Encoder"]


@dataclass(frozen=True, eq=False)
class Encoder:
    """Makes the codes of some columns of a matrix.

    All arrays are read-only. It is not to be pickled: its arrays would come back writable,
    for which Numba compiles the kernels anew.

    Attributes
    ----------
    columns : (f,) int64, the column of the matrix behind each column of the codes.
    n_bins : (f,) int32 bins of values; the code of a missing value.
    missing : (f,) uint8 kinds of missing values.
    strict : whether a value equal to a cut has passed it.
    numeric, categorical : int64 numbers of the columns of codes of either kind.
    edges : float64 cuts, or ascending category codes, of all columns end to end.
    edge_bins : int32, the bin each entry of ``edges`` closes (cuts) or names (categories).
    edge_offsets : (f + 1,) int64 slices of ``edges`` and ``edge_bins``.
    cuts : ``edges`` in the precision in which values are compared.
    """

    columns: NDArray[np.int64]
    n_bins: NDArray[np.int32]
    missing: NDArray[np.uint8]
    strict: bool
    numeric: NDArray[np.int64]
    categorical: NDArray[np.int64]
    edges: NDArray[np.float64]
    edge_bins: NDArray[np.int32]
    edge_offsets: NDArray[np.int64]
    cuts: NDArray[Any]

    @classmethod
    def of(
        cls,
        features: FeatureSpace,
        columns: Any,
        cuts: Sequence[NDArray[Any]],
        categories: Sequence[NDArray[np.int32] | None],
    ) -> Encoder:
        """An encoder of these columns; ``cuts`` and ``categories`` have an entry for each.

        Cuts ascend strictly; the codes of categories are unique, each the name of the bin
        of its position.
        """
        columns = np.asarray(columns, np.int64)
        edges: list[NDArray[Any]] = [np.empty(0)]  # there may be no column
        bins: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
        n_bins = np.zeros(len(columns), np.int32)
        for f, (thresholds, codes) in enumerate(zip(cuts, categories, strict=True)):
            if codes is None:
                edges.append(thresholds.astype(np.float64))
                bins.append(np.arange(len(thresholds), dtype=np.int32))
                n_bins[f] = len(thresholds) + 1
            else:
                order = np.argsort(codes).astype(np.int32)
                edges.append(codes[order].astype(np.float64))
                bins.append(order)
                n_bins[f] = len(codes)
        is_categorical = features.categorical[columns]
        every_edge = np.concatenate(edges)
        with np.errstate(over="ignore"):  # the code of a category, which is not read here
            every_cut = every_edge.astype(features.dtype)
        return cls(
            columns=frozen(columns),
            n_bins=frozen(n_bins),
            missing=frozen(features.missing[columns]),
            strict=features.comparison == "<",
            numeric=frozen(np.flatnonzero(~is_categorical)),
            categorical=frozen(np.flatnonzero(is_categorical)),
            edges=frozen(every_edge),
            edge_bins=frozen(np.concatenate(bins)),
            edge_offsets=frozen(np.cumsum([len(entry) for entry in edges]).astype(np.int64)),
            cuts=frozen(every_cut),
        )

    def encode(self, block: NDArray[Any], out: NDArray[Any]) -> bool:
        """Write the codes of a block of rows; whether the dtype of ``out`` can hold them.

        Parameters
        ----------
        block : (n, n_features) from ``FeatureSpace.block``.
        out : (n, f) uint8, uint16 or uint32; undefined where the answer is False.
        """
        widest = np.iinfo(out.dtype).max
        fits = True
        if len(self.numeric):
            fits = encode_numbers(
                block,
                self.columns,
                self.numeric,
                self.cuts,
                self.edge_offsets,
                self.n_bins,
                self.missing,
                self.strict,
                widest,
                np.empty(SCRATCH_ROWS, block.dtype),
                np.empty(SCRATCH_ROWS, np.int64),
                out,
            )
        if len(self.categorical) and fits:
            fits = encode_categories(
                block,
                self.columns,
                self.categorical,
                self.edges,
                self.edge_offsets,
                self.edge_bins,
                self.n_bins,
                widest,
                out,
            )
        return bool(fits)

    def find(self, column: NDArray[np.int64], value: NDArray[np.float64]) -> NDArray[np.int64]:
        """Where each value stands among the edges of its column, -1 where it does not.

        One bisection for all values at once: a loop over columns would cost more
        than the walk of a small evaluation set.
        """
        low = self.edge_offsets[column]
        high = end = self.edge_offsets[column + 1]
        edges = np.append(self.edges, np.nan)  # the last column's end has an entry too
        while (low < high).any():
            middle = (low + high) >> 1
            below = (edges[middle] < value) & (low < high)
            high = np.where(below, high, np.minimum(middle, high))
            low = np.where(below, middle + 1, low)
        return np.where((low < end) & (edges[low] == value), low, -1)
