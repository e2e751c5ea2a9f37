"""The engine called with the oracle's settings."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from naive import Array, NaiveParams, pack
from naive_tree import all_splits, node_value
from strategies import Problem

import fullhess
from fullhess.bins import BinnedMatrix
from fullhess.curvature import Layout, LayoutName
from fullhess.grower import Grower
from fullhess.histograms import Block, HistogramPool, Scratch
from fullhess.kernels.categories import order_categories
from fullhess.kernels.compile import kernel
from fullhess.kernels.histogram import (
    build_histogram,
    build_sparse_histogram,
    row_vectors,
    sum_rows,
)
from fullhess.kernels.nodes import value_node
from fullhess.kernels.rows import VECTOR
from fullhess.kernels.softmax_leaves import pack_leaves
from fullhess.kernels.splitting import SPLIT_FIELDS, find_best_splits
from fullhess.leaf_problem import DEFAULT_MAX_RANGE
from fullhess.params import Params
from fullhess.sampling import ColumnSampler, round_generator
from fullhess.threads import Workers
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


def build_block(
    pool: HistogramPool,
    binned: BinnedMatrix,
    rows: Array,
    stats: Array,
    total: Array,
    block: Block,
    scratch: Scratch,
    out: Array,
) -> None:
    """Histogram of some rows, whose statistics sum to total, in the cells of a block."""
    sparse = block.sparse
    vectors = row_vectors(pool.shape[1])
    if sparse is None:
        build_histogram(
            binned.codes, rows, stats, block.features, pool.offsets, vectors,
            scratch.places, scratch.carry, out,
        )  # fmt: skip
    else:
        build_sparse_histogram(
            sparse.indptr, sparse.entries, sparse.cells, rows, stats, total, sparse.features,
            sparse.prevailing, pool.offsets, vectors, scratch.remains, scratch.carry, out,
        )  # fmt: skip


@kernel
def call_value_node(index, plan, nodes, addresses):
    value_node(index, plan, nodes, addresses)


class Search:
    """One node of all rows, searched with the grower's own buffers and kernels."""

    def __init__(
        self,
        problem: Problem,
        params: NaiveParams,
        layout: LayoutName,
        g: Array,
        H: Array,
        monotone: tuple[int, ...] | None = None,
    ):
        self.problem, self.params, self.g, self.H = problem, params, g, H
        binned, k = problem.binned, problem.k
        settings_ = {**engine_params(params, problem), "max_depth": params.max_depth or 1}
        if layout == "diagonal":
            settings_ |= {"split_hessian": "diagonal", "monotone_constraints": monotone}
        damped = params.split_gain == "guaranteed" and params.bound == "range"
        with Workers(1) as workers:
            self.grower = Grower(binned, Layout(layout, k), Params(**settings_), damped, workers)
        rows = np.arange(binned.n_samples, dtype=np.int32)
        stats = pack(g, H, layout)
        columns = ColumnSampler(binned.n_features, self.grower.params, round_generator(0, 0))
        self.plan = self.grower._plan(stats, rows, columns, -1)
        self.nodes = self.grower.nodes
        self.sums, self.center = self.nodes.sums[0], self.nodes.center[0]
        self.low, self.high = self.nodes.low[0], self.nodes.high[0]
        limit = params.max_delta_step or np.inf
        self.nodes.parent[0], self.low[:], self.high[:] = -1, -limit, limit
        sum_rows(rows, stats, self.sums)
        self.splits = np.full((binned.n_features, SPLIT_FIELDS), np.nan)
        self.left_bins = np.full(self.grower.pool.shape[0], 7, np.uint8)
        self.features = np.arange(binned.n_features, dtype=np.int32)
        with self.grower.pool.scratch() as self.scratch:
            self.histogram = self.scratch.histogram
            whole = Block(self.features)
            build_block(
                self.grower.pool, binned, rows, stats, self.sums, whole, self.scratch,
                self.histogram,
            )  # fmt: skip
        self.addresses = self.grower._find_addresses(self.plan, self.scratch)
        call_value_node(0, self.plan, self.nodes, self.addresses)

    def run(self, allowed=None, seed=-1):
        """The best splits; ``seed`` of the random candidates, negative: try all."""
        allowed = np.ones(len(self.features), np.uint8) if allowed is None else allowed
        grower, scratch = self.grower, self.scratch
        call_value_node(0, self.plan, self.nodes, self.addresses)
        binning = self.problem.binned.binning
        bins = (binning.n_bins, grower.pool.offsets, binning.features.categorical)
        given = (self.histogram, self.features, allowed, *bins)
        if len(scratch.orders):
            order_categories(*given, grower.settings, self.center, scratch.orders)
        find_best_splits(
            *given, scratch.orders, grower.settings, self.center, self.nodes.score[0],
            grower.monotone, self.low, self.high, seed, scratch.buffers, scratch.lanes,
            self.left_bins, self.splits,
        )  # fmt: skip
        return self.splits

    def left_mask(self, feature):
        """(n,) the rows that the found split sends left."""
        codes = self.problem.binned.codes[:, feature].astype(np.int64)
        _, _, last, default_left, _, _ = self.splits[feature]
        n_bins = self.problem.binned.binning.n_bins[feature]
        if self.problem.binned.binning.features.categorical[feature]:
            first = self.grower.pool.offsets[feature]
            marks = self.left_bins[first : first + n_bins + 1]
            return np.where(codes < n_bins, marks[np.minimum(codes, n_bins - 1)] == 1, False)
        return np.where(codes == n_bins, bool(default_left), codes <= last)

    def candidates(self, feature, slack):
        """The oracle's valid candidates of one feature."""
        binned = self.problem.binned
        value = node_value(self.g.sum(axis=0), self.H.sum(axis=0), self.params, None)
        found = all_splits(binned.codes, binned.binning, self.g, self.H, self.params, value, slack)
        return [c for c in found if c["feature"] == feature], value


def packed_leaves(raw: Array, label: Array, weight: Array, begin: Array, end: Array) -> Any:
    """The arguments of ``accumulate_leaves`` for runs of rows in their own order."""
    lanes = -(-(end - begin) // VECTOR) * VECTOR
    place = (np.cumsum(lanes) - lanes) * (raw.shape[1] + 1)
    scores = np.full(lanes.sum() * (raw.shape[1] + 1), np.nan)
    packed_label = np.empty(len(raw), np.int32)
    rows = np.arange(len(raw), dtype=np.int32)
    pack_leaves(raw, label, weight, rows, begin, end, place, scores, packed_label)
    return scores, packed_label, begin, end, place
