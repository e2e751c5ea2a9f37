"""Hypothesis strategies of small random problems.

Only a seed, sizes and the kinds of things are drawn; NumPy makes the numbers.
Shrinking then moves over few small integers and stays quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from naive import Array, NaiveParams, Objective, Rows, weighted_stats

from fullhess.bins import BinnedMatrix

N_OUTPUTS = (1, 2, 3, 7, 12)
LAMBDAS = (0.0, 1e-6, 1.0, 10.0)
WEIGHTS = ("ones", "integers", "wide")
LABELS = ("uniform", "single", "skewed", "absent", "pure")
SCORES = ("zero", "moderate", "saturated")
COLUMNS = ("normal", "ties", "binary", "constant", "holes", "empty_bins", "few", "many")
CATEGORICAL = ("few", "many")
STAND_INS = ("upper_bound", "absolute_residual", "diagonal", "scaled_diagonal")


def seeds() -> st.SearchStrategy[int]:
    return st.integers(0, 2**32 - 1)


# Builders: a generator and kinds to arrays


def make_weights(rng: np.random.Generator, n: int, kind: str) -> Array:
    """(n,) ones, small integers, or ten orders of magnitude."""
    if kind == "ones":
        return np.ones(n)
    if kind == "integers":
        return rng.integers(1, 6, n).astype(np.float64)
    return np.asarray(10.0 ** rng.uniform(-5, 5, n))


def make_labels(rng: np.random.Generator, n: int, k: int, kind: str) -> Array:
    """(n,) classes: "single" leaves the last class one row, "absent" none."""
    if kind == "pure":
        return np.full(n, int(rng.integers(k)))
    if kind == "skewed":
        return np.asarray(rng.choice(k, n, p=rng.dirichlet(np.full(k, 0.3))))
    if kind == "uniform" or k == 1:
        return np.asarray(rng.integers(0, k, n))
    y = np.asarray(rng.integers(0, k - 1, n))
    if kind == "single":
        y[rng.integers(n)] = k - 1
    return y


def make_scores(rng: np.random.Generator, n: int, k: int, kind: str) -> Array:
    """(n, k) raw scores; "saturated" ones reach probabilities of 1 - 1e-20."""
    spread = {"zero": 0.0, "moderate": 1.0, "saturated": 25.0}[kind]
    return np.asarray(spread * rng.standard_normal((n, k)))


def make_column(rng: np.random.Generator, n: int, kind: str) -> Array:
    """(n,) raw values of one feature; NaN is missing."""
    if kind == "ties":
        return rng.integers(-2, 3, n).astype(np.float64)
    if kind == "binary":
        return rng.integers(0, 2, n).astype(np.float64)
    if kind == "constant":
        return np.full(n, 3.0)
    if kind in CATEGORICAL:
        column = rng.integers(0, 3 if kind == "few" else 9, n) * 2.0 + 1.0
    else:
        column = rng.standard_normal(n)
    if kind in ("holes", *CATEGORICAL) and rng.random() < 0.7:
        column[rng.random(n) < rng.choice([0.1, 0.5])] = np.nan
    return column


def make_binned(
    rng: np.random.Generator, n: int, kinds: Sequence[str], quantiles: bool, max_bins: int
) -> BinnedMatrix:
    """Binned columns of the given kinds, by quantiles or by cuts that come from elsewhere
    (so that bins, also the outer ones, and categories can be empty).
    """
    X = np.column_stack([make_column(rng, n, kind) for kind in kinds])
    categorical = [j for j, kind in enumerate(kinds) if kind in CATEGORICAL]
    if quantiles:
        return BinnedMatrix.from_quantiles(X, max_bins=max_bins, categorical=categorical, n_jobs=1)
    cuts: list[Array] = []
    categories: dict[int, Any] = {}
    for j, kind in enumerate(kinds):
        if kind in CATEGORICAL:
            categories[j] = rng.permutation(np.arange(20))  # even codes are never seen
            cuts.append(np.empty(0))
        else:
            spread = 3.0 if kind == "empty_bins" else 1.0
            drawn = spread * rng.standard_normal(int(rng.integers(1, max_bins)))
            cuts.append(np.unique(drawn.astype(np.float32)))
    comparison = "<" if rng.random() < 0.5 else "<="
    return BinnedMatrix.from_cuts(X, cuts, comparison=comparison, categories=categories, n_jobs=1)


def make_rows(
    rng: np.random.Generator,
    n: int,
    k: int,
    objective: Objective = "softmax",
    weights: str = "ones",
    labels: str = "uniform",
    scores: str = "moderate",
) -> Rows:
    """Rows of a softmax problem (k >= 2) or of a regression with k targets."""
    raw = make_scores(rng, n, k, scores)
    if objective == "softmax":
        y = make_labels(rng, n, k, labels)
    else:
        y = raw[rng.permutation(n)] + rng.standard_normal((n, k))
    return Rows(objective, raw, y, make_weights(rng, n, weights))


# Strategies


@st.composite
def rows_of(
    draw: st.DrawFn,
    objectives: Sequence[Objective] = ("softmax",),
    outputs: Sequence[int] = N_OUTPUTS,
    weights: Sequence[str] = WEIGHTS,
    labels: Sequence[str] = LABELS,
    scores: Sequence[str] = SCORES,
    max_rows: int = 40,
) -> Rows:
    """Rows without features: what a leaf sees. One output means squared error."""
    objective = draw(st.sampled_from(objectives))
    k = draw(st.sampled_from([k for k in outputs if k > 1 or objective != "softmax"]))
    return make_rows(
        np.random.default_rng(draw(seeds())),
        draw(st.integers(1, max_rows)),
        k,
        objective,
        draw(st.sampled_from(weights)),
        draw(st.sampled_from(labels)),
        draw(st.sampled_from(scores)),
    )


def lambdas(minimum: float = 0.0) -> st.SearchStrategy[float]:
    return st.sampled_from([lam for lam in LAMBDAS if lam >= minimum])


@st.composite
def binned_matrices(
    draw: st.DrawFn, n: int, columns: Sequence[str] = COLUMNS, max_features: int = 4
) -> BinnedMatrix:
    kinds = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=max_features))
    rng = np.random.default_rng(draw(seeds()))
    return make_binned(rng, n, kinds, draw(st.booleans()), draw(st.sampled_from([2, 3, 8])))


@dataclass(frozen=True)
class Problem:
    """Features and rows of a training problem."""

    binned: BinnedMatrix
    rows: Rows

    @property
    def k(self) -> int:
        return int(self.rows.raw.shape[1])

    def stats(self, kind: str = "full") -> tuple[Array, Array]:
        """Weighted g (n, k) and H (n, k, k)."""
        return weighted_stats(self.rows, kind)


@st.composite
def problems(
    draw: st.DrawFn,
    objectives: Sequence[Objective] = ("softmax", "squared_error"),
    outputs: Sequence[int] = N_OUTPUTS,
    columns: Sequence[str] = COLUMNS,
    weights: Sequence[str] = WEIGHTS,
    labels: Sequence[str] = LABELS,
    scores: Sequence[str] = SCORES,
    max_rows: int = 60,
    max_features: int = 4,
) -> Problem:
    """A whole training problem of at least two rows."""
    objective = draw(st.sampled_from(objectives))
    k = draw(st.sampled_from([k for k in outputs if k > 1 or objective != "softmax"]))
    n = draw(st.integers(2, max_rows))
    rows = make_rows(
        np.random.default_rng(draw(seeds())),
        n,
        k,
        objective,
        draw(st.sampled_from(weights)),
        draw(st.sampled_from(labels)),
        draw(st.sampled_from(scores)),
    )
    return Problem(draw(binned_matrices(n, columns, max_features)), rows)


@st.composite
def tree_params(draw: st.DrawFn, objective: Objective = "softmax", **fixed: Any) -> NaiveParams:
    """Settings of a tree; keyword arguments fix single ones."""
    drawn = {
        "reg_lambda": draw(lambdas()),
        "min_child_weight": draw(st.sampled_from([0.0, 0.1, 2.0])),
        "min_samples_leaf": draw(st.sampled_from([1, 2, 5])),
        "min_split_gain": draw(st.sampled_from([0.0, 0.01, 1.0])),
        "max_delta_step": draw(st.sampled_from([0.0, 0.3])),
        "reg_alpha": 0.0,
        "split_gain": draw(st.sampled_from(["guaranteed", "quadratic"])),
        "leaf_solver": draw(st.sampled_from(["newton", "damped", "exact"])),
        "leaf_prior": draw(st.sampled_from(["ridge", "path"])),
        "max_depth": draw(st.sampled_from([0, 1, 3])),
        "max_leaves": draw(st.sampled_from([0, 2, 5])),
        "grow_policy": draw(st.sampled_from(["depthwise", "lossguide"])),
        "max_cat_to_onehot": draw(st.sampled_from([1, 4])),
        "learning_rate": draw(st.sampled_from([0.1, 1.0])),
        "bound": "range" if objective == "softmax" else "none",
    }
    return NaiveParams(**{**drawn, **fixed})
