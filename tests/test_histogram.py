"""Histograms against plain float64 sums of the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

from fullhess.bins import BinnedMatrix
from fullhess.curvature import Layout
from fullhess.histograms import HistogramPool, feature_blocks
from fullhess.kernels.histogram import (
    FLUSH_COUNT,
    LANES,
    MAX_UNROLLED_VECTORS,
    build_histogram,
    row_vectors,
    subtract_histogram,
    sum_rows,
)

# One, several and too many vectors to unroll, of every layout.
LAYOUTS = (
    Layout("laplacian", 3),
    Layout("laplacian", 17),
    Layout("dense", 3),
    Layout("dense", 12),
    Layout("diagonal", 1),
    Layout("diagonal", 7),
    Layout("diagonal", 80),
)


class Cells:
    """Random codes and statistics rows, and the two ways to sum them."""

    def __init__(self, rng, n, n_bins, width, dtype=np.uint8, whole=False):
        self.n_bins = np.asarray(n_bins, np.int32)
        self.offsets = np.concatenate([[0], np.cumsum(self.n_bins.astype(np.int64) + 1)])
        # Codes of some bins only, so that others stay empty; the largest one is "missing".
        self.codes = np.column_stack(
            [rng.choice(np.append(rng.integers(0, b + 1, 1 + b // 2), b), n) for b in n_bins]
        ).astype(dtype)
        self.features = np.arange(len(n_bins), dtype=np.int32)
        self.stats = np.empty((n, width), np.float32)
        if whole:  # sums of small integers are exact, in whatever order and precision
            self.stats[:] = rng.integers(-8, 9, (n, width))
        else:
            self.stats[:] = rng.standard_normal((n, width)) * 10.0 ** rng.uniform(-3, 3, (n, 1))
        self.stats[:, 0] = 1.0
        self.carry = np.zeros((int(self.offsets[-1]), width))

    def build(self, rows, features=None, out=None):
        features = self.features if features is None else features
        out = np.full(self.carry.shape, np.nan, np.float32) if out is None else out
        vectors = row_vectors(self.stats.shape[1])
        rows = np.asarray(rows, np.int32)
        places = np.zeros((3, len(self.features)), np.uint64)
        build_histogram(
            self.codes, rows, self.stats, features, self.offsets, vectors, places, self.carry, out
        )
        return out

    def sums(self, rows, stats=None):
        """The same cells in float64."""
        stats = self.stats if stats is None else stats
        out = np.zeros(self.carry.shape)
        for j, first in enumerate(self.offsets[:-1]):
            np.add.at(out, first + self.codes[rows, j].astype(np.int64), stats[rows])
        return out

    def sizes(self, rows):
        """Sums of the absolute terms, what rounding is relative to."""
        return self.sums(rows, np.abs(self.stats))


@st.composite
def cells(draw, max_rows=400, **fixed):
    rng = np.random.default_rng(draw(seeds()))
    n_bins = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    layout = draw(st.sampled_from(LAYOUTS))
    dtype = draw(st.sampled_from([np.uint8, np.uint16]))
    problem = Cells(rng, draw(st.integers(1, max_rows)), n_bins, layout.width, dtype, **fixed)
    n = len(problem.codes)
    rows = np.sort(rng.choice(n, int(rng.integers(1, n + 1)), replace=False))
    return problem, rows, rng


def test_layouts_cover_both_forms_of_the_row_loop():
    unrolled = {layout.width // LANES <= MAX_UNROLLED_VECTORS for layout in LAYOUTS}
    assert unrolled == {True, False}
    assert isinstance(row_vectors(LANES), tuple) and not isinstance(row_vectors(400), tuple)


@given(cells(whole=True))
def test_cells_of_whole_numbers_are_the_exact_sums_of_their_rows(drawn):
    problem, rows, _ = drawn
    np.testing.assert_array_equal(problem.build(rows), problem.sums(rows))


@given(cells())
def test_cells_are_the_sums_of_their_rows_to_float32(drawn):
    problem, rows, _ = drawn
    built, expected = problem.build(rows), problem.sums(rows)
    assert np.array_equal(built[:, 0], expected[:, 0])
    assert (np.abs(built - expected) <= 2e-6 * problem.sizes(rows)).all()


@given(cells())
def test_any_cut_into_blocks_gives_the_same_bits_and_leaves_the_carry_empty(drawn):
    problem, rows, rng = drawn
    whole = problem.build(rows)
    assert not problem.carry.any()
    out = np.full_like(whole, np.nan)
    order = rng.permutation(problem.features)
    cuts = np.sort(rng.integers(0, len(order) + 1, int(rng.integers(0, 4))))
    for block in np.split(order, cuts):
        if len(block):
            problem.build(rows, block, out)
    assert np.array_equal(out, whole)
    assert not problem.carry.any()


@given(cells())
def test_a_block_writes_no_cells_but_its_own(drawn):
    problem, rows, rng = drawn
    feature = rng.choice(problem.features, 1)
    out = problem.build(rows, feature)
    own = np.zeros(len(out), bool)
    own[problem.offsets[feature[0]] : problem.offsets[feature[0] + 1]] = True
    assert not np.isnan(out[own]).any() and np.isnan(out[~own]).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("extra", [-1, 0, 1, FLUSH_COUNT - 1, FLUSH_COUNT, FLUSH_COUNT + 1])
def test_a_cell_is_complete_on_either_side_of_a_flush(rng, dtype, extra):
    problem = Cells(rng, FLUSH_COUNT + extra, [1, 300][: 1 + (dtype == np.uint16)], 8, dtype, True)
    problem.codes[:] = problem.n_bins  # the missing cell, beyond 255 in the second column
    rows = np.arange(len(problem.codes))
    np.testing.assert_array_equal(problem.build(rows), problem.sums(rows))
    assert not problem.carry.any()


# Sibling subtraction


@given(cells())
def test_sibling_subtraction_equals_direct_build(drawn):
    problem, rows, rng = drawn
    inside = rng.random(len(rows)) < rng.choice([0.1, 0.5])
    sibling = problem.build(rows)
    subtract_histogram(problem.features, problem.offsets, problem.build(rows[inside]), sibling)
    direct = problem.build(rows[~inside]) if (~inside).any() else np.zeros_like(sibling)
    assert np.array_equal(sibling[:, 0], direct[:, 0])
    assert (np.abs(sibling - direct) <= 2e-6 * problem.sizes(rows)).all()
    assert not sibling[direct[:, 0] == 0.0].any()


def test_subtraction_leaves_no_rounding_in_an_empty_cell(rng):
    problem = Cells(rng, 200, [1], 8)
    problem.stats[:, 1:] = 0.1
    rows = np.arange(200)
    parent, child = problem.build(rows), problem.build(rows[::-1])
    child[:, 1:] *= np.float32(1 + 1e-6)  # as if summed in another order
    subtract_histogram(problem.features, problem.offsets, child, parent)
    assert not parent.any()


def test_subtraction_touches_only_the_block(rng):
    problem = Cells(rng, 200, [5, 5], 8)
    rows = np.arange(200)
    parent, child = problem.build(rows), problem.build(rows[:50])
    before = parent.copy()
    subtract_histogram(problem.features[1:], problem.offsets, child, parent)
    second = problem.offsets[1]
    assert np.array_equal(parent[:second], before[:second])
    assert not np.array_equal(parent[second:], before[second:])


# Accuracy


def test_float_error_stays_below_one_in_a_million_on_five_million_rows(rng):
    n = 5_000_000
    stats = np.ones((n, 8), np.float32)
    equal = [0.1, 1 / 3, -0.7, 1e-7]  # always rounded the same way: the worst case
    stats[:, 1:5] = equal
    stats[:, 5] = rng.random(n, np.float32)
    stats[:, 6] = stats[:, 5] ** 4
    stats[:, 7] = rng.standard_normal(n, np.float32)
    codes = (np.arange(n) % 3 == 0).astype(np.uint8)[:, None]
    offsets = np.array([0, 3])
    out = np.empty((3, 8), np.float32)
    rows, features = np.arange(n, dtype=np.int32), np.zeros(1, np.int32)
    places, carry = np.zeros((3, 1), np.uint64), np.zeros((3, 8))
    build_histogram(codes, rows, stats, features, offsets, (0,), places, carry, out)
    for cell in range(2):
        inside = codes[:, 0] == cell
        count = np.count_nonzero(inside)
        assert out[cell, 0] == count
        # A product of a float32 and a count is exact in float64.
        exact = count * stats[0, 1:5].astype(np.float64)
        np.testing.assert_allclose(out[cell, 1:5], exact, rtol=2e-6)
        terms = stats[inside, 5:].astype(np.longdouble)
        np.testing.assert_allclose(out[cell, 5:7], terms[:, :2].sum(axis=0), rtol=2e-6)
        error = abs(out[cell, 7] - terms[:, 2].sum())
        assert error <= 2e-6 * np.abs(terms[:, 2]).sum()
    assert not out[2].any()


@given(cells(whole=True))
def test_sum_of_whole_numbers_over_rows_is_exact(drawn):
    problem, rows, _ = drawn
    out = np.full(problem.stats.shape[1], np.nan)
    sum_rows(rows.astype(np.int32), problem.stats, out)
    np.testing.assert_array_equal(out, problem.stats[rows].sum(axis=0, dtype=np.float64))


@given(cells())
def test_sum_over_rows_is_made_in_float64(drawn):
    problem, rows, _ = drawn
    out = np.full(problem.stats.shape[1], np.nan)
    sum_rows(rows.astype(np.int32), problem.stats, out)
    terms = problem.stats[rows].astype(np.longdouble)
    assert (np.abs(out - terms.sum(axis=0)) <= 1e-13 * np.abs(terms).sum(axis=0)).all()


def test_sum_over_no_rows_is_zero():
    out = np.full(8, np.nan)
    sum_rows(np.empty(0, np.int32), np.ones((3, 8), np.float32), out)
    assert not out.any()


# Blocks and the pool


@settings(max_examples=100)
@given(seeds(), st.integers(1, 60), st.integers(1, 9), st.sampled_from([8, 32, 80, 1000]))
def test_blocks_hold_every_feature_once_the_longest_first(seed, n_features, n_threads, width):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(2, 300, n_features + 5))])
    chosen = np.sort(rng.choice(n_features + 5, n_features, replace=False)).astype(np.int32)
    blocks = feature_blocks(chosen, offsets, width, n_threads)
    assert np.array_equal(np.sort(np.concatenate(blocks)), chosen)
    assert all((np.diff(block) > 0).all() for block in blocks)
    sizes = [len(block) for block in blocks]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] > 0


def test_pool_gives_no_more_histograms_than_its_budget_but_at_least_two(rng):
    binned = BinnedMatrix.from_quantiles(rng.standard_normal((50, 3)), max_bins=16)
    layout = Layout("diagonal", 2)
    size = binned.binning.cell_offsets[-1] * layout.width * 4
    for budget, capacity in ((0, 2), (3 * size, 3), (4 * size - 1, 3)):
        pool = HistogramPool(binned, layout, budget)
        assert len(pool.reset()) == 0
        made = [*pool.make(1), *pool.make(5)]
        assert len(set(made)) == capacity and all(made)
        assert len(pool.make(1)) == 0
        assert np.array_equal(np.sort(pool.reset()), np.sort(made))
