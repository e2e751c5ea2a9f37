"""LightGBM on one side, the fullhess engine on the other.

This package holds the translation between the two: LightGBM's parameter names,
its data sets and bin bounds on the way in, its booster and model format on the
way out. It contains no kernel; everything numeric happens in ``fullhess``.
"""

from ._host import lightgbm as _lightgbm
from .booster import Booster, CVBooster
from .data import to_binned
from .export import to_lightgbm
from .training import cv, train
