"""``train`` and ``cv``: XGBoost's own loops around our booster."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

import xgboost.training

from .booster import Booster

__all__ = ["cv", "loops", "train"]


def _twin(module: ModuleType, **replacements: Any) -> ModuleType:
    """A second instance of a module with other objects under some of its names.

    The loops of XGBoost, its callbacks' contract and its messages differ from version to
    version; running the installed ones keeps all of them, without touching the original.
    """
    spec = importlib.util.find_spec(module.__name__)
    assert spec is not None and spec.loader is not None
    twin = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(twin)
    for name in replacements:
        if not hasattr(twin, name):
            raise ImportError(
                f"{module.__name__} of this version of xgboost has no {name!r}; "
                "fullhess.xgboost supports xgboost 3.2 to 3.4"
            )
    vars(twin).update(replacements)
    return twin


#: ``xgboost.training`` with our booster.
loops = _twin(xgboost.training, Booster=Booster)

train = loops.train
cv = loops.cv
