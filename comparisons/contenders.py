"""Who takes part in the study, and what the search may draw: its tracked configuration."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from .libraries import Method, Settings

__all__ = ["ALL_DATA", "BASELINE", "OWN", "PEERS", "Protocol", "draws", "full_name"]

FULL = "diag(p) − ppᵀ"


def _own(name: str, splits: str = FULL, leaves: str = "exact", **params: Any) -> tuple[str, Method]:
    return "fullhess", Method(name, f"splits {splits}, leaves {leaves}", params)


def _steps(hessian: str, **params: Any) -> dict[str, Any]:
    """Single Newton steps and the quadratic gain, as host libraries have them."""
    return {"hessian": hessian, "leaf_solver": "newton", "split_gain": "quadratic", **params}


# Splits by one curvature and leaves by another, a factor at a time. ``split_hessian`` is
# left at "auto" where a row says "full", so with more than 16 classes splits are diagonal.
OWN = (
    _own("default"),
    _own("path prior", leaf_prior="path"),
    _own("quadratic gain", split_gain="quadratic"),
    _own("full, Newton step", leaves="one step, full", **_steps("full")),
    _own("p(1−p) splits", "p(1−p)", split_hessian="diagonal"),
    _own("p(1−p) splits, path prior", "p(1−p)", split_hessian="diagonal", leaf_prior="path"),
    _own("2p(1−p) splits, exact leaves", "2p(1−p)", split_hessian="upper_bound",
         split_gain="quadratic"),
    _own("2p(1−p) splits, full Newton step", "2p(1−p)", "one step, full",
         **_steps("full", split_hessian="upper_bound")),
    _own("full splits, 2p(1−p) leaves", leaves="one step, 2p(1−p)",
         **_steps("upper_bound", split_hessian="full")),
    _own("2p(1−p)", "2p(1−p)", "one step, 2p(1−p)", **_steps("upper_bound")),
    _own("2p(1−p), path prior", "2p(1−p)", "one step, 2p(1−p)",
         **_steps("upper_bound", leaf_prior="path")),
    _own("|p−y|", "|p−y|", "one step, |p−y|", **_steps("absolute_residual")),
    _own("|p−y|, path prior", "|p−y|", "one step, |p−y|",
         **_steps("absolute_residual", leaf_prior="path")),
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
)  # fmt: skip
BASELINE = "XGBoost vector leaves"  # what ratios are taken to

# Small sets come first: with a time limit, as many as possible are finished.
ALL_DATA = (
    "wine", "glass", "dermatology", "vehicle", "vowel", "car", "yeast", "winequality_red",
    "digits", "segment", "splice", "nursery", "ann_thyroid", "waveform_21", "satimage",
    "pendigits", "connect_4", "covertype", "shuttle", "letter", "poker",
)  # fmt: skip


def full_name(library: str, method: Method) -> str:
    return f"{library} {method.name}"


@dataclass(frozen=True)
class Protocol:
    """What all methods are given alike.

    Attributes
    ----------
    n_draws : settings tried for every method on every split of every set.
    rounds, patience : most rounds, and rounds without improvement before a stop.
    max_train : rows to train on, with exceptions in ``more_rows``.
    """

    n_draws: int = 3
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    rounds: int = 100
    patience: int = 10
    max_bin: int = 64
    max_train: int = 1200
    more_rows: dict[str, int] = field(default_factory=lambda: {"poker": 4000})

    @property
    def key(self) -> str:
        """Tells results of one protocol from those of another; seeds do not matter."""
        facts = asdict(replace(self, seeds=()))
        return hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:8]

    def rows(self, name: str) -> int:
        return self.more_rows.get(name, self.max_train)


def draws(protocol: Protocol, seed: int) -> list[Settings]:
    """The settings tried on one split; the same for all methods and data sets."""
    generator = np.random.default_rng([seed, 0xD3A3])

    def between(low: float, high: float) -> float:
        """Log-uniform, to three digits."""
        return float(f"{np.exp(generator.uniform(np.log(low), np.log(high))):.3g}")

    return [
        Settings(
            rounds=protocol.rounds,
            patience=protocol.patience,
            max_bin=protocol.max_bin,
            learning_rate=between(0.1, 0.5),
            reg_lambda=between(0.1, 10.0),
            min_child_weight=between(0.01, 3.0),
            max_depth=int(generator.integers(3, 7)),
            subsample=float(generator.choice([0.7, 1.0])),
            colsample_bytree=float(generator.choice([0.7, 1.0])),
            seed=seed,
            n_jobs=1,
        )
        for _ in range(protocol.n_draws)
    ]
