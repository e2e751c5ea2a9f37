"""Seconds until a new process has trained for the first time.

Numba compiles a kernel when it is first called and keeps the result on disk. One process
begins with an empty cache, further ones with the cache it has left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from ..progress import ProgressBar
from .lines import Line

__all__ = ["measure"]

N_CLASSES = 7
WARM_REPEATS = 3
TARGETS = {"cold": 25.0, "warm": 1.5, "import": 0.5}
_ROOT = Path(__file__).resolve().parents[2]
# A program of its own: nothing is imported before the clock runs, NumPy neither.
_PROGRAM = f"""
import time
began = time.perf_counter()
import fullhess
imported = time.perf_counter()
import json
import numpy as np
X = np.random.default_rng(0).normal(size=(500, 10))
label = np.arange(500) % {N_CLASSES}
binned = fullhess.BinnedMatrix.from_quantiles(X, n_jobs=1)
before = time.perf_counter()
model = fullhess.train({{"n_jobs": 1}}, binned, label, num_boost_round=2)
after = time.perf_counter()
model.predict(X, n_jobs=1)
ended = time.perf_counter()
print(json.dumps({{"import": imported - began, "train": after - before, "all": ended - began}}))
"""


def measure() -> list[Line]:
    """Import, and first use with an empty and with a filled cache."""
    with tempfile.TemporaryDirectory() as cache, ProgressBar(1 + WARM_REPEATS, "process") as bar:
        bar.start("cold start: compiling everything")
        cold = _process(cache)
        bar.advance()
        warm = []
        for _ in range(WARM_REPEATS):
            bar.start("cold start: kernels from the cache")
            warm.append(_process(cache))
            bar.advance()
    lines = [_line("import fullhess", "import", "import", warm)]
    for state, runs in (("cold", [cold]), ("warm", warm)):
        words = {"cold": "empty cache", "warm": "kernels in the cache"}[state]
        lines.append(_line(f"first train, {words}", "train", state, runs))
        lines.append(_line(f"import, bins, train, predict; {words}", "all", None, runs))
    return lines


def _line(method: str, name: str, target: str | None, runs: list[dict[str, float]]) -> Line:
    samples = tuple(run[name] for run in runs)
    return Line(
        "cold", f"a new process, k={N_CLASSES}", method, 1, "seconds", float(np.median(samples)),
        kind="absolute", target=None if target is None else TARGETS[target], own_samples=samples,
    )  # fmt: skip


def _process(cache: str) -> dict[str, float]:
    """Seconds of a new process with this cache, by what it did."""
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    answer = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": cache},
    )
    if answer.returncode != 0:
        raise RuntimeError(f"the first training of a new process failed:\n{answer.stderr}")
    found: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return found
