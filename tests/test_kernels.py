"""Rules that all kernels keep."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

import fullhess
from fullhess import kernels
from fullhess.kernels.compile import SOURCES, kernel


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


def is_inner(dispatcher) -> bool:
    return bool(dispatcher.targetoptions["no_cpython_wrapper"])


def test_python_calls_no_kernel_that_has_no_entry_for_it():
    """Such a call would end the process."""
    inner = {name.split(".")[1] for name, dispatcher in all_kernels() if is_inner(dispatcher)}
    entries = {name.split(".")[1] for name, dispatcher in all_kernels() if not is_inner(dispatcher)}
    assert len(inner) > 50 and not inner & entries
    package = Path(fullhess.__file__).parent
    files = [*package.rglob("*.py"), *(package.parent / "adapters").rglob("*.py")]
    outside = [path for path in files if path.parent.name != "kernels"]
    assert len(outside) > 40
    for path in outside:
        words = set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        imported = {name for name in words & inner if re.search(
            rf"kernels[\w.]* import [^)]*?\b{name}\b", path.read_text(encoding="utf-8")
        )}  # fmt: skip
        assert not imported, path


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


def test_cached_code_is_that_of_all_present_sources():
    """Numba alone would load code that has the constants of another, changed file inlined."""
    for name, dispatcher in all_kernels():
        assert dispatcher._cache._cache_file._source_stamp[1] == SOURCES, name


def test_a_change_in_another_file_makes_cached_code_obsolete(tmp_path):
    program = (
        "from package.one import total; print(total(2.0), sum(total.stats.cache_hits.values()))"
    )
    package = tmp_path / "package"
    package.mkdir()
    sources = Path(kernels.__path__[0])
    (package / "__init__.py").touch()
    (package / "compile.py").write_text((sources / "compile.py").read_text())
    (package / "one.py").write_text(
        "from .compile import kernel\nfrom .two import SIZE\n\n"
        "@kernel\ndef total(x):\n    return SIZE * x\n"
    )
    answers = []
    for size in (3.0, 3.0, 4.0):
        (package / "two.py").write_text(f"SIZE = {size}\n")
        answers.append(
            subprocess.run(
                [sys.executable, "-c", program],
                cwd=tmp_path,
                env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
        )
    assert answers == [["6.0", "0"], ["6.0", "1"], ["8.0", "0"]]


def test_processes_that_fill_the_cache_at_a_time_do_not_mix_up_variants(tmp_path):
    """Both have read the empty index before either writes: the entries must not share a file."""
    dispatchers = [width_kernel(width) for width in (8, 16)]
    indexes = [d._cache._cache_file for d in dispatchers]
    for index in indexes:
        index._cache_path = str(tmp_path)
        index._index_path = str(tmp_path / index._index_name)
        index._load_index = dict
    for i, index in enumerate(indexes):
        index.save(("variant", i), f"code {i}")
    assert len(list(tmp_path.glob("*.nbc"))) == 2
    for i, index in enumerate(indexes):
        del index._load_index
        assert index.load(("variant", i)) in (None, f"code {i}")
    assert indexes[0].load(("variant", 1)) == "code 1"


def width_kernel(width):
    @kernel
    def scaled(x):
        return x * width

    return scaled
