"""Softmax: the leaves of a tree whose values are tied along it (the path prior).

A step needs the sums of the leaves and one sweep over the tree. The threads stay in this
kernel from step to step (``team``): all of them sum up runs of rows, and between two passes
the leader sweeps. A leaf that has hardly moved since its rows were summed up keeps its sums:
its quadratic model still holds there.
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

# ``state``: passes that have been begun, whether one is under way, the runs it sums up, and
# whether no leaf moves any more.
N_PASSES, RUNNING, N_TODO, CONVERGED = 0, 1, 2, 3
STATE_SIZE = 4


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
    at: NDArray[np.float64]  # (L, k) where ``gradient`` and ``edges`` were summed up; zeros
    todo: NDArray[np.int64]  # (m,) runs to sum up
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
    spins = 0
    while True:
        left = atomic_add(control, LEFT, -1) if atomic_load(control, LEFT) > 0 else 0
        if left > 0:
            _sum_run(leaves.todo[left - 1], state[N_PASSES] == 1, leaves, lanes, sums)
            atomic_add(control, DONE, 1)
            spins = 0
            continue
        if is_leader:
            if state[RUNNING] == 0 or atomic_load(control, DONE) == state[N_TODO]:
                state[RUNNING] = 0
                if _step(state, leaves):
                    return True
                state[RUNNING] = 1
                state[N_PASSES] += 1
                atomic_store(control, DONE, 0)
                atomic_store(control, LEFT, state[N_TODO])
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
    nodes = leaves.nodes
    layout, gradient, curvature = LAPLACIAN, leaves.gradient, leaves.edges
    if state[N_PASSES] == 0:
        layout = leaves.first_layout
        gradient, curvature = leaves.first_gradient, leaves.first_curvature
    else:
        _add_runs(state[N_TODO], leaves)
    sweep_path_prior(
        layout, leaves.parent, leaves.leaf, gradient, curvature, leaves.at, leaves.reg_lambda,
        leaves.matrix, leaves.message, nodes,
    )  # fmt: skip
    for v in range(nodes.shape[0]):
        if leaves.leaf[v] >= 0:
            _move(leaves.x[leaves.leaf[v]], nodes[v], leaves.message)
    state[N_TODO] = _list_runs(state[N_PASSES] == 0, leaves)
    state[CONVERGED] = state[N_TODO] == 0
    return state[CONVERGED] != 0 or state[N_PASSES] + 1 >= leaves.max_steps


@kernel
def _move(x, goal, step):
    """Bend the step to ``goal`` and take it."""
    for j in range(x.shape[0]):
        step[j] = goal[j] - x[j]
        if not abs(step[j]) < MAX_RANGE:  # beyond floating point: no step
            return
    guess_minimum(step, goal)
    for j in range(x.shape[0]):
        x[j] += goal[j]


@kernel
def _list_runs(everything, leaves):
    """The runs of leaves that have left the place of their sums; how many there are."""
    n = 0
    for run in range(leaves.run_leaf.shape[0]):
        leaf = leaves.run_leaf[run]
        if everything or _spread(leaves.x[leaf], leaves.at[leaf]) >= leaves.converged_range:
            leaves.todo[n] = run
            n += 1
    return n


@kernel
def _spread(x, at):
    high, low = -np.inf, np.inf
    for j in range(x.shape[0]):
        high = max(high, x[j] - at[j])
        low = min(low, x[j] - at[j])
    return high - low


@kernel
def _add_runs(n_todo, leaves):
    """The sums of the leaves: those of their runs, in their order."""
    gradient, edges = leaves.gradient, leaves.edges
    before = np.int64(-1)
    for i in range(n_todo):
        run = leaves.todo[i]
        leaf = leaves.run_leaf[run]
        if leaf != before:
            for j in range(gradient.shape[1]):
                gradient[leaf, j] = 0.0
                leaves.at[leaf, j] = leaves.x[leaf, j]
            for e in range(edges.shape[1]):
                edges[leaf, e] = 0.0
        before = leaf
        for j in range(gradient.shape[1]):
            gradient[leaf, j] += leaves.run_gradient[run, j]
        for e in range(edges.shape[1]):
            edges[leaf, e] += leaves.run_edges[run, e]
