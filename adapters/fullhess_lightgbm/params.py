"""LightGBM's parameters in the engine's terms."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullhess import ParameterError, Params

from ._host import lightgbm
from .table import OWN, TABLE, Entry

__all__ = ["HostParams", "Settings", "aliases", "is_vector", "split_own", "text_params"]

_NONE_OBJECTIVES = ("none", "null", "custom", "na")
_SOFTMAX_OBJECTIVES = ("multiclass", "softmax")
_TRUE, _FALSE = ("true", "1", "+", "t", "yes"), ("false", "0", "-", "f", "no")


class HostParams(dict[str, Any]):
    """Parameters for the host's code, ours aside in ``own``.

    The host copies its parameters again and again and hands them to its library, which
    complains of names it does not know; so ours travel as an attribute.
    """

    own: dict[str, Any]

    def __init__(self, params: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        super().__init__(params)
        self.own = dict(own)

    def copy(self) -> HostParams:
        return HostParams(self, self.own)


def split_own(params: Mapping[str, Any] | None) -> HostParams:
    """The parameters with those that LightGBM does not have set aside."""
    given = dict(params or {})
    own = dict(getattr(params, "own", {}))
    own |= {name: given.pop(name) for name in OWN if name in given}
    return HostParams(given, {name: value for name, value in own.items() if value is not None})


def aliases() -> dict[str, list[str]]:
    """All parameters of the installed host with all their names, the main one first."""
    table = lightgbm.basic._ConfigAliases
    if table.aliases is None:
        table.get("objective")  # fills it
    return dict(table.aliases)


def without_aliases(params: Mapping[str, Any]) -> dict[str, Any]:
    """Main names and values; of several names for one the host's choice counts.

    A value None stands for a parameter that is not given.
    """
    given = {name: value for name, value in params.items() if value is not None}
    resolved = {}
    for main, names in aliases().items():
        found = next((name for name in names if name in given), None)
        if found is not None:
            resolved[main] = given[found]
    known = {name for names in aliases().values() for name in names}
    for name in given:
        if name not in known:
            raise _unknown(name, known)
    return resolved


def text_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a model text can hold: the host's own, by their main names."""
    given = without_aliases(split_own(params))
    return {name: value for name, value in given.items() if not callable(value)}


def _unknown(name: str, known: set[str]) -> ParameterError:
    close = difflib.get_close_matches(str(name), [*sorted(known), *OWN], n=1)
    hint = f"did you mean {close[0]!r}?" if close else "remove it"
    return ParameterError(f"{name!r} is no parameter of LightGBM nor of fullhess; {hint}")


def _chosen(params: Mapping[str, Any], main: str) -> Any:
    """The value the host takes, without looking at any other name."""
    names = aliases().get(main, [main])
    return next((params[name] for name in names if params.get(name) is not None), None)


def is_vector(params: Mapping[str, Any]) -> bool:
    """Whether the engine trains this: softmax, or a function of several scores."""
    objective = _chosen(params, "objective")
    if isinstance(objective, str):
        name = objective.strip().lower()
        if name in _SOFTMAX_OBJECTIVES:
            return True
        if name not in _NONE_OBJECTIVES:
            return False
    elif not callable(objective):
        return False
    n_outputs = _chosen(params, "num_class")
    return n_outputs is not None and _read_integer("num_class", n_outputs) > 1


@dataclass(frozen=True)
class Settings:
    """What a run is trained with.

    Attributes
    ----------
    engine : settings of the engine.
    n_outputs : scores of a row.
    is_softmax : the objective is multiclass, else a function.
    boost_from_average : start from the shares of the classes.
    allowed : features that may be split on; None: all.
    metric, top_k, auc_weights : what is evaluated, see ``metrics``.
    verbosity : level of the host's messages.
    """

    engine: Params
    n_outputs: int
    is_softmax: bool
    boost_from_average: bool
    allowed: frozenset[int] | None
    metric: Any
    top_k: int
    auc_weights: list[float] | None
    verbosity: int

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Settings:
        """Settings from parameters with host names and aliases, and our own."""
        host = split_own(params)
        given = without_aliases(host)
        _check_kinds(given)
        values = {
            name: _read(name, entry, given[name]) if name in given else entry.default
            for name, entry in TABLE.items()
            if entry.type != "any"
        }
        _check_refused(given, values)
        objective = given.get("objective")
        is_softmax = isinstance(objective, str) and objective.lower() in _SOFTMAX_OBJECTIVES
        if values["num_class"] < 2:
            raise ParameterError(
                f"num_class: expected at least 2 with this objective, got {values['num_class']}; "
                "set it to the number of classes"
            )
        if values["multi_error_top_k"] < 1:
            raise ParameterError(
                f"multi_error_top_k: expected at least 1, got {values['multi_error_top_k']}"
            )
        groups = values["interaction_constraints"]
        return cls(
            engine=_engine_settings(given, values, host.own, is_softmax),
            n_outputs=values["num_class"],
            is_softmax=is_softmax,
            boost_from_average=values["boost_from_average"],
            allowed=None if not groups else frozenset(j for group in groups for j in group),
            metric=given.get("metric"),
            top_k=values["multi_error_top_k"],
            auc_weights=values["auc_mu_weights"],
            verbosity=values["verbosity"],
        )


def _check_kinds(given: Mapping[str, Any]) -> None:
    unlisted = [name for name in given if name not in TABLE]
    if unlisted:
        raise ParameterError(
            f"{unlisted[0]}: LightGBM {lightgbm.__version__} has this parameter but fullhess does "
            "not know what it means here; leave it out"
        )


