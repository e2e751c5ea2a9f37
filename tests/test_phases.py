"""Threads that grow a tree together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine import same_tree

import fullhess
from fullhess import phases
from fullhess.bins import BinnedMatrix
from fullhess.curvature import Layout
from fullhess.histograms import HistogramPool
from fullhess.kernels.growing import HELP
from fullhess.kernels.team import CLOSED, LEFT, new_control
from fullhess.nodes import Node, split_settings
from fullhess.params import Params
from fullhess.phases import Phases
from fullhess.threads import Workers

K = 3
PARAMS = {"max_depth": 5, "learning_rate": 0.5, "min_child_weight": 0.0}


def data(rng: np.random.Generator, n: int = 3000) -> tuple[BinnedMatrix, Any]:
    X = rng.standard_normal((n, 6))
    X[:, 4] = rng.random(n) < 0.1
    X[:, 5] = rng.integers(0, 9, n)
    X[::7, 1] = np.nan
    score = X[:, :3] + rng.gumbel(size=(n, 3)) + (X[:, 5:] % 3 == np.arange(3))
    label = np.where(np.isnan(score), 0.0, score).argmax(axis=1)
    return BinnedMatrix.from_quantiles(X, max_bins=32, categorical=[5]), label


def begun(binned: BinnedMatrix, workers: Workers, rng: np.random.Generator) -> tuple[Any, ...]:
    """Phases at the beginning of a tree, with its rows and their statistics."""
    layout = Layout("laplacian", K)
    pool = HistogramPool(binned, layout, 1e9)
    settings = split_settings(layout, Params(num_class=K), damped=True)
    monotone = np.zeros(binned.n_features, np.int8)
    steps = Phases(binned, pool, settings, monotone, workers)
    rows = np.sort(rng.choice(binned.n_samples, 2500, replace=False)).astype(np.int32)
    stats = rng.integers(-8, 9, (binned.n_samples, layout.width)).astype(np.float32)
    steps.begin(rows, stats, np.arange(binned.n_features, dtype=np.int32))
    return steps, rows, stats


def leaf(begin: int, end: int, feature: int, split_bin: int, default_left: bool) -> Node:
    nothing: Any = np.zeros(K)
    node = Node(0, 0, begin, end, *[nothing] * 3, 0.0, 0.0, frozenset(), nothing, nothing)
    node.feature = feature
    node.split = np.array([0.0, 0.0, split_bin, default_left, 0.0, 0.0])
    return node


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("chunk_rows", [1, 7, 16_384])
def test_rows_are_parted_in_order_and_the_fewer_summed_up(rng, monkeypatch, n_threads, chunk_rows):
    monkeypatch.setattr(phases, "_CHUNK_ROWS", chunk_rows)
    monkeypatch.setattr(phases, "_MOST_NODES", 2)
    monkeypatch.setattr(phases, "_SMALL_STEP", 0)
    binned, _ = data(rng)
    with Workers(n_threads) as workers:
        steps, rows, stats = begun(binned, workers, rng)
        before = rows.copy()
        assert np.array_equal(steps.sum_up(len(rows)), stats[rows].sum(axis=0))
        nodes = [
            leaf(0, 900, 0, 3, False), leaf(900, 901, 2, 9, True), leaf(901, 1500, 1, 5, True),
            leaf(1500, 2000, 5, 0, False), leaf(2000, 2500, 1, 5, False),
        ]  # fmt: skip
        nodes[3].left_bins = rng.integers(0, 2, binned.binning.n_bins[5] + 1).astype(np.uint8)
        found = list(steps.partition(nodes))
        steps.end()
    for node, (n_left, fewer) in zip(nodes, found, strict=True):
        mine = before[node.begin : node.end]
        codes = binned.codes[mine, node.feature]
        missing = codes == binned.binning.n_bins[node.feature]
        goes_left = np.where(missing, node.split[3] != 0.0, codes <= node.split[2])
        if len(node.left_bins):
            goes_left = node.left_bins[codes] != 0
        left, right = mine[goes_left], mine[~goes_left]
        assert n_left == len(left)
        assert np.array_equal(rows[node.begin : node.end], np.concatenate([left, right]))
        smaller = left if len(left) <= len(right) else right
        assert np.array_equal(fewer, stats[smaller].sum(axis=0, dtype=np.float64))


def test_a_few_nodes_at_a_time_grow_the_same_tree(rng, monkeypatch):
    binned, label = data(rng)
    models = [fullhess.train(PARAMS, binned, label, num_boost_round=2)]
    monkeypatch.setattr(phases, "_MOST_NODES", 3)
    monkeypatch.setattr(phases, "_MOST_BYTES", 1)
    models.append(fullhess.train(PARAMS, binned, label, num_boost_round=2))
    assert models[0].trees[0].n_leaves > 16
    assert all(same_tree(a, b) for a, b in zip(models[0].trees, models[1].trees, strict=True))


def test_any_number_of_threads_grows_the_same_tree(rng, monkeypatch):
    """Of chunks of a few rows, with helpers called for every step."""
    monkeypatch.setattr(phases, "_CHUNK_ROWS", 50)
    monkeypatch.setattr(phases, "_SMALL_STEP", 0)
    binned, label = data(rng)
    models = [
        fullhess.train({**PARAMS, **extra, "n_jobs": n_jobs}, binned, label, num_boost_round=4)
        for extra in ({}, {"grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0})
        for n_jobs in (1, 2, 5)
    ]
    for i in (1, 2, 4, 5):
        pairs = zip(models[i].trees, models[i // 3 * 3].trees, strict=True)
        assert all(same_tree(a, b) for a, b in pairs)


def test_helpers_come_and_their_errors_are_raised(rng, monkeypatch):
    monkeypatch.setattr(phases, "_CHUNK_ROWS", 20)
    monkeypatch.setattr(phases, "_SMALL_STEP", 0)
    binned, label = data(rng)
    work = phases.work

    def work_slowly(control: Any, how: int, *args: Any) -> Any:
        if how == HELP:
            raise MemoryError("no room for a helper")
        return False  # as if others had all the tasks

    monkeypatch.setattr(phases, "work", work_slowly)
    params = {**PARAMS, "n_jobs": 2}
    with pytest.raises(MemoryError, match="helper"):
        fullhess.train(params, binned, label, num_boost_round=1)
    monkeypatch.setattr(phases, "work", work)
    assert fullhess.train(params, binned, label, num_boost_round=1).trees[0].n_leaves > 16


def test_helpers_leave_when_nothing_happens_or_the_tree_is_done(rng):
    binned, _ = data(rng)
    with Workers(1) as workers:
        steps, rows, _ = begun(binned, workers, rng)
        before = rows.copy()
        with steps._pool.scratch() as scratch:
            assert not steps._work(HELP, scratch)  # nothing to do yet
            steps.end()
            assert steps._work(HELP, scratch)
    assert steps._control[CLOSED] == 1 and steps._control[LEFT] <= 0
    assert np.array_equal(rows, before)
    steps._job.help()  # comes too late and returns
    assert not new_control().any()
