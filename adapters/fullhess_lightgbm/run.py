"""One training run on the host's data sets: the engine's trainer behind a Booster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fullhess import (
    BinnedMatrix,
    Binning,
    Ensemble,
    FeatureSpace,
    Params,
    Softmax,
    Trainer,
    Tree,
)
from fullhess.trainer import Follower
from fullhess.validation import check_weight
from fullhess.warmup import notice_cold_cache

from ._host import HostDataset
from .data import HostData, read_dataset
from .export import constant_tree, fold_base_score, model_text
from .metrics import choose_metrics, probabilities
from .objective import Function, HostFunction
from .params import Settings, text_params

__all__ = ["Run"]

_SMALLEST_SHARE = 1e-15  # of a class without rows, as in the host


@dataclass(eq=False)
class _Watched:
    """A data set and its scores.

    Attributes
    ----------
    start : (n, k) scores before the first round.
    follower : None before the trainer exists, and for the training data.
    """

    dataset: HostDataset
    binned: BinnedMatrix
    label: NDArray[Any]
    weight: NDArray[np.float64]
    start: NDArray[np.float64]
    follower: Follower | None = None


class Run:
    """A run in steps.

    Parameters
    ----------
    params : host parameters and our own.
    train_set : constructed here if need be.
    n_init_rounds : rounds of a model to continue, whose scores the data sets hold.

    Attributes
    ----------
    changed : the model has grown since ``text`` was last asked for.
    """

    def __init__(
        self, params: Mapping[str, Any], train_set: HostDataset, n_init_rounds: int = 0
    ) -> None:
        self.settings = Settings.of(params)
        self.metrics = choose_metrics(self.settings)
        self.params = dict(params)
        self.n_init_rounds = n_init_rounds
        self.changed = True
        self._objective: Softmax | HostFunction
        k = self.settings.n_outputs
        self._objective = Softmax(k) if self.settings.is_softmax else HostFunction(k)
        self._data = self._read(train_set)
        train = self._watch(train_set, self._data.binned)
        self.base_score = self._intercept(train)
        self._watched = [train]
        train.start = train.start + self.base_score
        self._trainer: Trainer | NoSplits | None = None
        if self.settings.is_softmax:
            self._trainer = self._new_trainer()
            self._trainer.close()

    @property
    def n_outputs(self) -> int:
        return self.settings.n_outputs

    @property
    def n_rounds(self) -> int:
        """Rounds so far, those continued included."""
        return self.n_init_rounds + (0 if self._trainer is None else self._trainer.n_rounds)

    def _read(self, dataset: HostDataset) -> HostData:
        data = read_dataset(dataset, self.settings.verbosity)
        return _restrict(data, self.settings.allowed)

    def _watch(self, dataset: HostDataset, binned: BinnedMatrix) -> _Watched:
        label = dataset.get_field("label")
        if label is None:
            raise ValueError("the Dataset has no labels; pass label= when you create it")
        checked = Softmax(self.n_outputs) if self.metrics else self._objective
        label = checked.check_label(np.asarray(label, np.float64), binned.n_samples)
        weight = check_weight(dataset.get_field("weight"), binned.n_samples)
        return _Watched(dataset, binned, label, weight, self._init_score(dataset, len(label)))

    def _init_score(self, dataset: HostDataset, n: int) -> NDArray[np.float64]:
        scores = dataset.get_field("init_score")
        if scores is None:
            return np.zeros((n, self.n_outputs))
        scores = np.asarray(scores, np.float64)
        if scores.size != n * self.n_outputs:
            raise ValueError(
                f"init_score must have {self.n_outputs} numbers for each of the {n} rows, got "
                f"{scores.size}; with init_model, the model must have num_class={self.n_outputs}"
            )
        scores = scores.reshape((n, self.n_outputs), order="F")  # flat ones are class by class
        if not np.isfinite(scores).all():
            raise ValueError("init_score must be finite, got NaN or infinity")
        return np.ascontiguousarray(scores)

    def _intercept(self, train: _Watched) -> NDArray[np.float64]:
        """(k,) scores to start from: the host's, or none where init_score takes their place."""
        given = train.dataset.get_field("init_score") is not None
        settings = self.settings
        if given or not settings.is_softmax or not settings.boost_from_average:
            return np.zeros(self.n_outputs)
        mass = np.bincount(train.label, weights=train.weight, minlength=self.n_outputs)
        return np.asarray(np.log(np.maximum(_SMALLEST_SHARE, mass / mass.sum())))

    def _new_trainer(self) -> Trainer | NoSplits:
        train = self._watched[0]
        if (train.binned.codes == train.binned.codes[:1]).all():
            return NoSplits(self.base_score, train.start, train.binned.binning.features)
        if self.settings.verbosity >= 0:
            notice_cold_cache()
        trainer = Trainer(
            self.settings.engine,
            train.binned,
            train.label,
            # A function gets the Dataset with its weights and applies them itself.
            weight=train.weight if self.settings.is_softmax else None,
            init_margin=train.start,
            base_score=self.base_score,
            objective=self._objective,
        )
        for item in self._watched[1:]:
            item.follower = trainer.follow(item.binned, init_margin=item.start)
        return trainer

    def add_valid(self, dataset: HostDataset, name: str) -> None:
        """Follow the scores of another data set, from the rounds so far on."""
        train = self._watched[0]
        if dataset is train.dataset:
            item = train
        else:
            binned = self._read(dataset).binned
            _check_same_bins(binned.binning, train.binned.binning, name)
            item = self._watch(dataset, binned)
            item.start = item.start + self.base_score
            if isinstance(self._trainer, Trainer):
                item.follower = self._trainer.follow(item.binned, init_margin=item.start, name=name)
        self._watched.append(item)

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Parameters of the rounds to come."""
        settings = Settings.of(params)
        if settings.is_softmax != self.settings.is_softmax or settings.allowed != (
            self.settings.allowed
        ):
            raise ValueError("objective and interaction_constraints are fixed when training begins")
        metrics = choose_metrics(settings)
        if self._trainer is not None:
            self._trainer.set_params(settings.engine)
        self.settings, self.metrics, self.params = settings, metrics, dict(params)

    def update(self, function: Function | None = None) -> bool:
        """Add one round; whether its tree found no split.

        function : the objective of this round, where it is not multiclass.
        """
        if isinstance(self._objective, HostFunction):
            if function is None:
                raise ValueError(
                    "objective='none' needs a function: pass fobj to update, or the function as "
                    "params['objective']"
                )
            train = self._watched[0]
            self._objective.bind(function, train.dataset, train.start)
        elif function is not None:
            raise ValueError(
                "the objective is multiclass; to train with fobj set params['objective'] to the "
                "function from the beginning"
            )
        try:
            if self._trainer is None:
                self._trainer = self._new_trainer()
            self._trainer.step()
        finally:
            if self._trainer is not None:
                self._trainer.close()
        self.changed = True
        return bool(self._trainer.trees[-1].n_leaves == 1)

    def rollback(self) -> None:
        """Take back the last round of this run; scores are added up anew, to the same bits."""
        trainer = self._trainer
        if trainer is None or trainer.n_rounds == 0:
            raise ValueError("there is no round of this run to take back")
        trainer.trees.pop()
        trainer.indptr.pop()
        if isinstance(trainer, Trainer):
            train, *others = self._watched
            replay = Follower(trainer, train.binned, train.start.copy())
            trainer.raw[:] = replay.raw
            for item in others:
                if item.follower is not None:
                    item.follower.scores[:] = item.start
                    item.follower.n_trees = 0
            trainer.close()
        self.changed = True

    def scores(self, index: int) -> NDArray[np.float64]:
        """(n, k) raw scores; 0 is the training data."""
        item = self._watched[index]
        if self._trainer is None:
            return item.start
        if item is self._watched[0]:
            return np.asarray(self._trainer.raw)
        if item.follower is None:  # no tree has a split
            return item.start
        try:
            return np.asarray(item.follower.raw)
        finally:
            self._trainer.close()

    def index_of(self, dataset: HostDataset) -> int | None:
        """The number of a data set that is followed."""
        return next((i for i, w in enumerate(self._watched) if w.dataset is dataset), None)

    def evaluate(
        self, index: int, name: str, functions: Sequence[Callable[..., Any]]
    ) -> list[tuple[str, str, float, bool]]:
        """Data set, metric, value and direction of all metrics and functions."""
        item = self._watched[index]
        raw = self.scores(index)
        predictions = probabilities(raw) if self.settings.is_softmax else raw
        results = []
        for metric in self.metrics:
            value = metric.compute(
                raw if metric.on_scores else predictions, item.label.astype(np.int64), item.weight
            )
            results.append((name, metric.name, value, metric.maximize))
        for function in functions:
            found = function(predictions.copy(), item.dataset)
            for entry in found if isinstance(found, list) else [found]:
                results.append((name, entry[0], entry[1], entry[2]))
        return results

    def text(self) -> str:
        """The rounds of this run, without those continued, as the host's model text."""
        k = self.n_outputs
        features = self._data.binned.binning.features
        trainer = self._trainer
        trees = []
        if trainer is not None and trainer.n_rounds > 0:
            trees = fold_base_score(trainer.model())
        return model_text(
            trees,
            names=features.names,
            features=features,
            n_outputs=k,
            objective=f"multiclass num_class:{k}" if self.settings.is_softmax else None,
            infos=self._data.infos,
            params=text_params(self.params),
        )


