"""Leaf values of a grown tree.

``newton``  one Newton step from zero: the paper's leaf.
``damped``  the same direction, its length from the bound on the loss along it.
``exact``   damped steps on re-evaluated derivatives until nothing moves.

With the ``path`` prior the values of all nodes are tied, child to parent, and a step
is one joint direction; the bound then takes the widest range among the leaves.
Whatever the solver (but ``newton``), the regularised loss of the training rows does
not rise, and shrinking by the learning rate keeps that, since the loss is convex.

Under an L1 penalty or bounds, a step goes to the minimum of the penalised quadratic
model inside the bounds, and the same holds along it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .leaf_problem import DEFAULT_MAX_RANGE, LeafProblem
from .leaf_steps import (
    MAX_HALVINGS,
    damp,
    direction,
    regularised,
    slope_over_curvature,
    step_size,
)
from .nodes import smoothed
from .objectives import Objective
from .objectives.base import Descent, split_sums
from .params import Params

__all__ = ["PATH_MAX_OUTPUTS", "effective_solver", "solve_leaves"]

# Scores up to which a leaf's Hessian is summed and factored; beyond, conjugate gradients
# on products with it are faster. With 20,000 rows in 64 leaves, milliseconds a tree with the
# matrix and without: k=40 36, 101; k=64 82, 140; k=100 231, 237.
MATRIX_MAX_OUTPUTS = 100
# The path prior ties all nodes through k×k matrices: 127 nodes of 256 scores take 64 MB.
PATH_MAX_OUTPUTS = 256
MAX_STEPS = 200  # a handful is usual; saturated scores have taken close to a hundred
MAX_GUESSES = 30  # steps without a proof of descent, before the leaf starts again with one
CONVERGED_RANGE = 1e-4  # Newton squares the error: a last step of 1e-4 leaves about 1e-8
_SUMS_BYTES = 256 * 2**20  # of packed Hessians held at once when leaves are independent


def solve_leaves(problem: LeafProblem) -> NDArray[np.float64]:
    """(n_leaves, k) values before the learning rate."""
    params = problem.params
    solver = effective_solver(problem.objective, params)
    values = _solve(problem, solver)
    smooth = params.path_smooth > 0.0 and problem.tree.n_leaves > 1
    if smooth:
        count = problem.tree.count[problem.tree.leaf >= 0][:, None]
        values = smoothed(values, problem.grown.above, count, params.path_smooth)
    if solver != "newton" and (smooth or _bounds_leave_zero_out(problem)):
        return _hold_descent(problem, values)
    return values


def _bounds_leave_zero_out(problem: LeafProblem) -> bool:
    if problem.params.monotone_constraints is None:
        return False
    low, high = problem.bounds
    return bool(((low > 0.0) | (high < 0.0)).any())


def _solve(problem: LeafProblem, solver: str) -> NDArray[np.float64]:
    """Values that minimise the loss, before anything is done to them."""
    if problem.objective.n_outputs > MATRIX_MAX_OUTPUTS and not (
        problem.is_path or problem.params.is_constrained
    ):
        values = _solve_by_products(problem, solver)
        if values is not None:
            return values
    if solver == "exact":
        return _solve_exact(problem)
    return _solve_once(problem, damped=solver == "damped")


def effective_solver(objective: Objective, params: Params) -> str:
    """The solver used: one Newton step where more is pointless or impossible.

    The minimum of a quadratic is one step away, and a custom objective without a
    loss function gives nothing to damp by.
    """
    if objective.quadratic or not (objective.range_bound or objective.has_loss):
        return "newton"
    return params.leaf_solver


def _solve_by_products(problem: LeafProblem, solver: str) -> NDArray[np.float64] | None:
    """All leaves without a matrix, where the objective can and its true Hessian is asked for."""
    params = problem.params
    if solver != "exact" and params.hessian != "full":
        return None
    max_size, by_range = params.max_delta_step, False
    if max_size == 0.0 and params.reg_lambda == 0.0 and solver != "newton":
        max_size, by_range = DEFAULT_MAX_RANGE, True
    max_steps = MAX_STEPS if solver == "exact" else 1
    return problem.evaluator.solve_by_products(
        params.reg_lambda, max_steps, solver != "newton", max_size, by_range
    )


def _solve_once(problem: LeafProblem, damped: bool) -> NDArray[np.float64]:
    """One step from zero.

    The promise of a damped step is only as good as its slope: float32 statistics of the
    split search will not do where the true slope is nearly nothing.
    """
    hessian = problem.params.hessian
    layout, sums = problem.sums_of(hessian, exact=damped and hessian == "full")
    start = np.zeros_like(sums[0])
    everything = problem.everything
    move = direction(problem, layout, sums, everything, start)
    if not damped:
        return _capped(problem, everything, move.step, only_explicit=True)
    ratio = move.ratio
    if problem.params.hessian != "full":
        ratio = slope_over_curvature(problem, move)
    values = damp(problem, everything, start, move.step, ratio)
    return _capped(problem, everything, values)


def _solve_exact(problem: LeafProblem) -> NDArray[np.float64]:
    """Damped Newton steps on re-evaluated derivatives until no leaf moves."""
    n_leaves, k = problem.tree.values.shape
    x = np.zeros((n_leaves, k))
    if problem.params.is_constrained:
        np.clip(x, *problem.bounds, out=x)
    active = problem.everything
    if problem.is_path:
        _descend(problem, active, x)
        return x
    if k > MATRIX_MAX_OUTPUTS and problem.params.is_constrained:
        active = active[~_solve_inside(problem, x)]
    size = max(1, _SUMS_BYTES // (8 * max(1, problem.objective.layout("full").n_curvature)))
    for first in range(0, len(active), size):  # leaves are independent
        _descend(problem, active[first : first + size], x)
    return x


def _solve_inside(problem: LeafProblem, x: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Solve the leaves of many scores whose free minimum lies in their box; which they are.

    Without a matrix, and so much faster than what is left to do for the others.
    """
    params = problem.params
    inside: NDArray[np.bool_] = np.zeros(len(x), bool)
    if params.reg_alpha > 0.0 or params.reg_lambda == 0.0:
        return inside
    free = problem.evaluator.solve_by_products(params.reg_lambda, MAX_STEPS, True, 0.0, False)
    if free is not None:
        low, high = problem.bounds
        inside = np.asarray(((free >= low) & (free <= high)).all(axis=1))
        x[inside] = free[inside]
    return inside


