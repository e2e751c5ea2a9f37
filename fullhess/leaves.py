"""Leaf values of a grown tree.

``newton``  one Newton step from zero: the paper's leaf.
``damped``  the same direction, its length from the bound on the loss along it.
``exact``   damped steps on re-evaluated derivatives until nothing moves.

With the ``path`` prior the values of all nodes are tied, child to parent, and a step
is one joint direction; the bound then takes the widest range among the leaves.
Whatever the solver (but ``newton``), the regularised loss of the training rows does
not rise, and shrinking by the learning rate keeps that, since the loss is convex.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .curvature import Layout
from .grower import GrownTree
from .kernels.constraints import constrained_directions
from .kernels.leaves import curvature_along, newton_directions, sweep_path_prior
from .kernels.solve import MAX_RANGE
from .objectives import Objective
from .objectives.base import LeafEvaluator, Sums, split_sums, sum_leaves
from .params import Params
from .threads import Workers
from .tree import Tree

__all__ = ["DEFAULT_MAX_RANGE", "PATH_MAX_OUTPUTS", "LeafProblem", "solve_leaves"]

# Scores up to which a leaf's Hessian is summed and factored; beyond, conjugate gradients
# on products with it are faster (measured with 2000 rows: equal at about 15).
MATRIX_MAX_OUTPUTS = 20
# The path prior ties all nodes through k×k matrices: 127 nodes of 256 scores take 64 MB.
PATH_MAX_OUTPUTS = 256
MAX_STEPS = 200  # a handful is usual; saturated scores have taken close to a hundred
CONVERGED_RANGE = 1e-4  # Newton squares the error: a last step of 1e-4 leaves about 1e-8
DEFAULT_MAX_RANGE = 10.0  # of a leaf's values where neither λ nor max_delta_step bounds them
MAX_HALVINGS = 40
_SUMS_BYTES = 256 * 2**20  # of packed Hessians held at once when leaves are independent


@dataclass(frozen=True, eq=False)
class LeafProblem:
    """Everything that decides the values of one tree's leaves."""

    objective: Objective
    raw: NDArray[Any]
    label: NDArray[Any]
    weight: NDArray[np.float64]
    grown: GrownTree
    split_hessian: str
    params: Params
    workers: Workers

    @property
    def tree(self) -> Tree:
        return self.grown.tree

    @property
    def everything(self) -> NDArray[np.int64]:
        return np.arange(self.tree.n_leaves)

    @cached_property
    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(n_leaves, k) lowest and highest values, for constrained leaves."""
        low, high = self.grown.low, self.grown.high
        if self.params.reg_lambda == 0.0 and self.objective.range_bound:
            return np.maximum(low, -DEFAULT_MAX_RANGE), np.minimum(high, DEFAULT_MAX_RANGE)
        return low, high

    @cached_property
    def evaluator(self) -> LeafEvaluator:
        data = (self.raw, self.label, self.weight)
        return self.objective.leaf_evaluator(*data, self.grown.leaves, self.workers)

    def sums_of(self, hessian: str, exact: bool = False) -> tuple[Layout, Sums]:
        """Sums at zero with some curvature; those of the split search if they fit.

        exact : sums in float64 throughout (the full curvature has them).
        """
        layout = self.objective.layout(hessian)
        if hessian == self.split_hessian and not exact:
            return layout, split_sums(self.grown.sums, layout)
        if hessian == "full":
            start = np.zeros((self.tree.n_leaves, self.tree.n_outputs))
            return layout, self.evaluator.sums(self.everything, start)
        stats = np.zeros((len(self.raw), layout.width), np.float32)
        leaves = self.grown.leaves
        self.objective.write_statistics(
            self.raw, self.label, self.weight, leaves.rows, hessian, stats, self.workers
        )
        return layout, split_sums(sum_leaves(stats, leaves, self.workers), layout)


def solve_leaves(problem: LeafProblem) -> NDArray[np.float64]:
    """(n_leaves, k) values before the learning rate."""
    solver = effective_solver(problem.objective, problem.params)
    if problem.objective.n_outputs > MATRIX_MAX_OUTPUTS and not (
        _is_path(problem) or problem.params.is_constrained
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
    move = _direction(problem, layout, sums, problem.everything, start)
    if not damped:
        return _capped(problem, move.step, only_explicit=True)
    ratio = move.ratio
    if problem.params.hessian != "full":
        ratio = _slope_over_curvature(problem, move)
    values = _damp(problem, problem.everything, start, move.step, ratio)
    if problem.params.monotone_constraints is not None:  # part of a step may miss the bounds
        values = np.clip(values, *problem.bounds)
    return _capped(problem, values)


def _solve_exact(problem: LeafProblem) -> NDArray[np.float64]:
    """Damped Newton steps on re-evaluated derivatives until no leaf moves."""
    n_leaves, k = problem.tree.values.shape
    x = np.zeros((n_leaves, k))
    if problem.params.is_constrained:
        np.clip(x, *problem.bounds, out=x)
    everything = np.arange(n_leaves)
    if _is_path(problem):
        _descend(problem, everything, x)
        return x
    size = max(1, _SUMS_BYTES // (8 * max(1, problem.objective.layout("full").n_curvature)))
    for first in range(0, n_leaves, size):  # leaves are independent
        _descend(problem, everything[first : first + size], x)
    return x


def _descend(problem: LeafProblem, active: NDArray[np.int64], x: NDArray[np.float64]) -> None:
    """Move x[active] to the minimum of the regularised loss.

    The first move may be a guess of the minimum that saves one or two passes over the
    rows. A leaf that has not converged in the end starts again without it, so that its
    value comes from steps which never raise the loss.
    """
    guess = _may_guess(problem)
    left = _iterate(problem, active, x, guess)
    if guess and len(left):
        x[left] = 0.0
        _iterate(problem, left, x, guess=False)


def _may_guess(problem: LeafProblem) -> bool:
    """Where the optimum is finite and inside all bounds."""
    return (
        problem.objective.range_bound
        and not _is_bounded(problem)
        and not _is_path(problem)
        and not problem.params.is_constrained
    )


def _is_bounded(problem: LeafProblem) -> bool:
    """Whether ``_capped`` may have something to do."""
    return problem.params.reg_lambda == 0.0 or problem.params.max_delta_step > 0.0


def _iterate(
    problem: LeafProblem, active: NDArray[np.int64], x: NDArray[np.float64], guess: bool
) -> NDArray[np.int64]:
    """Newton steps until no leaf moves; the leaves that still do.

    The first step may use the float32 statistics of the split search, since the next
    ones repair its rounding; not so where a leaf may meet its bound at once.
    """
    layout = problem.objective.layout("full")
    reuse = problem.split_hessian == "full" and not _is_bounded(problem)
    for step_number in range(MAX_STEPS):
        if step_number == 0 and reuse:
            sums = split_sums(problem.grown.sums[active], layout)
        else:
            sums = problem.evaluator.sums(active, x[active])
        move = _direction(problem, layout, sums, active, x[active])
        if step_number == 0 and guess:
            moved = problem.objective.guess_minimum(move.step)
        else:
            moved = x[active] + _damp(problem, active, x[active], move.step, move.ratio)
        x[active] = _capped(problem, moved)
        inside = (x[active] == moved).all(axis=1)  # what met its bound stays there
        moving = (_spread(problem, move.step) >= CONVERGED_RANGE) & inside
        if _is_path(problem):
            moving[:] = moving.any() and inside.all()
        active = active[moving]
        if len(active) == 0:
            break
    return active


def _is_path(problem: LeafProblem) -> bool:
    return problem.params.leaf_prior == "path" and problem.params.reg_lambda > 0.0


def _spread(problem: LeafProblem, step: NDArray[np.float64]) -> NDArray[np.float64]:
    """(L,) size of each leaf's step: the range where the objective is bounded by it."""
    if problem.objective.range_bound:
        return np.asarray(np.ptp(step, axis=1))
    return np.asarray(np.abs(step).max(axis=1))


