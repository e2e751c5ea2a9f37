"""Seconds to prepare data: what the adapters add to the host's own matrix or data set.

Both sides build the host's object anew each time; ours then also takes its bins over, as
training with the adapter does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..problems import generated
from ..progress import ProgressBar
from .clocks import MAX_BINS, alternate
from .lines import Line

__all__ = ["measure"]

TARGET = 1.15
N_FEATURES = 54
Build = Callable[[], object]


def measure(
    hosts: Sequence[str], rows: int, threads: Sequence[int], repeats: int, aimed: bool = True
) -> list[Line]:
    """One ratio for each host, kind of data and number of threads.

    aimed : whether the target is meant for so many rows.
    """
    X, label = generated(rows, 7, N_FEATURES)
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape, np.float32) < 0.1] = np.nan
    kinds = {"dense float32": X, "float32, 10 % missing": holes}
    builders = {"XGBoost": _xgboost_builds, "LightGBM": _lightgbm_builds}
    lines = []
    with ProgressBar(len(hosts) * len(kinds) * len(threads), "step") as bar:
        for host in hosts:
            for words, values in kinds.items():
                for n in threads:
                    bar.start(f"binning: {host}, {words} ({n} threads)")
                    against, alone, own = builders[host](values, label, n)
                    seconds = alternate({"host": alone, "own": own}, repeats)
                    lines.append(
                        _line(f"{rows} × {N_FEATURES} {words}", against, n, seconds, aimed)
                    )
                    bar.advance()
    return lines


def _line(
    problem: str, against: str, threads: int, seconds: dict[str, list[float]], aimed: bool
) -> Line:
    own, host = seconds["own"], seconds["host"]
    return Line(
        "binning", problem, "with the adapter", threads, "seconds to prepare data",
        float(np.median(own)), float(np.median(host)), f"{against} alone",
        target=TARGET if aimed else None, own_samples=tuple(own), host_samples=tuple(host),
    )  # fmt: skip


def _xgboost_builds(
    X: NDArray[np.float32], label: NDArray[np.int32], threads: int
) -> tuple[str, Build, Build]:
    """The host's name, its construction alone, and that through the adapter."""
    import xgboost

    import fullhess.xgboost as adapter

    def build(module: Any) -> Any:
        return module.QuantileDMatrix(X, label=label, max_bin=MAX_BINS["XGBoost"], nthread=threads)

    def own() -> object:
        matrix = build(adapter)
        return matrix, adapter.to_binned(matrix, nthread=threads)

    return f"XGBoost {xgboost.__version__}'s QuantileDMatrix", lambda: build(xgboost), own


def _lightgbm_builds(
    X: NDArray[np.float32], label: NDArray[np.int32], threads: int
) -> tuple[str, Build, Build]:
    """The same with LightGBM."""
    import lightgbm

    import fullhess.lightgbm as adapter

    params = {"max_bin": MAX_BINS["LightGBM"], "num_threads": threads, "verbosity": -1}

    def build(module: Any) -> Any:
        return module.Dataset(X, label, params=dict(params)).construct()

    def own() -> object:
        dataset = build(adapter)
        return dataset, adapter.to_binned(dataset)

    return f"LightGBM {lightgbm.__version__}'s Dataset", lambda: build(lightgbm), own
