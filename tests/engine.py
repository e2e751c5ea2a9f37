"""The engine called with the oracle's settings."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from naive import NaiveParams
from strategies import Problem

import fullhess
from fullhess.leaves import DEFAULT_MAX_RANGE
from fullhess.tree import Tree

_ORACLE_ONLY = ("bound", "max_range")


def oracle_params(params: NaiveParams, objective: str) -> NaiveParams:
    """The oracle's settings for this objective, with the engine's cap on leaves."""
    bound = "range" if objective == "softmax" else "none"
    return replace(params, bound=bound, max_range=DEFAULT_MAX_RANGE)


def engine_params(
    params: NaiveParams, problem: Problem, hessian: str = "full", split_hessian: str = "full"
) -> dict[str, Any]:
    """The oracle's settings in the engine's names."""
    settings = {f.name: getattr(params, f.name) for f in fields(params)}
    settings = {name: value for name, value in settings.items() if name not in _ORACLE_ONLY}
    settings |= {"objective": problem.rows.objective, "n_jobs": 1}
    settings |= {"hessian": hessian, "split_hessian": split_hessian}
    if problem.rows.objective == "softmax":
        settings["num_class"] = problem.k
    return settings


def can_be_split(problem: Problem) -> bool:
    """Training refuses data whose columns are all constant."""
    codes = problem.binned.codes
    return not bool((codes == codes[0]).all())


def boost(
    problem: Problem,
    params: NaiveParams,
    hessian: str = "full",
    split_hessian: str = "full",
    n_rounds: int = 1,
    evals: Any = (),
    callbacks: Any = (),
    **changes: Any,
) -> fullhess.Ensemble:
    """A model that starts from the scores of the problem's rows."""
    rows = problem.rows
    settings = {**engine_params(params, problem, hessian, split_hessian), **changes}
    return fullhess.train(
        settings,
        problem.binned,
        rows.y,
        weight=rows.weight,
        base_margin=rows.raw,
        num_boost_round=n_rounds,
        evals=evals,
        callbacks=callbacks,
    )


def one_tree(problem: Problem, params: NaiveParams, *hessians: str, **changes: Any) -> Tree:
    """The first tree on top of the scores of the problem's rows."""
    return boost(problem, params, *hessians, **changes).trees[0]


def same_tree(a: Tree, b: Tree) -> bool:
    """Whether two trees agree in every bit."""
    pairs = [(getattr(a, f.name), getattr(b, f.name)) for f in fields(a)]
    return all(x.shape == y.shape and np.array_equal(x, y, equal_nan=True) for x, y in pairs)
