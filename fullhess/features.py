"""What a model knows of its input columns, and the reading of input matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .kernels.binning import ROWS_BROKEN, ROWS_UNSORTED, scatter_rows

__all__ = [
    "MISSING_NAN",
    "MISSING_NONE",
    "MISSING_ZERO",
    "Comparison",
    "FeatureSpace",
    "frozen",
]

Comparison = Literal["<", "<="]
Absent = Literal["zero", "missing"]

MISSING_NAN = 0  # NaN is missing
MISSING_NONE = 1  # the column knows no missing values: NaN is read as 0.0
MISSING_ZERO = 2  # NaN and |x| <= 1e-35 are missing
_MISSING_KINDS = (MISSING_NAN, MISSING_NONE, MISSING_ZERO)

_BLOCK_SIZE = 1 << 18  # values of a dense block: 2 MB in float64


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array, contiguous and read-only (a copy only when it must be)."""
    array = np.ascontiguousarray(array)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """The columns of the input.

    Attributes
    ----------
    names : one name per feature.
    comparison : how a threshold is read: ``"<"`` compares in float32 and goes
        left when ``x < cut`` (XGBoost), ``"<="`` compares in float64 and goes
        left when ``x <= upper`` (LightGBM).
    missing : (n_features,) uint8, one of the ``MISSING_`` constants. Of a
        categorical column NaN is missing, whatever the constant, and 0 a category.
    categorical : (n_features,) bool.
    absent : what an entry not stored in a sparse matrix stands for.
    """

    names: tuple[str, ...]
    comparison: Comparison
    missing: NDArray[np.uint8]
    categorical: NDArray[np.bool_]
    absent: Absent = "zero"

    def __post_init__(self) -> None:
        names = tuple(str(name) for name in self.names)
        if not names:
            raise ValueError("expected at least one feature, got none")
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"feature names must be unique, {twice!r} stands twice")
        if self.comparison not in ("<", "<="):
            raise ValueError(f"comparison must be '<' or '<=', got {self.comparison!r}")
        if self.absent not in ("zero", "missing"):
            raise ValueError(f"absent must be 'zero' or 'missing', got {self.absent!r}")
        if not np.isin(self.missing, _MISSING_KINDS).all():
            raise ValueError(f"missing kinds must be among {_MISSING_KINDS}, got {self.missing}")
        missing = np.asarray(self.missing, dtype=np.uint8)
        categorical = np.asarray(self.categorical, dtype=np.bool_)
        for what, array in (("missing", missing), ("categorical", categorical)):
            if array.shape != (len(names),):
                raise ValueError(
                    f"{what} must have one entry for each of the {len(names)} features, "
                    f"got shape {array.shape}"
                )
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "missing", frozen(missing))
        object.__setattr__(self, "categorical", frozen(categorical))

    @classmethod
    def of(
        cls,
        n_features: int,
        comparison: Comparison,
        names: Sequence[str] | None = None,
        missing: Any = None,
        categorical: Any = None,
        absent: Absent = "zero",
    ) -> FeatureSpace:
        """A feature space with defaults: names f0, f1, …, all numeric, NaN missing."""
        if names is not None and len(names) != n_features:
            raise ValueError(f"expected {n_features} feature names, got {len(names)}")
        return cls(
            names=tuple(names) if names is not None else tuple(f"f{j}" for j in range(n_features)),
            comparison=comparison,
            missing=np.zeros(n_features, np.uint8) if missing is None else missing,
            categorical=np.zeros(n_features, np.bool_) if categorical is None else categorical,
            absent=absent,
        )

    @property
    def n_features(self) -> int:
        return len(self.names)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision in which values are compared with thresholds."""
        return np.dtype(np.float32 if self.comparison == "<" else np.float64)

    @property
    def rows_per_block(self) -> int:
        """How many rows ``block`` should be asked for: then a block stays in the cache."""
        return max(64, min(4096, _BLOCK_SIZE // self.n_features))

    def block(self, matrix: Any, rows: slice) -> NDArray[Any]:
        """Rows of what ``read`` returned: dense, contiguous, read-only, in ``dtype``."""
        start, stop, _ = rows.indices(matrix.shape[0])
        with np.errstate(over="ignore"):  # beyond float32 is infinite, which compares right
            if isinstance(matrix, np.ndarray):
                return frozen(np.ascontiguousarray(matrix[start:stop], dtype=self.dtype))
            return frozen(self._densify(matrix, start, stop))

    def read(self, X: Any) -> Any:
        """``X`` as a 2-D NumPy array or CSR matrix of numbers with our columns."""
        if hasattr(X, "columns") and hasattr(X, "dtypes"):
            matrix: Any = self._read_frame(X)
        elif hasattr(X, "tocsr"):
            matrix = X.tocsr()
        else:
            matrix = np.asarray(X)
        if matrix.ndim != 2:
            raise ValueError(
                f"expected a 2-D matrix of shape (n_samples, {self.n_features}), "
                f"got {matrix.ndim} dimension(s)"
            )
        if matrix.shape[1] != self.n_features:
            raise ValueError(f"expected {self.n_features} features, got {matrix.shape[1]}")
        if matrix.dtype.kind not in "fiub":
            raise TypeError(f"expected numbers, got an array of dtype {matrix.dtype}")
        return matrix

    def _read_frame(self, frame: Any) -> NDArray[Any]:
        columns = tuple(str(column) for column in frame.columns)
        if columns != self.names:
            generic = self.names == tuple(f"f{j}" for j in range(self.n_features))
            if set(columns) == set(self.names) and len(columns) == len(self.names):
                frame = frame.iloc[:, [columns.index(name) for name in self.names]]
            elif not generic:
                unknown = sorted(set(columns) - set(self.names))[:5]
                lacking = sorted(set(self.names) - set(columns))[:5]
                raise ValueError(
                    "the DataFrame's columns are not the model's features: "
                    f"lacking {lacking}, not known {unknown}"
                )
        for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
            if getattr(dtype, "kind", "O") not in "fiub":
                raise TypeError(
                    f"column {name!r} has dtype {dtype}; expected numbers. Convert categories "
                    "to the integer codes the model was trained with"
                )
        return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))

    def _densify(self, matrix: Any, start: int, stop: int) -> NDArray[Any]:
        """Rows of a CSR matrix as a dense block in ``dtype``."""
        shape = (stop - start, self.n_features)
        dense = np.full(shape, 0.0 if self.absent == "zero" else np.nan, self.dtype)
        order = _scatter(matrix, start, stop, dense)
        if order == ROWS_UNSORTED:
            rows = matrix[start:stop].copy()
            rows.sum_duplicates()  # entries stored twice stand for their sum; sorts too
            order = _scatter(rows, 0, len(dense), dense)
        if order == ROWS_BROKEN:
            raise ValueError(
                "the sparse matrix has row pointers or column numbers out of range; "
                "its check_format() says where"
            )
        return dense


def _scatter(matrix: Any, start: int, stop: int, out: NDArray[Any]) -> int:
    """Write rows of a CSR matrix into ``out``; whether they are in order."""
    indptr = matrix.indptr[start : stop + 1].astype(np.int64)
    part = slice(int(indptr[0]), int(indptr[-1]))
    indices, data = matrix.indices[part], matrix.data[part].astype(out.dtype, copy=False)
    if len(indices) != len(data):
        return ROWS_BROKEN
    return int(scatter_rows(frozen(indptr - indptr[0]), frozen(indices), frozen(data), out))
