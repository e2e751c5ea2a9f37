"""Softmax: statistics rows, losses, and the sums of a leaf at shifted scores.

Rows are handled in blocks: their scores are copied, shifted by the row's maximum
and exponentiated as one flat array, which vectorises (``_exp_flat``; libm's exp
would not). All probabilities are float64; only finished statistics are rounded to
float32. ``1 - p_y`` is the sum of the other probabilities, so that it keeps its
digits when a row is almost certain.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .rows import LANES, add, add_scalar, dot, exp_difference, fill, larger, mul, reciprocal
from .simd import prefetch

# Curvatures of a statistics row. FULL is the Laplacian layout, the others diagonal.
FULL = 0
UPPER_BOUND = 1  # 2p(1-p)
ABSOLUTE_RESIDUAL = 2  # |p-y|
DIAGONAL_EXACT = 3  # p(1-p)
SCALED_DIAGONAL = 4  # k/(k-1) p(1-p)

PREFETCH_ROWS = 16
BLOCK = LANES  # rows; the block of scores stays in the first-level cache up to k = 50

# Rows of a block of lanes after those of the k classes.
WEIGHT, OWN, OTHERS, SCRATCH = 0, 1, 2, 3
EXTRA_ROWS = 4

_MAGIC = 6755399441055744.0  # 1.5·2^52: adding it rounds to an integer in the low bits
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10


@kernel(fastmath={"contract"})
def _exp_flat(n, values, bits, powers, power_bits):
    """values[:n] = exp(values[:n]) for values <= 0, with a relative error below 1e-14.

    ``bits`` and ``power_bits`` are int64 views of ``values`` and ``powers``.
    """
    for i in range(n):
        x = max(values[i], -700.0)
        power = x * _LOG2_E + _MAGIC
        powers[i] = power
        whole = power - _MAGIC
        r = (x - whole * _LN2_HIGH) - whole * _LN2_LOW
        p = 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        values[i] = p * r + 1.0
    for i in range(n):
        bits[i] += power_bits[i] << 52  # times 2^whole


@kernel
def _load_probabilities(raw, shift, rows, scratch, p, tops):
    """Probabilities of a block of rows at raw + shift.

    Parameters
    ----------
    raw : (n, k) float32 or float64 scores.
    rows : (m,) int32, m <= BLOCK.
    scratch : (2, BLOCK * k) float64.
    p : (BLOCK, k) float64 view of ``scratch[0]``, output.
    tops : (2, BLOCK) float64, output: the row's largest score and sum of exponentials.
    """
    k = raw.shape[1]
    for r in range(rows.shape[0]):
        row = rows[r]
        top = -np.inf
        for j in range(k):
            score = raw[row, j] + shift[j]
            p[r, j] = score
            top = max(top, score)
        for j in range(k):
            p[r, j] -= top
        tops[0, r] = top
    values = scratch[0]
    powers = scratch[1]
    _exp_flat(rows.shape[0] * k, values, values.view(np.int64), powers, powers.view(np.int64))
    for r in range(rows.shape[0]):
        total = 0.0
        for j in range(k):
            total += p[r, j]
        inverse = 1.0 / total
        for j in range(k):
            p[r, j] *= inverse
        tops[1, r] = total


@kernel
def _other_mass(p, y):
    """1 - p[y] as a sum of the others."""
    total = 0.0
    for j in range(p.shape[0]):
        if j != y:
            total += p[j]
    return total


@kernel
def write_statistics(raw, label, weight, rows, curvature, out):
    """Statistics rows [1 | w g | w curvature] of some rows.

    Parameters
    ----------
    raw : (n, k) scores.
    label : (n,) int32 classes.
    weight : (n,) float64.
    rows : (m,) int32.
    curvature : FULL or one of the diagonal stand-ins.
    out : (n, width) float32; only the given rows are written, padding untouched.
    """
    k = raw.shape[1]
    scratch = np.empty((2, BLOCK * k))
    p = scratch[0].reshape(BLOCK, k)
    tops = np.empty((2, BLOCK))
    zero = np.zeros(k)
    scale = k / (k - 1.0) if curvature == SCALED_DIAGONAL else 1.0
    if curvature == UPPER_BOUND:
        scale = 2.0
    for start in range(0, rows.shape[0], BLOCK):
        block = rows[start : start + BLOCK]
        _load_probabilities(raw, zero, block, scratch, p, tops)
        for r in range(block.shape[0]):
            row = block[r]
            y = label[row]
            w = weight[row]
            rest = _other_mass(p[r], y)
            target = out[row]
            target[0] = 1.0
            for j in range(k):
                target[1 + j] = w * p[r, j]
            target[1 + y] = -w * rest
            if curvature == FULL:
                e = 1 + k
                for i in range(k - 1):
                    wp = w * p[r, i]
                    for j in range(i + 1, k):
                        target[e] = wp * p[r, j]
                        e += 1
            elif curvature == ABSOLUTE_RESIDUAL:
                for j in range(k):
                    target[1 + k + j] = abs(target[1 + j])
            else:
                for j in range(k):
                    target[1 + k + j] = scale * w * p[r, j] * (1.0 - p[r, j])
                for j in range(k):  # 1 - p cancels near certainty, right or wrong
                    if p[r, j] > 0.5:
                        target[1 + k + j] = scale * w * p[r, j] * _other_mass(p[r], j)


@kernel
def write_losses(raw, label, first, out):
    """out[i] = -log p_y of row first + i; unweighted."""
    k = raw.shape[1]
    scratch = np.empty((2, BLOCK * k))
    p = scratch[0].reshape(BLOCK, k)
    tops = np.empty((2, BLOCK))
    zero = np.zeros(k)
    rows = np.arange(first, first + out.shape[0])
    for start in range(0, rows.shape[0], BLOCK):
        block = rows[start : start + BLOCK]
        _load_probabilities(raw, zero, block, scratch, p, tops)
        for r in range(block.shape[0]):
            out[start + r] = _row_loss(raw, zero, block[r], label[block[r]], tops, r, p)


@kernel
def _row_loss(raw, shift, row, y, tops, r, p):
    """-log p_y; through log1p of the others' mass where p_y is close to one."""
    if p[r, y] > 0.5:
        return -math.log1p(-_other_mass(p[r], y))
    return math.log(tops[1, r]) + tops[0, r] - (raw[row, y] + shift[y])


