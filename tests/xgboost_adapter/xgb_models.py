"""Random models and rows within the reach of XGBoost."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from random_trees import ZERO, random_ensemble, random_rows

from fullhess import Ensemble, Tree
from fullhess.bins import Binning
from fullhess.features import MISSING_ZERO, Comparison, FeatureSpace

FLT_MAX = float(np.finfo(np.float32).max)


def replaced(tree: Tree, **changes: Any) -> Tree:
    parts = {field.name: getattr(tree, field.name) for field in fields(tree)}
    return Tree(**{**parts, **changes})


def exportable_tree(tree: Tree, features: FeatureSpace) -> Tree:
    """The tree without what the format cannot say.

    Those are category codes from 2**24 on, and zeros that count as missing and are torn
    away from their neighbours.
    """
    default_left = tree.default_left.copy()
    sets = []
    for node in range(tree.n_nodes):
        codes = tree.category_values[tree.category_offsets[node] : tree.category_offsets[node + 1]]
        kept = codes[codes < 2**24].tolist()
        sets.append(kept or [1] if len(codes) else [])
        j, threshold = tree.feature[node], tree.threshold[node]
        if j >= 0 and features.missing[j] == MISSING_ZERO and abs(threshold) > ZERO:
            default_left[node] = threshold > 0
    return replaced(
        tree,
        default_left=default_left,
        category_offsets=np.cumsum([0, *map(len, sets)]),
        category_values=[code for codes in sets for code in codes],
    )


def exportable_ensemble(
    seed: int, comparison: Comparison = "<", dtype: Any = np.float32, **options: Any
) -> tuple[Ensemble, Binning]:
    """A random ensemble with splits of every kind, and its binning."""
    model, binning = random_ensemble(seed, comparison, dtype, **options)
    return model.with_trees(exportable_tree(t, model.features) for t in model.trees), binning


def numeric_ensemble(seed: int, **options: Any) -> Ensemble:
    """A random ensemble of numeric features alone."""
    model, _ = random_ensemble(seed, "<", np.float32, n_features=2, **options)
    numeric = FeatureSpace.of(2, "<")
    return Ensemble(model.trees, model.base_score, numeric, model.link)


def host_rows(rng: np.random.Generator, binning: Binning, n_samples: int = 64) -> NDArray[Any]:
    """Rows of telling values that XGBoost accepts: finite float32, or NaN.

    Of categorical columns without values in (-1, 0), which XGBoost calls invalid.
    """
    X = random_rows(rng, binning, n_samples)
    X[rng.random(X.shape) < 0.02] = FLT_MAX
    X[rng.random(X.shape) < 0.02] = 1e-45
    categorical = X[:, binning.features.categorical]
    X[:, binning.features.categorical] = np.where(
        (categorical > -1) & (categorical < 0), math.nan, categorical
    )
    with np.errstate(over="ignore"):
        return np.clip(X, -FLT_MAX, FLT_MAX).astype(np.float32)
