"""Softmax: statistics rows and losses.

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
from .rows import (
    LANES,
    VECTOR,
    add,
    add_scalar,
    exp_difference,
    fill,
    larger,
    mul,
    mul_scalar,
    reciprocal,
)
from .simd import prefetch
from .tiles import store_tile

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


@kernel(allocates=True)
def write_statistics(raw, label, weight, rows, curvature, out):
    """Statistics rows [1 | w g | w curvature] of some rows.

    Everything is computed class by class over a block of rows and transposed at the end:
    row by row a number at a time it took five times as long.

    Parameters
    ----------
    raw : (n, k) scores.
    label : (n,) int32 classes.
    weight : (n,) float64.
    rows : (m,) int32.
    curvature : FULL or one of the diagonal stand-ins.
    out : (n, width) float32; only the given rows are written, their padding with zeros.
    """
    k = raw.shape[1]
    width = out.shape[1]
    first = k + EXTRA_ROWS  # lanes of the statistics
    lanes = new_block(first + width)
    own = np.empty(BLOCK, np.int32)
    for column in range(width):
        fill(lanes, first + column, first + column, 1.0 if column == 0 else 0.0)
    for start in range(0, rows.shape[0], BLOCK):
        n = min(BLOCK, rows.shape[0] - start)
        for r in range(n):
            row = rows[start + r]
            for j in range(k):
                lanes[j, r] = raw[row, j]
            lanes[k + WEIGHT, r] = weight[row]
            own[r] = label[row]
        clear_behind(lanes, k, n)
        exponentiate(lanes, k)
        if curvature in (UPPER_BOUND, DIAGONAL_EXACT, SCALED_DIAGONAL):
            _sum_others(lanes, k, first + 1 + k)
        normalise(lanes, k, n, own)
        for r in range(n):
            lanes[own[r], r] = lanes[k + OWN, r]
        for j in range(k):
            mul(lanes, first + 1 + j, j, k + WEIGHT)
        _write_curvature(lanes, k, curvature, first + 1)
        for r in range(n):
            residual = lanes[k + WEIGHT, r] * lanes[k + OTHERS, r]
            lanes[first + 1 + own[r], r] = -residual
            if curvature == ABSOLUTE_RESIDUAL:
                lanes[first + 1 + k + own[r], r] = residual
        for lane in range(0, n, VECTOR):
            for column in range(0, width, VECTOR):
                store_tile(lanes, first, lane, column, n, rows, start, out)


@kernel
def _sum_others(lanes, k, target):
    """Rows from ``target`` on become the sums of the exponentials of all other classes.

    What comes before and what comes after: 1 - p would cancel near certainty.
    """
    running = k + OTHERS
    fill(lanes, running, running, 0.0)
    for j in range(k - 1, -1, -1):
        add_scalar(lanes, target + j, running, 0.0)
        add(lanes, running, running, j)
    fill(lanes, running, running, 0.0)
    for j in range(k):
        add(lanes, target + j, target + j, running)
        add(lanes, running, running, j)


@kernel
def _write_curvature(lanes, k, curvature, gradient):
    """The rows after those of the gradient, which hold w p for every class."""
    first = gradient + k
    if curvature == FULL:
        entry = first
        for i in range(k - 1):
            for j in range(i + 1, k):
                mul(lanes, entry, gradient + i, j)
                entry += 1
        return
    scale = k / (k - 1.0) if curvature == SCALED_DIAGONAL else 1.0
    if curvature == UPPER_BOUND:
        scale = 2.0
    for j in range(k):
        if curvature == ABSOLUTE_RESIDUAL:
            add_scalar(lanes, first + j, gradient + j, 0.0)
        else:  # scale · w p · (1 - p)
            mul(lanes, first + j, first + j, k + SCRATCH)
            mul(lanes, first + j, first + j, gradient + j)
            mul_scalar(lanes, first + j, first + j, scale)


@kernel(allocates=True)
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


@kernel(allocates=True, inline="always")  # nobody counts the references of what is returned
def new_block(n_rows):
    """Lanes (n_rows, BLOCK) float64 that begin at a cache line."""
    size = n_rows * BLOCK
    memory = np.empty(size + 8)
    first = (-memory.ctypes.data % 64) // 8
    return memory[first : first + size].reshape(n_rows, BLOCK)


@kernel
def clear_behind(lanes, k, n):
    """Zeros for the scores and weights of lanes that no row uses."""
    for r in range(n, BLOCK):
        for j in range(k):
            lanes[j, r] = 0.0
        lanes[k + WEIGHT, r] = 0.0


@kernel
def exponentiate(lanes, k):
    """Scores become exp(score - the row's largest)."""
    top = k + SCRATCH
    add_scalar(lanes, top, 0, 0.0)
    for j in range(1, k):
        larger(lanes, top, j, top)
    for j in range(k):
        exp_difference(lanes, j, j, top)


@kernel
def normalise(lanes, k, n, label):
    """Exponentials become probabilities, but for those of the rows' own classes.

    A row's own class is set aside (row OWN, zero in its place) while the others are
    summed (row OTHERS, 1 - p_y), see above. Row SCRATCH holds what all were multiplied by.
    """
    own, others, inverse = k + OWN, k + OTHERS, k + SCRATCH
    fill(lanes, own, own, 0.0)
    fill(lanes, others, others, 0.0)
    for r in range(n):
        lanes[own, r] = lanes[label[r], r]
        lanes[label[r], r] = 0.0
    for j in range(k):
        add(lanes, others, others, j)
    add(lanes, inverse, others, own)
    reciprocal(lanes, inverse, inverse, 1e-300)
    mul(lanes, others, others, inverse)
    mul(lanes, own, own, inverse)
    for j in range(k):
        mul(lanes, j, j, inverse)
