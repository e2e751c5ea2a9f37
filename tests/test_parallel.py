"""Threads: the same bits for any number of them, in any kind of process."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any

import numba
import numpy as np
import pytest

import fullhess
from fullhess import BinnedMatrix, serialization


def problem(n: int = 3000, k: int = 4) -> tuple[Any, Any, BinnedMatrix]:
    rng = np.random.default_rng(1)
    label = rng.integers(0, k, n)
    X = rng.normal(size=(n, 9)) + label[:, None] * np.linspace(0, 1, 9)
    X[rng.random(X.shape) < 0.05] = np.nan
    X[:, 8] = rng.integers(0, 12, n)
    return X, label, BinnedMatrix.from_quantiles(X, max_bins=64, categorical=[8])


def fit(n_jobs: int, **extra: Any) -> bytes:
    """A model trained with so many threads, as bytes without the thread count."""
    _, label, binned = problem()
    params = {"max_depth": 5, "learning_rate": 0.5, "n_jobs": n_jobs, **extra}
    return serialization.dumps(fullhess.train(params, binned, label, num_boost_round=4))


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"leaf_prior": "path"},
        {"split_hessian": "diagonal"},
        {"grow_policy": "lossguide", "max_leaves": 20, "max_depth": 0},
        {"subsample": 0.6, "sampling_method": "gradient_based", "colsample_bynode": 0.5},
        {"hessian": "upper_bound", "leaf_solver": "newton", "split_gain": "quadratic"},
    ],
    ids=lambda extra: "-".join(map(str, extra.values())) or "default",
)
def test_models_are_bit_identical_for_any_number_of_threads(extra: dict[str, Any]) -> None:
    one = fit(1, **extra)
    assert fit(2, **extra) == one
    assert fit(5, **extra) == one


def test_predictions_are_bit_identical_for_any_number_of_threads() -> None:
    X, label, binned = problem(20_000)
    model = fullhess.train({"max_depth": 4, "n_jobs": 2}, binned, label, num_boost_round=3)
    one = model.predict(X, n_jobs=1)
    for n_jobs in (2, 3, 8):
        assert np.array_equal(model.predict(X, n_jobs=n_jobs), one)
        assert np.array_equal(model.predict(binned, n_jobs=n_jobs), one)


def test_numbas_thread_count_is_left_alone() -> None:
    before = numba.get_num_threads()
    fit(2)
    assert numba.get_num_threads() == before


def _fit_in_child(queue: Any) -> None:
    queue.put(fit(2))


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="the system cannot fork"
)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_trains_after_its_parent_has() -> None:
    expected = fit(2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_fit_in_child, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    results = [queue.get(timeout=120) for _ in children]
    for child in children:
        child.join(timeout=60)
        assert child.exitcode == 0
    assert results == [expected, expected]


def test_several_python_threads_train_at_once() -> None:
    expected = fit(2)
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda: results.append(fit(2))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_joblib_workers_train() -> None:
    joblib = pytest.importorskip("joblib")
    expected = fit(2)
    results = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(fit)(2) for _ in range(2))
    assert results == [expected, expected]
