"""LightGBM's binary data file: its bin mappers and the bins of every cell.

The file is what ``Dataset.save_binary`` writes: little endian, most items padded
to eight bytes. Its layout has no version number of its own, so every count and
size in it is checked against the bytes that are there: a layout that is not this
one ends in ``LayoutError``, never in wrong bins.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._host import SUPPORTED, lightgbm

__all__ = [
    "MISSING_TYPE_NAN",
    "MISSING_TYPE_NONE",
    "MISSING_TYPE_ZERO",
    "TOKEN",
    "LayoutError",
    "Mapper",
    "StoredBins",
    "parse_binary",
]

TOKEN = b"______LightGBM_Binary_File_Token______\n"
_MISSING_TYPES = (MISSING_TYPE_NONE, MISSING_TYPE_ZERO, MISSING_TYPE_NAN) = (0, 1, 2)
_NUMERICAL, _CATEGORICAL = 0, 1
_SPARSE_RATE = 0.7  # from here on LightGBM stores a feature of a multi-value group sparsely


class LayoutError(RuntimeError):
    """The host's binned data are not stored as in the versions we know."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"LightGBM {lightgbm.__version__} stores binned data in a layout that fullhess does "
            f"not know ({what}); it knows the one of LightGBM {SUPPORTED}"
        )


@dataclass(frozen=True, eq=False)
class Mapper:
    """How one feature is binned by the host.

    Attributes
    ----------
    n_bins : all bins, that of missing values included.
    missing_type : one of the ``MISSING_TYPE_`` constants.
    default_bin : bin of zero.
    most_frequent : bin that is not stored.
    upper : (n_bins,) float64 upper bounds of a numeric feature, else None. The last
        is meaningless where NaN has a bin of its own.
    categories : (n_bins,) int32 of a categorical feature, else None.
    """

    n_bins: int
    missing_type: int
    is_trivial: bool
    sparse_rate: float
    min_value: float
    max_value: float
    default_bin: int
    most_frequent: int
    upper: NDArray[np.float64] | None
    categories: NDArray[np.int32] | None


@dataclass(frozen=True, eq=False)
class StoredBins:
    """All that the file says of bins.

    Attributes
    ----------
    n_samples, n_features : of the whole data set.
    mappers : per feature, None for one that the host found useless.
    columns : per feature the (n_samples,) host bins, None where there is no mapper.
    bundled : features that share a column of the host's storage with others.
    """

    n_samples: int
    n_features: int
    mappers: tuple[Mapper | None, ...]
    columns: tuple[NDArray[Any] | None, ...]
    bundled: tuple[int, ...]


