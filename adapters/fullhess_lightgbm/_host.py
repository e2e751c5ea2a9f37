"""The host library: present, of a supported version, and its functions in reach."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

__all__ = ["SUPPORTED", "HostDataset", "check_version", "lightgbm", "rebound"]

SUPPORTED = "4.5 to 4.7"
_OLDEST, _NEWEST = (4, 5), (4, 7)
_INSTALL = "pip install 'lightgbm>=4.5,<4.8'"


def check_version(version: str) -> None:
    """Raise ImportError unless this version of LightGBM is known to work."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None or not _OLDEST <= (int(match[1]), int(match[2])) <= _NEWEST:
        raise ImportError(
            f"fullhess supports LightGBM {SUPPORTED}, found {version}; install one of these "
            f"with {_INSTALL}"
        )


try:
    import lightgbm as _installed
except ImportError as error:
    raise ImportError(
        f"fullhess.lightgbm needs LightGBM {SUPPORTED}, which could not be imported ({error}); "
        f"install it with {_INSTALL}"
    ) from error
except OSError as error:  # its shared library, or one that it needs
    raise ImportError(
        f"LightGBM is installed but its library could not be loaded: {error}. Install what is "
        "missing (on Linux often libgomp)"
    ) from error

# Its annotations differ from version to version, so here it has none.
lightgbm: Any = _installed
HostDataset = Any  # a lightgbm.Dataset

check_version(lightgbm.__version__)


def rebound(function: Any, **names: Any) -> Callable[..., Any]:
    """A copy of a host function that finds other objects under some global names.

    The host's loops are used as they are, in every version, without changing the
    host for anybody else.
    """
    unknown = [name for name in names if name not in function.__globals__]
    if unknown:
        raise ImportError(
            f"LightGBM {lightgbm.__version__} has no {unknown[0]!r} beside "
            f"{function.__qualname__}; fullhess supports LightGBM {SUPPORTED}"
        )
    copy = FunctionType(
        function.__code__,
        {**function.__globals__, **names},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__doc__ = function.__doc__
    copy.__annotations__ = dict(function.__annotations__)
    copy.__qualname__ = function.__qualname__
    return copy
