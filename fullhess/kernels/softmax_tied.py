"""Softmax: the leaves of a tree whose values are tied along it (the path prior).

A step needs the sums of all leaves and one sweep over the tree. The threads stay in this
kernel from step to step (``team``): all of them sum up runs of rows, and between two passes
the leader sweeps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .compile import kernel
from .leaves import sweep_path_prior
from .rows import VECTOR
from .softmax import EXTRA_ROWS, new_block
from .softmax_leaves import accumulate_run, pack_leaves
from .softmax_solve import guess_minimum
from .solve import LAPLACIAN, MAX_RANGE
from .team import CLOSED, DONE, LEFT, SPINS, atomic_add, atomic_load, atomic_store, pause

# ``state``: passes that have been made, whether a pass is under way, and how it all ended.
N_PASSES, RUNNING, CONVERGED = 0, 1, 2
STATE_SIZE = 3


class TiedLeaves(NamedTuple):
    """The leaves of a tree with L leaves, whose rows are cut into m runs."""

    raw: NDArray[Any]  # (n, k) scores
    label: NDArray[np.int32]
    weight: NDArray[np.float64]
    rows: NDArray[np.int32]
    run_leaf: NDArray[np.int64]  # (m,) ascending
    run_begin: NDArray[np.int64]
    run_end: NDArray[np.int64]
    run_place: NDArray[np.int64]  # in ``scores``, see ``pack_leaves``
    scores: NDArray[np.float64]
    own_label: NDArray[np.int32]
    run_gradient: NDArray[np.float64]  # (m, k)
    run_edges: NDArray[np.float64]  # (m, k(k-1)/2)
    gradient: NDArray[np.float64]  # (L, k)
    edges: NDArray[np.float64]  # (L, k(k-1)/2)
    first_layout: int
    first_gradient: NDArray[np.float64]  # (L, k) at zero
    first_curvature: NDArray[np.float64]  # (L, m) at zero, of any layout
    parent: NDArray[np.int32]  # (n_nodes,)
    leaf: NDArray[np.int32]  # (n_nodes,)
    reg_lambda: float
    max_steps: int
    converged_range: float
    matrix: NDArray[np.float64]  # scratch of ``sweep_path_prior``
    message: NDArray[np.float64]
    nodes: NDArray[np.float64]  # (n_nodes, k)
    x: NDArray[np.float64]  # (L, k) output, zeros


@kernel(allocates=True)
def solve_tied_leaves(control, is_leader, state, leaves):
    """Newton steps, each bent by ``guess_minimum``, until no leaf moves any more.

    Enter with ``state`` zero, and again for as long as the answer is False: others have
    been at work, or nothing has been to do, for a while. ``state[CONVERGED]`` then says
    whether the steps came to an end.
    """
    k = leaves.x.shape[1]
    lanes = new_block(k + EXTRA_ROWS)
    sums = np.empty((leaves.edges.shape[1], VECTOR))
    n_runs = leaves.run_leaf.shape[0]
    spins = 0
    while True:
        left = atomic_add(control, LEFT, -1) if atomic_load(control, LEFT) > 0 else 0
        if left > 0:
            _sum_run(left - 1, state[N_PASSES] == 1, leaves, lanes, sums)
            atomic_add(control, DONE, 1)
            spins = 0
            continue
        if is_leader:
            if state[RUNNING] == 0 or atomic_load(control, DONE) == n_runs:
                state[RUNNING] = 0
                if _step(state, leaves):
                    return True
                state[RUNNING] = 1
                state[N_PASSES] += 1
                atomic_store(control, DONE, 0)
                atomic_store(control, LEFT, n_runs)
                continue
        elif atomic_load(control, CLOSED) != 0:
            return True
        spins += 1
        if spins > SPINS:
            return False
        pause()


@kernel(allocates=True)
def _sum_run(run, pack, leaves, lanes, sums):
    """Gradient and Laplacian of a run at the values of its leaf; the first pass copies it."""
    begin, end = leaves.run_begin[run], leaves.run_end[run]
    place = leaves.run_place[run]
    if pack:
        one = slice(run, run + 1)
        pack_leaves(
            leaves.raw, leaves.label, leaves.weight, leaves.rows, leaves.run_begin[one],
            leaves.run_end[one], leaves.run_place[one], leaves.scores, leaves.own_label,
        )  # fmt: skip
    accumulate_run(
        leaves.scores, place, leaves.own_label[begin:end], leaves.x[leaves.run_leaf[run]], lanes,
        sums, leaves.run_gradient[run], leaves.run_edges[run],
    )  # fmt: skip


@kernel
def _step(state, leaves):
    """Move all leaves; whether that was the last time."""
    x, nodes = leaves.x, leaves.nodes
    layout, gradient, curvature = LAPLACIAN, leaves.gradient, leaves.edges
    if state[N_PASSES] == 0:
        layout = leaves.first_layout
        gradient, curvature = leaves.first_gradient, leaves.first_curvature
    else:
        _add_runs(leaves)
    sweep_path_prior(
        layout, leaves.parent, leaves.leaf, gradient, curvature, x, leaves.reg_lambda,
        leaves.matrix, leaves.message, nodes,
    )  # fmt: skip
    widest = 0.0
    for v in range(nodes.shape[0]):
        leaf = leaves.leaf[v]
        if leaf >= 0:
            widest = max(widest, _move(x[leaf], nodes[v], leaves.message))
    state[CONVERGED] = widest < leaves.converged_range
    return state[CONVERGED] != 0 or state[N_PASSES] + 1 >= leaves.max_steps


@kernel
def _move(x, goal, step):
    """Bend the step to ``goal``, take it, and return its range."""
    high, low = -np.inf, np.inf
    for j in range(x.shape[0]):
        step[j] = goal[j] - x[j]
        if not abs(step[j]) < MAX_RANGE:  # beyond floating point: no step
            return 0.0
        high = max(high, step[j])
        low = min(low, step[j])
    guess_minimum(step, goal)
    for j in range(x.shape[0]):
        x[j] += goal[j]
    return high - low


@kernel
def _add_runs(leaves):
    """The sums of the leaves: those of their runs, in their order."""
    gradient, edges = leaves.gradient, leaves.edges
    for run in range(leaves.run_leaf.shape[0]):
        leaf = leaves.run_leaf[run]
        is_first = run == 0 or leaves.run_leaf[run - 1] != leaf
        for j in range(gradient.shape[1]):
            before = 0.0 if is_first else gradient[leaf, j]
            gradient[leaf, j] = before + leaves.run_gradient[run, j]
        for e in range(edges.shape[1]):
            before = 0.0 if is_first else edges[leaf, e]
            edges[leaf, e] = before + leaves.run_edges[run, e]