@dataclass(frozen=True, eq=False)
class _Move:
    """Directions of leaves.

    step : (L, k). prior : (L,) the penalty's curvature along the step.
    ratio : (L,) minus slope over curvature along the step; 1 for a Newton step.
    """

    step: NDArray[np.float64]
    prior: NDArray[np.float64]
    ratio: NDArray[np.float64]


def _direction(
    problem: LeafProblem,
    layout: Layout,
    sums: Sums,
    active: NDArray[np.int64],
    x: NDArray[np.float64],
) -> _Move:
    """Newton directions of the active leaves at x (L, k).

    With the path prior the curvature is that of the joint direction, the same for all.
    """
    gradient, curvature = sums
    reg_lambda = problem.params.reg_lambda
    ratio = np.ones(len(x))
    if problem.params.is_constrained:
        step, ratio = _constrained_direction(problem, layout, sums, active, x)
        prior = reg_lambda * (step**2).sum(axis=1)
    elif _is_path(problem):
        nodes = _sweep(problem.tree, layout, gradient, curvature, x, reg_lambda)
        step = nodes[problem.tree.leaf >= 0] - x
        energy = reg_lambda * _path_energy(problem.tree, nodes)
        prior = np.full(len(step), energy)  # used from x = 0 only, where step = z
    else:
        step = np.empty_like(gradient)
        _over_leaves(
            problem,
            len(step),
            lambda part: newton_directions(
                layout.code, gradient[part], curvature[part], x[part], reg_lambda, step[part]
            ),
        )
        prior = reg_lambda * (step**2).sum(axis=1)
    with np.errstate(invalid="ignore"):
        lost = ~(np.ptp(step, axis=1) < MAX_RANGE)  # beyond floating point: no step
    step[lost] = 0.0
    return _Move(step, prior, ratio)


