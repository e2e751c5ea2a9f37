"""Callbacks: what a user may see and steer between the rounds of boosting.

The loop keeps one ``TrainingState`` and calls, in this order,

    before_training, (before_iteration, after_iteration) for each round, after_training

Everything a callback may read or change is in the state.
"""

from __future__ import annotations

import math
import numbers
import sys
import time
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np

from .params import Params

__all__ = [
    "Callback",
    "CallbackList",
    "EarlyStopping",
    "Evaluation",
    "LearningRateSchedule",
    "PrintEvaluation",
    "Progress",
    "RecordEvaluation",
    "TrainingState",
    "as_callback",
]

History = dict[str, dict[str, list[float]]]


@dataclass(frozen=True)
class Evaluation:
    """One metric on one data set after one round."""

    data_name: str
    metric_name: str
    value: float
    greater_is_better: bool = False


def _no_model() -> Any:
    raise RuntimeError("the model can be read from the first after_iteration on, not before")


@dataclass
class TrainingState:
    """Where training stands.

    Attributes
    ----------
    params : settings of the run.
    num_boost_round : rounds asked for.
    iteration : number of the current round, from 0.
    evaluations : of the current round, data set by data set, metric by metric;
        empty without evaluation sets.
    history : data set to metric to one value a round.
    best_iteration, best_score : set by ``EarlyStopping``, else None.
    learning_rate : in force; change it with ``set_learning_rate``.
    build_model : how the loop makes the ensemble of the rounds done so far.
    """

    params: Params
    num_boost_round: int
    iteration: int = 0
    evaluations: list[Evaluation] = field(default_factory=list)
    history: History = field(default_factory=dict)
    best_iteration: int | None = None
    best_score: float | None = None
    learning_rate: float = math.nan
    build_model: Callable[[], Any] = field(default=_no_model, repr=False)

    def __post_init__(self) -> None:
        if math.isnan(self.learning_rate):
            self.learning_rate = self.params.learning_rate

    @property
    def model(self) -> Any:
        """The ensemble of all rounds done so far, built when asked for."""
        return self.build_model()

    def set_learning_rate(self, value: float) -> None:
        """Change the learning rate from the next round that begins.

        The loop reads ``learning_rate`` once a round, after ``before_iteration``.
        """
        self.learning_rate = _check_rate(value)

    def record(self, evaluations: Iterable[Evaluation]) -> None:
        """Take note of this round's evaluations; called by the loop."""
        self.evaluations = list(evaluations)
        _append(self.history, self.evaluations)


def _append(history: MutableMapping[str, Any], evaluations: Iterable[Evaluation]) -> None:
    for item in evaluations:
        metrics = history.setdefault(item.data_name, {})
        metrics.setdefault(item.metric_name, []).append(item.value)


def _check_rate(value: Any) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 < value <= 1:
        raise ValueError(f"a learning rate must be a number in (0, 1], got {value!r}")
    return float(value)


class Callback:
    """Base class; override what is needed."""

    def before_training(self, state: TrainingState) -> None:
        """Called once, before the first round."""

    def before_iteration(self, state: TrainingState) -> None:
        """Called before a round."""

    def after_iteration(self, state: TrainingState) -> bool | None:
        """Called after a round and its evaluations; True stops training."""
        return None

    def after_training(self, state: TrainingState) -> None:
        """Called once, after the last round or a stop."""


class _Function(Callback):
    """A plain function as a callback after every round."""

    def __init__(self, function: Callable[[TrainingState], bool | None]) -> None:
        self.function = function

    def after_iteration(self, state: TrainingState) -> bool | None:
        return self.function(state)


def as_callback(callback: Any) -> Callback:
    """A callback as it is, a function ``f(state) -> bool | None`` wrapped."""
    if isinstance(callback, Callback):
        return callback
    if isinstance(callback, type) or not callable(callback):
        shown = f"the class {callback.__name__}" if isinstance(callback, type) else repr(callback)
        raise TypeError(
            "a callback must be an instance of fullhess.Callback or a function of the training "
            f"state, got {shown}"
        )
    return _Function(callback)


