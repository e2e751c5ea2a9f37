"""Data, models and rows that the tests of the LightGBM adapter share."""

from __future__ import annotations

from typing import Any

import numpy as np
from random_trees import random_tree

from fullhess import Ensemble
from fullhess.bins import Binning
from fullhess.features import FeatureSpace

SOFTMAX = {"objective": "multiclass", "num_class": 3, "verbose": -1, "num_leaves": 7}


def classes(rng, n=400, d=5, k=3, missing=0.1):
    """Features with missing values and zeros, the last one of categories; labels of k classes."""
    X = rng.normal(size=(n, d))
    X[:, 1] = np.where(rng.random(n) < 0.4, 0.0, X[:, 1])
    X[:, -1] = rng.integers(0, 9, n)
    score = np.column_stack(
        [X[:, 0], X[:, 1] + (X[:, -1] % 3 == 1), -X[:, 2] + (X[:, -1] % 3 == 2)]
        + [X[:, c % (d - 1)] ** 2 - 1 for c in range(3, k)]
    )[:, :k]
    y = (score + rng.gumbel(size=(n, k)) * 0.5).argmax(axis=1)
    y[:k] = np.arange(k)
    X[rng.random((n, d)) < missing] = np.nan
    return X, y


def odd_rows(rng, X, n=200):
    """Rows of the data with values that a model has not seen mixed in."""
    rows = X[rng.integers(0, len(X), n)].copy()
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-36, -1e-36, 1e300, -7.0, 3.7, 1e10])
    mask = rng.random(rows.shape) < 0.25
    rows[mask] = rng.choice(odd, mask.sum())
    return rows


def binning_of(rng, comparison, n_features=6, zero=False) -> Binning:
    """Cuts as a host may have them: none so near to zero that LightGBM takes it for zero."""
    categorical = np.arange(n_features) % 3 == 2
    features = FeatureSpace.of(
        n_features,
        comparison,
        missing=rng.permutation(np.arange(n_features) % 3).astype(np.uint8),
        categorical=categorical,
    )
    tiny = float(np.nextafter(np.float32(1e-35), np.float32(1)))
    special = np.array([-3e38, -1.5, -tiny, tiny, 0.1, 1.0, 3e38] + [0.0] * zero)
    cuts: list[Any] = []
    categories: list[Any] = []
    for j in range(n_features):
        if categorical[j]:
            categories.append(rng.permutation(np.unique(rng.integers(0, 200, 40))))
            cuts.append(np.empty(0))
        else:
            pool = np.concatenate([special, rng.normal(size=9)]).astype(features.dtype)
            cuts.append(np.unique(rng.choice(pool, 8)))
            categories.append(None)
    return Binning(features, tuple(cuts), tuple(categories))


def random_model(seed, comparison="<=", k=3, n_trees=4, link="softmax", zero=False):
    """An ensemble of float64 margins and its binning."""
    rng = np.random.default_rng(seed)
    binning = binning_of(rng, comparison, zero=zero)
    trees = [random_tree(rng, binning, k, int(rng.integers(1, 9))) for _ in range(n_trees)]
    return Ensemble(tuple(trees), rng.normal(size=k), binning.features, link), binning


def log_loss(p, y):
    return float(-np.log(p[np.arange(len(y)), y]).mean())
