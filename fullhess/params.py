"""The settings of a training run: names, defaults, limits, and what they mean.

A field carries its rule and its description with it, so that validation, error
messages and the table in the README come from one place.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from .rules import (
    MAX_INTEGER,
    Choice,
    Directions,
    Flag,
    Groups,
    Integer,
    ParameterError,
    Real,
    Rule,
)

__all__ = ["ParameterError", "Params", "parameter_table"]

Objective = Literal["softmax", "squared_error"]
Hessian = Literal["full", "upper_bound", "absolute_residual", "diagonal", "scaled_diagonal"]
SplitHessian = Literal[
    "auto", "full", "upper_bound", "absolute_residual", "diagonal", "scaled_diagonal"
]
SplitGain = Literal["guaranteed", "quadratic"]
LeafSolver = Literal["exact", "damped", "newton"]
LeafPrior = Literal["auto", "ridge", "path"]
GrowPolicy = Literal["depthwise", "lossguide"]
SamplingMethod = Literal["uniform", "gradient_based", "goss"]
MarginDtype = Literal["float64", "float32"]

_WHERE = "see the parameter table in the README or help(fullhess.Params)"
_MAX_DEPTH = 512
_MAX_LEAVES = 2**30  # the 2 * leaves - 1 nodes are numbered in int32
_SOFTMAX_ONLY = ("upper_bound", "absolute_residual", "scaled_diagonal")


def _field(default: Any, rule: Rule, doc: str) -> Any:
    return field(default=default, metadata={"rule": rule, "doc": doc})


def _choice(default: str, options: Any, doc: str) -> Any:
    return _field(default, Choice(get_args(options)), doc)


def _integer(default: int | None, low: int, doc: str, **limits: Any) -> Any:
    return _field(default, Integer(low, **limits), doc)


def _real(default: float, doc: str, **limits: Any) -> Any:
    return _field(default, Real(**{"low": 0.0, **limits}), doc)


def _flag(doc: str) -> Any:
    return _field(False, Flag(), doc)


def _fraction(doc: str, default: float = 1.0) -> Any:
    return _field(default, Real(0.0, 1.0, open_low=True), doc)


@dataclass(frozen=True)
class Params:
    """Settings of a training run, checked on construction and immutable.

    ``parameter_table()`` describes every field; ``from_dict`` is the way in for
    a mapping. NumPy scalars are accepted and stored as Python numbers.
    """

    objective: Objective = _choice("softmax", Objective, "loss to minimise")
    num_class: int | None = _integer(
        None, 2, "number of classes of softmax; None: counted from the labels", optional=True
    )
    hessian: Hessian = _choice("full", Hessian, "curvature of the leaves")
    split_hessian: SplitHessian = _choice(
        "auto",
        SplitHessian,
        "curvature of the split search; auto: full up to 5 outputs, diagonal beyond",
    )
    split_gain: SplitGain = _choice(
        "guaranteed", SplitGain, "what a split is scored by: a proven or an estimated loss decrease"
    )
    leaf_solver: LeafSolver = _choice(
        "exact", LeafSolver, "leaf values: minimiser, one damped or one plain Newton step"
    )
    leaf_prior: LeafPrior = _choice(
        "auto",
        LeafPrior,
        "what reg_lambda pulls a leaf to: zero (ridge) or its parent (path); auto: path for exact "
        "softmax leaves",
    )
    learning_rate: float = _fraction("factor on every leaf value", default=0.1)
    max_depth: int = _integer(6, 1, "depth of a tree", high=_MAX_DEPTH, zero_means="unlimited")
    max_leaves: int = _integer(0, 2, "leaves of a tree", high=_MAX_LEAVES, zero_means="unlimited")
    grow_policy: GrowPolicy = _choice(
        "depthwise", GrowPolicy, "which node is split next: level by level, or the largest gain"
    )
    min_samples_leaf: int = _integer(1, 1, "training rows of a leaf")
    min_child_weight: float = _real(1.0, "trace of a child's summed curvature over n_outputs")
    min_split_gain: float = _real(0.0, "gain a split must exceed (twice the loss decrease)")
    reg_lambda: float = _real(1.0, "L2 penalty on leaf values")
    reg_alpha: float = _real(0.0, "L1 penalty on leaf values")
    max_delta_step: float = _real(
        0.0, "bound on every value of a leaf before the learning rate; 0: none"
    )
    path_smooth: float = _real(
        0.0, "rows' worth of pull of a leaf's values to its parent's, after they are solved"
    )
    subsample: float = _fraction("share of rows drawn for a tree")
    subsample_freq: int = _integer(1, 1, "rounds after which the rows are drawn anew")
    sampling_method: SamplingMethod = _choice(
        "uniform",
        SamplingMethod,
        "how rows are drawn: all alike, by the size of the gradient, or the largest and a few more",
    )
    top_rate: float = _fraction("share of rows with the largest gradients that goss keeps", 0.2)
    other_rate: float = _fraction("share of rows that goss draws among the others", 0.1)
    colsample_bytree: float = _fraction("share of columns drawn for a tree")
    colsample_bylevel: float = _fraction("share of the tree's columns drawn for a level")
    colsample_bynode: float = _fraction("share of the level's columns drawn for a node")
    num_parallel_tree: int = _integer(1, 1, "trees grown side by side in a round and averaged")
    monotone_constraints: tuple[int, ...] | None = _field(
        None, Directions(), "1: every score rises with the feature, -1: falls, 0: free"
    )
    interaction_constraints: tuple[tuple[int, ...], ...] | None = _field(
        None, Groups(), "sets of features that may share a branch; others stand alone in one"
    )
    extra_trees: bool = _flag("try one random threshold of a feature in a node, not all")
    max_cat_to_onehot: int = _integer(
        4, 1, "up to this many categories in a node, each is tried alone against the rest"
    )
    max_cat_threshold: int = _integer(
        0, 1, "categories listed at a split of ordered categories", zero_means="unlimited"
    )
    cat_smooth: float = _real(10.0, "added to the curvature by which categories are ordered")
    cat_l2: float = _real(0.0, "added to reg_lambda in the gain of a split of ordered categories")
    min_data_per_group: int = _integer(
        1, 1, "rows a category needs in a node to be listed at a split of ordered categories"
    )
    max_histogram_mb: int = _integer(1024, 1, "memory for histograms in megabytes")
    margin_dtype: MarginDtype = _choice(
        "float64", MarginDtype, "precision of raw predictions and leaf values"
    )
    random_state: int = _integer(0, 0, "seed of row and column sampling")
    n_jobs: int | None = _integer(
        None, -MAX_INTEGER, "threads as scikit-learn counts them; None: all", optional=True
    )

    def __post_init__(self) -> None:
        for item in fields(self):
            value = item.metadata["rule"].read(item.name, getattr(self, item.name))
            object.__setattr__(self, item.name, value)
        self._check_limits()
        self._check_penalties()
        self._check_sampling()
        self._check_objective()

    @property
    def is_constrained(self) -> bool:
        """Whether leaf values have an L1 penalty or bounds of their own."""
        return (
            self.reg_alpha > 0.0
            or self.monotone_constraints is not None
            or (self.max_delta_step > 0.0 and self.leaf_prior != "path")
        )

    def _check_penalties(self) -> None:
        """What the search of constrained splits asks for."""
        given = [
            name
            for name, active in (
                ("reg_alpha", self.reg_alpha > 0.0),
                ("monotone_constraints", self.monotone_constraints is not None),
            )
            if active
        ]
        if self.path_smooth > 0.0 and (self.leaf_prior == "path" or self.monotone_constraints):
            raise ParameterError(
                "path_smooth cannot be combined with leaf_prior='path' (which ties a leaf to its "
                "parent already) or with monotone_constraints (which it would break); leave "
                "one of them out"
            )
        if not given:
            return
        if self.leaf_prior == "path":
            raise ParameterError(
                f"{' and '.join(given)} cannot be combined with leaf_prior='path'; use "
                "leaf_prior='ridge'"
            )
        if self.split_hessian == "full" and self.objective == "softmax":
            raise ParameterError(
                f"{' and '.join(given)} cannot be combined with split_hessian='full': under them "
                "splits are searched with a diagonal curvature; leave split_hessian out (leaves "
                "still use the full matrix)"
            )

    def _check_sampling(self) -> None:
        if self.sampling_method == "goss":
            if self.subsample < 1.0:
                raise ParameterError(
                    "sampling_method='goss' draws by top_rate and other_rate, got subsample="
                    f"{self.subsample}; leave subsample out"
                )
            if self.top_rate + self.other_rate > 1.0 + 1e-9:
                raise ParameterError(
                    "top_rate and other_rate are shares of the same rows and must not exceed 1 "
                    f"together, got {self.top_rate} and {self.other_rate}"
                )
        if self.subsample_freq > 1 and self.sampling_method != "uniform":
            raise ParameterError(
                f"subsample_freq={self.subsample_freq} cannot be combined with sampling_method="
                f"{self.sampling_method!r}, which follows the gradients of each round; leave "
                "subsample_freq out"
            )

    def _check_limits(self) -> None:
        if self.max_depth == 0 and self.max_leaves == 0:
            raise ParameterError(
                "max_depth and max_leaves are both 0, so nothing limits the trees: expected at "
                f"least one limit with grow_policy={self.grow_policy!r}; set max_leaves "
                "(lossguide) or max_depth (depthwise)"
            )

    def _check_objective(self) -> None:
        if self.objective == "softmax":
            return
        if self.num_class is not None:
            raise ParameterError(
                f"num_class belongs to objective='softmax', got num_class={self.num_class} with "
                f"objective={self.objective!r}; leave num_class out (the number of outputs is "
                "the number of label columns)"
            )
        for name in ("hessian", "split_hessian"):
            if getattr(self, name) in _SOFTMAX_ONLY:
                raise ParameterError(
                    f"{name}={getattr(self, name)!r} belongs to objective='softmax', got "
                    f"objective={self.objective!r}; leave {name} out (the Hessian of this "
                    "objective is the identity)"
                )

    @classmethod
    def from_dict(cls, params: Mapping[str, Any] | Params | None) -> Params:
        """Settings from names and values; names left out keep their defaults."""
        if isinstance(params, Params):
            return params
        if params is not None and not isinstance(params, Mapping):
            raise ParameterError(
                "params: expected a mapping of names to values or fullhess.Params, got "
                f"{type(params).__name__}; write for example {{'learning_rate': 0.1}}"
            )
        known = [item.name for item in fields(cls)]
        for name in params or {}:
            if name not in known:
                raise _unknown(name, known)
        return cls(**dict(params or {}))

    def to_dict(self) -> dict[str, Any]:
        """All settings as plain Python values; the inverse of ``from_dict``."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def _unknown(name: Any, known: list[str]) -> ParameterError:
    close = difflib.get_close_matches(str(name), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known names are {', '.join(known)};"
    return ParameterError(f"unknown parameter {name!r}: {hint} {_WHERE}")


def parameter_table() -> str:
    """All settings as a Markdown table."""
    lines = ["| name | default | allowed | meaning |", "|---|---|---|---|"]
    for item in fields(Params):
        rule: Rule = item.metadata["rule"]
        default = "None" if item.default is None else f"{item.default}"
        allowed = rule.expected.replace("'", "`").replace(" or `", ", `")
        if item.name == "n_jobs":  # every integer has a meaning, the limits say nothing
            allowed = "any integer, or None"
        lines.append(f"| `{item.name}` | `{default}` | {allowed} | {item.metadata['doc']} |")
    return "\n".join(lines) + "\n"
