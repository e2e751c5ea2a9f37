"""One step of leaf values: its direction, and the length that cannot raise the loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .curvature import Layout
from .kernels.constraints import constrained_directions
from .kernels.leaves import curvature_along, newton_directions, sweep_path_prior
from .kernels.solve import MAX_RANGE
from .leaf_problem import LeafProblem
from .objectives.base import Sums
from .tree import Tree

__all__ = ["Move", "damp", "direction", "regularised", "slope_over_curvature", "step_size"]

MAX_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class Move:
    """Directions of leaves.

    step : (L, k). prior : (L,) the penalty's curvature along the step.
    ratio : (L,) minus slope over curvature along the step; 1 for a Newton step.
    """

    step: NDArray[np.float64]
    prior: NDArray[np.float64]
    ratio: NDArray[np.float64]


def direction(
    problem: LeafProblem,
    layout: Layout,
    sums: Sums,
    active: NDArray[np.int64],
    x: NDArray[np.float64],
) -> Move:
    """Newton directions of the active leaves at x (L, k).

    With the path prior the curvature is that of the joint direction, the same for all.
    """
    gradient, curvature = sums
    reg_lambda = problem.params.reg_lambda
    ratio = np.ones(len(x))
    if problem.params.is_constrained:
        step, ratio = _constrained_direction(problem, layout, sums, active, x)
        prior = reg_lambda * (step**2).sum(axis=1)
    elif problem.is_path:
        nodes = _sweep(problem.tree, layout, gradient, curvature, x, reg_lambda)
        step = nodes[problem.tree.leaf >= 0] - x
        energy = reg_lambda * _path_energy(problem.tree, nodes)
        prior = np.full(len(step), energy)  # used from x = 0 only, where step = z
    else:
        step = np.empty_like(gradient)
        problem.over_leaves(
            len(step),
            lambda part: newton_directions(
                layout.code, gradient[part], curvature[part], x[part], reg_lambda, step[part]
            ),
        )
        prior = reg_lambda * (step**2).sum(axis=1)
    with np.errstate(invalid="ignore"):
        lost = ~(np.ptp(step, axis=1) < MAX_RANGE)  # beyond floating point: no step
    step[lost] = 0.0
    return Move(step, prior, ratio)


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
    problem.over_leaves(
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
    k = x.shape[1]
    nodes = np.empty((tree.n_nodes, k))
    scratch = (np.empty((tree.n_nodes + 1) * k * k), np.empty(k))
    sweep_path_prior(
        layout.code, tree.parents(), tree.leaf, gradient, curvature, x, reg_lambda, *scratch, nodes
    )
    return nodes


def _path_energy(tree: Tree, nodes: NDArray[np.float64]) -> float:
    """Σ_v ‖z_v - z_parent‖²; infinite beyond floating point, where no step is taken."""
    parent = tree.parents()[1:]
    with np.errstate(over="ignore"):
        return float(((nodes[1:] - nodes[parent]) ** 2).sum() + (nodes[0] ** 2).sum())


def slope_over_curvature(problem: LeafProblem, move: Move) -> NDArray[np.float64]:
    """(L,) -f'/f'' of the true regularised loss along steps of a stand-in curvature."""
    step = move.step
    layout = problem.objective.layout("full")
    gradient, curvature = problem.evaluator.sums(problem.everything, np.zeros_like(step))
    slope = -(gradient * step).sum(axis=1) - problem.params.reg_alpha * np.abs(step).sum(axis=1)
    second = np.array(
        [curvature_along(layout.code, c, s) for c, s in zip(curvature, step, strict=True)]
    )
    if problem.is_path:
        slope = np.full_like(slope, slope.sum())
        second = np.full_like(second, second.sum())
    return _ratio(slope, second + move.prior)


def step_size(problem: LeafProblem, step: NDArray[np.float64]) -> NDArray[np.float64]:
    """(L,) size of each leaf's step: the range where nothing else of it counts."""
    if problem.objective.range_bound and not problem.params.is_constrained:
        return np.asarray(np.ptp(step, axis=1))
    return np.asarray(np.abs(step).max(axis=1))


def damp(
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
    if problem.is_path:
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
    before = regularised(problem, active, x)
    for _ in range(MAX_HALVINGS):
        after = regularised(problem, active, x + step * length[:, None])
        rises = ~(after <= before)
        if not rises.any():
            return np.asarray(step * length[:, None])
        length[rises] *= 0.5
    length[rises] = 0.0
    return np.asarray(step * length[:, None])


def regularised(
    problem: LeafProblem, active: NDArray[np.int64], x: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(L,) loss and penalty of each leaf; with the path prior all are the joint total."""
    loss = problem.evaluator.losses(active, x)
    loss = loss + problem.params.reg_alpha * np.abs(x).sum(axis=1)
    reg_lambda = problem.params.reg_lambda
    if not problem.is_path:
        return np.asarray(loss + 0.5 * reg_lambda * (x**2).sum(axis=1))
    # The prior's energy of given leaf values: the best values of the inner nodes.
    k = x.shape[1]
    stiff = np.full((len(x), k), 1e12 * reg_lambda)
    nodes = _sweep(problem.tree, Layout("diagonal", k), np.zeros_like(x), stiff, x, reg_lambda)
    total = loss.sum() + 0.5 * reg_lambda * _path_energy(problem.tree, nodes)
    return np.full(len(x), total)
