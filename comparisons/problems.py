"""Data to compare on: a small real set, and generated sets of any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Problem", "digits", "generated"]

SEED = 0


@dataclass(frozen=True, eq=False)
class Problem:
    """A classification problem, split into rows to train on and rows held out.

    Attributes
    ----------
    name : in words.
    X_train, X_valid : (n, n_features) numbers.
    y_train, y_valid : (n,) classes 0 to n_classes - 1.
    """

    name: str
    X_train: NDArray[Any]
    y_train: NDArray[Any]
    X_valid: NDArray[Any]
    y_valid: NDArray[Any]
    n_classes: int

    def __str__(self) -> str:
        return (
            f"{self.name}: {len(self.X_train)} rows to train on, {len(self.X_valid)} held out, "
            f"{self.X_train.shape[1]} features, {self.n_classes} classes"
        )


def digits() -> Problem:
    """Handwritten digits of 8×8 pixels, which come with scikit-learn; a quarter is held out.

    A pixel is a whole number from 0 to 16. Every library therefore has the same
    bins without being told: one for each value.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X_train, X_valid, y_train, y_valid = train_test_split(
        X, y, test_size=0.25, stratify=y, random_state=SEED
    )
    return Problem("scikit-learn's digits", X_train, y_train, X_valid, y_valid, 10)


def generated(
    n_rows: int, n_classes: int, n_features: int = 54
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Normal features, (n_rows, n_features), and labels, (n_rows,), of a noisy rule.

    The rule bends and mixes the features, so that deep trees find splits worth
    making in every branch; the noise keeps leaves from becoming pure.
    """
    generator = np.random.default_rng(SEED)
    X = generator.standard_normal((n_rows, n_features), dtype=np.float32)
    n_hidden = 4 * n_classes
    mix = generator.normal(size=(n_features, n_hidden)) / np.sqrt(n_features)
    weight = generator.normal(size=(n_hidden, n_classes))
    scores = np.sin(3.0 * (X @ mix.astype(np.float32))) @ weight
    label = (scores + generator.gumbel(size=scores.shape)).argmax(axis=1)
    return X, label.astype(np.int32)
