"""Rules that all kernels keep."""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
import pytest
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

import fullhess
from fullhess import kernels
from fullhess.kernels.compile import kernel


def all_kernels():
    for module in pkgutil.iter_modules(kernels.__path__):
        loaded = importlib.import_module(f"{kernels.__name__}.{module.name}")
        for name, value in vars(loaded).items():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == loaded.__name__:
                yield f"{module.name}.{name}", value


def holds_array(kind) -> bool:
    if isinstance(kind, types.BaseTuple):
        return any(holds_array(part) for part in kind)
    return isinstance(kind, types.Buffer)


def test_no_compiled_kernel_returns_an_array(rng):
    """Its memory would never be freed by a caller that counts no references."""
    x = rng.normal(size=(300, 4))
    binned = fullhess.BinnedMatrix.from_quantiles(x)
    label = rng.integers(0, 3, 300)
    for prior in ("ridge", "path"):
        fullhess.train({"leaf_prior": prior}, binned, label, num_boost_round=2).predict(x)
    seen = 0
    for name, dispatcher in all_kernels():
        for signature in dispatcher.nopython_signatures:
            seen += 1
            assert not holds_array(signature.return_type), name
    assert seen > 10  # more without a cache: inner kernels are then compiled too


def test_a_kernel_that_allocates_unannounced_does_not_compile():
    @kernel
    def silent(n):
        return np.empty(n).sum()

    with pytest.raises(NumbaError):
        silent(3)


def test_training_again_and_again_keeps_no_memory(rng):
    resource = pytest.importorskip("resource")
    x = rng.normal(size=(4000, 10))
    binned = fullhess.BinnedMatrix.from_quantiles(x)
    label = rng.integers(0, 5, 4000)

    def run(rounds):
        fullhess.train({"max_depth": 4}, binned, label, num_boost_round=rounds)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    run(5)
    before = run(5)  # kilobytes on Linux, bytes on macOS: a ratio serves both
    assert run(60) < 1.1 * before