class NoSplits:
    """A trainer for data without anything to split on: like the host, it adds empty trees.

    The attributes and methods are those of ``Trainer`` that a run needs.
    """

    def __init__(self, base_score: NDArray[Any], raw: NDArray[Any], features: FeatureSpace) -> None:
        self.raw = raw
        self.trees: list[Tree] = []
        self.indptr = [0]
        self._empty = Ensemble((), base_score, features, "identity")

    @property
    def n_rounds(self) -> int:
        return len(self.trees)

    def step(self) -> None:
        self.trees.append(constant_tree(np.zeros(self._empty.n_outputs)))
        self.indptr.append(len(self.trees))

    def model(self) -> Ensemble:
        return self._empty.with_trees(self.trees)

    def set_params(self, params: Params) -> None:
        """No setting makes a difference."""

    def close(self) -> None:
        """There are no threads."""


def _restrict(data: HostData, allowed: frozenset[int] | None) -> HostData:
    """The data with a single bin for every feature that may not be used."""
    binning = data.binned.binning
    features = binning.features
    if allowed is None or len(allowed & set(range(features.n_features))) == features.n_features:
        return data
    shut = [j for j in range(features.n_features) if j not in allowed]
    codes = data.binned.codes.copy()
    codes[:, shut] = 0
    cuts = tuple(c[:0] if j in shut else c for j, c in enumerate(binning.cuts))
    categories = tuple(
        c[:1] if c is not None and j in shut else c for j, c in enumerate(binning.categories)
    )
    return HostData(BinnedMatrix(codes, Binning(features, cuts, categories)), data.infos)


def _check_same_bins(valid: Binning, train: Binning, name: str) -> None:
    if valid.features.n_features != train.features.n_features:
        raise ValueError(
            f"validation data {name!r} have {valid.features.n_features} features, the training "
            f"data {train.features.n_features}"
        )
    if not valid.same_as(train):
        raise ValueError(
            f"validation data {name!r} are binned differently from the training data; create them "
            "with reference=train_set (or train_set.create_valid)"
        )
