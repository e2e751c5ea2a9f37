"""What is trained for the clock, beside whom, and which ratio is aimed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import data
from ..problems import generated, like_covertype, like_letter

__all__ = ["CASES", "METHODS", "Case", "load"]

_AS_USED = {"split_gain": "guaranteed", "leaf_solver": "exact", "hessian": "full"}
METHODS: dict[str, dict[str, Any]] = {
    f"{splits} splits, exact leaves, {prior}": {
        **_AS_USED, "split_hessian": splits, "leaf_prior": prior,
    }
    for splits in ("full", "diagonal")
    for prior in ("ridge", "path")
}  # fmt: skip
FULL, FULL_PATH, DIAGONAL, DIAGONAL_PATH = METHODS

_DEPTH_6: dict[str, Any] = {"grow_policy": "depthwise", "max_depth": 6}
_DEPTH_8: dict[str, Any] = {"grow_policy": "depthwise", "max_depth": 8}
_LEAVES_63: dict[str, Any] = {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 63}


@dataclass(frozen=True)
class Case:
    """One problem, the methods timed on it and their targets.

    Attributes
    ----------
    source : "generated", or the name of a real set that has a stand-in.
    tree : size of a tree, in the names of fullhess.
    host : the library beside it.
    targets : the ratio aimed at by method; None: timed without a target.
    rounds, turns : rounds of a turn, the first of which is not counted, and turns.
    speed_up : least speed-up of two threads over one that is aimed at; None: not looked at.
    """

    name: str
    source: str
    n_classes: int
    rows: int
    n_features: int
    tree: Mapping[str, Any]
    targets: Mapping[str, float | None]
    host: str = "XGBoost"
    rounds: int = 4
    turns: int = 3
    speed_up: float | None = None

    def smaller(self, rows: int, turns: int | None = None) -> Case:
        """The case on at most so many rows; the targets are not meant for it."""
        if rows >= self.rows and turns is None:
            return self
        targets = dict.fromkeys(self.targets)
        rows = min(rows, self.rows)
        return replace(self, rows=rows, turns=turns or self.turns, targets=targets, speed_up=None)


def _dense(k: int, targets: Mapping[str, float | None]) -> Case:
    return Case(f"k{k}", "generated", k, 100_000, 54, _DEPTH_6, targets, speed_up=1.7)


CASES = (
    _dense(3, {FULL: 0.85, DIAGONAL: 0.8}),
    _dense(7, {FULL: 0.95, FULL_PATH: 0.95, DIAGONAL: 0.6, DIAGONAL_PATH: 0.6}),
    _dense(10, {FULL: 1.0, DIAGONAL: 0.6}),
    Case("covertype", "covertype", 7, 400_000, 54, _DEPTH_8, {FULL: 0.7, DIAGONAL: 0.5},
         rounds=3, turns=3),
    Case("letter", "letter", 26, 16_000, 16, _DEPTH_6, {FULL: 2.0, DIAGONAL: 0.7}),
    Case("lossguide", "generated", 7, 100_000, 54, _LEAVES_63,
         {FULL: 0.7, FULL_PATH: 0.7, DIAGONAL: 0.45, DIAGONAL_PATH: 0.45}, "LightGBM",
         speed_up=1.7),
    Case("k100", "generated", 100, 20_000, 50, _DEPTH_6, {DIAGONAL: 0.8}, rounds=3,
         turns=2),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Rows:
    """Data of a case.

    Attributes
    ----------
    words : what they are.
    X : (n, n_features) float32.
    label : (n,) int32 classes.
    """

    words: str
    X: NDArray[np.float32]
    label: NDArray[np.int32] = field(repr=False)


_STAND_INS = {"covertype": like_covertype, "letter": like_letter}


def load(case: Case, directory: str | None, fetch: bool) -> Rows:
    """The rows to train on; a stand-in, named so, where the real set is not at hand."""
    if case.source == "generated":
        X, label = generated(case.rows, case.n_classes, case.n_features)
        return Rows(_words(case, "generated"), X, label)
    try:
        found = data.load(case.source, directory, fetch)
    except data.Unavailable:
        X, label = _STAND_INS[case.source](case.rows)
        return Rows(_words(case, f"generated stand-in for {case.source}"), X, label)
    # The order of the source has structure; the official training rows come first.
    rows = np.random.default_rng(0).permutation(found.test_start or len(found.y))[: case.rows]
    X, label = np.ascontiguousarray(found.X[rows]), found.y[rows]
    return Rows(_words(replace(case, rows=len(rows)), found.name), X, label)


def _words(case: Case, name: str) -> str:
    leaves = case.tree.get("max_leaves")
    size = f"loss-guided, {leaves} leaves" if leaves else f"depth {case.tree['max_depth']}"
    return f"k={case.n_classes}, {case.rows} × {case.n_features} {name}, {size}"


def methods_of(cases: Sequence[Case]) -> dict[int, list[dict[str, Any]]]:
    """Settings that the cases use, by number of classes."""
    found: dict[int, list[dict[str, Any]]] = {}
    for case in cases:
        settings = found.setdefault(case.n_classes, [])
        settings += [METHODS[name] for name in case.targets if METHODS[name] not in settings]
    return found
