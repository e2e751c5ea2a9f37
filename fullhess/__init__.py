"""Gradient-boosted trees with vector leaves and the true k×k Hessian.

Names are loaded when they are first used, so that ``import fullhess`` does not wait for
Numba.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bins import BinnedMatrix, Binning
    from .boosting import EvalSet, train
    from .callbacks import (
        Callback,
        EarlyStopping,
        Evaluation,
        LearningRateSchedule,
        PrintEvaluation,
        Progress,
        RecordEvaluation,
        TrainingState,
    )
    from .ensemble import Ensemble
    from .features import FeatureSpace
    from .objectives import CustomObjective, Objective, Softmax, SquaredError
    from .params import ParameterError, Params
    from .serialization import ModelFormatError, load
    from .trainer import Trainer
    from .tree import Tree

__version__ = "0.1.0"

_MODULES = {
    "bins": ("BinnedMatrix", "Binning"),
    "boosting": ("EvalSet", "train"),
    "callbacks": (
        "Callback",
        "EarlyStopping",
        "Evaluation",
        "LearningRateSchedule",
        "PrintEvaluation",
        "Progress",
        "RecordEvaluation",
        "TrainingState",
    ),
    "ensemble": ("Ensemble",),
    "features": ("FeatureSpace",),
    "objectives": ("CustomObjective", "Objective", "Softmax", "SquaredError"),
    "params": ("ParameterError", "Params"),
    "serialization": ("ModelFormatError", "load"),
    "trainer": ("Trainer",),
    "tree": ("Tree",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "BinnedMatrix",
    "Binning",
    "Callback",
    "CustomObjective",
    "EarlyStopping",
    "Ensemble",
    "EvalSet",
    "Evaluation",
    "FeatureSpace",
    "LearningRateSchedule",
    "ModelFormatError",
    "Objective",
    "ParameterError",
    "Params",
    "PrintEvaluation",
    "Progress",
    "RecordEvaluation",
    "Softmax",
    "SquaredError",
    "Trainer",
    "TrainingState",
    "Tree",
    "load",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
