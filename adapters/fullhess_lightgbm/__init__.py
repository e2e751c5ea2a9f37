"""LightGBM on one side, the fullhess engine on the other.

This package holds the translation between the two: LightGBM's parameter names,
its data sets and bin bounds on the way in, its booster and model format on the
way out. It contains no kernel; everything numeric happens in ``fullhess``.

It has every name that LightGBM has, so that ``import fullhess.lightgbm as lgb`` takes the
place of ``import lightgbm as lgb``. Only training with several scores a row differs.
"""

from typing import Any

from ._host import lightgbm as _lightgbm
from .booster import Booster, CVBooster
from .data import to_binned
from .export import to_lightgbm
from .sklearn import LGBMClassifier, LGBMModel, LGBMRanker, LGBMRegressor
from .training import cv, train

__version__ = _lightgbm.__version__

__all__ = [
    "Booster",
    "CVBooster",
    "LGBMClassifier",
    "LGBMModel",
    "LGBMRanker",
    "LGBMRegressor",
    "cv",
    "to_binned",
    "to_lightgbm",
    "train",
]
__all__ += [name for name in _lightgbm.__all__ if name not in __all__ and hasattr(_lightgbm, name)]


def __getattr__(name: str) -> Any:
    """Everything else is the host's."""
    try:
        return getattr(_lightgbm, name)
    except AttributeError:
        raise AttributeError(f"neither fullhess nor lightgbm has {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_lightgbm)})
