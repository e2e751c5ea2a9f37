"""A trained model: trees, where they start from, and how to read their input."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .bins import BinnedMatrix
from .features import FeatureSpace, frozen
from .forest import Forest
from .importance import ImportanceKind, feature_importance, trees_to_dataframe
from .threads import Workers
from .tree import Tree

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Ensemble", "Link", "Scalar"]

Link = Literal["softmax", "identity"]
Scalar = str | int | float | bool | None

_LINKS = ("softmax", "identity")
_MAX_INTEGER = 2**64  # what every reader of a saved model can hold


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble:
    """An immutable sum of trees with vector leaves.

    Attributes
    ----------
    trees : in the order in which they are added.
    base_score : (n_outputs,) float32 or float64, where the sum starts. Its dtype
        is that of the leaf values and of every raw prediction.
    features : the input columns.
    link : ``"softmax"`` (raw predictions become probabilities) or ``"identity"``.
    metadata : what else is worth keeping with a model, such as its objective.
    best_iteration : last round to predict with unless told otherwise; None: all.
    iteration_indptr : (n_rounds + 1,) int64, the first tree of every round and the
        number of trees. Not given: every round is one tree.
    """

    trees: tuple[Tree, ...]
    base_score: NDArray[Any]
    features: FeatureSpace
    link: Link
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    best_iteration: int | None = None
    iteration_indptr: NDArray[np.int64] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        base_score = np.asarray(self.base_score)
        if base_score.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise TypeError(f"base_score must be float32 or float64, got {base_score.dtype}")
        if base_score.ndim != 1 or len(base_score) == 0:
            raise ValueError(f"base_score must be of shape (n_outputs,), got {base_score.shape}")
        if not np.isfinite(base_score).all():
            raise ValueError("base_score must be finite")
        if self.link not in _LINKS:
            raise ValueError(f"link must be one of {_LINKS}, got {self.link!r}")
        object.__setattr__(self, "base_score", frozen(base_score.copy()))
        object.__setattr__(self, "trees", tuple(self.trees))
        object.__setattr__(self, "metadata", _checked_metadata(self.metadata))
        indptr = _checked_rounds(self.iteration_indptr, len(self.trees))
        object.__setattr__(self, "iteration_indptr", indptr)
        self._check_trees(0)
        best = _checked_best_iteration(self.best_iteration, self.n_rounds)
        object.__setattr__(self, "best_iteration", best)

    def _check_trees(self, first: int) -> None:
        """Check the trees from number ``first`` on: a kernel trusts every index."""
        for t, tree in enumerate(self.trees[first:], first):
            try:
                tree.check(self.features.n_features, self.n_outputs)
                _check_tree_fits(tree, self.features, self.dtype)
            except ValueError as error:
                raise ValueError(f"tree {t}: {error}") from error

    def __repr__(self) -> str:
        return (
            f"Ensemble(n_rounds={self.n_rounds}, n_outputs={self.n_outputs}, "
            f"n_features={self.features.n_features}, link={self.link!r}, "
            f"best_iteration={self.best_iteration})"
        )

    def __len__(self) -> int:
        return self.n_rounds

    @property
    def n_rounds(self) -> int:
        return len(self.iteration_indptr) - 1

    @property
    def n_outputs(self) -> int:
        return len(self.base_score)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of leaf values and raw predictions."""
        return self.base_score.dtype

    @cached_property
    def _forest(self) -> Forest:
        return Forest.of(self.trees, self.features)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_forest", None)  # as large as the trees, and quickly rebuilt
        return state

    def __getitem__(self, rounds: slice) -> Ensemble:
        """The ensemble of these rounds alone, with the same base score.

        It predicts with all its rounds: the slice decides, not best_iteration.
        """
        if not isinstance(rounds, slice):
            raise TypeError(
                f"expected a slice of rounds, got {rounds!r}; single trees are in .trees"
            )
        first, last = self._round_range(rounds)
        indptr = self.iteration_indptr[first : last + 1]
        trees = self.trees[indptr[0] : indptr[-1]]
        return self._derived(trees, None, indptr - indptr[0], sound=len(trees))

    def with_trees(
        self,
        trees: Iterable[Tree],
        *,
        best_iteration: int | None = None,
        iteration_indptr: Any = None,
    ) -> Ensemble:
        """The same model with other trees, one a round unless told otherwise."""
        return self._derived(tuple(trees), best_iteration, iteration_indptr)

    def append(self, *trees: Tree) -> Ensemble:
        """The same model with these trees as further rounds; best_iteration is dropped."""
        more = len(self.trees) + 1 + np.arange(len(trees))
        indptr = np.concatenate([self.iteration_indptr, more])
        return self._derived((*self.trees, *trees), None, indptr, sound=len(self.trees))

    def _derived(
        self,
        trees: tuple[Tree, ...],
        best_iteration: int | None,
        iteration_indptr: Any,
        sound: int = 0,
    ) -> Ensemble:
        """A copy with these trees, of which the first ``sound`` need no check."""
        other = object.__new__(Ensemble)
        indptr = _checked_rounds(iteration_indptr, len(trees))
        best = _checked_best_iteration(best_iteration, len(indptr) - 1)
        for name, value in {
            **self.__getstate__(),
            "trees": trees,
            "metadata": dict(self.metadata),
            "best_iteration": best,
            "iteration_indptr": indptr,
        }.items():
            object.__setattr__(other, name, value)
        other._check_trees(sound)
        return other

    def _round_range(self, rounds: slice | None) -> tuple[int, int]:
        """First round and the one past the last."""
        if rounds is None:
            best = self.best_iteration
            return 0, self.n_rounds if best is None else best + 1
        if not isinstance(rounds, slice):
            raise TypeError(f"rounds must be a slice or None, got {rounds!r}")
        if rounds.step not in (None, 1):
            raise ValueError(f"rounds must have step 1, got {rounds.step!r}")
        first, last, _ = rounds.indices(self.n_rounds)
        if first >= last:
            raise ValueError(
                f"slice({rounds.start}, {rounds.stop}) selects none of the {self.n_rounds} rounds"
            )
        return first, last

    def _tree_range(self, rounds: slice | None) -> tuple[int, int]:
        """First tree of the rounds and the one past the last."""
        first, last = self._round_range(rounds)
        return int(self.iteration_indptr[first]), int(self.iteration_indptr[last])

    def predict_raw(
        self,
        X: Any,
        *,
        base_margin: Any = None,
        rounds: slice | None = None,
        n_jobs: int | None = None,
    ) -> NDArray[Any]:
        """Raw predictions, (n_samples, n_outputs), in the dtype of the leaf values.

        Parameters
        ----------
        X : (n_samples, n_features) array, DataFrame, sparse matrix or ``BinnedMatrix``.
        base_margin : (n_samples, n_outputs) where the sum starts, instead of base_score.
        rounds : which rounds to add; None: up to best_iteration, or all.
        n_jobs : threads; None, 0 and -1 mean all.
        """
        first, last = self._tree_range(rounds)
        if isinstance(X, BinnedMatrix):
            X.check_codes()
            out = self._start(X.n_samples, base_margin)
            if first < last:
                forest = Forest.of(self.trees[first:last], self.features).on_bins(X.binning)
                with Workers(n_jobs) as workers:
                    forest.add_values(X, out, workers)
            return out
        matrix = self.features.read(X)
        out = self._start(matrix.shape[0], base_margin)
        if first < last:
            with Workers(n_jobs) as workers:
                self._forest.add_values(matrix, out, workers, slice(first, last))
        return out

    def _start(self, n_samples: int, base_margin: Any) -> NDArray[Any]:
        """Margins before the first tree."""
        shape = (n_samples, self.n_outputs)
        if base_margin is None:
            out = np.empty(shape, self.dtype)
            out[:] = self.base_score
            return out
        margin = np.asarray(base_margin)
        if margin.shape != shape:
            raise ValueError(f"base_margin must be of shape {shape}, got {margin.shape}")
        if margin.dtype.kind not in "fiub":
            raise TypeError(f"base_margin must be numbers, got dtype {margin.dtype}")
        with np.errstate(over="ignore"):
            out = np.array(margin, dtype=self.dtype, order="C")
        if not np.isfinite(out).all():
            raise ValueError(f"base_margin must be finite in {self.dtype}")
        return out

    def predict(
        self,
        X: Any,
        *,
        base_margin: Any = None,
        rounds: slice | None = None,
        n_jobs: int | None = None,
    ) -> NDArray[Any]:
        """Predictions, (n_samples, n_outputs): probabilities where the link is softmax.

        Parameters as in ``predict_raw``.
        """
        raw = self.predict_raw(X, base_margin=base_margin, rounds=rounds, n_jobs=n_jobs)
        return apply_link(self.link, raw)

    def apply(
        self, X: Any, *, rounds: slice | None = None, n_jobs: int | None = None
    ) -> NDArray[np.int32]:
        """Leaves, (n_samples, trees) int32: the row of each tree's ``values``.

        Parameters as in ``predict_raw``.
        """
        first, last = self._tree_range(rounds)
        binned = isinstance(X, BinnedMatrix)
        if binned:
            X.check_codes()
        matrix = X if binned else self.features.read(X)
        n_samples = X.n_samples if binned else matrix.shape[0]
        if first == last:
            return np.empty((n_samples, 0), np.int32)
        with Workers(n_jobs) as workers:
            if binned:
                forest = Forest.of(self.trees[first:last], self.features).on_bins(X.binning)
                return forest.find_leaves(X, workers)
            return self._forest.find_leaves(matrix, workers, slice(first, last))

    def importance(
        self,
        kind: ImportanceKind = "gain",
        *,
        per_output: bool = False,
        rounds: slice | None = None,
    ) -> NDArray[np.float64]:
        """Feature importances, (n_features,) or with ``per_output`` (n_features, n_outputs).

        See ``fullhess.importance``; ``rounds`` as in ``predict_raw``.
        """
        first, last = self._tree_range(rounds)
        return feature_importance(
            self.trees[first:last],
            self.features.n_features,
            self.n_outputs,
            kind,
            per_output=per_output,
        )

    def trees_to_dataframe(self) -> pd.DataFrame:
        """One row per node of every tree, see ``fullhess.importance``."""
        return trees_to_dataframe(self.trees, self.features, self.n_outputs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, see ``fullhess.serialization``."""
        from .serialization import save  # it imports this module

        save(self, path)


def apply_link(link: Link, raw: NDArray[Any]) -> NDArray[Any]:
    """Predictions of raw scores (n_samples, n_outputs), in their dtype."""
    if link == "identity":
        return raw
    shares = np.exp(raw - raw.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(shares)


def _checked_rounds(indptr: Any, n_trees: int) -> NDArray[np.int64]:
    """The first tree of every round, and the number of trees."""
    if indptr is None:
        return frozen(np.arange(n_trees + 1, dtype=np.int64))
    array = np.asarray(indptr)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) == 0:
        raise ValueError("iteration_indptr must be a 1-D array of integers (n_rounds + 1,)")
    if array[0] != 0 or array[-1] != n_trees or (np.diff(array.astype(np.int64)) < 0).any():
        raise ValueError(
            f"iteration_indptr must ascend from 0 to the number of trees, {n_trees}, "
            f"got {array[:3].tolist()} … {array[-3:].tolist()}"
        )
    return frozen(array.astype(np.int64))


def _checked_best_iteration(best: Any, n_rounds: int) -> int | None:
    if best is None:
        return None
    if isinstance(best, bool) or not isinstance(best, int | np.integer):
        raise TypeError(f"best_iteration must be an integer or None, got {best!r}")
    if not 0 <= best < n_rounds:
        raise ValueError(f"best_iteration must be in [0, {n_rounds}), got {best}")
    return int(best)


def _checked_metadata(metadata: Mapping[str, Any]) -> dict[str, Scalar]:
    """A plain copy; NumPy's scalars become Python's."""
    checked: dict[str, Scalar] = {}
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise TypeError(f"metadata keys must be strings, got {key!r}")
        if isinstance(value, np.generic):
            value = value.item()
        if value is not None and not isinstance(value, str | int | float | bool):
            raise TypeError(
                f"metadata {key!r} must be a string, number, bool or None, "
                f"got {type(value).__name__}; encode it as a string"
            )
        if isinstance(value, int) and abs(value) >= _MAX_INTEGER:
            raise ValueError(f"metadata {key!r} must be below 2**64 in size")
        checked[key] = value
    return checked


def _check_tree_fits(tree: Tree, features: FeatureSpace, dtype: np.dtype[Any]) -> None:
    """Raise ValueError unless the tree speaks of these features and margins."""
    if tree.values.dtype != dtype:
        raise ValueError(f"leaf values must be {dtype} like base_score, got {tree.values.dtype}")
    split = tree.feature >= 0
    categorical = tree.is_categorical
    if (categorical[split] != features.categorical[tree.feature[split]]).any():
        raise ValueError("categorical features, and only they, must be split by sets of categories")
    if features.dtype == np.float32:
        threshold = tree.threshold[split & ~categorical]
        with np.errstate(over="ignore"):
            rounded = threshold.astype(np.float32)
        if (rounded != threshold).any():
            raise ValueError(
                "where '<' compares in float32 the thresholds must be float32 values; "
                "round them before you build the tree"
            )
