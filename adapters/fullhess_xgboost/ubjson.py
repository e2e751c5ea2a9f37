"""XGBoost's dialect of UBJSON: typed arrays from and to NumPy, everything big-endian.

Keys and strings carry their length as int64. An array of numbers of one type is
``[$<type>#L<count>`` and the bare numbers, any other array ``[#L<count>`` and its
values. ``d`` is a float32. Booleans are stored as uint8 (``U``).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Encoded", "decode", "encode", "encode_items"]

_DTYPES: dict[bytes, np.dtype[Any]] = {
    b"i": np.dtype(np.int8),
    b"U": np.dtype(np.uint8),
    b"I": np.dtype(">i2"),
    b"l": np.dtype(">i4"),
    b"L": np.dtype(">i8"),
    b"d": np.dtype(">f4"),
    b"D": np.dtype(">f8"),
}
_MARKERS = {dtype.newbyteorder("="): marker for marker, dtype in _DTYPES.items()}
_INT64 = struct.Struct(">q")
_CONSTANTS: dict[bytes, Any] = {b"Z": None, b"T": True, b"F": False}


class Encoded(bytes):
    """A value that is encoded already; ``encode`` passes it on."""


def encode(value: Any) -> bytes:
    """The bytes of a mapping, sequence, string, integer or 1-D NumPy array."""
    if isinstance(value, Encoded):
        return value
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, str):
        return b"S" + _encode_text(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return b"L" + _INT64.pack(value)
    if isinstance(value, Mapping):
        return b"{" + encode_items(value) + b"}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return b"[#L" + _INT64.pack(len(value)) + b"".join(map(encode, value))
    raise TypeError(
        f"expected a mapping, sequence, string, integer or NumPy array, got {type(value).__name__}"
    )


def encode_items(mapping: Mapping[str, Any]) -> bytes:
    """The entries of an object without its braces, to be put together from parts."""
    return b"".join(_encode_text(key) + encode(value) for key, value in mapping.items())


def _encode_text(text: str) -> bytes:
    raw = text.encode()
    return b"L" + _INT64.pack(len(raw)) + raw


def _encode_array(array: NDArray[Any]) -> bytes:
    marker = _MARKERS.get(array.dtype.newbyteorder("="))
    if marker is None or array.ndim != 1:
        raise TypeError(
            f"expected a 1-D array of int8, uint8, int16 to int64, float32 or float64, "
            f"got {array.dtype} of shape {array.shape}"
        )
    numbers = array.astype(_DTYPES[marker], copy=False).tobytes()
    return b"[$" + marker + b"#L" + _INT64.pack(len(array)) + numbers


def decode(data: bytes | bytearray | memoryview) -> Any:
    """The value these bytes stand for; typed arrays become NumPy arrays.

    Raises ValueError where the bytes are cut short or hold an unknown marker.
    """
    reader = _Reader(bytes(data))
    value = reader.value(reader.take(1))
    if reader.at != len(reader.data):
        raise ValueError(f"expected the end of the UBJSON data at byte {reader.at}")
    return value


class _Reader:
    """A position in bytes, and what can be read from there."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        part = self.data[self.at : self.at + size]
        if size < 0 or len(part) != size:
            raise ValueError(f"the UBJSON data end within a value at byte {self.at}")
        self.at += size
        return part

    def value(self, marker: bytes) -> Any:
        if marker in _DTYPES:
            return np.frombuffer(self.take(_DTYPES[marker].itemsize), _DTYPES[marker])[0].item()
        if marker == b"S":
            return self.text()
        if marker == b"{":
            return self.mapping()
        if marker == b"[":
            return self.sequence()
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        raise ValueError(f"unknown UBJSON marker {marker!r} at byte {self.at - 1}")

    def length(self) -> int:
        marker = self.take(1)
        if marker not in (b"i", b"U", b"I", b"l", b"L"):
            raise ValueError(f"expected a length at byte {self.at - 1}, got {marker!r}")
        return int(self.value(marker))

    def text(self) -> str:
        return self.take(self.length()).decode()

    def mapping(self) -> dict[str, Any]:
        result = {}
        while self.data[self.at : self.at + 1] != b"}":
            key = self.text()
            result[key] = self.value(self.take(1))
        self.at += 1
        return result

    def sequence(self) -> Any:
        marker = self.take(1)
        if marker == b"$":
            dtype = _DTYPES.get(self.take(1))
            if dtype is None or self.take(1) != b"#":
                raise ValueError(f"unknown kind of typed array before byte {self.at}")
            raw = self.take(self.length() * dtype.itemsize)
            return np.frombuffer(raw, dtype).astype(dtype.newbyteorder("="))
        if marker == b"#":
            return [self.value(self.take(1)) for _ in range(self.length())]
        result = []
        while marker != b"]":
            result.append(self.value(marker))
            marker = self.take(1)
        return result
