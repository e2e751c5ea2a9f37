"""Random rows and columns of a tree.

Everything is drawn from a generator seeded by (random_state, round), so that a
round draws the same whatever came before it, also when training is continued.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .params import Params

__all__ = ["ColumnSampler", "round_generator", "sample_goss", "sample_rows"]


def round_generator(random_state: int, round_: int, *stream: int) -> np.random.Generator:
    """The random numbers of one boosting round, or a stream of others."""
    seed = np.random.SeedSequence([random_state, round_, *stream])
    return np.random.Generator(np.random.PCG64(seed))


class ColumnSampler:
    """Features of a tree, then of a level among them, then of a node among those.

    Parameters
    ----------
    weights : (n_features,) non-negative, features are drawn in proportion to them; those
        of weight zero never, also where all others are.
    """

    def __init__(
        self,
        n_features: int,
        params: Params,
        generator: np.random.Generator,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        self._params = params
        self._generator = generator
        self._n_features = n_features
        self._weights = weights
        everything = np.arange(n_features, dtype=np.int32)
        if weights is not None:
            everything = everything[weights > 0.0]
        self._tree = self._draw(everything, params.colsample_bytree)
        self._levels: dict[int, NDArray[np.int32]] = {}
        self._all = self._mask(self._tree)

    def of_tree(self) -> NDArray[np.int32]:
        """Ascending features of the tree."""
        return self._tree

    @property
    def draws_for_nodes(self) -> bool:
        """Whether the features of a node are not just those of the tree."""
        params = self._params
        shares = (params.colsample_bylevel, params.colsample_bynode)
        return min(shares) < 1.0 or params.interaction_constraints is not None

    def of_node(self, depth: int, path: frozenset[int]) -> NDArray[np.uint8]:
        """(n_features,) mask of the features a node may split on.

        path : features of the splits above it.
        """
        params = self._params
        mask = self._all
        if params.colsample_bylevel < 1.0 or params.colsample_bynode < 1.0:
            if depth not in self._levels:
                self._levels[depth] = self._draw(self._tree, params.colsample_bylevel)
            mask = self._mask(self._draw(self._levels[depth], params.colsample_bynode))
        if params.interaction_constraints is None or not path:
            return mask
        return mask * self._mask(_partners(params.interaction_constraints, path))

    def _draw(self, features: NDArray[np.int32], share: float) -> NDArray[np.int32]:
        if share == 1.0:
            return features
        n = max(1, int(share * len(features)))
        chances = None
        if self._weights is not None:
            chances = self._weights[features]
            chances = chances / chances.sum()
        return np.sort(self._generator.choice(features, n, replace=False, p=chances))

    def _mask(self, features: NDArray[np.int32]) -> NDArray[np.uint8]:
        mask = np.zeros(self._n_features, np.uint8)
        mask[features] = 1
        return mask


def _partners(groups: tuple[tuple[int, ...], ...], path: frozenset[int]) -> NDArray[np.int32]:
    """Features that share a group with all of the path, and the path itself."""
    partners = set(path)
    for group in groups:
        if path.issubset(group):
            partners.update(group)
    return np.array(sorted(partners), np.int32)


def sample_rows(
    importance: NDArray[np.float64] | None,
    n_samples: int,
    subsample: float,
    generator: np.random.Generator,
) -> tuple[NDArray[np.int32], NDArray[np.float64] | None]:
    """Rows of a tree, ascending, and the factors on their weights.

    Parameters
    ----------
    importance : (n,) sizes of the rows' gradients for gradient-based sampling, else
        None for uniform sampling without replacement (no factors).

    With importances a row is kept with probability min(1, importance/threshold), the
    threshold such that ``subsample * n`` rows are expected, and weighs 1/probability:
    every sum over the sample is unbiased, and rows with large gradients are all kept.
    """
    if importance is None:
        if subsample == 1.0:
            return np.arange(n_samples, dtype=np.int32), None
        n = max(1, round(subsample * n_samples))
        return np.sort(generator.choice(n_samples, n, replace=False)).astype(np.int32), None
    probability = _keep_probability(importance, subsample)
    rows = np.flatnonzero(generator.random(n_samples) < probability).astype(np.int32)
    if len(rows) == 0:
        rows = np.array([int(np.argmax(importance))], np.int32)
    factor = np.zeros(n_samples)
    factor[rows] = 1.0 / np.maximum(probability[rows], 1e-12)
    return rows, factor


def sample_goss(
    importance: NDArray[np.float64],
    top_rate: float,
    other_rate: float,
    generator: np.random.Generator,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Rows of a tree, ascending, and the factors on the weights of all rows.

    The ``top_rate`` share of largest importance is kept, an ``other_rate`` share is drawn
    from the rest and weighs as much as all of the rest (gradient-based one-side sampling).
    """
    n = len(importance)
    n_top = min(max(1, int(top_rate * n)), n)
    n_other = min(max(1, int(other_rate * n)), n - n_top)
    by_size = np.argsort(-importance, kind="stable")
    others = generator.choice(by_size[n_top:], n_other, replace=False) if n_other else by_size[:0]
    factor = np.zeros(n)
    factor[by_size[:n_top]] = 1.0
    factor[others] = (n - n_top) / max(n_other, 1)
    return np.flatnonzero(factor).astype(np.int32), factor


def _keep_probability(importance: NDArray[np.float64], subsample: float) -> NDArray[np.float64]:
    """min(1, importance/threshold) with an expected number of ``subsample * n``."""
    n = len(importance)
    target = subsample * n
    ascending = np.sort(importance)
    total = np.cumsum(ascending)
    if total[-1] <= 0.0:
        return np.full(n, subsample)
    # With the m largest kept for certain, the rest must share target - m.
    certain = np.arange(n)
    rest = total[::-1]  # sum of all but the m largest
    room = target - certain
    fits = (room > 0) & (ascending[::-1] * room <= rest)
    m = int(np.argmax(fits)) if fits.any() else max(0, int(target) - 1)
    threshold = rest[m] / max(target - m, 1e-12)
    return np.asarray(np.minimum(1.0, importance / max(threshold, 1e-300)))
