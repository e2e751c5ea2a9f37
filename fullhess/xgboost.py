"""``import fullhess.xgboost as xgb`` in place of ``import xgboost as xgb``.

The whole namespace of XGBoost is here; training of several classes, and of custom
objectives with several outputs, uses the full Hessian.
"""

from __future__ import annotations

from typing import Any

import fullhess_xgboost as _adapter
from fullhess_xgboost import *  # noqa: F403

__all__ = _adapter.__all__
__version__ = _adapter.__version__


def __getattr__(name: str) -> Any:
    return getattr(_adapter, name)


def __dir__() -> list[str]:
    return dir(_adapter)