@kernel
def pack_rows(raw, label, weight, rows, raw_out, label_out, weight_out):
    """Copy some rows, one after the other, for the passes of the leaf solver."""
    n = rows.shape[0]
    k = raw.shape[1]
    for r in range(n):
        ahead = np.int64(rows[min(r + PREFETCH_ROWS, n - 1)])
        prefetch(raw, ahead * k)
        prefetch(label, ahead)
        prefetch(weight, ahead)
        row = rows[r]
        for j in range(k):
            raw_out[r, j] = raw[row, j]
        label_out[r] = label[row]
        weight_out[r] = weight[row]


@kernel
def accumulate_leaves(raw, label, weight, begin, end, shift, gradient, edges):
    """Gradients and Laplacians of runs of packed rows, each at its shifted scores.

    Parameters
    ----------
    raw, label, weight : packed rows (``pack_rows``).
    begin, end : (m,) int64 bounds of the runs.
    shift : (m, k) float64, added to the scores of a run.
    gradient : (m, k) float64, output.
    edges : (m, k(k-1)/2) float64, output.
    """
    k = raw.shape[1]
    lanes = _new_block(k)
    for run in range(begin.shape[0]):
        g = gradient[run]
        edge = edges[run]
        for j in range(k):
            g[j] = 0.0
        for e in range(edge.shape[0]):
            edge[e] = 0.0
        for start in range(begin[run], end[run], BLOCK):
            n = min(BLOCK, end[run] - start)
            _load_block(raw, weight, start, n, shift[run], lanes)
            _exponentiate(lanes, k)
            _accumulate_gradient(lanes, k, n, label[start : start + n], g)
            e = 0
            for i in range(k - 1):
                mul(lanes, k + SCRATCH, i, k + WEIGHT)
                for j in range(i + 1, k):
                    edge[e] += dot(lanes, k + SCRATCH, j)
                    e += 1


@kernel
def _new_block(k):
    """Lanes (k + EXTRA_ROWS, BLOCK) float64 that begin at a cache line."""
    size = (k + EXTRA_ROWS) * BLOCK
    memory = np.empty(size + 8)
    first = (-memory.ctypes.data % 64) // 8
    return memory[first : first + size].reshape(k + EXTRA_ROWS, BLOCK)


@kernel
def _load_block(raw, weight, start, n, shift, lanes):
    """Scores of n rows, one class after the other, and their weights; zeros up to BLOCK."""
    k = raw.shape[1]
    for r in range(n):
        for j in range(k):
            lanes[j, r] = raw[start + r, j]
        lanes[k + WEIGHT, r] = weight[start + r]
    for r in range(n, BLOCK):
        for j in range(k):
            lanes[j, r] = 0.0
        lanes[k + WEIGHT, r] = 0.0
    for j in range(k):
        add_scalar(lanes, j, j, shift[j])


@kernel
def _exponentiate(lanes, k):
    """Scores become exp(score - the row's largest)."""
    top = k + SCRATCH
    add_scalar(lanes, top, 0, 0.0)
    for j in range(1, k):
        larger(lanes, top, j, top)
    for j in range(k):
        exp_difference(lanes, j, j, top)


@kernel
def _accumulate_gradient(lanes, k, n, label, out):
    """Exponentials become probabilities, and out (k,) grows by the rows' gradients.

    A row's own class is set aside while the others are summed, see above.
    """
    own, others, total = k + OWN, k + OTHERS, k + SCRATCH
    fill(lanes, own, own, 0.0)
    fill(lanes, others, others, 0.0)
    for r in range(n):
        lanes[own, r] = lanes[label[r], r]
        lanes[label[r], r] = 0.0
    for j in range(k):
        add(lanes, others, others, j)
    add(lanes, total, others, own)
    reciprocal(lanes, total, total, 1e-300)
    mul(lanes, others, others, total)
    mul(lanes, own, own, total)
    for j in range(k):
        mul(lanes, j, j, total)
        out[j] += dot(lanes, j, k + WEIGHT)
    for r in range(n):
        out[label[r]] -= lanes[k + WEIGHT, r] * lanes[others, r]
        lanes[label[r], r] = lanes[own, r]
