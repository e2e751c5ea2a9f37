"""``train`` and ``cv``: the host's own loops around our Booster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

from ._host import lightgbm, rebound
from .booster import Booster, CVBooster, refuse_own
from .data import avoid_bundling, check_raw_label
from .metrics import choose_metrics
from .params import HostParams, Settings, aliases, is_vector, split_own

__all__ = ["cv", "train"]

_engine = lightgbm.engine


class _Predictor(lightgbm.basic._InnerPredictor):  # type: ignore[misc]
    """The scores of a model to continue; it owns a copy of the model.

    A Booster in training makes its host model anew, and any Booster may be gone while
    a Dataset still holds the predictor.
    """

    @classmethod
    def from_booster(cls, booster: Any, pred_parameter: Mapping[str, Any]) -> Any:
        copy = lightgbm.Booster(model_str=booster.model_to_string(num_iteration=-1))
        plain = dict(split_own(pred_parameter))
        predictor = super().from_booster(booster=copy, pred_parameter=plain)
        predictor.model = copy
        return predictor

    @classmethod
    def from_model_file(cls, model_file: Any, pred_parameter: Mapping[str, Any]) -> Any:
        plain = dict(split_own(pred_parameter))
        return super().from_model_file(model_file=model_file, pred_parameter=plain)


_host_train = rebound(_engine.train, Booster=Booster, _InnerPredictor=_Predictor)
_host_cv = rebound(
    _engine.cv,
    Booster=Booster,
    _InnerPredictor=_Predictor,
    _make_n_folds=rebound(_engine._make_n_folds, Booster=Booster, CVBooster=CVBooster),
)


@wraps(_engine.train)
def train(*args: Any, **kwargs: Any) -> Booster:
    result: Booster = _run(_host_train, args, kwargs)
    return result


@wraps(_engine.cv)
def cv(*args: Any, **kwargs: Any) -> dict[str, Any]:
    result: dict[str, Any] = _run(_host_cv, args, kwargs)
    return result


def _run(loop: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a loop of the host, whatever arguments its version has."""
    given = signature(loop).bind(*args, **kwargs).arguments
    params = _prepared(given["params"], given["train_set"], given.get("valid_sets"))
    init_model = _checked_init(given.get("init_model"), params)
    return loop(**{**given, "params": params, "init_model": init_model})


def _prepared(params: Any, train_set: Any, valid_sets: Any) -> HostParams:
    """Parameters for the host's loop, checked before anything is built."""
    host = split_own(params)
    if not is_vector(host):
        refuse_own(host)
        return host
    choose_metrics(Settings.of({**host, **host.own}))
    for name in aliases()["enable_bundle"]:
        host.pop(name, None)
    more = valid_sets if isinstance(valid_sets, list | tuple) else [valid_sets]
    for item in [train_set, *more]:
        if isinstance(item, lightgbm.Dataset):
            check_raw_label(item)
            avoid_bundling(item)
    return host


def _checked_init(init_model: Any, params: HostParams) -> Any:
    """A model to continue in a form that the host's loop takes."""
    if init_model is None:
        return None
    if isinstance(init_model, str | Path):
        booster = lightgbm.Booster(model_file=init_model)
    elif isinstance(init_model, lightgbm.Booster):
        booster = init_model
        if not isinstance(init_model, Booster):  # which the loop would overlook
            init_model = Booster(model_str=init_model.model_to_string(num_iteration=-1))
    else:
        raise TypeError(
            "init_model must be a Booster or the path of a model file, got "
            f"{type(init_model).__name__}; of an estimator pass booster_"
        )
    if is_vector(params):
        n_outputs = Settings.of({**params, **params.own}).n_outputs
        if booster.num_model_per_iteration() != n_outputs:
            raise ValueError(
                f"init_model has {booster.num_model_per_iteration()} scores a row, num_class is "
                f"{n_outputs}; continue it with its own objective"
            )
    return init_model
