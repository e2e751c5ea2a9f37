"""XGBoost's matrices as bin codes.

XGBoost quantises a column at *cuts*: a value x lies in the first bin b with
``float32(x) < cuts[b]``, the last bin takes everything above. The same rule makes
codes here, so a split "code <= b" is XGBoost's own ``x < cuts[b]``.

Codes are never handed out by XGBoost, but values are: a ``DMatrix`` returns its raw
values and a ``QuantileDMatrix`` one representative of every value's bin. Binning
either with the same cuts gives the codes XGBoost itself trains on. So does binning the
array that the matrix was made of, where it is still at hand.
"""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fullhess.bins import BinnedMatrix, Binning
from fullhess.features import FeatureSpace

from .host import xgboost

__all__ = ["DEFAULT_MAX_BIN", "HostData", "keep_values", "to_binned"]

DEFAULT_MAX_BIN = 256  # XGBoost's own

_SAME_CUTS = (
    "build evaluation sets with xgboost.QuantileDMatrix(X, ref=dtrain), or as plain DMatrix"
)


_kept: weakref.WeakKeyDictionary[Any, NDArray[Any]] = weakref.WeakKeyDictionary()


def keep_values(dmatrix: Any, data: Any, missing: Any) -> None:
    """Let a matrix be binned from the array it was just made of, once.

    Reading its values back takes a tenth of the time that XGBoost needs to make it, and
    16 bytes a value. For matrices that are binned before the user can change the array.

    data, missing : what the matrix was made with. Anything but an array of floats with NaN
        for missing values is read back all the same.
    """
    plain = type(data) is np.ndarray and data.dtype in (np.float32, np.float64)
    if plain and data.ndim == 2 and (missing is None or np.isnan(missing)):
        _kept[dmatrix] = data


def to_binned(
    dmatrix: Any, *, max_bin: int | None = None, nthread: int | None = None
) -> BinnedMatrix:
    """The bin codes of a ``DMatrix`` or ``QuantileDMatrix``, with XGBoost's cuts.

    Parameters
    ----------
    max_bin : bins of a feature, XGBoost's 256 by default. A ``QuantileDMatrix`` has its
        own, which it must agree with.
    nthread : threads of XGBoost's sketch and of the encoding; None: all.
    """
    return HostData.of(dmatrix, max_bin, nthread).binned


@dataclass(frozen=True, eq=False)
class HostData:
    """A matrix of the host in bins, and what only the host's model format wants.

    Attributes
    ----------
    binned : (n_samples, n_features) codes.
    feature_names, feature_types : as the matrix has them; None if it has none.
    categories : per feature its name and its categories as an Arrow array, None where
        there are none; None altogether if no column has categories with names.
    """

    binned: BinnedMatrix
    feature_names: list[str] | None
    feature_types: list[str] | None
    categories: list[tuple[str, Any]] | None

    @classmethod
    def of(cls, dmatrix: Any, max_bin: int | None, nthread: int | None) -> HostData:
        """Bin training data with the cuts XGBoost would use for it."""
        _check_matrix(dmatrix)
        values = _values_of(dmatrix)
        indptr, cuts = _cuts_of(dmatrix, values, max_bin, nthread)
        binning = _binning(dmatrix, indptr, cuts)
        binned = binning.encode(values, n_jobs=nthread)
        names, types = dmatrix.feature_names, dmatrix.feature_types
        return cls(binned, names, types, _categories_of(dmatrix))

    def encode(self, dmatrix: Any, name: str, nthread: int | None) -> BinnedMatrix:
        """Other data in the bins of this.

        name : of the data, for messages.
        """
        _check_matrix(dmatrix)
        features = self.binned.binning.features
        if dmatrix.num_col() != features.n_features:
            raise ValueError(
                f"evaluation set {name!r} has {dmatrix.num_col()} features, the training data "
                f"{features.n_features}"
            )
        if isinstance(dmatrix, xgboost.QuantileDMatrix):
            self._check_cuts(dmatrix, name)
        values = _values_of(dmatrix)
        categories = _categories_of(dmatrix)
        if self.categories is not None and categories is not None:
            values = _recode(values, categories, self.categories, name)
        return self.binned.binning.encode(values, n_jobs=nthread)

    def _check_cuts(self, dmatrix: Any, name: str) -> None:
        indptr, cuts = dmatrix.get_quantile_cut()
        if not _binning(dmatrix, indptr, cuts).same_as(self.binned.binning):
            raise ValueError(
                f"evaluation set {name!r} is quantised with other cuts than the training data; "
                f"{_SAME_CUTS}"
            )


def _check_matrix(dmatrix: Any) -> None:
    if not isinstance(dmatrix, xgboost.DMatrix):
        raise TypeError(
            "expected an xgboost.DMatrix or xgboost.QuantileDMatrix, got "
            f"{type(dmatrix).__name__}; wrap the data as DMatrix(X, label=y)"
        )
    if dmatrix.num_col() == 0:
        raise ValueError("expected at least one feature, got none")


