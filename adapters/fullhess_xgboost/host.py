"""The installed XGBoost: present, recent enough, and which of its generations."""

from __future__ import annotations

__all__ = ["AT_LEAST_3_4", "VERSION", "xgboost"]

_OLDEST = (3, 2)
_WHAT_TO_DO = "install a supported one with: pip install 'xgboost>=3.2'"

try:
    import xgboost
except ImportError as error:
    raise ImportError(
        f"fullhess.xgboost needs the xgboost package, which is not installed; {_WHAT_TO_DO}"
    ) from error


def _version_of(text: str) -> tuple[int, int]:
    """Major and minor version of ``"3.4.1"`` or ``"3.5.0-dev"``."""
    major, minor, *_ = text.split(".")
    return int(major), int(minor)


def check_version(text: str) -> tuple[int, int]:
    """The version as numbers; ImportError if it is older than the formats spoken here."""
    try:
        version = _version_of(text)
    except ValueError:
        raise ImportError(
            f"fullhess.xgboost cannot read the version of xgboost, {text!r}; {_WHAT_TO_DO}"
        ) from None
    if version < _OLDEST:
        raise ImportError(
            f"fullhess.xgboost needs xgboost {_OLDEST[0]}.{_OLDEST[1]} or later, found {text}; "
            f"{_WHAT_TO_DO}"
        )
    return version


VERSION = check_version(xgboost.__version__)

#: Since 3.4 vector leaves have categorical splits, statistics in dumps, and SHAP values.
AT_LEAST_3_4 = VERSION >= (3, 4)
