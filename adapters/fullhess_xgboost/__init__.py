"""XGBoost on one side, the fullhess engine on the other.

This package holds the translation between the two: XGBoost's parameter names,
its data and cut points on the way in, its booster and model format on the way
out. It contains no kernel; everything numeric happens in ``fullhess``.

Every other name of ``xgboost`` is here, too, so that the package (or its shorter
name ``fullhess.xgboost``) can stand in for it.
"""

from __future__ import annotations

from typing import Any

from .host import xgboost as _xgboost

# isort: split
# The line above says what to do if there is no XGBoost.
from . import sklearn
from .booster import Booster
from .data import to_binned
from .export import to_xgboost
from .importer import from_xgboost
from .params import markdown_table
from .sklearn import (
    XGBClassifier,
    XGBModel,
    XGBRanker,
    XGBRegressor,
    XGBRFClassifier,
    XGBRFRegressor,
)
from .training import cv, train
from .training import loops as training

_OURS = [
    "Booster",
    "XGBClassifier",
    "XGBModel",
    "XGBRFClassifier",
    "XGBRFRegressor",
    "XGBRanker",
    "XGBRegressor",
    "cv",
    "from_xgboost",
    "markdown_table",
    "sklearn",
    "to_binned",
    "to_xgboost",
    "train",
    "training",
]
__all__ = sorted({*_OURS, *_xgboost.__all__})
__version__ = _xgboost.__version__


def __getattr__(name: str) -> Any:
    return getattr(_xgboost, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_xgboost)})