def _hold_descent(problem: LeafProblem, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values with a common factor that does not raise the total loss.

    A leaf that is held to its parent's value, or by the bounds of a monotone split above
    it, may lose more than the others gain. A common factor keeps the order of all values.
    """
    everything = problem.everything
    before = regularised(problem, everything, np.zeros_like(values)).sum()
    for _ in range(MAX_HALVINGS):
        if regularised(problem, everything, values).sum() <= before:
            return values
        values = 0.5 * values
    return np.zeros_like(values)


def _descend(problem: LeafProblem, active: NDArray[np.int64], x: NDArray[np.float64]) -> None:
    """Move x[active] to the minimum of the regularised loss.

    Where it can, with steps that guess how a Newton step bends (``guess_minimum``): they
    take about two thirds of the passes over the rows, but none is certain to lower the
    loss. Where they end they end at the minimum, since the loss is convex. A leaf that has
    not converged starts again with steps which never raise the loss.
    """
    if not _may_guess(problem):
        _iterate(problem, active, x, guess=False)
        return
    left = _guess_tied(problem, active, x) if problem.is_path else _guess(problem, active, x)
    if len(left):
        x[left] = 0.0
        _iterate(problem, left, x, guess=False)


def _guess_tied(
    problem: LeafProblem, active: NDArray[np.int64], x: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Solve the leaves of the path prior by guesses; those that have not converged."""
    tree = problem.tree
    ended = problem.evaluator.solve_tied(tree.parents(), tree.leaf, _descent(problem), x)
    if ended is None:
        return _iterate(problem, active, x, guess=True)
    return active[:0] if ended else active


def _guess(
    problem: LeafProblem, active: NDArray[np.int64], x: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The same for leaves that do not depend on each other, some of them one by one."""
    tried = problem.evaluator.solve_whole(active, _descent(problem), x)
    if tried is None:
        return _iterate(problem, active, x, guess=True)
    lost = active[tried[active] & np.isnan(x[active, 0])]
    return np.append(lost, _iterate(problem, active[~tried[active]], x, guess=True))


def _descent(problem: LeafProblem) -> Descent:
    layout = problem.objective.layout(problem.split_hessian)
    first = split_sums(problem.grown.sums, layout)
    reg_lambda = float(problem.params.reg_lambda)
    return Descent(layout, first, reg_lambda, MAX_GUESSES, CONVERGED_RANGE)


def _may_guess(problem: LeafProblem) -> bool:
    """Where the optimum is finite and inside all bounds."""
    return (
        problem.objective.range_bound
        and not problem.is_bounded
        and not problem.params.is_constrained
    )


def _iterate(
    problem: LeafProblem, active: NDArray[np.int64], x: NDArray[np.float64], guess: bool
) -> NDArray[np.int64]:
    """Newton steps until no leaf moves; the leaves that still do.

    The first step may use the float32 statistics of the split search, since the next
    ones repair its rounding; not so where a leaf may meet its bound at once. A guess may
    also start from a diagonal curvature: with 26 classes that saved a third of all passes
    over the rows, with 7 a sixth.
    """
    constrained = problem.params.is_constrained
    first = problem.split_hessian
    reuse = not (problem.is_bounded or constrained) and (guess or first == "full")
    for step_number in range(MAX_GUESSES if guess else MAX_STEPS):
        if len(active) == 0:
            break
        if step_number == 0 and reuse:
            layout = problem.objective.layout(first)
            sums = split_sums(problem.grown.sums[active], layout)
        else:
            layout = problem.objective.layout("full")
            sums = problem.evaluator.sums(active, x[active])
        move = direction(problem, layout, sums, active, x[active])
        if guess:
            moved = x[active] + problem.objective.guess_minimum(move.step)
        else:
            moved = x[active] + damp(problem, active, x[active], move.step, move.ratio)
        moving = step_size(problem, move.step) >= CONVERGED_RANGE
        if constrained:  # where no part of the step goes down, nothing will
            moving &= (moved != x[active]).any(axis=1)
        x[active] = _capped(problem, active, moved)
        if not constrained:  # what met its bound stays there
            inside = (x[active] == moved).all(axis=1)
            moving &= inside
            if problem.is_path:
                moving[:] = moving.any() and inside.all()
        active = active[moving]
    return active


def _capped(
    problem: LeafProblem,
    active: NDArray[np.int64],
    x: NDArray[np.float64],
    only_explicit: bool = False,
) -> NDArray[np.float64]:
    """Values inside their bounds.

    Constrained steps end inside, but for rounding and for the part of a step from zero
    where the bounds leave zero out. Others are scaled back: on the way to zero the loss
    stays below its start.
    """
    params = problem.params
    if params.is_constrained:
        low, high = problem.bounds
        return np.asarray(np.clip(x, low[active], high[active]))
    if params.max_delta_step > 0.0:
        size, limit = np.abs(x).max(axis=1), params.max_delta_step
    elif params.reg_lambda == 0.0 and problem.objective.range_bound and not only_explicit:
        size, limit = np.ptp(x, axis=1), DEFAULT_MAX_RANGE
    else:
        return x
    factor = np.where(size > limit, limit / np.maximum(size, limit), 1.0)
    if problem.is_path:
        factor = np.full_like(factor, factor.min())
    return np.where(factor[:, None] < 1.0, x * factor[:, None], x)
