"""Trainings whose rounds alone are timed: no binning, no compilation, no evaluation.

The loops are written out here, since the libraries' own evaluate held-out rows within what
a callback can see. The loss is computed from raw scores by the same function for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fullhess

from .libraries import Method, OnRound, Settings
from .problems import Problem

__all__ = ["Curve", "log_loss_of_scores", "train"]


@dataclass
class Curve:
    """Held-out losses and seconds of training, one of each a round.

    Attributes
    ----------
    losses : mean log-loss of the held-out rows.
    seconds : of the round itself.
    version : of the library.
    """

    version: str
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def should_stop(self, patience: int | None) -> bool:
        """Whether the last ``patience`` rounds brought no lower loss."""
        if patience is None or not self.losses:
            return False
        return len(self.losses) - 1 - int(np.argmin(self.losses)) >= patience


Step = Callable[[], None]  # one round
Scores = Callable[[], NDArray[Any]]  # (n, k) raw scores of the held-out rows, after the last


def train(
    library: str, problem: Problem, settings: Settings, method: Method, on_round: OnRound
) -> Curve:
    """Train until the loss no longer falls; ``on_round`` is called with every loss."""
    starts = {"fullhess": _fullhess, "XGBoost": _xgboost, "LightGBM": _lightgbm}
    label = np.asarray(problem.y_valid, np.intp)
    with starts[library](problem, settings, method) as (version, step, scores):
        curve = Curve(version)
        while len(curve.losses) < settings.rounds and not curve.should_stop(settings.patience):
            began = time.perf_counter()
            step()
            curve.seconds.append(time.perf_counter() - began)
            curve.losses.append(log_loss_of_scores(scores(), label))
            on_round(curve.losses[-1])
    return curve


def log_loss_of_scores(raw: NDArray[Any], label: NDArray[np.intp]) -> float:
    """Mean log-loss of softmax.

    Parameters
    ----------
    raw : (n, k) scores.
    label : (n,) classes.
    """
    wide = raw.astype(np.float64)
    top = wide.max(axis=1)
    total = np.log(np.exp(wide - top[:, None]).sum(axis=1)) + top
    return float((total - wide[np.arange(len(label)), label]).mean())


@contextmanager
def _fullhess(
    problem: Problem, settings: Settings, method: Method
) -> Iterator[tuple[str, Step, Scores]]:
    from .libraries.fullhess_ import bin_data, parameters

    binned, valid = bin_data(problem, settings.max_bin, settings.n_jobs)
    params = {**parameters(settings, method), "num_class": problem.n_classes}
    with fullhess.Trainer(params, binned, problem.y_train) as trainer:
        follower = trainer.follow(valid)
        yield fullhess.__version__, trainer.step, lambda: follower.raw


@contextmanager
def _xgboost(
    problem: Problem, settings: Settings, method: Method
) -> Iterator[tuple[str, Step, Scores]]:
    import xgboost

    from .libraries.xgboost_ import parameters

    common: dict[str, Any] = {"nthread": settings.n_jobs, "max_bin": settings.max_bin}
    data = xgboost.QuantileDMatrix(problem.X_train, label=problem.y_train, **common)
    valid = xgboost.QuantileDMatrix(problem.X_valid, label=problem.y_valid, ref=data, **common)
    booster = xgboost.Booster(parameters(problem, settings, method), [data, valid])
    rounds = iter(range(settings.rounds))
    yield (
        xgboost.__version__,
        lambda: booster.update(data, next(rounds)),
        lambda: booster.predict(valid, output_margin=True),
    )


@contextmanager
def _lightgbm(
    problem: Problem, settings: Settings, method: Method
) -> Iterator[tuple[str, Step, Scores]]:
    """The held-out rows are no valid set: LightGBM would score them while it trains."""
    import lightgbm

    from .libraries.lightgbm_ import data_parameters, parameters

    data = lightgbm.Dataset(problem.X_train, problem.y_train, params=data_parameters(settings))
    booster = lightgbm.Booster(parameters(problem, settings, method), data)
    X = np.ascontiguousarray(problem.X_valid, np.float32)
    raw: NDArray[Any] = np.zeros((len(X), problem.n_classes))

    def scores() -> NDArray[Any]:
        last = booster.current_iteration() - 1
        raw[:] += booster.predict(
            X, start_iteration=last, num_iteration=1, raw_score=True, num_threads=settings.n_jobs
        )
        return raw

    yield lightgbm.__version__, lambda: _update(booster), scores


def _update(booster: Any) -> None:
    booster.update()