class CallbackList(Callback):
    """Several callbacks as one, called in their order."""

    def __init__(self, callbacks: Iterable[Any] | None = None) -> None:
        self.callbacks = [as_callback(callback) for callback in callbacks or ()]

    def before_training(self, state: TrainingState) -> None:
        for callback in self.callbacks:
            callback.before_training(state)

    def before_iteration(self, state: TrainingState) -> None:
        for callback in self.callbacks:
            callback.before_iteration(state)

    def after_iteration(self, state: TrainingState) -> bool:
        """Whether one of them stops training; all of them see the round."""
        return any([_stops(callback, state) for callback in self.callbacks])

    def after_training(self, state: TrainingState) -> None:
        for callback in self.callbacks:
            callback.after_training(state)


def _stops(callback: Callback, state: TrainingState) -> bool:
    answer = callback.after_iteration(state)
    if answer is None or isinstance(answer, (bool, np.bool_)):
        return bool(answer)
    inner = callback.function if isinstance(callback, _Function) else callback
    raise TypeError(
        f"callback {inner!r} must return True to stop, False or None to go on, got {answer!r}"
    )


class EarlyStopping(Callback):
    """Stop when a metric has not improved for some rounds.

    Leaves ``best_iteration`` and ``best_score`` in the training state.

    Parameters
    ----------
    rounds : how many rounds in a row without improvement stop training.
    metric : name of the metric; None: the last one of the data set.
    data : name of the evaluation set; None: the last one.
    min_delta : an improvement must be larger than this.
    """

    def __init__(
        self,
        rounds: int,
        metric: str | None = None,
        data: str | None = None,
        min_delta: float = 0.0,
    ) -> None:
        self.rounds = _check_count("rounds", rounds)
        self.metric = metric
        self.data = data
        self.min_delta = _check_size("min_delta", min_delta)
        self._waited = 0
        self._best: float | None = None  # not read from the state: two may watch different sets

    def before_training(self, state: TrainingState) -> None:
        self._waited = 0
        self._best = state.best_iteration = state.best_score = None

    def after_iteration(self, state: TrainingState) -> bool:
        watched = self._watched(state.evaluations)
        if self._improves(watched):
            self._best = state.best_score = watched.value
            state.best_iteration = state.iteration
            self._waited = 0
        else:
            self._waited += 1
        return self._waited >= self.rounds

    def _improves(self, watched: Evaluation) -> bool:
        if math.isnan(watched.value):
            return False
        if self._best is None:
            return True
        if watched.greater_is_better:
            return watched.value > self._best + self.min_delta
        return watched.value < self._best - self.min_delta

    def _watched(self, evaluations: list[Evaluation]) -> Evaluation:
        if not evaluations:
            raise ValueError(
                "early stopping needs an evaluation set, got none; pass evals=[...] to train or "
                "leave EarlyStopping out"
            )
        data = evaluations[-1].data_name if self.data is None else self.data
        of_data = [item for item in evaluations if item.data_name == data]
        if not of_data:
            known = _listed(item.data_name for item in evaluations)
            raise ValueError(f"early stopping watches data {data!r}; evaluated are {known}")
        if self.metric is None:
            return of_data[-1]
        for item in of_data:
            if item.metric_name == self.metric:
                return item
        known = _listed(item.metric_name for item in of_data)
        raise ValueError(
            f"early stopping watches metric {self.metric!r}; evaluated on {data!r} are {known}"
        )


class RecordEvaluation(Callback):
    """Keep the history of all metrics in the caller's dictionary.

    Parameters
    ----------
    result : emptied when training begins; then data set to metric to one value
        a round.
    """

    def __init__(self, result: MutableMapping[str, Any]) -> None:
        if not isinstance(result, MutableMapping):
            raise TypeError(f"result must be a dictionary to fill, got {type(result).__name__}")
        self.result = result

    def before_training(self, state: TrainingState) -> None:
        self.result.clear()

    def after_iteration(self, state: TrainingState) -> None:
        _append(self.result, state.evaluations)


