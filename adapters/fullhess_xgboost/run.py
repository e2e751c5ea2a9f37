"""One training run of the engine on the host's matrices."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fullhess.ensemble import Ensemble
from fullhess.objectives import CustomObjective, Objective, Softmax
from fullhess.trainer import Follower, Trainer
from fullhess.warmup import notice_cold_cache

from .data import HostData
from .host import xgboost
from .objective import Problem
from .params import Settings

__all__ = ["Derivatives", "Derive", "Run"]

Derivatives = tuple[NDArray[Any], NDArray[Any]]  # gradient, Hessian
Derive = Callable[[NDArray[np.float32]], Derivatives]  # at scores (n, k)

Info = tuple[NDArray[np.float32], ...]

_INTERCEPT_OF_CUSTOM = 0.5  # XGBoost does not fit one to a custom objective


class Run:
    """A trainer on a ``DMatrix``, and the scores of the sets watched beside it.

    Parameters
    ----------
    metrics : parameters of the host about evaluation.
    derive : gradient and Hessian at scores (n, k) if the problem is custom.
    init_model : a model to continue, with ``start`` its scores of any matrix.
    """

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        dtrain: Any,
        metrics: dict[str, Any],
        derive: Derive | None,
        init_model: Ensemble | None = None,
        start: Callable[[Any], NDArray[np.float32]] | None = None,
    ) -> None:
        self.problem = problem
        self.settings = settings
        self._start = start
        self._dtrain = weakref.ref(dtrain)
        self._watched: weakref.WeakKeyDictionary[Any, Follower] = weakref.WeakKeyDictionary()
        self._derivatives: Derivatives | None = None
        self.set_metrics(metrics)
        self._info = _info_of(dtrain)
        label = _labels_of(dtrain, problem)
        weight = dtrain.get_weight()
        base_score = self._intercept(label, weight) if init_model is None else None
        self.data = HostData.of(dtrain, settings.max_bin, settings.nthread)
        scores = self._scores_before(dtrain)
        if derive is not None:
            first = scores
            if first is None:
                assert base_score is not None
                first = np.tile(base_score.astype(np.float32), (len(label), 1))
            self._derivatives = derive(first.copy())
        self._fresh = True  # the derivatives are those of the next round
        self.trainer = Trainer(
            self._engine_params(settings),
            self.data.binned,
            label,
            # XGBoost leaves the weights of a custom objective to its author.
            weight=weight if weight.size and not problem.custom else None,
            base_margin=scores if init_model is None else None,
            init_margin=scores if init_model is not None else None,
            init_model=init_model,
            base_score=base_score,
            objective=self._objective(),
            feature_weights=_feature_weights_of(dtrain),
        )
        notice_cold_cache()

    def _engine_params(self, settings: Settings) -> dict[str, Any]:
        params = dict(settings.engine)
        signs = params.get("monotone_constraints")
        n_features = self.data.binned.n_features
        if signs is not None and len(signs) < n_features:  # XGBoost: the rest is free
            params["monotone_constraints"] = (*signs, *[0] * (n_features - len(signs)))
        return params

    def _objective(self) -> Objective:
        if not self.problem.custom:
            return Softmax(self.problem.n_outputs)

        def derivatives(raw: NDArray[Any], label: NDArray[Any]) -> Derivatives:
            assert self._derivatives is not None
            return self._derivatives

        link: Literal["softmax", "identity"]
        link = "softmax" if self.problem.is_classification else "identity"
        return CustomObjective(derivatives, self.problem.n_outputs, link=link)

    def _intercept(self, label: NDArray[Any], weight: NDArray[Any]) -> NDArray[np.float64]:
        k = self.problem.n_outputs
        given = self.settings.base_score
        if given is not None:
            if len(given) not in (1, k):
                raise ValueError(
                    f"base_score must be one number or {k}, one for each output, got {len(given)}"
                )
            return np.broadcast_to(np.asarray(given, np.float64), (k,))
        if self.problem.custom:
            return np.full(k, _INTERCEPT_OF_CUSTOM)
        return class_intercept(Softmax(k).check_label(label, len(label)), weight, k)

    def _scores_before(self, dmatrix: Any) -> NDArray[np.float32] | None:
        """(n, k) scores of a matrix before the first round; None: the intercept."""
        if self._start is not None:
            return self._start(dmatrix)
        margin = dmatrix.get_base_margin()
        if not margin.size:
            return None
        wanted = (dmatrix.num_row(), self.problem.n_outputs)
        if margin.size != wanted[0] * wanted[1]:
            raise ValueError(f"base_margin must have the shape {wanted}, got {margin.shape}")
        return np.asarray(margin.reshape(wanted))

    def set_settings(self, settings: Settings) -> None:
        """Settings of the rounds to come."""
        self.trainer.set_params(self._engine_params(settings))
        self.settings = settings

    def set_metrics(self, metrics: dict[str, Any]) -> None:
        self._evaluator = Evaluator(self.problem, metrics)

    def trains_on(self, dmatrix: Any) -> bool:
        """Whether this is the training matrix, with the labels and weights it had."""
        return self._dtrain() is dmatrix and _same(self._info, _info_of(dmatrix))

    def step(self, derive: Derive | None) -> None:
        """Add a round."""
        if derive is not None and not self._fresh:
            assert self._derivatives is not None
            found = derive(self.trainer.raw.copy())
            before, now = np.shape(self._derivatives[1]), np.shape(found[1])
            if before != now:
                raise ValueError(
                    f"the Hessian had the shape {before} in the round before, now {now}; "
                    "return the same kind in every round"
                )
            self._derivatives = found
        self._fresh = False
        self.trainer.step()

    def margins(self, dmatrix: Any, name: str) -> NDArray[np.float32]:
        """(n, k) scores of a matrix after all rounds so far."""
        if self._dtrain() is dmatrix:
            return self.trainer.raw
        follower = self._watched.get(dmatrix)
        if follower is None:
            binned = self.data.encode(dmatrix, name, self.settings.nthread)
            scores = self._scores_before(dmatrix)
            key = "base_margin" if self._start is None else "init_margin"
            follower = self.trainer.follow(binned, name=name, **{key: scores})
            self._watched[dmatrix] = follower
        return follower.raw

    def evaluate(self, evals: Any, iteration: int, feval: Any, output_margin: bool) -> str:
        """The host's line of metrics, custom ones after the built-in."""
        margins = [(d, name, self.margins(d, name)) for d, name in evals]
        return self._evaluator.line(margins, iteration, feval, output_margin)

    def close(self) -> None:
        self.trainer.close()


