"""Trainings whose rounds are timed from callbacks, the same way for every library."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullhess

__all__ = [
    "MAX_BINS",
    "Timed",
    "Train",
    "alternate",
    "on_lightgbm_bins",
    "on_xgboost_bins",
    "train_fullhess",
    "train_lightgbm",
    "train_xgboost",
    "version",
]

MAX_BINS = {"XGBoost": 256, "LightGBM": 255}  # the libraries' own defaults
# Hardly any curvature is asked of a leaf: every rule measures it on a scale of its own, and
# trees of other sizes would be compared.
COMMON = {"learning_rate": 0.1, "reg_lambda": 1.0, "min_child_weight": 1e-3}
_MIN_ROWS = {"XGBoost": 1, "LightGBM": 20}  # of a leaf; XGBoost has no such bound


@dataclass
class Timed:
    """Seconds of every round, and the mean number of leaves of a tree."""

    seconds: list[float] = field(default_factory=list)
    leaves: float = 0.0


Train = Callable[[int, int], Timed]  # rounds, threads


class _Clock:
    """Collects the times at which rounds begin and end."""

    def __init__(self) -> None:
        self.began: list[float] = []
        self.ended: list[float] = []

    def begin(self) -> None:
        self.began.append(time.perf_counter())

    def end(self) -> None:
        self.ended.append(time.perf_counter())

    def read(self, leaves: float) -> Timed:
        pairs = zip(self.began, self.ended, strict=True)
        return Timed([end - begin for begin, end in pairs], leaves)


def train_fullhess(
    binned: fullhess.BinnedMatrix,
    label: NDArray[np.int32],
    params: Mapping[str, Any],
    rounds: int,
    threads: int,
) -> Timed:
    """params : the method, and the size of a tree."""

    class Recorder(fullhess.Callback):
        def before_iteration(self, state: fullhess.TrainingState) -> None:
            clock.begin()

        def after_iteration(self, state: fullhess.TrainingState) -> None:
            clock.end()

    clock = _Clock()
    settings = {**COMMON, **params, "n_jobs": threads}
    model = fullhess.train(settings, binned, label, num_boost_round=rounds, callbacks=[Recorder()])
    return clock.read(float(np.mean([tree.n_leaves for tree in model.trees])))


def train_xgboost(
    matrix: Any, n_classes: int, tree: Mapping[str, Any], rounds: int, threads: int
) -> Timed:
    """One vector tree a round."""
    import xgboost

    class Recorder(xgboost.callback.TrainingCallback):  # type: ignore[misc,unused-ignore]
        def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            clock.begin()
            return False

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            clock.end()
            return False

    clock = _Clock()
    params = {
        "objective": "multi:softprob",
        "num_class": n_classes,
        "multi_strategy": "multi_output_tree",
        "tree_method": "hist",
        "max_bin": MAX_BINS["XGBoost"],
        "nthread": threads,
        **COMMON,
        **tree,
    }
    model = xgboost.train(params, matrix, rounds, verbose_eval=False, callbacks=[Recorder()])
    trees = json.loads(model.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    return clock.read(float(np.mean([tree["left_children"].count(-1) for tree in trees])))


def train_lightgbm(
    dataset: Any, n_classes: int, tree: Mapping[str, Any], rounds: int, threads: int
) -> Timed:
    """k trees a round."""
    import lightgbm

    def begin(env: Any) -> None:
        clock.begin()

    def end(env: Any) -> None:
        clock.end()

    begin.before_iteration = True  # type: ignore[attr-defined]
    clock = _Clock()
    params = {
        "objective": "multiclass",
        "num_class": n_classes,
        "num_threads": threads,
        "learning_rate": COMMON["learning_rate"],
        "lambda_l2": COMMON["reg_lambda"],
        "min_sum_hessian_in_leaf": COMMON["min_child_weight"],
        "min_data_in_leaf": _MIN_ROWS["LightGBM"],
        "max_depth": tree["max_depth"] or -1,
        "num_leaves": tree.get("max_leaves") or 2 ** tree["max_depth"],
        "max_bin": MAX_BINS["LightGBM"],
        "verbosity": -1,
    }
    model = lightgbm.train(params, dataset, rounds, callbacks=[begin, end])
    text = model.model_to_string().splitlines()
    leaves = [int(line.partition("=")[2]) for line in text if line.startswith("num_leaves=")]
    return clock.read(float(np.mean(leaves)))


def on_xgboost_bins(
    X: NDArray[np.float32], label: NDArray[np.int32], tree: Mapping[str, Any]
) -> tuple[Train, fullhess.BinnedMatrix, dict[str, Any]]:
    """XGBoost's training, the same bins for fullhess, and fullhess's size of a tree."""
    import xgboost

    from fullhess.xgboost import to_binned

    matrix = xgboost.QuantileDMatrix(X, label=label, max_bin=MAX_BINS["XGBoost"], nthread=1)
    k = int(label.max()) + 1

    def train(rounds: int, threads: int) -> Timed:
        return train_xgboost(matrix, k, tree, rounds, threads)

    return train, to_binned(matrix), {**tree, "min_samples_leaf": _MIN_ROWS["XGBoost"]}


def on_lightgbm_bins(
    X: NDArray[np.float32], label: NDArray[np.int32], tree: Mapping[str, Any]
) -> tuple[Train, fullhess.BinnedMatrix, dict[str, Any]]:
    """The same with LightGBM."""
    import lightgbm

    from fullhess.lightgbm import to_binned

    params = {
        "max_bin": MAX_BINS["LightGBM"], "min_data_in_leaf": _MIN_ROWS["LightGBM"],
        "verbosity": -1,
    }  # fmt: skip
    dataset = lightgbm.Dataset(X, label, params=params, free_raw_data=False).construct()
    k = int(label.max()) + 1

    def train(rounds: int, threads: int) -> Timed:
        return train_lightgbm(dataset, k, tree, rounds, threads)

    return train, to_binned(dataset), {**tree, "min_samples_leaf": _MIN_ROWS["LightGBM"]}


def version(library: str) -> str:
    """The library as results name it."""
    import importlib

    module = importlib.import_module(library.lower())
    strategy = {"XGBoost": "'s multi_output_tree", "LightGBM": "'s tree per class"}[library]
    return f"{library} {module.__version__}{strategy}"


def alternate(actions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of every action, in turns; a first call of each is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(repeats):
        for name, action in actions.items():
            began = time.perf_counter()
            kept = action()
            seconds[name].append(time.perf_counter() - began)
            del kept  # what it takes to give back memory belongs to nobody
    return seconds
