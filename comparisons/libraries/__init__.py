"""The competitors, one short module each, behind one function.

A module has ``LIBRARY`` (its name as people write it), ``METHODS`` and

    train(problem, settings, method, on_round) -> Run
    predict(run, X) -> (n, n_classes) probabilities at the best round
    size(run) -> (leaves, bytes) of the model up to the best round

It imports its library when it is itself imported, so that ``find`` can name the
libraries that are not installed and leave them out.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FURTHER_MODULES", "MODULES", "Method", "RoundLog", "Run", "Settings", "find"]

MODULES = {"fullhess": "fullhess_", "XGBoost": "xgboost_", "LightGBM": "lightgbm_"}
FURTHER_MODULES = {
    "scikit-learn": "sklearn_",
    "CatBoost": "catboost_",
    "ChimeraBoost": "chimeraboost_",
}

OnRound = Callable[[float], None]  # called with the held-out loss after every round


@dataclass(frozen=True)
class Settings:
    """What all libraries are told alike.

    ``min_child_weight`` bounds curvature, which every rule measures on a scale of its
    own: the same number binds the true Hessian twice as hard as 2p(1-p). LightGBM's
    small default hardly binds at all and leaves the comparison to the curvature.

    With ``max_leaves``, trees grow by the largest gain to so many leaves, at any depth
    (fullhess, XGBoost and LightGBM).

    With ``patience``, training stops after so many rounds without a lower held-out loss.
    """

    rounds: int = 60
    learning_rate: float = 0.3
    max_depth: int = 4
    max_leaves: int = 0
    reg_lambda: float = 1.0
    min_child_weight: float = 1e-3
    n_jobs: int = 1
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    max_bin: int = 255
    patience: int | None = None
    seed: int = 0

    @property
    def tree(self) -> dict[str, Any]:
        """The size of a tree in the names of fullhess and XGBoost."""
        if self.max_leaves:
            return {"grow_policy": "lossguide", "max_leaves": self.max_leaves, "max_depth": 0}
        return {"max_depth": self.max_depth}

    def min_samples_leaf(self, n_classes: int) -> int:
        """Rows that hold ``min_child_weight`` while all classes are equally probable.

        For libraries that bound the rows of a leaf, not its curvature: a row's mean of
        p(1-p) over k classes is then (k - 1)/k².
        """
        return max(1, round(self.min_child_weight * n_classes**2 / (n_classes - 1)))

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds, learning_rate {self.learning_rate:g}, "
            f"max_depth {self.max_depth}, reg_lambda {self.reg_lambda:g}, "
            f"min_child_weight {self.min_child_weight:g}, "
            f"{self.n_jobs} thread{'s' if self.n_jobs > 1 else ''}"
        )


@dataclass(frozen=True)
class Method:
    """A way to train that one library offers.

    Attributes
    ----------
    name : unique within the library.
    curvature : what stands in for the Hessian of softmax, as a formula.
    params : the library's own settings of this method.
    """

    name: str
    curvature: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Run:
    """What one training gave; all arrays hold one value a round.

    Attributes
    ----------
    library, version, method : who trained.
    train_loss, loss : mean log-loss of the training rows and of the held-out rows.
    error : share of the held-out rows that are classified wrongly.
    seconds, cpu_seconds : time of a round on the clock and of the processor, with its
        evaluation on both sets of rows.
    model : as the library returns it.

    NaN stands for what a library does not tell.
    """

    library: str
    version: str
    method: Method
    train_loss: NDArray[np.float64]
    loss: NDArray[np.float64]
    error: NDArray[np.float64]
    seconds: NDArray[np.float64]
    cpu_seconds: NDArray[np.float64]
    model: Any

    @property
    def name(self) -> str:
        return f"{self.library} {self.method.name}"

    @property
    def best(self) -> int:
        """The round of the lowest held-out loss, from 0."""
        return int(self.loss.argmin())

    @property
    def rises(self) -> int:
        """Rounds that raised the training loss by more than rounding (in float32) can."""
        before, after = self.train_loss[:-1], self.train_loss[1:]
        return int((after > before * (1.0 + 1e-6)).sum())


class RoundLog:
    """Collects the rounds of one training; the libraries' callbacks feed it.

    It also decides when to stop early, so that the rule is the same for all.
    """

    def __init__(self, on_round: OnRound, patience: int | None = None) -> None:
        self.on_round = on_round
        self.patience = patience
        self.rows: list[tuple[float, float, float, float, float]] = []
        self._lowest, self._waited = float("inf"), 0
        self._began = self._cpu_began = 0.0

    def begin(self) -> None:
        self._began, self._cpu_began = time.perf_counter(), time.process_time()

    def end(self, train_loss: float, loss: float, error: float) -> bool:
        """Note a finished round; whether training should stop."""
        seconds = time.perf_counter() - self._began
        cpu_seconds = time.process_time() - self._cpu_began
        self.rows.append((train_loss, loss, error, seconds, cpu_seconds))
        self.on_round(loss)
        self._waited = 0 if loss < self._lowest else self._waited + 1
        self._lowest = min(loss, self._lowest)
        return self.patience is not None and self._waited >= self.patience

    def finish(self, library: str, version: str, method: Method, model: Any) -> Run:
        train_loss, loss, error, seconds, cpu = np.array(self.rows, np.float64).T
        return Run(library, version, method, train_loss, loss, error, seconds, cpu, model)


def find(names: Mapping[str, str] = MODULES) -> tuple[list[ModuleType], list[str]]:
    """Modules of the libraries that can be imported, and a note on each one left out."""
    modules, notes = [], []
    for library, name in names.items():
        try:
            modules.append(importlib.import_module(f"{__name__}.{name}"))
        except ImportError as error:
            command = 'pip install -e ".[compare]"'
            if name in FURTHER_MODULES.values():
                command = f"pip install {library.lower()}"
            notes.append(
                f"{library}, since it cannot be imported ({error}); to compare with it: {command}"
            )
    return modules, notes
