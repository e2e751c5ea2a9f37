"""Data to compare on: a small real set, and generated sets of any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Problem", "digits", "generated", "like_covertype", "like_letter"]

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


def like_covertype(n_rows: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """A stand-in of Covertype's shape, (n_rows, 54), and 7 classes of unequal size.

    10 columns of whole numbers, then two one-hot codes of 4 and 40 columns whose entries
    are as unevenly filled as the original's.
    """
    generator = np.random.default_rng(SEED)
    X = np.zeros((n_rows, 54), np.float32)
    scale = np.array([280, 112, 7, 212, 58, 1559, 27, 20, 38, 1325], np.float32)
    hidden = generator.standard_normal((n_rows, 10), dtype=np.float32)
    X[:, :10] = np.rint(scale * hidden)
    for first, n in ((10, 4), (14, 40)):
        place = 0.6 * hidden[:, first % 10] + generator.standard_normal(n_rows)
        bounds = np.sort(generator.normal(size=n - 1) * 1.2)
        X[np.arange(n_rows), first + np.searchsorted(bounds, place)] = 1.0
    mix = generator.normal(size=(54, 28)) / 2.0
    numbers = np.concatenate([hidden, X[:, 10:]], axis=1)
    scores = np.sin(numbers @ mix.astype(np.float32)) @ generator.normal(size=(28, 7))
    scores += np.log([0.365, 0.488, 0.062, 0.005, 0.016, 0.03, 0.034])  # shares of the original
    label = (scores + 0.3 * generator.gumbel(size=scores.shape)).argmax(axis=1)
    return X, label.astype(np.int32)


def like_letter(n_rows: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """A stand-in of Letter's shape: (n_rows, 16) numbers from 0 to 15, and 26 classes.

    A class is a few typical shapes, each with its own spread.
    """
    generator = np.random.default_rng(SEED)
    label = (np.arange(n_rows) % 26).astype(np.int32)
    centre = generator.uniform(2.0, 12.0, (26, 3, 16))
    shape = centre[label, generator.integers(0, 3, n_rows)]
    X = np.rint(shape + 1.8 * generator.normal(size=shape.shape)).clip(0, 15)
    order = generator.permutation(n_rows)
    return X[order].astype(np.float32), label[order]
