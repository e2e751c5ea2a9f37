"""The kernel in which a tree grows: its steps, its threads, and what it asks Python for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine import same_tree
from numpy.typing import NDArray

import fullhess
from fullhess import grower, tables
from fullhess.bins import BinnedMatrix
from fullhess.curvature import Layout
from fullhess.grower import Grower
from fullhess.kernels import growing
from fullhess.kernels.compile import kernel
from fullhess.kernels.growing import BUSY, FINISHED, STATE_SIZE
from fullhess.kernels.nodes import next_batch, wait
from fullhess.kernels.team import CLOSED, INSIDE, close, new_control
from fullhess.nodes import GrownTree
from fullhess.params import Params
from fullhess.sampling import ColumnSampler, round_generator
from fullhess.threads import Workers

K = 3
PARAMS = {"max_depth": 5, "learning_rate": 0.5, "min_child_weight": 0.0}
LOSSGUIDE = {"grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0}


def data(rng: np.random.Generator, n: int = 3000) -> tuple[BinnedMatrix, Any]:
    X = rng.standard_normal((n, 6))
    X[:, 4] = rng.random(n) < 0.1
    X[:, 5] = rng.integers(0, 9, n)
    X[::7, 1] = np.nan
    score = X[:, :3] + rng.gumbel(size=(n, 3)) + (X[:, 5:] % 3 == np.arange(3))
    label = np.where(np.isnan(score), 0.0, score).argmax(axis=1)
    return BinnedMatrix.from_quantiles(X, max_bins=32, categorical=[5]), label


def trained(binned: BinnedMatrix, label: Any, **params: Any) -> fullhess.Ensemble:
    return fullhess.train({**PARAMS, **params}, binned, label, num_boost_round=3)


def same_models(models: list[fullhess.Ensemble]) -> bool:
    first, *others = models
    return all(
        same_tree(a, b) for m in others for a, b in zip(first.trees, m.trees, strict=True)
    )  # fmt: skip


def grown_tree(
    binned: BinnedMatrix, rows: NDArray[np.int32], stats: NDArray[np.float32], n_threads: int
) -> GrownTree:
    params = Params(max_depth=4, num_class=K, min_child_weight=0.0)
    columns = ColumnSampler(binned.n_features, params, round_generator(0, 0))
    with Workers(n_threads) as workers:
        return Grower(binned, Layout("laplacian", K), params, True, workers).grow(
            stats, rows, columns
        )


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("chunk_rows", [1, 7, 16_384])
def test_rows_are_parted_in_order_and_summed_up(rng, monkeypatch, n_threads, chunk_rows):
    """Each leaf has the rows that its path leads to, ascending, and exactly their sums."""
    monkeypatch.setattr(grower, "_CHUNK_ROWS", chunk_rows)
    monkeypatch.setattr(grower, "_SMALL_STEP", 0)
    binned, label = data(rng)
    layout = Layout("laplacian", K)
    rows = np.sort(rng.choice(binned.n_samples, 2500, replace=False)).astype(np.int32)
    before = rows.copy()
    stats = rng.integers(0, 9, (binned.n_samples, layout.width)).astype(np.float32)
    stats[:, 0] = 1.0
    stats[:, 1 : 1 + K] = 8.0 * (np.arange(K) == label[:, None]) - 4.0
    grown = grown_tree(binned, rows, stats, n_threads)
    assert grown.tree.n_leaves > 8 and len(grown.tree.category_values)
    leaf_of = leaves_of_codes(grown, binned)
    for leaf in range(grown.tree.n_leaves):
        mine = grown.leaves.of(leaf)
        assert np.array_equal(mine, before[leaf_of[before] == leaf])
        assert np.array_equal(grown.sums[leaf], stats[mine].sum(axis=0, dtype=np.float64))
    assert np.array_equal(grown.tree.count[grown.tree.leaf >= 0], np.bincount(leaf_of[before]))


def leaves_of_codes(grown: GrownTree, binned: BinnedMatrix) -> NDArray[np.int64]:
    """(n,) the leaf of every row, by its bins."""
    tree, binning = grown.tree, binned.binning
    found = np.zeros(binned.n_samples, np.int64)
    for row, codes in enumerate(binned.codes.astype(np.int64)):
        node = 0
        while tree.leaf[node] < 0:
            f = tree.feature[node]
            code = codes[f]
            if binning.features.categorical[f]:
                start, end = tree.category_offsets[node : node + 2]
                known = binning.categories[f]
                listed = tree.category_values[start:end]
                left = code < len(known) and known[code] in listed
            elif code == binning.n_bins[f]:
                left = tree.default_left[node]
            else:
                left = code <= np.searchsorted(binning.cuts[f], tree.threshold[node])
            node = tree.left[node] if left else tree.right[node]
        found[row] = tree.leaf[node]
    return found


@pytest.mark.parametrize("extra", [{}, LOSSGUIDE, {"max_leaves": 13}], ids=["all", "best", "some"])
def test_tables_of_any_size_grow_the_same_tree(rng, monkeypatch, extra):
    """Few nodes in a step, room for few nodes, histograms one by one, Python asked all the time."""
    binned, label = data(rng)
    models = [trained(binned, label, **extra)]
    for name, value in (
        ("_MOST_NODES", 8), ("_FIRST_NODES", 1), ("_MORE_HISTOGRAMS", 1), ("_BREATH", -1),
    ):  # fmt: skip
        monkeypatch.setattr(grower, name, value)
        models.append(trained(binned, label, **extra))
    monkeypatch.setattr(tables, "_MOST_BYTES", 1)
    models.append(trained(binned, label, **extra))
    assert models[0].trees[0].n_leaves > 12
    assert same_models(models)


@pytest.mark.parametrize("extra", [{}, LOSSGUIDE], ids=["depthwise", "lossguide"])
def test_any_number_of_threads_grows_the_same_tree(rng, monkeypatch, extra):
    """Of chunks of a few rows, with helpers called for every step."""
    monkeypatch.setattr(grower, "_CHUNK_ROWS", 50)
    monkeypatch.setattr(grower, "_SMALL_STEP", 0)
    binned, label = data(rng)
    assert same_models([trained(binned, label, n_jobs=n, **extra) for n in (1, 2, 5)])


def test_helpers_are_called_and_their_errors_are_raised(rng, monkeypatch):
    monkeypatch.setattr(grower, "_CHUNK_ROWS", 20)
    monkeypatch.setattr(grower, "_SMALL_STEP", 0)
    binned, label = data(rng)
    grow = grower.grow
    calls = []

    def grow_or_fail(control: Any, is_leader: bool, *args: Any) -> Any:
        if not is_leader:
            raise MemoryError("no room for a helper")
        if not calls:
            calls.append(grow(control, is_leader, *args))
            return calls[0]
        return BUSY  # as if others had all the tasks

    monkeypatch.setattr(grower, "grow", grow_or_fail)
    with pytest.raises(MemoryError, match="helper"):
        trained(binned, label, n_jobs=2)
    assert calls == [growing.HELPERS]
    monkeypatch.setattr(grower, "grow", grow)
    assert trained(binned, label, n_jobs=2).trees[0].n_leaves > 16


def test_an_interrupt_ends_a_tree_that_takes_long(rng, monkeypatch):
    monkeypatch.setattr(grower, "_BREATH", -1)
    binned, label = data(rng)
    grow = grower.grow
    reasons = []

    def grow_and_press_ctrl_c(*args: Any) -> Any:
        reasons.append(grow(*args))
        if reasons[-1] == growing.BREATH:
            raise KeyboardInterrupt
        return reasons[-1]

    monkeypatch.setattr(grower, "grow", grow_and_press_ctrl_c)
    with pytest.warns(UserWarning, match="interrupted after 0 of 3"):
        assert not trained(binned, label).trees
    assert growing.FINISHED not in reasons


def test_helpers_leave_when_nothing_happens_or_the_tree_is_done(rng):
    binned, _ = data(rng, 300)
    params = Params(num_class=K)
    layout = Layout("laplacian", K)
    with Workers(1) as workers:
        one = Grower(binned, layout, params, True, workers)
        columns = ColumnSampler(binned.n_features, params, round_generator(0, 0))
        rows = np.arange(300, dtype=np.int32)
        stats = np.zeros((300, layout.width), np.float32)
        plan = one._plan(stats, rows, columns, -1)
        control, state = new_control(), np.zeros(STATE_SIZE, np.int64)
        with one.pool.scratch() as scratch:
            rest = (plan, one.nodes, one.pool.reset(), one._slots, one._chunks, scratch)
            args = (*rest, one._find_addresses(plan, scratch))
            assert growing.grow(control, False, state, *args) == BUSY  # nothing to do yet
            close(control)
            assert growing.grow(control, False, state, *args) == FINISHED
    assert control[CLOSED] == 1 and control[INSIDE] == 0 and not state.any()


@kernel
def call_wait(index, lossguide, nodes):
    wait(index, index, lossguide, nodes)


@kernel
def call_next_batch(n_waiting, n_leaves, plan, nodes):
    return next_batch(n_waiting, n_leaves, plan, nodes)


@pytest.mark.parametrize("lossguide", [False, True])
def test_nodes_are_taken_by_gain_then_number(rng, lossguide):
    binned, _ = data(rng, 300)
    settings = {"grow_policy": "lossguide"} if lossguide else {}
    for _ in range(40):
        params = Params(num_class=K, max_leaves=int(rng.integers(2, 40)), **settings)
        columns = ColumnSampler(binned.n_features, params, round_generator(0, 0))
        with Workers(1) as workers:
            one = Grower(binned, Layout("laplacian", K), params, True, workers)
        rows = np.arange(300, dtype=np.int32)
        plan = one._plan(np.zeros((300, 16), np.float32), rows, columns, -1)
        nodes = one.nodes
        n = int(rng.integers(1, 40))
        nodes.split[:n, 0] = rng.integers(0, 6, n)  # with ties
        numbers = np.arange(n)
        for i in numbers:
            call_wait(i, lossguide, nodes)
        order = numbers[np.lexsort((numbers, -nodes.split[:n, 0]))]
        n_leaves, left = 1, n
        while True:
            size, left = call_next_batch(left, n_leaves, plan, nodes)
            room = params.max_leaves - n_leaves
            assert size == min(1 if lossguide else len(order), len(order), room)
            assert np.array_equal(nodes.batch[:size], np.sort(order[:size]))
            order = order[size:]
            assert np.array_equal(np.sort(nodes.waiting[:left]), np.sort(order))
            n_leaves += size
            if size == 0:
                break