class PrintEvaluation(Callback):
    """Print the metrics of every ``period``-th round and of the last one.

    Parameters
    ----------
    period : rounds from one line to the next.
    file : where to print; None: standard output.
    """

    def __init__(self, period: int = 1, file: TextIO | None = None) -> None:
        self.period = _check_count("period", period)
        self.file = file
        self._pending: str | None = None

    def before_training(self, state: TrainingState) -> None:
        self._pending = None

    def after_iteration(self, state: TrainingState) -> None:
        self._pending = None
        if not state.evaluations:
            return
        line = f"[{state.iteration}] {_in_words(state.evaluations)}"
        if state.iteration % self.period == 0:
            print(line, file=self.file, flush=True)
        else:
            self._pending = line

    def after_training(self, state: TrainingState) -> None:
        if self._pending is not None:
            print(self._pending, file=self.file, flush=True)
        self._pending = None


class Progress(Callback):
    """A progress bar with the latest metrics; without tqdm a line now and then.

    Parameters
    ----------
    description : text before the bar.
    seconds : without tqdm, time from one line to the next.
    file : where to write; None: standard error.
    """

    def __init__(
        self,
        description: str = "boosting",
        seconds: float = 5.0,
        file: TextIO | None = None,
    ) -> None:
        self.description = description
        self.seconds = _check_size("seconds", seconds)
        self.file = file
        self._bar: Any = None
        self._done = 0
        self._printed_at = -math.inf

    def before_training(self, state: TrainingState) -> None:
        self._close_bar()  # of a training that an error ended
        self._done = 0
        self._printed_at = time.monotonic()
        self._bar = self._open_bar(state.num_boost_round)

    def after_iteration(self, state: TrainingState) -> None:
        self._done += 1
        metrics = _in_words(state.evaluations)
        if self._bar is not None:
            self._bar.set_postfix_str(metrics, refresh=False)
            self._bar.update(1)
        elif time.monotonic() - self._printed_at >= self.seconds:
            self._print(state, metrics)

    def after_training(self, state: TrainingState) -> None:
        if self._bar is None:
            self._print(state, _in_words(state.evaluations))
        self._close_bar()

    def _open_bar(self, total: int) -> Any:
        try:
            from tqdm import tqdm
        except ImportError:
            return None
        return tqdm(total=total, desc=self.description, file=self.file, unit="round")

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None

    def _print(self, state: TrainingState, metrics: str) -> None:
        line = f"{self.description}: {self._done}/{state.num_boost_round} {metrics}".rstrip()
        print(line, file=self.file or sys.stderr, flush=True)
        self._printed_at = time.monotonic()


class LearningRateSchedule(Callback):
    """Set the learning rate of every round.

    Parameters
    ----------
    rates : a function of the round's number (from 0), or a sequence with a rate
        for each round.
    """

    def __init__(self, rates: Callable[[int], float] | Sequence[float]) -> None:
        if not callable(rates):
            rates = [_check_rate(rate) for rate in rates]
        self.rates = rates

    def before_training(self, state: TrainingState) -> None:
        if not callable(self.rates) and len(self.rates) < state.num_boost_round:
            raise ValueError(
                f"expected a learning rate for each of {state.num_boost_round} rounds, got "
                f"{len(self.rates)}; lengthen the list or pass a function of the round"
            )

    def before_iteration(self, state: TrainingState) -> None:
        rates = self.rates
        rate = rates(state.iteration) if callable(rates) else rates[state.iteration]
        state.set_learning_rate(rate)


def _check_count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} must be an integer, 1 or more, got {value!r}")
    return int(value)


def _check_size(name: str, value: Any) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number, 0 or more, got {value!r}")
    return float(value)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in dict.fromkeys(names))


def _in_words(evaluations: list[Evaluation]) -> str:
    return "  ".join(f"{e.data_name}-{e.metric_name}:{e.value:.6g}" for e in evaluations)
