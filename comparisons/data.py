"""Data sets by name: embedded, generated, from a directory, or fetched.

A set is looked for in this order:

1. ``digits``, ``wine`` and ``poker`` need nothing: they come with scikit-learn or are drawn;
2. ``NAME.npz`` with arrays ``X`` and ``y`` in the directory given by ``--data`` or by the
   environment variable ``FULLHESS_DATA``;
3. scikit-learn's fetchers, where ``--fetch`` allows them (they download once, then cache).
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import poker
from .problems import Problem

__all__ = ["EMBEDDED", "Dataset", "Parts", "Unavailable", "add_arguments", "load", "split"]

VARIABLE = "FULLHESS_DATA"
EMBEDDED = ("digits", "wine", "poker")
N_POKER_HANDS = 25_010  # as many as the training part of UCI's set
# Numbers of the sets on openml.org; Covertype has a fetcher of its own.
OPENML = {
    "satimage": 182, "pendigits": 32, "letter": 6, "segment": 36, "vehicle": 54, "vowel": 307,
    "yeast": 181, "car": 40975, "nursery": 26, "splice": 46, "connect_4": 40668,
    "shuttle": 40685, "dermatology": 35, "glass": 41, "winequality_red": 40691,
    "ann_thyroid": 40497,
}  # fmt: skip
_DROPPED_COLUMNS = {"vowel": (0,)}  # of files: the number of the speaker
_NO_FEATURES = ("speaker_number", "train_or_test")


class Unavailable(LookupError):
    """A data set that cannot be had here; the message says how it could."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows and classes.

    Attributes
    ----------
    name, origin : what it is and where it came from.
    X : (n, n_features) float32; categories as codes.
    y : (n,) int32 classes from 0 on, each with a row.
    test_start : first row of the official test part, or None.
    """

    name: str
    origin: str
    X: NDArray[np.float32]
    y: NDArray[np.int32]
    test_start: int | None = None

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1


@dataclass(frozen=True, eq=False)
class Parts:
    """A problem with its validation part held out, and a test part beside it."""

    problem: Problem
    X_test: NDArray[np.float32]
    y_test: NDArray[np.int32]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say where data are."""
    parser.add_argument(
        "--data", metavar="DIR", default=os.environ.get(VARIABLE),
        help=f"directory of NAME.npz files with X and y (default: the variable {VARIABLE})",
    )  # fmt: skip
    parser.add_argument(
        "--fetch", action="store_true", help="let scikit-learn download what is missing"
    )


def load(name: str, directory: str | None = None, fetch: bool = False) -> Dataset:
    """A data set, or ``Unavailable``."""
    if name in EMBEDDED:
        return _embedded(name)
    if directory is not None:
        path = Path(directory) / f"{name}.npz"
        if path.exists():
            return _from_file(name, path)
    if fetch and (name == "covertype" or name in OPENML):
        return _fetched(name)
    raise Unavailable(
        f"{name}: no {name}.npz in {directory or 'a directory (--data, ' + VARIABLE + ')'}; "
        "give a directory that has it, or --fetch to download it with scikit-learn"
    )


def _embedded(name: str) -> Dataset:
    from sklearn import datasets

    if name == "poker":
        X, y = poker.draw(N_POKER_HANDS, seed=0)
        return _dataset(name, "drawn and labelled by comparisons/poker.py", X, y)
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return _dataset(name, "comes with scikit-learn", X, y)


def _from_file(name: str, path: Path) -> Dataset:
    with np.load(path, allow_pickle=False) as file:
        missing = {"X", "y"} - set(file)
        if missing:
            raise ValueError(f"{path} must hold the arrays X and y, it has {sorted(file)}")
        start = int(file["test_start"]) if "test_start" in file else None
        X = np.delete(file["X"], _DROPPED_COLUMNS.get(name, ()), axis=1)
        return _dataset(name, "file", X, file["y"], start)


def _fetched(name: str) -> Dataset:
    from sklearn import datasets

    try:
        if name == "covertype":
            X, y = datasets.fetch_covtype(return_X_y=True)
        else:
            frame, y = datasets.fetch_openml(
                data_id=OPENML[name], return_X_y=True, as_frame=True, parser="auto"
            )
            X = _as_numbers(frame.drop(columns=_no_features(frame)))
    except OSError as error:
        raise Unavailable(f"{name}: the download failed ({error})") from error
    return _dataset(name, "fetched by scikit-learn", X, y)


def _no_features(frame: Any) -> list[Any]:
    """Columns that say where a row comes from, as OpenML names them."""
    return [c for c in frame if str(c).lower().replace(" ", "_") in _NO_FEATURES]


def _as_numbers(frame: Any) -> NDArray[np.float32]:
    """Words and categories as codes in the order of the alphabet."""
    from pandas.api.types import is_numeric_dtype
    from sklearn.preprocessing import OrdinalEncoder

    X = np.empty(frame.shape, np.float32)
    for i, name in enumerate(frame):
        column = frame[[name]]
        if not is_numeric_dtype(frame[name]):
            column = OrdinalEncoder().fit_transform(column.astype(str))
        X[:, i] = np.asarray(column, np.float32)[:, 0]
    return X


def _dataset(name: str, origin: str, X: Any, y: Any, test_start: int | None = None) -> Dataset:
    _, classes = np.unique(np.asarray(y), return_inverse=True)
    return Dataset(
        name, origin, np.ascontiguousarray(X, np.float32), classes.astype(np.int32), test_start
    )


def split(data: Dataset, seed: int, max_train: int) -> Parts:
    """Three stratified parts: 30 % to test, 20 % to validate, the rest to train.

    At most ``max_train`` rows train, half as many validate, and as many test. A class of
    fewer than three training rows is left out of all parts, since not all libraries
    accept a class they never see.
    """
    order = _stratified_order(data.y, np.random.default_rng([seed, 0x5EED]))
    n = len(order)
    n_test, n_valid = min(max_train, round(0.3 * n)), min(max_train // 2, round(0.2 * n))
    n_train = min(max_train, n - n_test - n_valid)
    bounds = np.cumsum([n_train, n_valid, n_test])
    parts = [order[a:b] for a, b in zip([0, *bounds[:2]], bounds, strict=True)]
    counts = np.bincount(data.y[parts[0]], minlength=data.n_classes)
    kept = counts >= 3
    number = np.cumsum(kept) - 1
    parts = [rows[kept[data.y[rows]]] for rows in parts]
    (X_train, y_train), (X_valid, y_valid), (X_test, y_test) = (
        (data.X[rows], number[data.y[rows]].astype(np.int32)) for rows in parts
    )
    problem = Problem(data.name, X_train, y_train, X_valid, y_valid, int(kept.sum()))
    return Parts(problem, X_test, y_test)


def _stratified_order(y: NDArray[np.int32], generator: np.random.Generator) -> NDArray[np.intp]:
    """A random order in which every stretch has about the shares of classes of the whole.

    The rows of a class take evenly spaced places between 0 and 1, shifted at random.
    """
    place = np.empty(len(y))
    for c in range(int(y.max()) + 1):
        rows = generator.permutation(np.flatnonzero(y == c))
        place[rows] = (np.arange(len(rows)) + generator.random()) / len(rows)
    return np.argsort(place, kind="stable")
