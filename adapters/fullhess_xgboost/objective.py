"""Which training problems are ours: those whose scores interact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .host import xgboost

__all__ = ["Problem", "find_problem"]

_MULTICLASS = ("multi:softprob", "multi:softmax")


@dataclass(frozen=True)
class Problem:
    """What is minimised, as the host names it.

    objective : the host's name, with which the model is saved and evaluated.
    n_outputs : scores of a row.
    custom : derivatives come from the user, once a round.
    """

    objective: str
    n_outputs: int
    custom: bool

    @property
    def is_classification(self) -> bool:
        return self.objective in _MULTICLASS

    def host_params(self) -> dict[str, Any]:
        """Parameters of an evaluator of this problem."""
        if self.is_classification:
            return {"objective": self.objective, "num_class": self.n_outputs}
        return {"objective": self.objective}


def find_problem(booster: Any, params: Mapping[str, Any], dtrain: Any, fobj: Any) -> Problem | None:
    """The vector problem these parameters state; None if XGBoost is to train it.

    fobj : a custom objective, or None.
    """
    if params.get("booster") == "gblinear" or _is_tree_objective(fobj):
        return None
    objective, num_class = params.get("objective"), params.get("num_class")
    if objective is None and num_class is None and booster.num_boosted_rounds():
        objective, num_class = _objective_of(booster)
    k = _as_int(num_class)
    custom = fobj is not None
    if objective in _MULTICLASS or (objective is None and k > 1):
        # XGBoost takes num_class without an objective for multi:softmax.
        return Problem(objective or "multi:softmax", k, custom) if k > 1 else None
    label_shape = dtrain.get_label().shape
    if custom and objective in (None, "reg:squarederror") and len(label_shape) == 2:
        k = label_shape[1]
        return Problem("reg:squarederror", k, True) if k > 1 else None
    return None


def _is_tree_objective(fobj: Any) -> bool:
    """Objectives with a second gradient for the structure, which only XGBoost reads."""
    return isinstance(fobj, xgboost.objective.TreeObjective)


def _objective_of(booster: Any) -> tuple[str | None, str | None]:
    """Objective and number of classes of a model with trees."""
    learner = json.loads(booster.save_config())["learner"]
    return learner["objective"]["name"], learner["learner_model_param"]["num_class"]


def _as_int(value: Any) -> int:
    try:
        return int(value or 0)
    except (TypeError, ValueError):
        return 0  # XGBoost says what is wrong with it
