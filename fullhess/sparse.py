"""Columns in which one bin prevails, such as the indicators of a one-hot code.

Of such columns only the other bins are written down, row by row. A histogram then adds
a row to the few cells where it differs; the prevailing bin of each column is the rest
of the node's total. Of Covertype's 54 columns 43 are of this kind; a round of depth 8
on 100,000 of its rows took 0.84 of the time. Nothing is lost, whether columns exclude
each other or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .bins import BinnedMatrix

__all__ = ["SparseBlock", "find_prevailing"]

# Share of the prevailing bin from which on skipping it pays: an entry is read through two
# further arrays, and the rest must be subtracted.
LEAST_SHARE = 0.7
MOST_CELLS = 2**16  # of a block
_SAMPLE = 4096  # rows looked at before a column is counted


@dataclass(frozen=True, eq=False)
class SparseBlock:
    """Some columns without their prevailing bins.

    Attributes
    ----------
    features : (f,) int32 ascending.
    prevailing : (f,) int64 cells of the prevailing bins.
    indptr : (n + 1,) int64 slices of ``entries`` of each row.
    entries : (m,) uint16 numbers of cells in ``cells``.
    cells : (c,) int64 the features' histogram cells, no more than ``MOST_CELLS``.
    """

    features: NDArray[np.int32]
    prevailing: NDArray[np.int64]
    indptr: NDArray[np.int64]
    entries: NDArray[np.uint16]
    cells: NDArray[np.int64]

    @classmethod
    def of(
        cls, binned: BinnedMatrix, features: NDArray[np.int32], prevailing: NDArray[np.int64]
    ) -> SparseBlock:
        """prevailing : (f,) the codes to leave out."""
        offsets = binned.binning.cell_offsets
        sizes = offsets[features + 1] - offsets[features]
        first = np.cumsum(sizes) - sizes  # number of each feature's first cell
        cells = np.concatenate(
            [np.arange(offsets[j], offsets[j + 1], dtype=np.int64) for j in features]
        )
        codes = binned.codes[:, features]
        rows, columns = np.nonzero(codes != prevailing)  # row by row
        numbers = first[columns] + codes[rows, columns]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(codes)))])
        return cls(
            features,
            offsets[features] + prevailing,
            indptr.astype(np.int64),
            numbers.astype(np.uint16),
            cells,
        )


def find_prevailing(binned: BinnedMatrix) -> NDArray[np.int64]:
    """(d,) the code of each column's prevailing bin, -1 where none prevails."""
    codes = binned.codes
    n, d = codes.shape
    step = max(1, n // _SAMPLE)
    found = np.full(d, -1, np.int64)
    for j in range(d):
        counts = np.bincount(codes[::step, j])
        if counts.max() < LEAST_SHARE * counts.sum():
            continue
        counts = np.bincount(codes[:, j])
        if counts.max() >= LEAST_SHARE * n:
            found[j] = counts.argmax()
    return found
