"""From the host's Dataset to binned data of the engine, cell for cell.

The host bins, in every way it knows; we take its bins over. Numeric codes are the
host's own (but for bins behind an infinite bound, which no value falls in). Where
zero counts as missing, the host's bin of zero becomes the engine's code of a missing
value. A category's code is the host's less one: bin 0 holds whatever is no category
(missing, negative, rare, never seen), which is the engine's missing value. A feature
that the host found useless has one bin.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fullhess import BinnedMatrix, Binning, FeatureSpace
from fullhess.bins import MAX_BINS
from fullhess.features import MISSING_NAN, MISSING_NONE, MISSING_ZERO

from ._host import HostDataset, lightgbm
from .binary import (
    MISSING_TYPE_NAN,
    MISSING_TYPE_NONE,
    MISSING_TYPE_ZERO,
    TOKEN,
    LayoutError,
    Mapper,
    StoredBins,
    parse_binary,
)

__all__ = ["HostData", "avoid_bundling", "check_raw_label", "read_dataset", "to_binned"]

_KINDS = {
    MISSING_TYPE_NONE: MISSING_NONE,
    MISSING_TYPE_ZERO: MISSING_ZERO,
    MISSING_TYPE_NAN: MISSING_NAN,
}


@dataclass(frozen=True, eq=False)
class HostData:
    """Binned data of a Dataset, and what its model text says of the features.

    Attributes
    ----------
    binned : the engine's codes.
    infos : per feature an entry of ``feature_infos`` in the model text.
    """

    binned: BinnedMatrix
    infos: tuple[str, ...]


def to_binned(dataset: HostDataset) -> BinnedMatrix:
    """The bins of a LightGBM Dataset as the engine's binned data.

    Raw data are not needed. The Dataset is constructed if it is not yet.
    """
    return read_dataset(dataset).binned


def read_dataset(dataset: HostDataset, verbosity: int | None = None) -> HostData:
    """Binned data of a Dataset, see ``to_binned``.

    verbosity : the host's level of messages afterwards; None: that of the Dataset.
    """
    if not isinstance(dataset, lightgbm.Dataset):
        raise TypeError(f"expected a lightgbm.Dataset, got {type(dataset).__name__}")
    dataset.construct()
    stored = _stored_bins(dataset, verbosity)
    if stored.bundled:
        avoid_bundling(dataset, rebuild=True)
        stored = _stored_bins(dataset.construct(), verbosity)
    if stored.bundled:
        raise ValueError(_bundled_message(dataset, stored))
    names = dataset.get_feature_name()
    if (stored.n_samples, stored.n_features) != (dataset.num_data(), len(names)):
        raise LayoutError("another number of rows or features than the Dataset has")
    for j, mapper in enumerate(stored.mappers):
        if dataset.feature_num_bin(j) != (0 if mapper is None else mapper.n_bins):
            raise LayoutError(f"another number of bins of feature {names[j]!r}")
    return HostData(_binned(stored, names), tuple(_feature_info(m) for m in stored.mappers))


def avoid_bundling(dataset: Any, *, rebuild: bool = False) -> None:
    """Ask the host not to bundle features of a Dataset, while it can still be told.

    Exclusive feature bundling may drop values where two features of a bundle are
    both not at their usual value.

    rebuild : have data binned again that are binned already but kept as raw values.
    """
    chain: list[Any] = []
    while isinstance(dataset, lightgbm.Dataset) and dataset not in chain:
        chain.append(dataset)
        dataset = dataset.reference
    for item in reversed(chain):
        open_ = item._handle is None or (rebuild and item.data is not None)
        if open_ and not _is_binary_file(item.data):
            item._update_params({"enable_bundle": False})


def _is_binary_file(data: Any) -> bool:
    """Whether data are the path of a file of binned data, whose bundles are what they are."""
    if not isinstance(data, str | Path) or not Path(data).is_file():
        return False
    with open(data, "rb") as file:
        return file.read(len(TOKEN)) == TOKEN


def check_raw_label(dataset: HostDataset) -> None:
    """Refuse labels that are not finite, while they can be seen: the host makes them zeros."""
    if dataset._handle is not None or dataset.label is None:
        return
    try:
        label = np.asarray(dataset.label, np.float64)
    except (TypeError, ValueError):  # of a kind that the host has its own words for
        return
    if not np.isfinite(label).all():
        raise ValueError("labels must be finite, got NaN or infinity; drop these rows")


def _stored_bins(dataset: HostDataset, verbosity: int | None) -> StoredBins:
    with tempfile.TemporaryDirectory(prefix="fullhess-") as folder:
        path = Path(folder) / "bins"  # the host writes nothing over a file that exists
        with _quiet(dataset, verbosity):
            dataset.save_binary(path)
        return parse_binary(path.read_bytes())


@contextmanager
def _quiet(dataset: HostDataset, verbosity: int | None) -> Iterator[None]:
    """No words of the host on a file that is none of the user's business.

    Its level of messages belongs to the thread and is set by any reading of parameters.
    """
    level = verbosity
    if level is None:
        names = lightgbm.basic._ConfigAliases.get("verbosity")
        level = next((v for k, v in (dataset.params or {}).items() if k in names), 1)
    read = lightgbm.basic._LIB.LGBM_DatasetUpdateParamChecking
    read(b"", b"verbosity=-1")
    try:
        yield
    finally:
        read(b"", f"verbosity={level}".encode())


def _bundled_message(dataset: HostDataset, stored: StoredBins) -> str:
    names = dataset.get_feature_name()
    some = ", ".join(repr(names[j]) for j in stored.bundled[:3])
    return (
        f"{len(stored.bundled)} features of the Dataset were bundled ({some}, …), which may have "
        "lost some of their values, and it can no longer be binned again; create it with "
        "params={'enable_bundle': False}, or hand it over before it is constructed"
    )


def _binned(stored: StoredBins, names: list[str]) -> BinnedMatrix:
    n_features = stored.n_features
    is_categorical = [m is not None and m.categories is not None for m in stored.mappers]
    features = FeatureSpace.of(
        n_features,
        "<=",
        names=names,
        missing=[MISSING_NONE if m is None else _KINDS[m.missing_type] for m in stored.mappers],
        categorical=is_categorical,
    )
    for j, mapper in enumerate(stored.mappers):
        if mapper is not None and mapper.n_bins > MAX_BINS:
            raise ValueError(
                f"feature {names[j]!r} has {mapper.n_bins} bins, at most {MAX_BINS} are possible; "
                "lower max_bin, or merge rare categories"
            )
    cuts, categories, columns = zip(
        *(_translate(m, c) for m, c in zip(stored.mappers, stored.columns, strict=True)),
        strict=True,
    )
    binning = Binning(features, cuts, categories)
    dtype = np.uint8 if binning.n_bins.max() <= 255 else np.uint16
    codes = np.zeros((n_features, stored.n_samples), dtype)
    for j, column in enumerate(columns):
        if column is not None:
            codes[j] = column
    return BinnedMatrix(codes.T.copy(), binning)


def _translate(
    mapper: Mapper | None, column: NDArray[Any] | None
) -> tuple[NDArray[np.float64], NDArray[np.int32] | None, NDArray[Any] | None]:
    """Cuts, categories and codes of one feature in the engine's sense."""
    nothing = np.empty(0)
    if mapper is None or column is None:
        return nothing, None, None
    if mapper.categories is not None:
        codes = mapper.categories
        if codes[0] != -1 or len(codes) < 2 or codes[1:].min() < 0:
            raise LayoutError("the first bin of a categorical feature is not the missing one")
        return nothing, codes[1:], np.where(column == 0, len(codes) - 1, column.astype(int) - 1)
    assert mapper.upper is not None
    has_nan_bin = mapper.missing_type == MISSING_TYPE_NAN
    bounds = mapper.upper[: mapper.n_bins - 1 - has_nan_bin]
    cuts = bounds[bounds < np.inf]  # an infinite bound divides no values
    if not np.isfinite(cuts).all() or (np.diff(cuts) <= 0).any():
        raise LayoutError("the bounds of bins do not ascend")
    values = np.minimum(column, len(cuts))
    if has_nan_bin:
        return cuts, None, np.where(column == mapper.n_bins - 1, len(cuts) + 1, values)
    if mapper.missing_type == MISSING_TYPE_ZERO:
        return cuts, None, np.where(column == mapper.default_bin, len(cuts) + 1, values)
    return cuts, None, values


def _feature_info(mapper: Mapper | None) -> str:
    """An entry of ``feature_infos``: a range, the categories, or none."""
    if mapper is None:
        return "none"
    if mapper.categories is not None:
        return ":".join(str(code) for code in mapper.categories.tolist())
    return f"[{mapper.min_value:.17g}:{mapper.max_value:.17g}]"
