"""The kernels where training and prediction spend their time.

Run ``python -m pytest tests/benchmarks --benchmark-only`` to measure; with
``--benchmark-autosave`` before a change and ``--benchmark-compare`` after it, the
two are set side by side. Each test also states what the kernel must have done.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from engine import packed_leaves

from fullhess.bins import BinnedMatrix
from fullhess.boosting import train
from fullhess.curvature import Layout
from fullhess.ensemble import Ensemble
from fullhess.kernels.histogram import build_histogram, row_vectors
from fullhess.kernels.lanes import SplitSettings, new_lanes
from fullhess.kernels.partition import part_rows, place_rows
from fullhess.kernels.softmax_leaves import accumulate_leaves
from fullhess.kernels.splitting import SPLIT_FIELDS, find_best_splits, new_buffers
from fullhess.objectives import Softmax
from fullhess.threads import Workers

N_ROWS = 20_000
N_FEATURES = 8
ALL_CLASSES = (3, 7, 10)


class Node(NamedTuple):
    """A root node: everything the kernels read of it."""

    X: np.ndarray
    binned: BinnedMatrix
    label: np.ndarray
    raw: np.ndarray
    stats: np.ndarray
    rows: np.ndarray
    features: np.ndarray
    layout: Layout

    @property
    def offsets(self) -> np.ndarray:
        return self.binned.binning.cell_offsets

    @property
    def shape(self) -> tuple[int, int]:
        """Of a histogram."""
        return int(self.offsets[-1]), self.layout.width


@pytest.fixture(scope="module", params=ALL_CLASSES, ids=lambda k: f"k={k}")
def node(request) -> Node:
    k = request.param
    generator = np.random.default_rng(0)
    X = generator.normal(size=(N_ROWS, N_FEATURES))
    label = (X[:, :k] @ generator.normal(size=(min(k, N_FEATURES), k))).argmax(axis=1)
    binned = BinnedMatrix.from_quantiles(X, max_bins=255, n_jobs=1)
    objective = Softmax(k)
    layout = objective.layout("full")
    raw = generator.normal(size=(N_ROWS, k))
    stats = np.zeros((N_ROWS, layout.width), np.float32)
    rows = np.arange(N_ROWS, dtype=np.int32)
    with Workers(1) as workers:
        objective.write_statistics(
            raw, label.astype(np.int32), np.ones(N_ROWS), rows, "full", stats, workers
        )
    features = np.arange(N_FEATURES, dtype=np.int32)
    return Node(X, binned, label.astype(np.int32), raw, stats, rows, features, layout)


def _build(node: Node, carry: np.ndarray, out: np.ndarray) -> None:
    build_histogram(
        node.binned.codes, node.rows, node.stats, node.features, node.offsets,
        row_vectors(node.layout.width), np.empty((3, N_FEATURES), np.uint64), carry, out,
    )  # fmt: skip


def test_build_histogram(node, benchmark):
    out = np.empty(node.shape, np.float32)
    benchmark(_build, node, np.zeros(node.shape), out)
    expected = node.stats.sum(axis=0, dtype=np.float64)
    cells = node.offsets
    for f in node.features:
        total = out[cells[f] : cells[f + 1]].sum(axis=0, dtype=np.float64)
        np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-3)


def test_find_best_splits(node, benchmark):
    layout = node.layout
    histogram = np.empty(node.shape, np.float32)
    _build(node, np.zeros(node.shape), histogram)
    settings = SplitSettings(
        layout=layout.code, k=layout.n_outputs, n_curvature=layout.n_curvature,
        width=layout.width, reg_lambda=1.0, cat_smooth=10.0, max_cat_to_onehot=4,
        max_cat_threshold=0, cat_l2=0.0, min_data_per_group=1,
        min_samples_leaf=1, min_child_weight=1.0, damped=True, max_delta_step=0.0,
        reg_alpha=0.0, constrained=False, evaluate_at=0,
    )  # fmt: skip
    lanes = new_lanes(layout.code, layout.n_outputs, layout.width)
    out = np.full((N_FEATURES, SPLIT_FIELDS), -np.inf)
    binning = node.binned.binning
    benchmark(
        find_best_splits, histogram, node.features, np.ones(N_FEATURES, np.uint8), binning.n_bins,
        node.offsets, binning.features.categorical, np.empty(0, np.int32), settings,
        np.zeros(layout.n_outputs), 0.0, np.zeros(N_FEATURES, np.int8),
        np.full(layout.n_outputs, -np.inf), np.full(layout.n_outputs, np.inf), -1,
        new_buffers(layout.n_outputs, layout.width), lanes, np.empty(0, np.uint8), out,
    )  # fmt: skip
    assert np.isfinite(out).all()
    assert (out[:, 4] + out[:, 5] == N_ROWS).all()


def test_part_and_place_rows(node, benchmark):
    rows, spare = np.empty_like(node.rows), np.empty_like(node.rows)
    middle = int(node.binned.binning.n_bins[0]) // 2
    column = np.ascontiguousarray(node.binned.codes[:, 0])

    def partition() -> Any:
        n_left = part_rows(
            column, middle, int(node.binned.binning.n_bins[0]), False, False,
            np.empty(0, np.uint8), node.rows, spare,
        )  # fmt: skip
        place_rows(spare, rows[:n_left], rows[n_left:])
        return n_left

    n_left = benchmark(partition)
    goes_left = node.binned.codes[:, 0] <= middle
    np.testing.assert_array_equal(rows[:n_left], np.flatnonzero(goes_left))
    np.testing.assert_array_equal(rows[n_left:], np.flatnonzero(~goes_left))


def test_accumulate_leaves(node, benchmark):
    k = node.raw.shape[1]
    begin = np.arange(0, N_ROWS, N_ROWS // 32, dtype=np.int64)
    end = np.minimum(begin + N_ROWS // 32, N_ROWS)
    gradient = np.empty((len(begin), k))
    edges = np.empty((len(begin), k * (k - 1) // 2))
    packed = packed_leaves(node.raw, node.label, np.ones(N_ROWS), begin, end)
    benchmark(accumulate_leaves, *packed, np.zeros((len(begin), k)), gradient, edges)
    np.testing.assert_allclose(
        gradient.sum(axis=0), node.stats[:, 1 : 1 + k].sum(axis=0, dtype=np.float64), atol=0.02
    )


@pytest.mark.parametrize("comparison", ["<", "<="])
@pytest.mark.parametrize("missing", [False, True], ids=["dense", "missing"])
def test_encode(comparison, missing, benchmark):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(N_ROWS, N_FEATURES))
    if missing:
        X[generator.random(X.shape) < 0.1] = np.nan
    cuts = [np.linspace(-2.5, 2.5, 255)] * N_FEATURES
    binning = BinnedMatrix.from_cuts(X[:0], cuts, comparison=comparison).binning
    values = np.asarray(X, binning.features.dtype)
    binned = benchmark(lambda: binning.encode(values, n_jobs=1))
    side = "right" if comparison == "<" else "left"
    expected = np.searchsorted(binning.cuts[0], values[:, 0], side=side)
    expected[np.isnan(X[:, 0])] = 256
    np.testing.assert_array_equal(binned.codes[:, 0], expected)


def test_from_quantiles(benchmark):
    X = np.random.default_rng(0).normal(size=(N_ROWS, N_FEATURES))
    binned = benchmark(lambda: BinnedMatrix.from_quantiles(X, n_jobs=1))
    assert (binned.binning.n_bins == 255).all()


@pytest.fixture(scope="module")
def model(node) -> Ensemble:
    params = {"max_depth": 6, "n_jobs": 1}
    return train(params, node.binned, node.label, num_boost_round=5)


def test_predict(node, model, benchmark):
    raw = benchmark(lambda: model.predict_raw(node.X, n_jobs=1))
    np.testing.assert_array_equal(raw, model.predict_raw(node.binned, n_jobs=1))


def test_predict_on_bins(node, model, benchmark):
    raw = benchmark(lambda: model.predict_raw(node.binned, n_jobs=1))
    np.testing.assert_array_equal(raw, model.predict_raw(node.X, n_jobs=1))


def test_predict_one_row(node, model, benchmark):
    raw = benchmark(lambda: model.predict_raw(node.X[:1], n_jobs=1))
    np.testing.assert_array_equal(raw, model.predict_raw(node.X, n_jobs=1)[:1])