def _over_leaves(problem: LeafProblem, n_leaves: int, task: Callable[[slice], None]) -> None:
    """Call ``task`` on slices of the leaves, in parallel where k×k systems are large."""
    n_tasks = problem.workers.n_threads if problem.objective.n_outputs > 16 else 1
    ends = np.linspace(0, n_leaves, n_tasks + 1).astype(np.int64)
    problem.workers.run(n_tasks, lambda t: task(slice(ends[t], ends[t + 1])))


def _constrained_direction(
    problem: LeafProblem,
    layout: Layout,
    sums: Sums,
    active: NDArray[np.int64],
    x: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps to the minima of the penalised models inside the bounds, and their ratios."""
    gradient, curvature = sums
    params = problem.params
    low, high = (bound[active] for bound in problem.bounds)
    step = np.empty_like(x)
    slope, second = np.empty(len(x)), np.empty(len(x))
    _over_leaves(
        problem,
        len(x),
        lambda part: constrained_directions(
            layout.code, gradient[part], curvature[part], x[part], params.reg_lambda,
            params.reg_alpha, low[part], high[part], step[part], slope[part], second[part],
        ),
    )  # fmt: skip
    return step, _ratio(slope, second)


def _ratio(slope: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """slope / second where the step goes down, else 0."""
    uphill = ~((slope > 0.0) & (second > 0.0))
    return np.where(uphill, 0.0, slope / np.where(uphill, 1.0, second))


def _sweep(
    tree: Tree,
    layout: Layout,
    gradient: NDArray[np.float64],
    curvature: NDArray[np.float64],
    x: NDArray[np.float64],
    reg_lambda: float,
) -> NDArray[np.float64]:
    """(n_nodes, k) values of all nodes under the path prior."""
    nodes = np.empty((tree.n_nodes, x.shape[1]))
    sweep_path_prior(
        layout.code, _parents(tree), tree.leaf, gradient, curvature, x, reg_lambda, nodes
    )
    return nodes


def _parents(tree: Tree) -> NDArray[np.int32]:
    parent = np.full(tree.n_nodes, -1, np.int32)
    split = np.flatnonzero(tree.feature >= 0)
    parent[tree.left[split]] = parent[tree.right[split]] = split
    return parent


def _path_energy(tree: Tree, nodes: NDArray[np.float64]) -> float:
    """Σ_v ‖z_v - z_parent‖²."""
    parent = _parents(tree)[1:]
    return float(((nodes[1:] - nodes[parent]) ** 2).sum() + (nodes[0] ** 2).sum())


def _slope_over_curvature(problem: LeafProblem, move: _Move) -> NDArray[np.float64]:
    """(L,) -f'/f'' of the true regularised loss along steps of a stand-in curvature."""
    step = move.step
    layout = problem.objective.layout("full")
    gradient, curvature = problem.evaluator.sums(problem.everything, np.zeros_like(step))
    slope = -(gradient * step).sum(axis=1) - problem.params.reg_alpha * np.abs(step).sum(axis=1)
    second = np.array(
        [curvature_along(layout.code, c, s) for c, s in zip(curvature, step, strict=True)]
    )
    if _is_path(problem):
        slope = np.full_like(slope, slope.sum())
        second = np.full_like(second, second.sum())
    return _ratio(slope, second + move.prior)


def _damp(
    problem: LeafProblem,
    active: NDArray[np.int64],
    x: NDArray[np.float64],
    step: NDArray[np.float64],
    ratio: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The part of each leaf's step that is certain not to raise the loss."""
    if not problem.objective.range_bound:
        return _backtrack(problem, active, x, step)
    beta = np.ptp(step, axis=1)
    if _is_path(problem):
        beta = np.full_like(beta, beta.max())
    safe = np.maximum(beta, 1e-12)
    length = np.where(beta > 1e-12, np.log1p(safe * ratio) / safe, ratio)
    if problem.params.is_constrained:
        length = np.minimum(length, 1.0)  # the model knows the bounds up to here
    return np.asarray(step * length[:, None])


def _backtrack(
    problem: LeafProblem,
    active: NDArray[np.int64],
    x: NDArray[np.float64],
    step: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Halve steps until the true loss does not rise, for objectives without a bound."""
    length = np.ones(len(step))
    before = _regularised(problem, active, x)
    for _ in range(MAX_HALVINGS):
        after = _regularised(problem, active, x + step * length[:, None])
        rises = ~(after <= before)
        if not rises.any():
            return np.asarray(step * length[:, None])
        length[rises] *= 0.5
    length[rises] = 0.0
    return np.asarray(step * length[:, None])


def _regularised(
    problem: LeafProblem, active: NDArray[np.int64], x: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(L,) loss and penalty of each leaf; with the path prior all are the joint total."""
    loss = problem.evaluator.losses(active, x)
    loss = loss + problem.params.reg_alpha * np.abs(x).sum(axis=1)
    reg_lambda = problem.params.reg_lambda
    if not _is_path(problem):
        return np.asarray(loss + 0.5 * reg_lambda * (x**2).sum(axis=1))
    # The prior's energy of given leaf values: the best values of the inner nodes.
    k = x.shape[1]
    stiff = np.full((len(x), k), 1e12 * reg_lambda)
    nodes = _sweep(problem.tree, Layout("diagonal", k), np.zeros_like(x), stiff, x, reg_lambda)
    total = loss.sum() + 0.5 * reg_lambda * _path_energy(problem.tree, nodes)
    return np.full(len(x), total)


def _capped(
    problem: LeafProblem, x: NDArray[np.float64], only_explicit: bool = False
) -> NDArray[np.float64]:
    """Scale values back into their bounds; on the way to zero the loss stays below its start."""
    params = problem.params
    if params.is_constrained:  # its steps end inside the bounds
        return x
    if params.max_delta_step > 0.0:
        size, limit = np.abs(x).max(axis=1), params.max_delta_step
    elif params.reg_lambda == 0.0 and problem.objective.range_bound and not only_explicit:
        size, limit = np.ptp(x, axis=1), DEFAULT_MAX_RANGE
    else:
        return x
    factor = np.where(size > limit, limit / np.maximum(size, limit), 1.0)
    if _is_path(problem):
        factor = np.full_like(factor, factor.min())
    return np.where(factor[:, None] < 1.0, x * factor[:, None], x)
