"""Compilation: the notice, the command, and machines without a cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fullhess

ROOT = Path(fullhess.__file__).resolve().parent.parent

TRAIN = """
import numpy as np
import fullhess
X = np.random.default_rng(0).normal(size=(80, 2))
binned = fullhess.BinnedMatrix.from_quantiles(X, max_bins=8)
model = fullhess.train({"max_depth": 1, "n_jobs": 1}, binned, np.arange(80) % 3, num_boost_round=1)
print("leaves", model.trees[0].n_leaves)
"""

UNWARMED = """
import numba.core.event as event
import numpy as np
from fullhess import BinnedMatrix, EvalSet, train, warmup

class Names(event.Listener):
    def __init__(self):
        self.names = []
    def on_start(self, e):
        self.names.append(e.data["dispatcher"].py_func.__qualname__)
    def on_end(self, e):
        pass

warmup.warm_up((3,))
names = Names()
event.register("numba:compile", names)
rng = np.random.default_rng(1)
X = rng.normal(size=(500, 6))
X[::5, 2] = np.nan
label = rng.integers(0, 3, 500)
binned = BinnedMatrix.from_quantiles(X, max_bins=100)
model = train({}, binned, label, evals=[EvalSet(binned, label)], num_boost_round=2)
model = train({"leaf_prior": "path", "grow_policy": "lossguide", "max_leaves": 9}, binned, label,
              num_boost_round=2)
model.predict(X)
print("compiled", sorted(set(names.names)))
"""


def run(code: list[str], **environment: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *code],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_a_cache_directory_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    """The kernels are compiled anew, and the notice says why it takes a while."""
    blocked = tmp_path / "file"
    blocked.write_text("a file where a directory is wanted")
    done = run(["-c", TRAIN], NUMBA_CACHE_DIR=str(blocked / "cache"))
    assert done.returncode == 0, done.stderr
    assert "leaves 2" in done.stdout
    assert "compiling kernels" in done.stdout


def test_a_warm_cache_is_silent() -> None:
    run(["-c", TRAIN])
    done = run(["-c", TRAIN])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "leaves 2\n"


def test_warming_up_leaves_nothing_to_compile_on_the_default_path() -> None:
    done = run(["-c", UNWARMED])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "compiled []"


def test_the_command_says_where_the_kernels_are() -> None:
    done = run(["-m", "fullhess.warmup"])
    assert done.returncode == 0, done.stderr
    assert "kept in" in done.stdout


def test_import_does_not_compile_or_load_the_heavy_libraries() -> None:
    code = "import sys, fullhess; print([m for m in HEAVY if m in sys.modules])"
    heavy = ["xgboost", "lightgbm", "matplotlib", "pandas", "sklearn", "tqdm"]
    done = run(["-c", code.replace("HEAVY", repr(heavy))])
    assert done.stdout == "[]\n"
