"""How much memory training adds, measured in a process of its own.

The child process loads the data, trains on a few rows so that all code is loaded,
and notes its memory. Then it trains on the data; what its peak lies above the note
is the answer.

Linux tells the peak of a process and lets it be reset, so that neither the making
of the data nor the size of the parent (which ``ru_maxrss`` inherits) can hide what
training takes. Elsewhere the growth of ``ru_maxrss`` must do.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullhess

from ..progress import ProgressBar
from .cases import METHODS, Case, Rows
from .clocks import MAX_BINS, on_xgboost_bins, train_fullhess, train_xgboost, version
from .lines import Line

__all__ = ["measure"]

TARGET = 1.3
HOST = "XGBoost"
_ROOT = Path(__file__).resolve().parents[2]
_STATUS = Path("/proc/self/status")


def measure(case: Case, rows: Rows, threads: int) -> list[Line]:
    """What every method of a case adds at its peak, beside XGBoost.

    A case on fewer rows than it was made for has no targets.
    """
    lines: list[Line] = []
    full_size = any(target is not None for target in case.targets.values())
    with tempfile.TemporaryDirectory() as folder, ProgressBar(1 + len(case.targets), "run") as bar:
        _save_data(Path(folder), rows, case)
        bar.start(f"memory: {HOST}")
        host = _megabytes(Path(folder), HOST, case, threads)
        for name in case.targets:
            bar.advance()
            bar.start(f"memory: {name}")
            own = _megabytes(Path(folder), name, case, threads)
            if own is None:  # neither can be told here
                return []
            lines.append(
                Line(
                    "memory", rows.words, name, threads, "megabytes that training adds", own, host,
                    version(HOST), target=TARGET if full_size else None,
                )
            )  # fmt: skip
        bar.advance()
    return lines


def _save_data(folder: Path, rows: Rows, case: Case) -> None:
    """Leave what the child processes need: raw values, labels, codes and cuts."""
    _, binned, _ = on_xgboost_bins(rows.X, rows.label, case.tree)
    np.save(folder / "X.npy", rows.X)
    np.save(folder / "label.npy", rows.label)
    np.save(folder / "codes.npy", binned.codes)
    np.savez(folder / "cuts.npz", *binned.binning.cuts)


def _megabytes(folder: Path, method: str, case: Case, threads: int) -> float | None:
    """Megabytes that training with a method adds at its peak; None if unknown."""
    request = {
        "folder": str(folder), "method": method, "threads": threads, "classes": case.n_classes,
        "rounds": case.rounds, "tree": dict(case.tree),
    }  # fmt: skip
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    answer = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(request)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    if answer.returncode != 0:
        raise RuntimeError(f"measuring the memory of {method} failed:\n{answer.stderr}")
    value = json.loads(answer.stdout.splitlines()[-1])
    return None if value is None else float(value)


def _child(request: dict[str, Any]) -> float | None:
    """Train as the request says; megabytes added."""
    threads = request["threads"]
    prepare = _xgboost_job if request["method"] == HOST else _fullhess_job
    train = prepare(Path(request["folder"]), request)
    train(True, 1, threads)  # a few rows: code, thread pools and other lasting things
    _settle()
    before = _reset_peak()
    train(False, request["rounds"], threads)
    after = _peak()
    return None if before is None or after is None else (after - before) / 2**20


Job = Callable[[bool, int, int], object]  # on a few rows only, rounds, threads


def _fullhess_job(folder: Path, request: dict[str, Any]) -> Job:
    with np.load(folder / "cuts.npz") as stored:
        cuts = [stored[name] for name in stored.files]
    features = fullhess.FeatureSpace.of(len(cuts), "<")
    binning = fullhess.Binning(features, tuple(cuts), (None,) * len(cuts))
    binned = fullhess.BinnedMatrix(np.load(folder / "codes.npy"), binning)
    label = np.load(folder / "label.npy")
    few = fullhess.BinnedMatrix(binned.codes[: _few(label)], binning)
    few_labels = (np.arange(few.n_samples) % request["classes"]).astype(np.int32)
    params = {**request["tree"], **METHODS[request["method"]]}

    def train(on_few: bool, rounds: int, threads: int) -> object:
        data, y = (few, few_labels) if on_few else (binned, label)
        return train_fullhess(data, y, params, rounds, threads)

    return train


def _xgboost_job(folder: Path, request: dict[str, Any]) -> Job:
    import xgboost

    X = np.load(folder / "X.npy")
    label = np.load(folder / "label.npy")
    n, classes = _few(label), request["classes"]
    options = {"max_bin": MAX_BINS[HOST], "nthread": 1}
    data = xgboost.QuantileDMatrix(X, label=label, **options)
    few = xgboost.QuantileDMatrix(X[:n], label=np.arange(n) % classes, **options)

    def train(on_few: bool, rounds: int, threads: int) -> object:
        return train_xgboost(few if on_few else data, classes, request["tree"], rounds, threads)

    return train


def _few(label: NDArray[Any]) -> int:
    return min(500, len(label))


def _settle() -> None:
    """Give back memory that is free but still counted."""
    gc.collect()
    if sys.platform == "linux":
        try:
            ctypes.CDLL(None).malloc_trim(0)
        except (OSError, AttributeError):
            return  # a C library without it


def _reset_peak() -> float | None:
    """Let the peak begin anew; the memory in use, in bytes."""
    if sys.platform == "linux":
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return _status("VmHWM")  # the peak so far: less is seen, nothing is invented
        return _status("VmRSS")
    return _peak()


def _peak() -> float | None:
    """The largest memory of this process so far, in bytes."""
    if sys.platform == "linux":
        return _status("VmHWM")
    try:
        import resource
    except ImportError:  # Windows
        return None
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # bytes on macOS


def _status(name: str) -> float | None:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return float(line.split()[1]) * 1024
    return None


if __name__ == "__main__":
    print(json.dumps(_child(json.loads(sys.argv[1]))))