def _values_of(dmatrix: Any) -> Any:
    """Values that fall into the right bins: CSR, or a dense array."""
    kept = _kept.pop(dmatrix, None)
    if kept is not None and kept.shape == (dmatrix.num_row(), dmatrix.num_col()):
        return kept
    try:
        return _read_back(dmatrix)
    except xgboost.core.XGBoostError as error:
        raise ValueError(
            f"the values of this {type(dmatrix).__name__} cannot be read back; data in external "
            "memory are not supported, use DMatrix or QuantileDMatrix"
        ) from error


def _read_back(dmatrix: Any) -> NDArray[np.float32] | scipy.sparse.csr_matrix:
    """``dmatrix.get_data()``, as an array if nothing is missing.

    It also saves a copy of all column numbers in another type.
    """
    shape, nnz = (dmatrix.num_row(), dmatrix.num_col()), dmatrix.num_nonmissing()
    indptr = np.empty(shape[0] + 1, np.uint64)
    indices = np.empty(nnz, np.uint32)
    data = np.empty(nnz, np.float32)
    places = [ctypes.c_void_p(array.ctypes.data) for array in (indptr, indices, data)]
    core = xgboost.core
    core._check_call(core._LIB.XGDMatrixGetDataAsCSR(dmatrix.handle, b"{}", *places))
    if nnz == shape[0] * shape[1]:
        return data.reshape(shape)
    entries = data, indices.view(np.int32), indptr.view(np.int64)
    return scipy.sparse.csr_matrix(entries, shape=shape)


def _cuts_of(
    dmatrix: Any, values: Any, max_bin: int | None, nthread: int | None
) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """XGBoost's cuts: ``indptr`` (n_features + 1,) and all cuts one after the other."""
    if not isinstance(dmatrix, xgboost.QuantileDMatrix):
        weight = dmatrix.get_weight()
        dmatrix = xgboost.QuantileDMatrix(
            values,
            weight=weight if weight.size else None,
            feature_types=dmatrix.feature_types,
            max_bin=DEFAULT_MAX_BIN if max_bin is None else max_bin,
            nthread=nthread,
            enable_categorical=True,
        )
    elif max_bin is not None and (dmatrix.max_bin or DEFAULT_MAX_BIN) != max_bin:
        raise ValueError(
            f"max_bin={max_bin}, but the QuantileDMatrix was built with "
            f"max_bin={dmatrix.max_bin or DEFAULT_MAX_BIN}; give both the same value"
        )
    indptr, cuts = dmatrix.get_quantile_cut()
    return indptr, cuts


def _binning(dmatrix: Any, indptr: NDArray[np.uint64], data: NDArray[np.float32]) -> Binning:
    types = dmatrix.feature_types or ["q"] * dmatrix.num_col()
    cuts: list[NDArray[np.float32]] = []
    categories: list[NDArray[np.int32] | None] = []
    for j, kind in enumerate(types):
        entries = data[int(indptr[j]) : int(indptr[j + 1])]
        if kind == "c":  # every code from 0 to the largest seen; at least one bin
            categories.append(np.arange(max(len(entries), 1), dtype=np.int32))
            cuts.append(np.empty(0, np.float32))
        else:  # a lower bound first, an upper bound last: neither separates bins
            categories.append(None)
            cuts.append(entries[1:-1])
    features = FeatureSpace.of(
        len(types),
        "<",
        names=dmatrix.feature_names,
        categorical=[kind == "c" for kind in types],
        absent="missing",
    )
    return Binning(features, tuple(cuts), tuple(categories))


def _categories_of(dmatrix: Any) -> list[tuple[str, Any]] | None:
    """Per feature its name and its categories (an Arrow array), if any has names."""
    if dmatrix.get_categories().empty():
        return None
    try:
        import pyarrow  # noqa: F401  (XGBoost hands the names out as Arrow arrays)
    except ImportError as error:
        raise ImportError(
            "categorical columns of DataFrames need the pyarrow package; install it with: "
            "pip install pyarrow"
        ) from error
    return list(dmatrix.get_categories(export_to_arrow=True).to_arrow())


def _recode(
    values: Any, found: list[tuple[str, Any]], wanted: list[tuple[str, Any]], name: str
) -> Any:
    """Category codes of other data as those of the training data, matched by name."""
    values = values.copy()
    dense = isinstance(values, np.ndarray)
    cells = values if dense else values.data
    for j, ((_, old), (feature, new)) in enumerate(zip(found, wanted, strict=True)):
        if old is None or new is None or old.equals(new):
            continue
        names = old.to_pylist()
        position = {category: code for code, category in enumerate(new.to_pylist())}
        table = np.array([position.get(category, -1) for category in names], np.int64)
        where = np.s_[:, j] if dense else np.flatnonzero(values.indices == j)
        codes = cells[where].astype(np.int64)
        unknown = codes[table[codes] < 0]
        if len(unknown):
            raise ValueError(
                f"evaluation set {name!r} has the category {names[unknown[0]]!r} in "
                f"{feature!r}, which the training data do not have"
            )
        cells[where] = table[codes]
    return values
