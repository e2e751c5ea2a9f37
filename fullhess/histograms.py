"""The pool of histograms and the blocks of features that threads work on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .bins import BinnedMatrix
from .curvature import Layout
from .kernels.histogram import GROUP
from .kernels.lanes import new_lanes
from .kernels.splitting import Buffers, new_buffers
from .memory import aligned_empty, aligned_zeros
from .sparse import MOST_CELLS, SparseBlock, find_prevailing

__all__ = ["Block", "HistogramPool", "Scratch", "feature_blocks"]

# Cells of a block stay in the second-level cache until they are searched. Larger blocks are
# fewer tasks, but at 1.7 MB an update took 1.2 times as long as at 0.3 or 0.6 MB.
_BLOCK_BYTES = 600 * 1024


class Scratch(NamedTuple):
    """Buffers of one thread."""

    histogram: NDArray[np.float32]  # (n_cells, width)
    carry: NDArray[np.float64]  # (most cells of a block, width) zeros
    buffers: Buffers
    lanes: NDArray[Any]  # kernels.lanes.new_lanes
    orders: NDArray[np.int32]  # (n_cells,) scanning orders; empty without categories
    places: NDArray[np.uint64]  # (3, d) of ``build_histogram``
    remains: NDArray[np.float64]  # (2, width) of ``build_sparse_histogram``


def feature_blocks(
    features: NDArray[np.int32], cell_offsets: NDArray[np.int64], width: int, n_threads: int
) -> list[NDArray[np.int32]]:
    """Cut the features into blocks of about ``_BLOCK_BYTES`` of cells, of whole groups.

    A cell sums its rows in the same order whatever the block, so that blocks may
    depend on the number of threads.
    """
    if not len(features):
        return []
    cells = (cell_offsets[features + 1] - cell_offsets[features]).astype(np.float64)
    n_bytes = cells.sum() * width * 4
    unit = GROUP if n_bytes / len(features) * GROUP <= 2 * _BLOCK_BYTES else GROUP // 2
    shares = min(n_threads, len(features))
    n_blocks = int(np.ceil(n_bytes / shares / _BLOCK_BYTES))  # of a share
    share = ((np.cumsum(cells) - cells / 2) / cells.sum() * shares).astype(np.int64)
    blocks = []
    for number in range(shares):  # each thread has as much to do, one node at a time too
        part = features[share == number]
        units = -(-len(part) // unit)
        if not units:  # one feature has more cells than a share
            continue
        size = -(-units // max(1, min(n_blocks, units))) * unit
        blocks += [part[first : first + size] for first in range(0, len(part), size)]
    return sorted(blocks, key=len, reverse=True)


class Block(NamedTuple):
    """Features that one thread works on at a time; sparse ones have their own columns."""

    features: NDArray[np.int32]
    sparse: SparseBlock | None = None


class HistogramPool:
    """Histograms of open nodes within a budget, and scratch for the threads.

    Parameters
    ----------
    budget : bytes the histograms of open nodes may take; two are always allowed.
    """

    def __init__(self, binned: BinnedMatrix, layout: Layout, budget: float) -> None:
        self.layout = layout
        self.has_categories = bool(binned.binning.features.categorical.any())
        self.offsets = binned.binning.cell_offsets
        self.shape = (int(self.offsets[-1]), layout.width)
        size = 4 * self.shape[0] * self.shape[1]
        self.capacity = int(np.clip(budget // size, 2, 2**31))
        self.carry_rows = self.shape[0]  # enough for any block
        prevailing = find_prevailing(binned)
        sparse = np.flatnonzero(prevailing >= 0).astype(np.int32)
        cells = np.diff(self.offsets)
        self.sparse = [
            SparseBlock.of(binned, part, prevailing[part])
            for part in feature_blocks(sparse, self.offsets, layout.width, 1)
            if cells[part].sum() <= MOST_CELLS
        ]
        self._is_sparse = np.zeros(binned.n_features, bool)
        for block in self.sparse:
            self._is_sparse[block.features] = True
        self.in_use = 0
        self._histograms: list[NDArray[np.float32]] = []  # (n_cells, width) each
        self._scratch: SimpleQueue[Scratch] = SimpleQueue()

    def blocks(self, features: NDArray[np.int32], n_threads: int) -> list[Block]:
        """Blocks of features for so many threads to work on (see ``fit_scratch``)."""
        dense = features[~self._is_sparse[features]]
        blocks = [
            Block(np.intersect1d(part.features, features).astype(np.int32), part)
            for part in self.sparse
        ]
        blocks = [block for block in blocks if len(block.features)]
        parts = feature_blocks(dense, self.offsets, self.shape[1], n_threads)
        blocks += [Block(part) for part in parts]
        return blocks

    def fit_scratch(self, blocks: list[Block]) -> None:
        """Make scratch as large as these blocks need it."""
        cells = np.diff(self.offsets)
        self.carry_rows = max(
            int(cells[block.features if block.sparse is None else block.sparse.features].sum())
            for block in blocks
        )

    def reset(self) -> NDArray[np.int64]:
        """Addresses of all histograms there are, for a new tree."""
        self.in_use = 0
        return np.array([cells.ctypes.data for cells in self._histograms], np.int64)

    def make(self, n: int) -> NDArray[np.int64]:
        """Addresses of up to n more histograms with undefined content, as the budget allows."""
        n = min(n, self.capacity - len(self._histograms))
        made = [aligned_empty(self.shape, np.float32) for _ in range(n)]
        self._histograms += made
        return np.array([cells.ctypes.data for cells in made], np.int64)

    @contextmanager
    def scratch(self) -> Iterator[Scratch]:
        """Buffers for one task, shared with no other running task."""
        try:
            buffers = self._scratch.get_nowait()
        except Empty:
            buffers = self._new_scratch()
        if len(buffers.carry) < self.carry_rows:
            buffers = buffers._replace(carry=self._new_carry())
        try:
            yield buffers
        finally:
            self._scratch.put(buffers)

    def _new_carry(self) -> NDArray[np.float64]:
        return aligned_zeros((self.carry_rows, self.shape[1]), np.float64)

    def _new_scratch(self) -> Scratch:
        layout = self.layout
        return Scratch(
            aligned_empty(self.shape, np.float32),
            self._new_carry(),
            new_buffers(layout.n_outputs, layout.width),
            new_lanes(layout.code, layout.n_outputs, layout.width),
            np.empty(self.shape[0] if self.has_categories else 0, np.int32),
            np.empty((3, len(self.offsets) - 1), np.uint64),
            np.empty((2, layout.width)),
        )
