"""Seconds of prediction: the native predictor, and a host with the exported model.

Each host has a model of its own, trained on its bins as its adapter trains it, so that the
export is exact. Training takes fewer rows than prediction: the shape of the trees is what
counts, and few bins suffice for it. Before the clock runs, both sides must have predicted the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullhess

from ..problems import generated
from ..progress import ProgressBar
from .cases import DIAGONAL, METHODS
from .clocks import alternate
from .lines import Line

__all__ = ["Size", "measure"]

Predict = Callable[[NDArray[np.float32], int], NDArray[Any]]  # rows, threads
N_FEATURES, N_CLASSES = 54, 7
MAX_BIN = 64


@dataclass(frozen=True)
class Size:
    """How much is predicted, and how often for the clock."""

    rows: int = 100_000
    trees: int = 200
    leaves: int = 63
    train_rows: int = 20_000
    repeats: int = 3
    single_calls: int = 200

    def __str__(self) -> str:
        return (
            f"k={N_CLASSES}, {self.rows} × {N_FEATURES}, {self.trees} trees of {self.leaves} leaves"
        )


@dataclass(frozen=True, eq=False)
class Pair:
    """A model, and a host that has it too.

    Attributes
    ----------
    words : the host's way to predict.
    target : ratio of the seconds on many rows that is aimed at.
    """

    model: fullhess.Ensemble
    words: str
    host: Predict
    target: float

    def own(self, X: NDArray[np.float32], threads: int) -> NDArray[Any]:
        return self.model.predict(X, n_jobs=threads)


def measure(
    hosts: Sequence[str], size: Size, threads: Sequence[int], aimed: bool = True
) -> list[Line]:
    """Many rows on every number of threads, then one row at a time on one.

    aimed : whether the targets are meant for this size.
    """
    X, label = generated(max(size.rows, size.train_rows), N_CLASSES, N_FEATURES)
    makers = {"XGBoost": _xgboost_pair, "LightGBM": _lightgbm_pair}
    lines = []
    with ProgressBar(len(hosts) * (2 + len(threads)), "step") as bar:
        for name in hosts:
            bar.start(f"prediction: training for {name}")
            pair = makers[name](X[: size.train_rows], label[: size.train_rows], size, max(threads))
            check_equal(pair, X[:1000])
            bar.advance()
            for n in threads:
                bar.start(f"prediction: {pair.words} ({n} threads)")
                lines.append(_many_rows(pair, X[: size.rows], size, n, aimed))
                bar.advance()
            bar.start(f"prediction: {pair.words}, single rows")
            lines.append(_single_rows(pair, X, size))
            bar.advance()
    return lines


def check_equal(pair: Pair, X: NDArray[np.float32]) -> None:
    """Raise unless both sides predict the same: otherwise the times mean nothing."""
    difference = float(np.abs(pair.own(X, 1) - pair.host(X, 1)).max())
    if not difference < 1e-5:
        raise RuntimeError(
            f"{pair.words} predicts otherwise than the native predictor, by up to {difference:.2g}"
        )


def _many_rows(pair: Pair, X: NDArray[np.float32], size: Size, threads: int, aimed: bool) -> Line:
    seconds = alternate(
        {"own": lambda: pair.own(X, threads), "host": lambda: pair.host(X, threads)}, size.repeats
    )
    return _line(pair, str(size), threads, "seconds", seconds, pair.target if aimed else None)


def _single_rows(pair: Pair, X: NDArray[np.float32], size: Size) -> Line:
    row = X[:1].copy()
    seconds = alternate(
        {"own": lambda: pair.own(row, 1), "host": lambda: pair.host(row, 1)}, size.single_calls
    )
    micro = {name: [1e6 * s for s in samples] for name, samples in seconds.items()}
    return _line(pair, str(size), 1, "microseconds for a single row", micro, None)


def _line(
    pair: Pair, problem: str, threads: int, unit: str, samples: dict[str, list[float]],
    target: float | None,
) -> Line:  # fmt: skip
    own, host = samples["own"], samples["host"]
    return Line(
        "prediction", problem, "native predictor", threads, unit, float(np.median(own)),
        float(np.median(host)), pair.words, target=target, own_samples=tuple(own),
        host_samples=tuple(host),
    )  # fmt: skip


def _train(
    binned: fullhess.BinnedMatrix, label: NDArray[np.int32], size: Size, threads: int, dtype: str
) -> fullhess.Ensemble:
    params = {
        **METHODS[DIAGONAL], "grow_policy": "lossguide", "max_depth": 0, "max_leaves": size.leaves,
        "min_child_weight": 1e-3, "margin_dtype": dtype, "n_jobs": threads,
    }  # fmt: skip
    return fullhess.train(params, binned, label, num_boost_round=size.trees)


def _xgboost_pair(
    X: NDArray[np.float32], label: NDArray[np.int32], size: Size, threads: int
) -> Pair:
    import xgboost

    import fullhess.xgboost as adapter

    matrix = xgboost.QuantileDMatrix(X, label=label, max_bin=MAX_BIN, nthread=threads)
    model = _train(adapter.to_binned(matrix), label, size, threads, "float32")
    booster = adapter.to_xgboost(model, "vector")

    def predict(X: NDArray[np.float32], threads: int) -> NDArray[Any]:
        booster.set_param({"nthread": threads})
        return np.asarray(booster.inplace_predict(X))

    return Pair(model, f"XGBoost {xgboost.__version__}'s inplace_predict", predict, 0.5)


def _lightgbm_pair(
    X: NDArray[np.float32], label: NDArray[np.int32], size: Size, threads: int
) -> Pair:
    import lightgbm

    import fullhess.lightgbm as adapter

    params = {"max_bin": MAX_BIN, "num_threads": threads, "verbosity": -1}
    binned = adapter.to_binned(lightgbm.Dataset(X, label, params=params, free_raw_data=False))
    model = _train(binned, label, size, threads, "float64")
    # A Booster of LightGBM itself, whatever the adapter's own one may do when it predicts.
    booster = lightgbm.Booster(model_str=adapter.to_lightgbm(model).model_to_string())

    def predict(X: NDArray[np.float32], threads: int) -> NDArray[Any]:
        return np.asarray(booster.predict(X, num_threads=threads))

    return Pair(model, f"LightGBM {lightgbm.__version__}'s predict", predict, 0.15)
