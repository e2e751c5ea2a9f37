"""Objectives: what is minimised, and its first and second derivatives."""

from .base import LeafRows, Objective
from .custom import CustomObjective
from .softmax import Softmax
from .squared_error import SquaredError

__all__ = ["CustomObjective", "LeafRows", "Objective", "Softmax", "SquaredError"]
