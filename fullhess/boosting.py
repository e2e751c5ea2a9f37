"""Training with evaluation sets and callbacks."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bins import BinnedMatrix
from .callbacks import CallbackList, Evaluation, TrainingState
from .ensemble import Ensemble
from .metrics import Metric
from .objectives import Objective
from .params import Params
from .trainer import Follower, Trainer
from .validation import check_rounds, check_weight, read_metrics
from .warmup import notice_cold_cache

__all__ = ["EvalSet", "train"]


@dataclass(frozen=True, eq=False)
class EvalSet:
    """Data to evaluate after every round.

    Attributes
    ----------
    binned : with the binning of the training data.
    label, weight, base_margin : as in ``train``.
    name : under which the metrics appear.
    """

    binned: BinnedMatrix
    label: Any
    weight: Any = None
    base_margin: Any = None
    name: str = "valid"


def train(
    params: dict[str, Any] | Params | None,
    binned: BinnedMatrix,
    label: Any,
    *,
    weight: Any = None,
    base_margin: Any = None,
    evals: Sequence[EvalSet] = (),
    num_boost_round: int = 100,
    callbacks: Iterable[Any] = (),
    init_model: Ensemble | None = None,
    objective: Objective | None = None,
    metric: Any = None,
) -> Ensemble:
    """Boost trees with vector leaves.

    Parameters
    ----------
    params : names and values, see ``Params``.
    binned : (n_samples, n_features) bin codes.
    label : (n_samples,) classes 0 to k - 1, or (n_samples, k) targets.
    weight : (n_samples,) non-negative sample weights.
    base_margin : (n_samples, k) scores to start from instead of the intercept.
    evals : data to evaluate; the last one is what early stopping watches.
    num_boost_round : rounds to add.
    callbacks : ``Callback`` objects or functions of the training state.
    init_model : model to continue; its rounds come first in the result. With
        ``best_iteration`` set, training continues from that round.
    objective : an ``Objective`` of one's own (``CustomObjective``) in place of
        ``params["objective"]``.
    metric : name, function, or a list of these; by default the objective's own.

    Returns
    -------
    Ensemble, also after a KeyboardInterrupt: the rounds finished until then.
    """
    n_rounds = check_rounds(num_boost_round)
    with Trainer(
        params,
        binned,
        label,
        weight=weight,
        base_margin=base_margin,
        init_model=init_model,
        objective=objective,
    ) as trainer:
        metrics = read_metrics(metric, trainer.objective)
        watched = [_watch(trainer, item, base_margin) for item in _check_evals(evals)]
        return _run(trainer, n_rounds, CallbackList(callbacks), metrics, watched)


@dataclass(frozen=True, eq=False)
class _Watched:
    name: str
    label: NDArray[Any]
    weight: NDArray[np.float64] | None
    source: Trainer | Follower  # of the scores


def _watch(trainer: Trainer, item: EvalSet, train_margin: Any) -> _Watched:
    label = trainer.objective.check_label(item.label, item.binned.n_samples)
    weight = None
    if item.weight is not None:
        weight = check_weight(item.weight, item.binned.n_samples)
    # The training set among the evaluation sets shares the scores of the run.
    shared = item.binned is trainer.binned and item.base_margin is train_margin
    source: Trainer | Follower = trainer
    if not shared:
        source = trainer.follow(item.binned, base_margin=item.base_margin, name=item.name)
    return _Watched(item.name, label, weight, source)


def _run(
    trainer: Trainer,
    num_boost_round: int,
    callbacks: CallbackList,
    metrics: Sequence[Metric],
    watched: Sequence[_Watched],
) -> Ensemble:
    n_init = trainer.n_rounds
    state = TrainingState(trainer.params, num_boost_round, build_model=trainer.model)
    notice_cold_cache()
    callbacks.before_training(state)
    try:
        for iteration in range(num_boost_round):
            state.iteration = iteration
            callbacks.before_iteration(state)
            trainer.step(state.learning_rate)
            state.record(_evaluate(metrics, watched))
            if callbacks.after_iteration(state):
                break
    except KeyboardInterrupt:
        warnings.warn(
            f"training was interrupted after {trainer.n_rounds - n_init} of {num_boost_round} "
            "rounds; the model holds these",
            UserWarning,
            stacklevel=3,
        )
    callbacks.after_training(state)
    best = state.best_iteration
    return trainer.model(None if best is None else n_init + best)


def _evaluate(metrics: Sequence[Metric], watched: Sequence[_Watched]) -> list[Evaluation]:
    results = []
    for item in watched:
        raw = item.source.raw
        for metric in metrics:
            value = metric.evaluate(raw, item.label, item.weight)
            results.append(Evaluation(item.name, value.name, value.value, value.greater_is_better))
    return results


def _check_evals(evals: Any) -> list[EvalSet]:
    items = list(evals or ())
    for item in items:
        if not isinstance(item, EvalSet):
            raise TypeError(
                f"evals must be fullhess.EvalSet objects, got {type(item).__name__}; write "
                "evals=[fullhess.EvalSet(binned, label, name='valid')]"
            )
    names = [item.name for item in items]
    if len(set(names)) != len(names):
        raise ValueError(f"evaluation sets must have different names, got {names}")
    return items
