"""Binned data: what every part of the engine consumes.

A feature's *bins* are the intervals between its cuts, or its categories. Cuts
are the interior thresholds only: ``len(cuts) + 1`` bins. The code one past the
last bin stands for a missing value (for a category: also one never seen).

    numeric, cuts c0 < c1:     x < c0 | c0 <= x < c1 | c1 <= x | missing
    code                            0 |            1 |       2 |       3

A split "code <= b goes left" is therefore the same as "x < cuts[b]" (or
``x <= cuts[b]``, as the comparison says) on raw values, for every x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .encoding import Encoder
from .features import Absent, Comparison, FeatureSpace, frozen
from .threads import Workers

__all__ = ["BinnedMatrix", "Binning"]

MAX_BINS = 65_535  # codes are at most uint16 and the missing code needs one


@dataclass(frozen=True, eq=False)
class Binning:
    """Cuts and categories of every feature.

    Attributes
    ----------
    features : names, comparison, kinds of missing values.
    cuts : per feature the ascending interior thresholds, float32 for ``"<"`` and
        float64 for ``"<="``; empty for a categorical feature.
    categories : per categorical feature the non-negative code of each bin, int32,
        in any order; None for a numeric one.
    """

    features: FeatureSpace
    cuts: tuple[NDArray[Any], ...]
    categories: tuple[NDArray[np.int32] | None, ...]

    def __post_init__(self) -> None:
        n_features = self.features.n_features
        for what, entries in (("cuts", self.cuts), ("categories", self.categories)):
            if len(entries) != n_features:
                raise ValueError(
                    f"{what} must have one entry for each of the {n_features} features, "
                    f"got {len(entries)}"
                )
        cuts = tuple(self._read_cuts(j, c) for j, c in enumerate(self.cuts))
        self._check_cuts(cuts)
        categories = tuple(self._check_categories(j, c) for j, c in enumerate(self.categories))
        object.__setattr__(self, "cuts", cuts)
        object.__setattr__(self, "categories", categories)
        if (self.n_bins > MAX_BINS).any():
            name = self.features.names[int(np.argmax(self.n_bins))]
            raise ValueError(f"feature {name!r} has more than {MAX_BINS} bins")

    def _read_cuts(self, j: int, cuts: Any) -> NDArray[Any]:
        array = np.asarray(cuts)
        if array.size and array.dtype.kind not in "fiu":
            name = self.features.names[j]
            raise TypeError(f"cuts of feature {name!r} must be numbers, got {array.dtype}")
        if array.ndim != 1:
            name = self.features.names[j]
            raise ValueError(f"cuts of feature {name!r} must be 1-D, got shape {array.shape}")
        with np.errstate(over="ignore"):
            return frozen(array.astype(self.features.dtype))

    def _check_cuts(self, cuts: tuple[NDArray[Any], ...]) -> None:
        """Check all features at once: there may be thousands with a few cuts each."""
        sizes = np.array([len(entry) for entry in cuts])
        every = np.concatenate(cuts)
        feature = np.repeat(np.arange(len(cuts)), sizes)
        ascends = np.append((every[1:] > every[:-1]) | (feature[1:] > feature[:-1]), True)
        bad = np.flatnonzero(~(np.isfinite(every) & ascends[: len(every)]))
        if len(bad):
            raise ValueError(
                f"cuts of feature {self.features.names[feature[bad[0]]]!r} must be finite and "
                f"strictly ascending in {self.features.dtype}"
            )
        wrong = np.flatnonzero(self.features.categorical & (sizes > 0))
        if len(wrong):
            name = self.features.names[wrong[0]]
            raise ValueError(f"categorical feature {name!r} must have no cuts")

    def _check_categories(self, j: int, codes: Any) -> NDArray[np.int32] | None:
        name = self.features.names[j]
        if not self.features.categorical[j]:
            if codes is not None:
                raise ValueError(f"numeric feature {name!r} must have no categories")
            return None
        if codes is None or len(codes) == 0:
            raise ValueError(f"categorical feature {name!r} needs the code of each category")
        array = np.asarray(codes)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise TypeError(f"categories of feature {name!r} must be 1-D integers")
        if array.min() < 0 or array.max() > np.iinfo(np.int32).max:
            raise ValueError(f"category codes of feature {name!r} must be in [0, 2**31)")
        if len(np.unique(array)) != len(array):
            raise ValueError(f"category codes of feature {name!r} must be unique")
        return frozen(array.astype(np.int32))

    @cached_property
    def n_bins(self) -> NDArray[np.int32]:
        """(n_features,) bins of values; the missing code is one past them."""
        return np.array(
            [
                len(cuts) + 1 if codes is None else len(codes)
                for cuts, codes in zip(self.cuts, self.categories, strict=True)
            ],
            np.int32,
        )

    @cached_property
    def cell_offsets(self) -> NDArray[np.int64]:
        """(n_features + 1,) first histogram cell of each feature, missing cell included."""
        return np.concatenate([[0], np.cumsum(self.n_bins.astype(np.int64) + 1)])

    @cached_property
    def encoder(self) -> Encoder:
        """The cuts and categories as the kernels read them."""
        columns = np.arange(self.features.n_features)
        return Encoder.of(self.features, columns, self.cuts, self.categories)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("encoder", None)
        return state

    def same_as(self, other: Binning) -> bool:
        """Whether codes of the two mean the same."""
        return self is other or (
            self.features.comparison == other.features.comparison
            and np.array_equal(self.features.missing, other.features.missing)
            and np.array_equal(self.features.categorical, other.features.categorical)
            and all(
                np.array_equal(getattr(self.encoder, name), getattr(other.encoder, name))
                for name in ("edge_offsets", "edges", "edge_bins")
            )
        )

    def encode(self, X: Any, *, n_jobs: int | None = None) -> BinnedMatrix:
        """Bin raw values with these cuts."""
        matrix = self.features.read(X)
        codes = None
        with Workers(n_jobs) as workers:
            if self.n_bins.max() <= 256:  # with 256 bins only the missing code does not fit
                codes = self._encode(matrix, np.dtype(np.uint8), workers)
            if codes is None:
                codes = self._encode(matrix, np.dtype(np.uint16), workers)
        assert codes is not None
        return BinnedMatrix(codes, self)

    def _encode(self, matrix: Any, dtype: np.dtype[Any], workers: Workers) -> NDArray[Any] | None:
        """Codes of what ``FeatureSpace.read`` returned; None if one is too large for dtype."""
        codes = np.empty(matrix.shape, dtype)
        size = self.features.rows_per_block
        fits = np.ones(-(-len(codes) // size), np.bool_)  # one entry for each task

        def task(t: int) -> None:
            rows = slice(t * size, (t + 1) * size)
            if fits[:t].all():
                fits[t] = self.encoder.encode(self.features.block(matrix, rows), codes[rows])

        workers.run(len(fits), task)
        return codes if fits.all() else None


@dataclass(frozen=True, eq=False)
class BinnedMatrix:
    """Bin codes of a data set.

    Attributes
    ----------
    codes : (n_samples, n_features) uint8 or uint16, row after row.
    binning : what the codes mean.
    """

    codes: NDArray[Any]
    binning: Binning

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes)
        n_features = self.binning.features.n_features
        if codes.ndim != 2 or codes.shape[1] != n_features:
            raise ValueError(f"codes must be (n_samples, {n_features}), got {codes.shape}")
        if codes.dtype not in (np.dtype(np.uint8), np.dtype(np.uint16)):
            raise TypeError(f"codes must be uint8 or uint16, got {codes.dtype}")
        object.__setattr__(self, "codes", frozen(codes))
        self.check_codes()

    def check_codes(self) -> None:
        """Raise ValueError unless every code has a cell; kernels rely on it blindly.

        Training calls it again: the caller may have changed the array in between.
        """
        if not len(self.codes):
            return
        largest = self.codes.max(axis=0)
        too_large = np.flatnonzero(largest > self.binning.n_bins)
        if len(too_large):
            j = int(too_large[0])
            raise ValueError(
                f"feature {self.binning.features.names[j]!r} has codes up to "
                f"{largest[j]}, but only {self.binning.n_bins[j]} bins "
                "and the missing code after them"
            )

    @property
    def n_samples(self) -> int:
        return len(self.codes)

    @property
    def n_features(self) -> int:
        return int(self.codes.shape[1])

    @classmethod
    def from_cuts(
        cls,
        X: Any,
        cuts: Sequence[Any],
        *,
        comparison: Comparison = "<=",
        categories: Mapping[int, Any] | None = None,
        missing: Any = None,
        feature_names: Sequence[str] | None = None,
        absent: Absent = "zero",
        n_jobs: int | None = None,
    ) -> BinnedMatrix:
        """Bin raw values.

        Parameters
        ----------
        X : (n_samples, n_features) array, DataFrame of numbers or sparse matrix.
        cuts : per feature the ascending interior thresholds (ignored positions of
            categorical features hold an empty sequence).
        comparison : what a cut stands for, see ``FeatureSpace``.
        categories : column index to the category codes of its bins.
        missing : (n_features,) kinds of missing values, see ``FeatureSpace``.
        """
        categories = dict(categories or {})
        if any(not 0 <= j < len(cuts) for j in categories):
            raise ValueError(f"categories name a column outside 0 to {len(cuts) - 1}")
        if feature_names is None and hasattr(X, "columns"):
            feature_names = [str(column) for column in X.columns]
        features = FeatureSpace.of(
            len(cuts),
            comparison,
            names=feature_names,
            missing=missing,
            categorical=[j in categories for j in range(len(cuts))],
            absent=absent,
        )
        binning = Binning(
            features,
            tuple(np.asarray(c) for c in cuts),
            tuple(categories.get(j) for j in range(len(cuts))),
        )
        return binning.encode(X, n_jobs=n_jobs)

    @classmethod
    def from_quantiles(
        cls,
        X: Any,
        *,
        max_bins: int = 255,
        categorical: Sequence[int] = (),
        feature_names: Sequence[str] | None = None,
        n_jobs: int | None = None,
    ) -> BinnedMatrix:
        """Bin raw values at midpoints between quantiles, for use without a host library.

        Categorical columns hold non-negative integer codes.
        """
        if not 2 <= max_bins <= MAX_BINS:
            raise ValueError(f"max_bins must be in [2, {MAX_BINS}], got {max_bins}")
        if feature_names is None and hasattr(X, "columns"):
            feature_names = [str(column) for column in X.columns]
        matrix = _as_matrix(X, feature_names)
        n_features = matrix.shape[1]
        chosen = _check_columns(categorical, n_features)
        columns = matrix.tocsc() if hasattr(matrix, "tocsc") else matrix
        cuts: list[NDArray[np.float64]] = [np.empty(0)] * n_features
        categories: dict[int, NDArray[np.int64]] = {}

        def task(j: int) -> None:
            present = _sorted_values(columns, j)
            if j in chosen:
                # One past the largest code is refused by Binning; a larger one has no int64.
                codes = np.unique(present[present > -1].clip(max=2.0**31).astype(np.int64))
                categories[j] = codes if len(codes) else np.zeros(1, np.int64)
            else:
                cuts[j] = _midpoint_cuts(present, max_bins)

        with Workers(n_jobs) as workers:  # NumPy sorts and copies without the GIL
            workers.run(n_features, task)
        return cls.from_cuts(
            X, cuts, categories=categories, feature_names=feature_names, n_jobs=n_jobs
        )


def _as_matrix(X: Any, feature_names: Sequence[str] | None) -> Any:
    """``X`` as a 2-D array or CSR matrix, whatever its width."""
    shape = np.shape(X)
    if len(shape) != 2:
        raise ValueError(
            f"expected a 2-D matrix of shape (n_samples, n_features), got {len(shape)} dimension(s)"
        )
    return FeatureSpace.of(shape[1], "<=", feature_names).read(X)


def _check_columns(categorical: Sequence[int], n_features: int) -> set[int]:
    for j in categorical:
        if isinstance(j, bool) or not isinstance(j, (int, np.integer)) or not 0 <= j < n_features:
            raise ValueError(
                f"categorical must hold column numbers 0 to {n_features - 1}, got {j!r}"
            )
    return {int(j) for j in categorical}


def _sorted_values(columns: Any, j: int) -> NDArray[np.float64]:
    """The finite values of column j of an array or CSC matrix, ascending."""
    column = columns[:, [j]].toarray().ravel() if hasattr(columns, "tocsc") else columns[:, j]
    values = np.asarray(column, np.float64)
    return np.sort(values[np.isfinite(values)])


def _midpoint_cuts(values: NDArray[np.float64], max_bins: int) -> NDArray[np.float64]:
    """At most ``max_bins - 1`` cuts between distinct ones of ascending values, even in rank."""
    last = np.flatnonzero(values[1:] > values[:-1])  # of equal values, but for the greatest
    if len(last) >= max_bins:
        levels = np.arange(1, max_bins) / max_bins
        ranks = np.ceil(levels * len(values) - 1.0).astype(np.int64).clip(min=0)
        # The last place of the value at each rank; none if that value is the greatest.
        found = np.searchsorted(last, ranks)
        last = last[np.unique(found[found < len(last)])]
    lower, upper = values[last], values[last + 1]
    with np.errstate(over="ignore"):  # then the middle is infinite and the lower value serves
        cuts = lower + (upper - lower) / 2
    return np.unique(np.where(cuts < upper, cuts, lower))