class _Cursor:
    """Typed reads from a buffer; never beyond its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def array(self, dtype: Any, count: int, *, padded: bool = True) -> NDArray[Any]:
        size = np.dtype(dtype).itemsize * count
        end = self.at + (-(-size // 8) * 8 if padded else size)
        if count < 0 or end > len(self.data):
            raise LayoutError(f"{count} values of {np.dtype(dtype)} expected at byte {self.at}")
        values = np.frombuffer(self.data, dtype, count, self.at) if count else np.empty(0, dtype)
        self.at = end
        return values

    def integer(self, kind: str = "<i", *, padded: bool = True) -> int:
        return int(self._number(kind, padded))

    def real(self) -> float:
        return float(self._number("<d", padded=True))

    def _number(self, kind: str, padded: bool) -> Any:
        """One number, as ``struct`` names its kind: much faster than an array of one."""
        end = self.at + (8 if padded else struct.calcsize(kind))
        if end > len(self.data):
            raise LayoutError(f"a number expected at byte {self.at}")
        (value,) = struct.unpack_from(kind, self.data, self.at)
        self.at = end
        return value

    def flag(self) -> bool:
        value = self.integer("B")
        if value > 1:
            raise LayoutError(f"a truth value is {value}")
        return bool(value)

    def part(self) -> int:
        """The end of a part that begins with its size."""
        size = self.integer("<Q", padded=False)
        if size > len(self.data) - self.at:
            raise LayoutError(f"a part of {size} bytes at byte {self.at}")
        return self.at + size

    def finish(self, end: int, what: str) -> None:
        if self.at != end:
            raise LayoutError(f"{what} ends at byte {self.at} instead of {end}")


def parse_binary(data: bytes) -> StoredBins:
    """Bin mappers and host bins of a file written by ``Dataset.save_binary``."""
    cursor = _Cursor(data)
    if cursor.array("u1", len(TOKEN)).tobytes() != TOKEN:
        raise LayoutError("it begins with another token")
    n_samples, n_features, features_of = _read_header(cursor)
    cursor.at = cursor.part()  # labels and weights, which the Dataset gives itself
    mappers: list[Mapper | None] = [None] * n_features
    columns: list[NDArray[Any] | None] = [None] * n_features
    bundled: list[int] = []
    for features in features_of:
        found, bins, multiple = _read_group(cursor, len(features), n_samples)
        for j, mapper, column in zip(features, found, bins, strict=True):
            mappers[j], columns[j] = mapper, column
        if len(features) > 1 and not multiple:
            bundled.extend(features)
    cursor.finish(len(cursor.data), "the file")
    return StoredBins(n_samples, n_features, tuple(mappers), tuple(columns), tuple(sorted(bundled)))


def _read_header(cursor: _Cursor) -> tuple[int, int, list[list[int]]]:
    """Rows, features, and the features of every group in their order."""
    end = cursor.part()
    n_samples, n_used, n_features, *_ = (cursor.integer() for _ in range(7))
    *_, has_raw = (cursor.flag() for _ in range(3))  # after use_missing and zero_as_missing
    if has_raw:
        raise ValueError(
            "the Dataset is built for linear trees, which have no constant leaves; create it "
            "without linear_tree"
        )
    used = cursor.array("<i4", n_features)
    n_groups = cursor.integer()
    real, group, within = (cursor.array("<i4", n_used) for _ in range(3))
    numbers = np.flatnonzero(used >= 0)
    if not (
        np.array_equal(np.sort(used[numbers]), np.arange(n_used))
        and np.array_equal(real[used[numbers]], numbers)
        and ((group >= 0) & (group < n_groups)).all()
    ):
        raise LayoutError("the numbers of the features do not agree")
    features_of: list[list[int]] = [[] for _ in range(n_groups)]
    for inner in np.lexsort((within, group)):
        features = features_of[group[inner]]
        if within[inner] != len(features):
            raise LayoutError("the places of the features in their groups do not agree")
        features.append(int(real[inner]))
    if cursor.at > end:
        raise LayoutError("the header is too short")
    cursor.at = end
    return n_samples, n_features, features_of


def _read_group(
    cursor: _Cursor, n_features: int, n_samples: int
) -> tuple[list[Mapper], list[NDArray[Any]], bool]:
    """Mappers and bins of a group, and whether its features are stored one by one."""
    end = cursor.part()
    multiple, _, sparse = (cursor.flag() for _ in range(3))
    if cursor.integer() != n_features:
        raise LayoutError("a group has another number of features")
    mappers = [_read_mapper(cursor) for _ in range(n_features)]
    columns = []
    if multiple:
        for mapper in mappers:
            n_stored = mapper.n_bins + (mapper.most_frequent != 0)
            is_sparse = mapper.sparse_rate >= _SPARSE_RATE
            stored = _read_bins(cursor, n_samples, n_stored, is_sparse)
            columns.append(_bins_of(mapper, stored, 1))
    else:
        offsets = np.cumsum([1] + [m.n_bins - (m.most_frequent == 0) for m in mappers])
        stored = _read_bins(cursor, n_samples, int(offsets[-1]), sparse)
        columns = [_bins_of(m, stored, int(o)) for m, o in zip(mappers, offsets, strict=False)]
    cursor.finish(end, "a group of features")
    return mappers, columns, multiple


def _read_mapper(cursor: _Cursor) -> Mapper:
    n_bins, missing_type = cursor.integer(), cursor.integer()
    is_trivial, sparse_rate = cursor.flag(), cursor.real()
    kind = cursor.integer()
    min_value, max_value = cursor.real(), cursor.real()
    default_bin, most_frequent = cursor.integer("<I"), cursor.integer("<I")
    if n_bins < 1 or missing_type not in _MISSING_TYPES or kind not in (_NUMERICAL, _CATEGORICAL):
        raise LayoutError(f"{n_bins} bins of kind {kind} with missing type {missing_type}")
    if max(default_bin, most_frequent) >= n_bins or not 0.0 <= sparse_rate <= 1.0:
        raise LayoutError("a bin beyond the last")
    numeric = kind == _NUMERICAL
    return Mapper(
        n_bins=n_bins,
        missing_type=missing_type,
        is_trivial=is_trivial,
        sparse_rate=sparse_rate,
        min_value=min_value,
        max_value=max_value,
        default_bin=default_bin,
        most_frequent=most_frequent,
        upper=cursor.array("<f8", n_bins) if numeric else None,
        categories=None if numeric else cursor.array("<i4", n_bins, padded=False),
    )


def _read_bins(cursor: _Cursor, n_samples: int, n_stored: int, sparse: bool) -> NDArray[Any]:
    """(n_samples,) stored numbers of a column; 0 where every feature has its usual bin."""
    dtype = "u1" if n_stored <= 256 else "<u2" if n_stored <= 65536 else "<u4"
    if sparse:
        n_values = cursor.integer()
        places = np.cumsum(cursor.array("u1", n_values + 1)[:n_values], dtype=np.int64)
        values = cursor.array(dtype, n_values)
        if n_values and not (places[-1] < n_samples or values[places >= n_samples].max() == 0):
            raise LayoutError("a value beyond the last row")
        stored = np.zeros(n_samples, dtype)
        inside = (values > 0) & (places < n_samples)  # zeros only bridge long gaps
        stored[places[inside]] = values[inside]
    elif n_stored <= 16:  # two rows in a byte, the even one in the low half
        halves = cursor.array("u1", (n_samples + 1) // 2)
        stored = np.column_stack([halves & 15, halves >> 4]).ravel()[:n_samples]
    else:
        stored = cursor.array(dtype, n_samples)
    if n_samples and stored.max() >= n_stored:
        raise LayoutError(f"a stored bin {stored.max()} of {n_stored}")
    return stored


def _bins_of(mapper: Mapper, stored: NDArray[Any], offset: int) -> NDArray[Any]:
    """(n_samples,) host bins of one feature of a stored column."""
    skipped = mapper.most_frequent == 0  # then bins are stored from 1 on
    own = (stored >= offset) & (stored < offset + mapper.n_bins - skipped)
    bins = stored - stored.dtype.type(offset - skipped)  # wraps around where it is not its own
    dtype = np.uint8 if mapper.n_bins <= 256 else np.uint16 if mapper.n_bins <= 65536 else np.uint32
    bins[~own] = mapper.most_frequent
    return np.asarray(bins, dtype)