def _check_refused(given: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    for name in given:
        entry = TABLE[name]
        if entry.kind == "refused" and (values[name] or None) != (entry.default or None):
            raise ParameterError(
                f"{name}={given[name]!r} is not supported with vector leaves: {entry.note}"
            )
    if values["boosting"] not in ("gbdt", "gbrt", "goss"):
        raise ParameterError(
            f"boosting={values['boosting']!r} is not supported with vector leaves; use 'gbdt', or "
            "import lightgbm itself for dart and random forests"
        )
    if values["data_sample_strategy"] not in ("bagging", "goss"):
        raise ParameterError(
            "data_sample_strategy: expected 'bagging' or 'goss', got "
            f"{values['data_sample_strategy']!r}"
        )


def _engine_settings(
    given: Mapping[str, Any], values: Mapping[str, Any], own: Mapping[str, Any], is_softmax: bool
) -> Params:
    settings = {
        entry.engine: values[name] for name, entry in TABLE.items() if entry.kind == "engine"
    }
    settings |= own
    settings["grow_policy"] = "lossguide"
    settings["max_depth"] = max(values["max_depth"], 0)
    settings["min_samples_leaf"] = max(
        values["min_data_in_leaf"], 2 if values["path_smooth"] else 1
    )
    settings["max_delta_step"] = max(values["max_delta_step"], 0.0)
    settings["n_jobs"] = values["num_threads"] if values["num_threads"] > 0 else None
    settings["random_state"] = _seed(given, values)
    pool = values["histogram_pool_size"]
    settings["max_histogram_mb"] = max(1, int(pool)) if pool > 0 else Params.max_histogram_mb
    if is_softmax:
        settings["num_class"] = values["num_class"]
    _set_sampling(values, settings)
    try:
        return Params(**settings)
    except ParameterError as error:
        raise ParameterError(_in_host_names(str(error))) from None


def _set_sampling(values: Mapping[str, Any], settings: dict[str, Any]) -> None:
    """Fill in how rows are sampled."""
    bagging = values["bagging_freq"] > 0 and values["bagging_fraction"] < 1.0
    goss = "goss" in (values["boosting"], values["data_sample_strategy"])
    if goss and bagging:
        raise ParameterError(
            "goss cannot be combined with bagging: set bagging_freq=0 or "
            "data_sample_strategy='bagging'"
        )
    settings["subsample"] = values["bagging_fraction"] if bagging else 1.0
    settings["subsample_freq"] = values["bagging_freq"] if bagging else 1
    if goss:
        settings["sampling_method"] = "goss"
    else:
        for name in ("top_rate", "other_rate"):
            del settings[name]  # they belong to goss


def _seed(given: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    """One seed from all: the plain one as it is, the others mixed in when given."""
    names = [n for n in ("bagging_seed", "feature_fraction_seed", "extra_seed") if n in given]
    if not names and values["seed"] >= 0:
        return int(values["seed"])
    parts = [values["seed"], *(values[name] for name in names)]
    words = [int(part) % 2**32 for part in parts]
    return int(np.random.SeedSequence([len(names), *words]).generate_state(1)[0])


def _in_host_names(message: str) -> str:
    """A message of the engine with the host's names for the settings."""
    names = {e.engine: name for name, e in TABLE.items() if e.kind == "engine"}
    pattern = r"\b(" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + r")\b"
    return re.sub(pattern, lambda match: names[match[1]], message)


def _read(name: str, entry: Entry, value: Any) -> Any:
    return _READERS[entry.type](name, value)


def _refuse(name: str, expected: str, value: Any) -> ParameterError:
    return ParameterError(f"{name}: expected {expected}, got {value!r}")


def _read_real(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_):
        raise _refuse(name, "a number", value)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _refuse(name, "a number", value) from None


def _read_integer(name: str, value: Any) -> int:
    number = _read_real(name, value)
    if not number.is_integer():
        raise _refuse(name, "a whole number", value)
    return int(value) if not isinstance(value, str) else int(number)


def _read_flag(name: str, value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in _TRUE + _FALSE:
        raise _refuse(name, "True or False", value)
    return text in _TRUE


def _read_text(name: str, value: Any) -> str:
    if isinstance(value, list | tuple | set):
        return ",".join(str(item) for item in value)
    return str(value).strip().lower()


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part for part in re.split(r"[,\s]+", value.strip("[]() ")) if part]
    return np.asarray(value).ravel().tolist()


def _read_reals(name: str, value: Any) -> list[float] | None:
    return [_read_real(name, part) for part in _listed(value)] or None


def _read_integers(name: str, value: Any) -> tuple[int, ...] | None:
    return tuple(_read_integer(name, part) for part in _listed(value)) or None


def _read_groups(name: str, value: Any) -> tuple[tuple[int, ...], ...] | None:
    expected = "lists of feature numbers, for example [[0, 1], [2, 3]]"
    if isinstance(value, str):
        try:
            value = json.loads(f"[{value}]")
        except json.JSONDecodeError:
            raise _refuse(name, expected, value) from None
    try:
        groups = tuple(tuple(_read_integer(name, j) for j in group) for group in value)
    except TypeError:
        raise _refuse(name, expected, value) from None
    return groups or None


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "real": _read_real,
    "integer": _read_integer,
    "flag": _read_flag,
    "text": _read_text,
    "reals": _read_reals,
    "integers": _read_integers,
    "groups": _read_groups,
    "any": lambda _, value: value,
}
