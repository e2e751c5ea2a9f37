"""Columns with a prevailing bin: the same histograms and trees for less work."""

from __future__ import annotations

import numpy as np
import pytest
from engine import build_block, same_tree
from hypothesis import given
from hypothesis import strategies as st

import fullhess
from fullhess import BinnedMatrix, sparse
from fullhess.curvature import Layout
from fullhess.histograms import Block, HistogramPool


def one_hot_data(rng, n=3000, groups=(7, 4), numeric=3):
    """Numbers beside indicators, with missing values in both."""
    columns = [rng.normal(size=(n, numeric))]
    for size in groups:
        columns.append(np.eye(size)[rng.integers(0, size, n)])
    X = np.concatenate(columns, axis=1)
    X[rng.random(X.shape) < 0.02] = np.nan
    score = np.nan_to_num(X) @ rng.normal(size=(X.shape[1], 4)) + rng.gumbel(size=(n, 4))
    return X, score.argmax(axis=1)


@given(st.integers(0, 10**6), st.integers(1, 400), st.sampled_from([0.0, 0.5, 0.8, 1.0]))
def test_sparse_cells_are_the_dense_ones(seed, n, density):
    rng = np.random.default_rng(seed)
    codes = np.where(rng.random((n, 6)) < density, rng.integers(0, 6, (n, 6)), 2).astype(np.uint8)
    X = codes.astype(float)
    X[codes == 5] = np.nan
    binned = BinnedMatrix.from_cuts(X, [np.arange(5) + 0.5] * 6)
    layout = Layout("diagonal", 3)
    stats = rng.normal(size=(n, layout.width)).astype(np.float32)
    stats[:, 0] = 1.0
    rows = np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False)).astype(np.int32)
    total = stats[rows].astype(np.float64).sum(axis=0)
    pool = HistogramPool(binned, layout, 1e9)
    features = np.arange(6, dtype=np.int32)
    found = np.full(pool.shape, np.nan, np.float32)
    wanted = np.full(pool.shape, np.nan, np.float32)
    blocks = pool.blocks(features, 1)
    with pool.scratch() as scratch:
        for block in blocks:
            build_block(pool, binned, rows, stats, total, block, scratch, found)
        pool.carry_rows = pool.shape[0]
    with pool.scratch() as scratch:
        whole = Block(features)
        build_block(pool, binned, rows, stats, total, whole, scratch, wanted)
        assert not scratch.carry.any()
    assert np.array_equal(found[:, 0], wanted[:, 0])
    assert np.array_equal(found[found[:, 0] == 0], wanted[found[:, 0] == 0])
    assert found == pytest.approx(wanted, abs=2e-5 * max(1.0, np.sqrt(n)))
    assert sorted(np.concatenate([block.features for block in blocks])) == list(range(6))


@pytest.mark.parametrize("settings", [{}, {"colsample_bytree": 0.5}, {"split_hessian": "diagonal"}])
def test_trees_do_not_change(rng, monkeypatch, settings):
    X, y = one_hot_data(rng)
    binned = BinnedMatrix.from_quantiles(X)
    params = {"max_depth": 5, "learning_rate": 0.3, "n_jobs": 1, **settings}
    assert (sparse.find_prevailing(binned) >= 0).sum() == 11
    found = fullhess.train(params, binned, y, num_boost_round=4)
    monkeypatch.setattr(sparse, "LEAST_SHARE", 2.0)
    assert (sparse.find_prevailing(binned) < 0).all()
    wanted = fullhess.train(params, binned, y, num_boost_round=4)
    for a, b in zip(found.trees, wanted.trees, strict=True):
        assert np.array_equal(a.feature, b.feature)
        assert np.array_equal(a.threshold, b.threshold, equal_nan=True)
        assert np.array_equal(a.default_left, b.default_left)
        assert a.values == pytest.approx(b.values, abs=1e-6)


def test_same_bits_on_any_number_of_threads(rng):
    X, y = one_hot_data(rng)
    binned = BinnedMatrix.from_quantiles(X)
    models = [
        fullhess.train({"n_jobs": n_jobs}, binned, y, num_boost_round=3) for n_jobs in (1, 2, 3)
    ]
    for model in models[1:]:
        assert all(same_tree(a, b) for a, b in zip(model.trees, models[0].trees, strict=True))


def test_a_bin_prevails_from_seven_tenths_on():
    codes = np.zeros((10, 3))
    codes[:3, 0] = 1  # seven tenths
    codes[:4, 1] = 1
    codes[:, 2] = np.arange(10)
    binned = BinnedMatrix.from_quantiles(codes)
    assert sparse.find_prevailing(binned).tolist() == [0, -1, -1]


def test_a_sample_decides_which_columns_are_counted():
    n = 20_000
    column = np.ones(n)
    column[:: n // 4096] = 0.0  # what the sample sees is not what there is
    binned = BinnedMatrix.from_quantiles(np.stack([column, np.arange(n) % 7], axis=1))
    assert sparse.find_prevailing(binned).tolist() == [1, -1]
