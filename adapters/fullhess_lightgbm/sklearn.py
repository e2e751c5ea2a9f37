"""LightGBM's estimators around our ``train``."""

from __future__ import annotations

from typing import Any

from ._host import lightgbm, rebound
from .params import HostParams, split_own
from .training import train

__all__ = ["LGBMClassifier", "LGBMModel", "LGBMRanker", "LGBMRegressor"]

_sklearn: Any = lightgbm.sklearn


class LGBMModel(lightgbm.LGBMModel):  # type: ignore[misc]
    """LightGBM's LGBMModel; objectives of several scores are trained by the engine.

    The parameters ``hessian``, ``split_hessian``, ``leaf_solver``, ``leaf_prior`` and
    ``split_gain`` are given by name like any other parameter of LightGBM.
    """

    fit = rebound(lightgbm.LGBMModel.fit, train=train)

    def _process_params(self, stage: str) -> HostParams:
        params = split_own(super()._process_params(stage))
        if stage == "predict":  # where ours mean nothing
            params.own = {}
        return params


class LGBMClassifier(lightgbm.LGBMClassifier, LGBMModel):  # type: ignore[misc]
    """LightGBM's LGBMClassifier; three classes or more are trained by the engine.

    New parameters as in ``LGBMModel``. Two classes are trained by LightGBM itself.
    """


class LGBMRegressor(lightgbm.LGBMRegressor, LGBMModel):  # type: ignore[misc]
    """LightGBM's LGBMRegressor."""


class LGBMRanker(lightgbm.LGBMRanker, LGBMModel):  # type: ignore[misc]
    """LightGBM's LGBMRanker."""


def __getattr__(name: str) -> Any:
    return getattr(_sklearn, name)
