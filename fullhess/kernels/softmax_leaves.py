"""Softmax: gradients and Laplacians of leaves at shifted scores.

The rows of a tree's leaves are copied once, class by class in blocks, so that every pass
reads them in order and as they are used: a pass that began by transposing row after row
spent a quarter to a third of its time on that.
"""

from __future__ import annotations

import numpy as np

from .compile import kernel
from .rows import VECTOR, dot, weighted_dots
from .simd import prefetch
from .softmax import (
    BLOCK,
    EXTRA_ROWS,
    OTHERS,
    OWN,
    PREFETCH_ROWS,
    WEIGHT,
    clear_behind,
    exponentiate,
    new_block,
    normalise,
)


@kernel
def _padded(n):
    """Lanes that n rows of a block take in memory."""
    return (n + VECTOR - 1) // VECTOR * VECTOR


@kernel
def packed_size(n, k):
    """Numbers that n rows of a leaf take in ``pack_leaves``."""
    return _padded(n) * (k + 1)


@kernel
def pack_leaves(raw, label, weight, rows, begin, end, place, scores, label_out):
    """Copy runs of rows, block by block: the scores of each class, then the weights.

    Parameters
    ----------
    raw, label, weight : (n, k) scores, (n,) int32 classes and (n,) float64.
    rows : (r,) int32, the rows of all leaves.
    begin, end : (m,) int64 bounds of the runs in ``rows``; a run belongs to one leaf.
    place : (m,) int64 where a run begins in ``scores``.
    scores : float64, output: blocks of (k + 1, lanes); the rows of a block, at most BLOCK,
        are padded with zeros to a multiple of VECTOR lanes.
    label_out : (r,) int32, output in the order of ``rows``.
    """
    k = raw.shape[1]
    last = rows.shape[0] - 1
    for run in range(begin.shape[0]):
        at = place[run]
        for start in range(begin[run], end[run], BLOCK):
            n = min(BLOCK, end[run] - start)
            lanes = _padded(n)
            for r in range(n):
                ahead = np.int64(rows[min(start + r + PREFETCH_ROWS, last)])
                prefetch(raw, ahead * k)
                prefetch(label, ahead)
                prefetch(weight, ahead)
                row = rows[start + r]
                for j in range(k):
                    scores[at + j * lanes + r] = raw[row, j]
                scores[at + k * lanes + r] = weight[row]
                label_out[start + r] = label[row]
            for j in range(k + 1):
                for r in range(n, lanes):
                    scores[at + j * lanes + r] = 0.0
            at += (k + 1) * lanes


@kernel(allocates=True)
def accumulate_leaves(scores, label, begin, end, place, shift, gradient, edges):
    """Gradients and Laplacians of packed runs, each at its shifted scores.

    Parameters
    ----------
    scores, label, begin, end, place : of ``pack_leaves``, for the runs to sum.
    shift : (m, k) float64, added to the scores of a run.
    gradient : (m, k) float64, output.
    edges : (m, k(k-1)/2) float64, output.
    """
    k = shift.shape[1]
    lanes = new_block(k + EXTRA_ROWS)
    sums = np.empty((edges.shape[1], VECTOR))  # of an edge, lane by lane
    for run in range(begin.shape[0]):
        own = label[begin[run] : end[run]]
        accumulate_run(scores, place[run], own, shift[run], lanes, sums, gradient[run], edges[run])


@kernel
def accumulate_run(scores, at, label, shift, lanes, sums, gradient, edges):
    """Gradient (k,) and Laplacian (k(k-1)/2,) of a packed run that begins at ``scores[at]``.

    lanes, sums : scratch, (k + EXTRA_ROWS, BLOCK) and (k(k-1)/2, VECTOR) float64.
    """
    k = shift.shape[0]
    gradient[:] = 0.0
    sums[:, :] = 0.0
    for start in range(0, label.shape[0], BLOCK):
        n = min(BLOCK, label.shape[0] - start)
        _load_block(scores, at, n, shift, lanes)
        exponentiate(lanes, k)
        _accumulate_gradient(lanes, k, n, label[start : start + n], gradient)
        entry = 0
        for i in range(k - 1):
            weighted_dots(lanes, i, k + WEIGHT, i + 1, k - 1 - i, sums, entry)
            entry += k - 1 - i
        at += (k + 1) * _padded(n)
    for e in range(edges.shape[0]):
        total = 0.0
        for lane in range(VECTOR):
            total += sums[e, lane]
        edges[e] = total


@kernel
def _load_block(scores, at, n, shift, lanes):
    """The shifted scores of n packed rows, and their weights; zeros up to BLOCK."""
    k = shift.shape[0]
    padded = _padded(n)
    for j in range(k):
        for r in range(padded):
            lanes[j, r] = scores[at + j * padded + r] + shift[j]
    for r in range(padded):
        lanes[k + WEIGHT, r] = scores[at + k * padded + r]
    clear_behind(lanes, k, n)


@kernel
def _accumulate_gradient(lanes, k, n, label, out):
    """Exponentials become probabilities, and out (k,) grows by the rows' gradients."""
    normalise(lanes, k, n, label)
    for j in range(k):
        out[j] += dot(lanes, j, k + WEIGHT)
    for r in range(n):
        out[label[r]] -= lanes[k + WEIGHT, r] * lanes[k + OTHERS, r]
        lanes[label[r], r] = lanes[k + OWN, r]
