"""Compilation: the notice, the command, and machines without a cache."""

from __future__ import annotations

import os
import shutil
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


UNWARMED_ADAPTER = """
import numpy as np
rng = np.random.default_rng(1)
X = rng.normal(size=(500, 6))
X[::5, 2] = np.nan
label = rng.integers(0, 3, 500)
"""
ADAPTERS = {
    "xgboost": """
import fullhess.xgboost as xgb
model = xgb.XGBClassifier(n_estimators=2)
model.fit(X, label, eval_set=[(X, label)], verbose=False)
model.get_booster().native.predict(X)
""",
    "lightgbm": """
import fullhess.lightgbm as lgb
train = lgb.Dataset(X, label, params={"verbosity": -1})
model = lgb.train(
    {"objective": "multiclass", "num_class": 3, "verbosity": -1}, train, 2, valid_sets=[train]
)
model.native.predict(X)
""",
}


def run(code: list[str], root: Path = ROOT, **environment: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *code],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(root), str(root / "adapters")]),
            **environment,
        },
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_a_machine_without_a_writable_cache_directory_trains(tmp_path: Path) -> None:
    """The kernels are compiled anew, and the notice says why it takes a while."""
    package = tmp_path / "fullhess"
    shutil.copytree(
        ROOT / "fullhess", package, ignore=shutil.ignore_patterns("__pycache__", "*.nb?")
    )
    (package / "kernels" / "__pycache__").write_text("a file where a directory is wanted")
    blocked = tmp_path / "file"
    blocked.write_text("and another")
    nowhere = {name: str(blocked / name) for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME")}
    done = run(["-c", TRAIN], tmp_path, PYTHONDONTWRITEBYTECODE="1", **nowhere)
    assert done.returncode == 0, done.stderr
    assert "leaves 2" in done.stdout
    assert "compiling kernels" in done.stdout
    assert not list(tmp_path.rglob("*.nbi"))


def test_a_warm_cache_is_silent() -> None:
    run(["-c", TRAIN])
    done = run(["-c", TRAIN])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "leaves 2\n"


def test_warming_up_leaves_nothing_to_compile_on_the_default_path() -> None:
    done = run(["-c", UNWARMED])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "compiled []"


@pytest.mark.parametrize("host", ["xgboost", "lightgbm"])
def test_warming_up_leaves_little_to_compile_behind_a_host(host: str) -> None:
    """Only what sparse rows need: XGBoost hands out data with missing values as such."""
    pytest.importorskip(host)
    listen = UNWARMED[: UNWARMED.index("rng =")]
    code = listen + UNWARMED_ADAPTER + ADAPTERS[host]
    done = run(["-c", code + 'print("compiled", sorted(set(names.names) - {"scatter_rows"}))'])
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
