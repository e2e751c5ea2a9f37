"""Softmax: whole leaves solved one after the other.

Where the leaves of a tree do not depend on each other, a thread takes one, copies its
rows into the cache and stays there until the leaf's values no longer move: memory is read
once, not once a pass, and no thread waits for another.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import kernel
from .leaves import newton_direction
from .rows import VECTOR
from .softmax import EXTRA_ROWS, new_block
from .softmax_leaves import accumulate_run, pack_leaves, packed_size
from .solve import LAPLACIAN, MAX_RANGE
from .team import atomic_add

LEAST_GUESS = -0.9  # of a step's component, whose logarithm is taken


@kernel
def guess_minimum(step, out):
    """log(1 + step), centred: the minimum itself where all rows of a leaf are alike."""
    mean = 0.0
    for j in range(step.shape[0]):
        out[j] = math.log1p(max(step[j], LEAST_GUESS))
        mean += out[j]
    mean /= step.shape[0]
    for j in range(step.shape[0]):
        out[j] -= mean


@kernel(allocates=True)
def solve_whole_leaves(
    counter, order, raw, label, weight, rows, begin, end, run_rows,
    first_layout, first_gradient, first_curvature, reg_lambda, max_steps, converged_range,
    x, solved,
):  # fmt: skip
    """Newton steps, each bent by ``guess_minimum``, until a leaf moves no more.

    Parameters
    ----------
    counter : int64 control, whose first number says how many leaves have been taken.
    order : (a,) int64 leaves to solve, the one with most rows first.
    raw, label, weight, rows, begin, end : as in ``pack_leaves``, bounds by leaf.
    run_rows : rows that are summed up at a time, a multiple of BLOCK.
    first_layout, first_gradient, first_curvature : (L, k) and (L, m) sums at zero; of
        any layout, since later steps use the true Hessian.
    x : (L, k) float64, output.
    solved : (L,) bool, output: whether the last step's range was below ``converged_range``.
    """
    k = raw.shape[1]
    n_edges = k * (k - 1) // 2
    lanes = new_block(k + EXTRA_ROWS)
    sums = np.empty((n_edges, VECTOR))
    run_gradient, gradient = np.empty(k), np.empty(k)
    run_edges, edges = np.empty(n_edges), np.empty(n_edges)
    packed = np.empty(max(n_edges, first_curvature.shape[1]))
    b, step, moved = np.empty(k), np.empty(k), np.empty(k)
    most = end[order[0]] - begin[order[0]] if order.shape[0] > 0 else 0
    scores = np.empty(packed_size(most, k))
    own = np.empty(most, np.int32)
    zero, whole = np.zeros(1, np.int64), np.zeros(1, np.int64)
    while True:
        taken = atomic_add(counter, 0, 1)
        if taken >= order.shape[0]:
            return
        leaf = order[taken]
        here = rows[begin[leaf] : end[leaf]]
        value = x[leaf]
        value[:] = 0.0
        solved[leaf] = False
        for number in range(max_steps):
            if number == 0:
                m = first_curvature.shape[1]
                newton_direction(
                    first_layout, first_gradient[leaf], first_curvature[leaf], value,
                    reg_lambda, packed[:m], b, step,
                )  # fmt: skip
            else:
                if number == 1:
                    whole[0] = here.shape[0]
                    pack_leaves(raw, label, weight, here, zero, whole, zero, scores, own)
                _sum_runs(
                    scores, own[: here.shape[0]], value, run_rows, lanes, sums,
                    run_gradient, run_edges, gradient, edges,
                )  # fmt: skip
                newton_direction(
                    LAPLACIAN, gradient, edges, value, reg_lambda, packed[:n_edges], b, step
                )
            spread = step.max() - step.min()
            if not spread < MAX_RANGE:  # beyond floating point: no step
                spread = 0.0
                step[:] = 0.0
            guess_minimum(step, moved)
            for j in range(k):
                value[j] += moved[j]
            if spread < converged_range:
                solved[leaf] = True
                break


@kernel
def _sum_runs(scores, label, shift, run_rows, lanes, sums, run_gradient, run_edges, g, edges):
    """Gradient and Laplacian of a packed leaf, run by run in their order."""
    k = shift.shape[0]
    g[:] = 0.0
    edges[:] = 0.0
    at = np.int64(0)
    for start in range(0, label.shape[0], run_rows):
        own = label[start : start + run_rows]
        accumulate_run(scores, at, own, shift, lanes, sums, run_gradient, run_edges)
        for j in range(k):
            g[j] += run_gradient[j]
        for e in range(edges.shape[0]):
            edges[e] += run_edges[e]
        at += packed_size(own.shape[0], k)