class Evaluator:
    """XGBoost's metrics on any margins.

    A booster without trees predicts a matrix's base margin; so its metrics on a matrix
    of no features with the margins as base margin are those of the margins.
    """

    def __init__(self, problem: Problem, metrics: dict[str, Any]) -> None:
        self._params = {**metrics, **problem.host_params()}
        self._stands: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._booster: Any = None

    def _stand_in(self, dmatrix: Any) -> Any:
        """A matrix with the labels and weights of another and one column of zeros."""
        info = _info_of(dmatrix)
        stand, known = self._stands.get(dmatrix, (None, ()))
        if stand is None or not _same(known, info):
            label, weight, _ = info
            stand = xgboost.DMatrix(
                np.zeros((dmatrix.num_row(), 1), np.float32),
                label=label if label.size else None,
                weight=weight if weight.size else None,
            )
            self._stands[dmatrix] = stand, info
        return stand

    def line(
        self,
        margins: list[tuple[Any, str, NDArray[np.float32]]],
        iteration: int,
        feval: Any,
        output_margin: bool,
    ) -> str:
        """``[i]\\tname-metric:value…``, as ``Booster.eval_set`` returns it."""
        if not margins:
            return f"[{iteration}]"
        watched = []
        for dmatrix, name, raw in margins:
            stand = self._stand_in(dmatrix)
            stand.set_base_margin(raw)
            watched.append((stand, name))
        if self._booster is None:
            self._booster = xgboost.Booster(self._params, [stand for stand, _ in watched])
        text = str(self._booster.eval_set(watched, iteration))
        if feval is None:
            return text
        for (dmatrix, name, raw), (stand, _) in zip(margins, watched, strict=True):
            prediction = raw.copy() if output_margin else self._booster.predict(stand)
            found = feval(prediction, dmatrix)
            for metric, value in found if isinstance(found, list) else [found]:
                text += f"\t{name}-{metric}:{value:f}"
        return text


def class_intercept(
    classes: NDArray[Any], weight: NDArray[Any], n_classes: int
) -> NDArray[np.float64]:
    """XGBoost's intercept of several classes: centred logarithms of their shares."""
    weights = weight.astype(np.float64) if weight.size else None
    share = np.bincount(classes, weights, minlength=n_classes) / (
        len(classes) if weights is None else weights.sum()
    )
    logs = np.log(share + 1e-6)
    return np.asarray(logs - logs.mean())


def _info_of(dmatrix: Any) -> Info:
    """Labels, weights and base margin, which a matrix may change at any time."""
    return dmatrix.get_label(), dmatrix.get_weight(), dmatrix.get_base_margin()


def _same(one: Info, other: Info) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _feature_weights_of(dmatrix: Any) -> NDArray[np.float32] | None:
    weights = dmatrix.get_float_info("feature_weights")
    return weights if weights.size else None


def _labels_of(dmatrix: Any, problem: Problem) -> NDArray[np.float32]:
    label = dmatrix.get_label()
    if label.size:
        return np.asarray(label)
    if problem.custom:  # whose derivatives may know them from elsewhere
        return np.zeros(dmatrix.num_row(), np.float32)
    raise ValueError("the training DMatrix has no labels; pass label=y when you build it")
