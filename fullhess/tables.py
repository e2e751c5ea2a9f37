"""The tables that the kernels of a growing tree work on (``kernels.tables``)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .histograms import Block, HistogramPool
from .kernels.splitting import SPLIT_FIELDS
from .kernels.tables import Chunks, Nodes, Slots
from .sparse import SparseBlock

__all__ = [
    "BlockLists",
    "most_pairs",
    "new_chunks",
    "new_nodes",
    "new_slots",
    "resized",
    "stack_sparse",
]

_MOST_BYTES = 2**26  # of the table of splits; a few nodes are always allowed


def most_pairs(pool: HistogramPool, n_features: int, most_nodes: int) -> int:
    """Pairs of nodes that are searched in one step."""
    bytes_ = 8 * SPLIT_FIELDS * n_features + _marks(pool)
    return max(4, min(most_nodes, _MOST_BYTES // bytes_)) // 2


def _marks(pool: HistogramPool) -> int:
    """Bins that a node marks as left ones, for all features together."""
    return pool.shape[0] if pool.has_categories else 0


def new_slots(pool: HistogramPool, n_features: int, n_pairs: int) -> Slots:
    """Room for so many pairs of nodes."""
    n, k = 2 * n_pairs, pool.layout.n_outputs
    return Slots(
        node=np.zeros(n, np.int64),
        begin=np.zeros(n, np.int64),
        end=np.zeros(n, np.int64),
        histogram=np.zeros(n, np.int64),
        wanted=np.zeros(n, np.bool_),
        subtract=np.zeros(n, np.bool_),
        sums=np.zeros((n, pool.shape[1])),
        center=np.zeros((n, k)),
        low=np.zeros((n, k)),
        high=np.zeros((n, k)),
        score=np.zeros(n),
        seed=np.zeros(n, np.int64),
        allowed=np.zeros((n, n_features), np.uint8),
        left_bins=np.zeros((n, _marks(pool)), np.uint8),
        splits=np.zeros((n, n_features, SPLIT_FIELDS)),
    )


def new_chunks(pool: HistogramPool, n_chunks: int, n_nodes: int) -> Chunks:
    """Room for so many chunks of so many nodes."""
    width = pool.shape[1]
    return Chunks(
        node=np.zeros(n_chunks, np.int64),
        begin=np.zeros(n_chunks, np.int64),
        end=np.zeros(n_chunks, np.int64),
        n_left=np.zeros(n_chunks, np.int64),
        left_to=np.zeros(n_chunks, np.int64),
        right_to=np.zeros(n_chunks, np.int64),
        sums=np.zeros((n_chunks, width)),
        bounds=np.zeros(n_nodes + 1, np.int64),
        feature=np.zeros(n_nodes, np.int64),
        split_bin=np.zeros(n_nodes, np.int64),
        default_left=np.zeros(n_nodes, np.bool_),
        left_bins=np.zeros((n_nodes, _most_bins(pool)), np.uint8),
        node_left=np.zeros(n_nodes, np.int64),
        total=np.zeros((n_nodes, width)),
    )


def _most_bins(pool: HistogramPool) -> int:
    """Bins of a categorical feature, the missing one included."""
    return int(np.diff(pool.offsets).max()) if pool.has_categories else 0


def new_nodes(pool: HistogramPool, n: int) -> Nodes:
    """Room for n nodes."""
    width, k = pool.shape[1], pool.layout.n_outputs
    numbers = ("begin", "end", "depth", "parent", "left", "right", "feature", "histogram")
    lists = ("waiting", "ranking", "batch", "small", "large")
    vectors = ("center", "value", "low", "high")
    same: dict[str, Any] = {name: np.zeros(n, np.int64) for name in numbers + lists}
    same |= {name: np.zeros((n, k)) for name in vectors}
    return Nodes(
        **same,
        wanted=np.zeros(n, np.bool_),
        subtract=np.zeros(n, np.bool_),
        score=np.zeros(n),
        cover=np.zeros(n),
        sums=np.zeros((n, width)),
        split=np.zeros((n, SPLIT_FIELDS)),
        left_bins=np.zeros((n, _most_bins(pool)), np.uint8),
        matrix=np.zeros(width),
        vector=np.zeros(k),
    )


def resized(nodes: Nodes, pool: HistogramPool, n: int) -> Nodes:
    """The same nodes with room for n of them."""
    larger = new_nodes(pool, n)
    for name, old in nodes._asdict().items():
        getattr(larger, name)[: len(old)] = old
    return larger


class BlockLists(NamedTuple):
    """Blocks of features one after the other, as ``Plan`` has them."""

    block_features: NDArray[np.int32]
    block_bounds: NDArray[np.int64]
    block_sparse: NDArray[np.int64]

    @classmethod
    def of(cls, blocks: list[Block], sparse: list[SparseBlock]) -> BlockLists:
        features, bounds = _listed([block.features for block in blocks], np.int32)
        numbers = [-1 if block.sparse is None else sparse.index(block.sparse) for block in blocks]
        return cls(features, bounds, np.array(numbers, np.int64))


def stack_sparse(blocks: list[SparseBlock], n_rows: int) -> dict[str, Any]:
    """Sparse blocks one after the other, as ``Plan`` has them."""
    entries, first = _listed([block.entries for block in blocks], np.uint16)
    indptr = np.zeros((len(blocks), n_rows + 1), np.int64)
    for i, block in enumerate(blocks):
        indptr[i] = block.indptr + first[i]
    cells, cell_bounds = _listed([block.cells for block in blocks], np.int64)
    features, bounds = _listed([block.features for block in blocks], np.int32)
    prevailing, _ = _listed([block.prevailing for block in blocks], np.int64)
    return {
        "sparse_indptr": indptr,
        "sparse_entries": entries,
        "sparse_cells": cells,
        "sparse_cell_bounds": cell_bounds,
        "sparse_features": features,
        "sparse_prevailing": prevailing,
        "sparse_bounds": bounds,
    }


def _listed(parts: list[NDArray[Any]], dtype: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Arrays one after the other, and the bounds of each."""
    bounds = np.cumsum([0, *(len(part) for part in parts)])
    return np.concatenate([np.empty(0, dtype), *parts]), bounds
