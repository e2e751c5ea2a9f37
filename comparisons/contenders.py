"""Who takes part in the study, and what the search may draw: its tracked configuration."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from .libraries import Method, Settings

__all__ = [
    "BASELINE", "FULL", "FURTHER_DATA", "MAX_FULL", "OWN", "PEERS", "PLANS", "Plan", "Protocol",
    "draws", "for_classes", "full_name",
]  # fmt: skip

FULL = "diag(p) − ppᵀ"


MAX_FULL = 16  # classes up to which a row that says so splits by the full matrix


def _own(name: str, splits: str = FULL, leaves: str = "exact", **params: Any) -> tuple[str, Method]:
    if splits == FULL:
        params.setdefault("split_hessian", "full")
    return "fullhess", Method(name, f"splits {splits}, leaves {leaves}", params)


def for_classes(params: Mapping[str, Any], n_classes: int) -> dict[str, Any]:
    """Settings of ours as they are trained with so many classes."""
    if n_classes <= MAX_FULL or params.get("split_hessian") != "full":
        return dict(params)
    return {**params, "split_hessian": "diagonal"}


def _steps(hessian: str, **params: Any) -> dict[str, Any]:
    """Single Newton steps and the quadratic gain, as host libraries have them."""
    return {"hessian": hessian, "leaf_solver": "newton", "split_gain": "quadratic",
            "leaf_prior": "ridge", **params}  # fmt: skip


def _exact(name: str, splits: str = FULL, prior: str = "path", **params: Any) -> tuple[str, Method]:
    """Exact leaves with the true Hessian."""
    return _own(name, splits, leaf_prior=prior, **params)


def _stand_in(formula: str, hessian: str) -> tuple[tuple[str, Method], tuple[str, Method]]:
    """A diagonal curvature in splits and leaves, with either prior."""
    leaves = f"one step, {formula}"
    return (
        _own(formula, formula, leaves, **_steps(hessian)),
        _own(f"{formula}, path prior", formula, leaves, **_steps(hessian, leaf_prior="path")),
    )


# A factor at a time. Priors are spelled out, whatever the default is: with the full Hessian it
# is the path unless a name says "ridge", with a stand-in the ridge unless it says "path prior".
# With more than MAX_FULL classes splits are diagonal where a row says "full".
OWN = (
    _exact("full splits"),
    _exact("ridge", prior="ridge"),
    _exact("quadratic gain", split_gain="quadratic"),
    _exact("ridge, quadratic gain", prior="ridge", split_gain="quadratic"),
    _exact("p(1−p) splits", "p(1−p)", split_hessian="diagonal"),
    _exact("p(1−p) splits, ridge", "p(1−p)", "ridge", split_hessian="diagonal"),
    _exact("2p(1−p) splits", "2p(1−p)", split_hessian="upper_bound", split_gain="quadratic"),
    _own("damped step", leaves="one damped step, full", leaf_solver="damped", leaf_prior="path"),
    _own("Newton step, ridge", leaves="one step, full", **_steps("full")),
    _exact("2p(1−p) splits, ridge", "2p(1−p)", "ridge", split_hessian="upper_bound",
           split_gain="quadratic"),
    _own("2p(1−p) splits, Newton step, ridge", "2p(1−p)", "one step, full",
         **_steps("full", split_hessian="upper_bound")),
    _own("full splits, 2p(1−p) leaves", leaves="one step, 2p(1−p)",
         **_steps("upper_bound", split_hessian="full")),
    *_stand_in("2p(1−p)", "upper_bound"),
    *_stand_in("|p−y|", "absolute_residual"),
)  # fmt: skip
PEERS = (
    ("XGBoost", Method("vector leaves", "2p(1−p)", {"multi_strategy": "multi_output_tree"})),
    ("XGBoost", Method("vector leaves, |p−y|", "|p − y|", {"multi_strategy": "multi_output_tree"})),
    ("XGBoost", Method("tree per class", "2p(1−p)", {"multi_strategy": "one_output_per_tree"})),
    ("XGBoost", Method("tree per class, |p−y|", "|p − y|",
                       {"multi_strategy": "one_output_per_tree"})),
    ("LightGBM", Method("tree per class", "p(1−p)k/(k−1)")),
    ("scikit-learn", Method("tree per class", "p(1−p)")),
    ("CatBoost", Method("symmetric trees", "splits by gradients, leaves by a Newton step",
                        {"grow_policy": "SymmetricTree"})),
    ("CatBoost", Method("depth-wise trees", "splits by gradients, leaves by a Newton step",
                        {"grow_policy": "Depthwise"})),
    ("ChimeraBoost", Method("oblivious trees", "p(1−p)")),
    ("ChimeraBoost", Method("oblivious trees, plain", "p(1−p)",
                            {"cross_features": False, "linear_leaves": False})),
)  # fmt: skip
BASELINE = "XGBoost vector leaves"  # what ratios are taken to


def full_name(library: str, method: Method) -> str:
    return f"{library} {method.name}"


@dataclass(frozen=True)
class Protocol:
    """What all methods are given alike.

    Attributes
    ----------
    n_draws : settings tried for every method on every split of every set.
    rounds, patience : most rounds, and rounds without improvement before a stop.
    max_train : rows to train on, with exceptions in ``other_rows``.
    learning_rate : lowest and highest.
    even : each draw takes another stretch of the range of a number (a Latin hypercube)
        instead of any place in it.
    """

    n_draws: int = 5
    seeds: tuple[int, ...] = (0, 1, 2)
    rounds: int = 120
    patience: int = 10
    max_bin: int = 64
    max_train: int = 4000
    other_rows: dict[str, int] = field(default_factory=lambda: {"letter": 2000})
    learning_rate: tuple[float, float] = (0.08, 0.4)
    even: bool = True

    @property
    def key(self) -> str:
        """Tells results of one protocol from those of another; seeds do not matter."""
        facts = asdict(replace(self, seeds=()))
        return hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:8]

    def rows(self, name: str) -> int:
        return self.other_rows.get(name, self.max_train)


# With a time limit, as many as possible are finished on all splits: first the sets that give
# more rows than the smaller study had, then small ones and those of many classes.
CORE_DATA = (
    "ann_thyroid", "shuttle", "nursery", "splice", "waveform_21", "connect_4", "diamonds_cut",
    "poker", "satimage", "pendigits", "covertype", "car", "yeast", "winequality_red", "segment",
)  # fmt: skip
FURTHER_DATA = ("vehicle", "vowel", "dermatology", "glass", "wine", "digits", "letter")
_EVERY = tuple(full_name(library, method) for library, method in (*PEERS, *OWN))
_SMALL_ONLY = tuple(f"fullhess {name}" for name in (
    "p(1−p) splits, ridge", "2p(1−p) splits, ridge", "2p(1−p) splits, Newton step, ridge",
    "full splits, 2p(1−p) leaves", "2p(1−p)", "2p(1−p), path prior", "|p−y|",
))  # fmt: skip
_NEW = (
    "ChimeraBoost oblivious trees, plain", "fullhess quadratic gain", "fullhess 2p(1−p) splits",
    "fullhess damped step",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """A study: who takes part, on what, and how.

    Attributes
    ----------
    name : of its files.
    words : what it is for, in a report.
    methods : full names.
    """

    name: str
    words: str
    protocol: Protocol
    sets: tuple[str, ...]
    methods: tuple[str, ...]


PLANS = {
    "main": Plan(
        "study",
        "The study: up to 4000 training rows.",
        Protocol(),
        (*CORE_DATA, *FURTHER_DATA),
        tuple(name for name in _EVERY if name not in _SMALL_ONLY),
    ),
    "small": Plan(
        "study_small",
        "The first study, smaller: up to 1200 training rows (poker 4000), 3 draws.",
        Protocol(
            n_draws=3, seeds=(0, 1, 2, 3), rounds=100, patience=10, max_train=1200,
            other_rows={"poker": 4000}, learning_rate=(0.1, 0.5), even=False,
        ),
        tuple(name for name in (*FURTHER_DATA, *CORE_DATA) if name != "diamonds_cut"),
        tuple(name for name in _EVERY if name not in _NEW),
    ),
    "large": Plan(
        "study_large",
        "A check on larger data: few methods, two draws.",
        Protocol(
            n_draws=2, seeds=(0,), rounds=100, patience=10, max_train=30_000,
            other_rows={"covertype": 20_000}, learning_rate=(0.1, 0.3),
        ),
        ("pendigits", "poker", "shuttle", "covertype", "letter"),
        ("XGBoost vector leaves", "LightGBM tree per class", "fullhess full splits",
         "fullhess ridge", "fullhess quadratic gain", "fullhess p(1−p) splits"),
    ),
    "pace": Plan(
        "study_pace",
        "Equal processor time once more, with faster kernels: the study's settings and its first "
        "split, the peers that take least.",
        Protocol(seeds=(0,)),
        CORE_DATA,
        (
            "XGBoost vector leaves", "XGBoost tree per class", "LightGBM tree per class",
            "scikit-learn tree per class", "fullhess full splits", "fullhess p(1−p) splits",
        ),
    ),
    "quick": Plan(
        "study_quick",
        "A few rounds, to see it work.",
        Protocol(n_draws=2, seeds=(0,), rounds=15, patience=5, max_train=400, other_rows={}),
        ("wine", "digits", "poker"),
        _EVERY,
    ),
}  # fmt: skip


def draws(protocol: Protocol, seed: int) -> list[Settings]:
    """The settings tried on one split; the same for all methods and data sets."""
    generator = np.random.default_rng([seed, 0xD3A3])
    n = protocol.n_draws
    stretches = [generator.permutation(n) for _ in range(3)] if protocol.even else None

    def between(low: float, high: float, draw: int, number: int) -> float:
        """Log-uniform, to three digits."""
        if stretches is None:
            place = generator.uniform(np.log(low), np.log(high))
        else:
            share = (stretches[number][draw] + generator.random()) / n
            place = np.log(low) + share * np.log(high / low)
        return float(f"{np.exp(place):.3g}")

    return [
        Settings(
            rounds=protocol.rounds,
            patience=protocol.patience,
            max_bin=protocol.max_bin,
            learning_rate=between(*protocol.learning_rate, draw, 0),
            reg_lambda=between(0.1, 10.0, draw, 1),
            min_child_weight=between(0.01, 3.0, draw, 2),
            max_depth=int(generator.integers(3, 7)),
            subsample=float(generator.choice([0.7, 1.0])),
            colsample_bytree=float(generator.choice([0.7, 1.0])),
            seed=seed,
            n_jobs=1,
        )
        for draw in range(n)
    ]
