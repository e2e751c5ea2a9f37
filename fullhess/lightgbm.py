"""LightGBM with vector leaves: ``import fullhess.lightgbm as lgb`` for ``import lightgbm as lgb``.

All names are those of LightGBM. Objectives of several scores a row (multiclass, or a
function with num_class above 1) are trained by the fullhess engine; everything else is
LightGBM's own.
"""

from typing import Any

import fullhess_lightgbm as _adapter
from fullhess_lightgbm import *  # noqa: F403
from fullhess_lightgbm import __version__ as __version__

__all__ = _adapter.__all__


def __getattr__(name: str) -> Any:
    return getattr(_adapter, name)


def __dir__() -> list[str]:
    return dir(_adapter)
