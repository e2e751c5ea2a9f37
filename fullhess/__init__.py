"""Gradient-boosted trees with vector leaves and the true k×k Hessian."""

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
