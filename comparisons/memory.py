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
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import fullhess

if TYPE_CHECKING:
    from .speed import Result

__all__ = ["measure", "save_data"]

_ROOT = Path(__file__).resolve().parent.parent
_STATUS = Path("/proc/self/status")


def save_data(
    folder: Path,
    X: NDArray[np.float32],
    label: NDArray[np.int32],
    binned: fullhess.BinnedMatrix,
) -> None:
    """Leave what the child processes need: raw values, labels, codes and cuts."""
    np.save(folder / "X.npy", X)
    np.save(folder / "label.npy", label)
    np.save(folder / "codes.npy", binned.codes)
    np.savez(folder / "cuts.npz", *binned.binning.cuts)


def measure(folder: Path, line: Result, rounds: int) -> float | None:
    """Megabytes that training with a method adds at its peak; None if unknown."""
    request = {
        "folder": str(folder),
        "method": line.method,
        "threads": line.threads,
        "classes": line.classes,
        "rounds": rounds,
    }
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    answer = subprocess.run(
        [sys.executable, "-m", "comparisons.memory", json.dumps(request)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    if answer.returncode != 0:
        raise RuntimeError(f"measuring the memory of {line.method} failed:\n{answer.stderr}")
    value = json.loads(answer.stdout.splitlines()[-1])
    return None if value is None else float(value)


def _child(request: dict[str, Any]) -> float | None:
    """Train as the request says; megabytes added."""
    from .speed import XGBOOST

    threads = request["threads"]
    prepare = _xgboost_job if request["method"] == XGBOOST else _fullhess_job
    train = prepare(Path(request["folder"]), request["method"], request["classes"])
    train(True, 1, threads)  # a few rows: code, thread pools and other lasting things
    _settle()
    before = _reset_peak()
    train(False, request["rounds"], threads)
    after = _peak()
    return None if before is None or after is None else (after - before) / 2**20


Job = Callable[[bool, int, int], object]  # on a few rows only, rounds, threads


def _fullhess_job(folder: Path, method: str, classes: int) -> Job:
    from .speed import METHODS, train_fullhess

    with np.load(folder / "cuts.npz") as stored:
        cuts = [stored[name] for name in stored.files]
    features = fullhess.FeatureSpace.of(len(cuts), "<")
    binning = fullhess.Binning(features, tuple(cuts), (None,) * len(cuts))
    binned = fullhess.BinnedMatrix(np.load(folder / "codes.npy"), binning)
    label = np.load(folder / "label.npy")
    few = fullhess.BinnedMatrix(binned.codes[: _few(label)], binning)
    params = METHODS[method.removeprefix("fullhess ")]

    def train(on_few: bool, rounds: int, threads: int) -> object:
        data, y = (few, np.arange(few.n_samples) % classes) if on_few else (binned, label)
        return train_fullhess(data, y.astype(np.int32), params, rounds, threads)

    return train


def _xgboost_job(folder: Path, method: str, classes: int) -> Job:
    import xgboost

    from .speed import MAX_BINS, train_xgboost

    X = np.load(folder / "X.npy")
    label = np.load(folder / "label.npy")
    n = _few(label)
    options = {"max_bin": MAX_BINS, "nthread": 1}
    data = xgboost.QuantileDMatrix(X, label=label, **options)
    few = xgboost.QuantileDMatrix(X[:n], label=np.arange(n) % classes, **options)

    def train(on_few: bool, rounds: int, threads: int) -> object:
        return train_xgboost(few if on_few else data, classes, rounds, threads)

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
