"""The names of categories as XGBoost stores them in a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fullhess import FeatureSpace

from .host import AT_LEAST_3_4

__all__ = ["encode_categories"]

# Numbers of the integer types in the format.
_TYPES = {
    np.dtype(np.int8): 9,
    np.dtype(np.uint8): 10,
    np.dtype(np.int16): 11,
    np.dtype(np.uint16): 12,
    np.dtype(np.int32): 13,
    np.dtype(np.uint32): 14,
    np.dtype(np.int64): 15,
    np.dtype(np.uint64): 16,
}


def encode_categories(
    features: FeatureSpace, categories: Sequence[tuple[str, Any]] | None
) -> dict[str, Any]:
    """The block ``cats``: values of every feature and their sorted order.

    ``categories`` is one ``(name, values)`` for each feature; values None: none.
    """
    values = _checked(features, categories)
    if all(entry is None for entry in values):
        empty = np.empty(0, np.int32)
        return {"enc": [], "feature_segments": empty, "sorted_idx": empty}
    blocks, orders = [], []
    for entry in values:
        block, order = _encode_feature(entry)
        blocks.append(block)
        orders.append(order)
    segments = np.cumsum([0, *map(len, orders)])
    return {
        "enc": blocks,
        "feature_segments": segments.astype(np.int32),
        "sorted_idx": np.concatenate(orders).astype(np.int32),
    }


def _checked(
    features: FeatureSpace, categories: Sequence[tuple[str, Any]] | None
) -> list[NDArray[Any] | None]:
    """Strings (dtype object) or integers of each feature."""
    if categories is None:
        return [None] * features.n_features
    if len(categories) != features.n_features:
        raise ValueError(
            f"categories must have one entry for each of the {features.n_features} features, "
            f"got {len(categories)}"
        )
    result: list[NDArray[Any] | None] = []
    for j, (_, entry) in enumerate(categories):
        if entry is None:
            result.append(None)
            continue
        name = features.names[j]
        if not features.categorical[j]:
            raise ValueError(f"feature {name!r} is numeric, but categories are given for it")
        values = np.asarray(entry)
        if values.dtype not in _TYPES:
            values = values.astype(object)
            if values.ndim != 1 or not all(isinstance(value, str) for value in values):
                raise TypeError(
                    f"the categories of feature {name!r} must be strings or integers of one type"
                )
        if values.dtype.kind == "u" and values.dtype != np.uint8 and not AT_LEAST_3_4:
            raise ValueError(
                f"XGBoost before 3.4 cannot store the {values.dtype} categories of feature "
                f"{name!r}; make them signed integers or strings"
            )
        result.append(values)
    return result


def _encode_feature(values: NDArray[Any] | None) -> tuple[dict[str, Any], NDArray[np.int64]]:
    """The block of one feature, and the order that sorts its categories."""
    if values is None:
        return _encode_strings([]), np.empty(0, np.int64)
    if values.dtype != object:
        bits = values  # the format has no unsigned arrays but of bytes
        if values.dtype.kind == "u" and values.dtype != np.uint8:
            bits = values.view(f"i{values.dtype.itemsize}")
        return {"type": _TYPES[values.dtype], "values": bits}, np.argsort(values, kind="stable")
    raw = [value.encode() for value in values]
    # XGBoost compares the bytes as signed numbers.
    order = sorted(range(len(raw)), key=lambda i: bytes(byte ^ 128 for byte in raw[i]))
    return _encode_strings(raw), np.array(order, np.int64)


def _encode_strings(raw: list[bytes]) -> dict[str, Any]:
    offsets = np.cumsum([0, *map(len, raw)]) if raw else np.empty(0)
    return {
        "offsets": offsets.astype(np.int32),
        "values": np.frombuffer(b"".join(raw), np.int8),
    }
