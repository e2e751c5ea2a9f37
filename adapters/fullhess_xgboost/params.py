"""XGBoost's parameters in the engine's words.

Every parameter of XGBoost stands in ``TABLE``, once, with what becomes of it when a
vector objective is trained here:

honoured    translated to a setting of the engine, or used by the adapter
no effect   changes nothing, for the reason given
elsewhere   belongs to another booster or objective: a warning, as XGBoost gives
refused     an error that says what to do instead
"""

from __future__ import annotations

import ast
import difflib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fullhess.params import ParameterError

from .host import xgboost

__all__ = ["NEW", "TABLE", "Settings", "main_name", "markdown_table", "translate"]

Kind = Literal["honoured", "no effect", "elsewhere", "refused"]

#: What this package adds to XGBoost's parameters.
NEW = ("hessian", "split_hessian", "leaf_solver", "leaf_prior", "split_gain")


@dataclass(frozen=True)
class Rule:
    """What becomes of one parameter.

    engine : the engine's name, None if the adapter itself uses it.
    read : from whatever the user wrote to the engine's value.
    """

    kind: Kind
    note: str = ""
    engine: str | None = None
    read: Callable[[str, Any], Any] | None = None


def _number(name: str, value: Any) -> Any:
    """A float; text is read as XGBoost would."""
    return _converted(name, value, float, "a number")


def _integer(name: str, value: Any) -> Any:
    if isinstance(value, float) and not value.is_integer():
        raise ParameterError(f"{name}: expected an integer, got {value!r}; pass a whole number")
    return _converted(name, value, int, "an integer")


def _converted(name: str, value: Any, kind: Callable[[Any], Any], expected: str) -> Any:
    if isinstance(value, bool):
        raise ParameterError(f"{name}: expected {expected}, got {value!r}; pass a number")
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name}: expected {expected}, got {value!r}") from None


def _text(name: str, value: Any) -> str:
    return str(value)


def _seed(name: str, value: Any) -> int:
    """XGBoost's seeds may be negative; the engine's start at zero."""
    return int(_integer(name, value)) % 2**63


def _directions(name: str, value: Any) -> Any:
    """(1, -1, …) from a tuple or text such as ``"(1,-1)"``."""
    found = _literal(name, value, "one of -1, 0, 1 for each feature, such as (1, 0, -1)")
    found = (found,) if isinstance(found, int) else tuple(found)
    return found if any(found) else None


def _groups(name: str, value: Any) -> Any:
    """[[0, 1], …] from lists or text such as ``"[[0, 1], [2, 3]]"``."""
    found = _literal(name, value, "lists of features, such as [[0, 1], [2, 3]]")
    return [list(group) for group in found] or None


def _literal(name: str, value: Any, expected: str) -> Any:
    if not isinstance(value, str):
        return value
    if not value.strip():
        return ()
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        raise ParameterError(f"{name}: expected {expected}, got {value!r}") from None
    if not isinstance(found, (int, tuple, list)):
        raise ParameterError(f"{name}: expected {expected}, got {value!r}")
    return found


def _honoured(
    engine: str | None = None, read: Callable[[str, Any], Any] | None = None, note: str = ""
) -> Rule:
    return Rule("honoured", note, engine, read)


def _only(name: str, allowed: Iterable[str], advice: str) -> Rule:
    """Values that need no setting; all others are refused."""
    options = tuple(allowed)

    def check(_: str, value: Any) -> None:
        if str(value) and str(value) not in options:
            raise ParameterError(
                f"{name}={value!r} is not available with full-Hessian trees "
                f"(available: {', '.join(options)}); {advice}"
            )

    return Rule("refused", f"all but {', '.join(options)}: {advice}", None, check)


def _argument(name: str) -> Rule:
    """Not a parameter of XGBoost, but looks like one."""
    advice = "pass num_boost_round as an argument of train"

    def refuse(_: str, value: Any) -> None:
        raise ParameterError(f"{name}={value!r} is no parameter of XGBoost's trees; {advice}")

    return Rule("refused", advice, None, refuse)


_USE_HOST = "leave it out, or train this model with xgboost itself"
_DART = "of booster='dart'"
_LINEAR = "of booster='gblinear'"
_RANKING = "of the ranking objectives"
_INTERNAL = "internal to XGBoost"

TABLE: dict[str, Rule] = {
    # what is minimised
    "objective": _honoured(note="multi:softmax, multi:softprob; scalar ones go to XGBoost"),
    "num_class": _honoured(),
    "base_score": _honoured(note="one number or one for each class, as margins"),
    "eval_metric": _honoured(note="XGBoost's own metrics on our margins"),
    "disable_default_eval_metric": _honoured(),
    "scale_pos_weight": Rule("no effect", "XGBoost ignores it with several classes, too"),
    # size and shape of trees
    "eta": _honoured("learning_rate", _number),
    "gamma": _honoured("min_split_gain", _number),
    "max_depth": _honoured("max_depth", _integer),
    "max_leaves": _honoured("max_leaves", _integer),
    "grow_policy": _honoured("grow_policy", _text),
    "min_child_weight": _honoured(
        "min_child_weight", _number, "mean of the k diagonal curvatures, as in XGBoost 3.4"
    ),
    "lambda": _honoured("reg_lambda", _number),
    "alpha": _honoured(
        "reg_alpha", _number, "splits are searched with a diagonal; leaves keep the full matrix"
    ),
    "max_delta_step": _honoured("max_delta_step", _number),
    "max_bin": _honoured(),
    "max_cat_to_onehot": _honoured("max_cat_to_onehot", _integer),
    "max_cat_threshold": _honoured("max_cat_threshold", _integer),
    "monotone_constraints": _honoured(
        "monotone_constraints",
        _directions,
        "every score; splits are searched with a diagonal, leaves keep the full matrix",
    ),
    "interaction_constraints": _honoured("interaction_constraints", _groups),
    # sampling
    "subsample": _honoured("subsample", _number),
    "sampling_method": _honoured("sampling_method", _text),
    "colsample_bytree": _honoured("colsample_bytree", _number),
    "colsample_bylevel": _honoured("colsample_bylevel", _number),
    "colsample_bynode": _honoured("colsample_bynode", _number),
    "num_parallel_tree": _honoured("num_parallel_tree", _integer),
    "seed": _honoured("random_state", _seed, "other random numbers than XGBoost's"),
    "seed_per_iteration": Rule("no effect", "every round has a seed of its own here"),
    # how it is run
    "nthread": _honoured("n_jobs", _integer),
    "verbosity": _honoured(),
    "validate_parameters": Rule("no effect", "parameters are always checked here"),
    "device": Rule("no effect", "training runs on the CPU; a warning says so"),
    "tree_method": _only(
        "tree_method", ("auto", "hist"), "trees are grown on histograms: set tree_method='hist'"
    ),
    "booster": _only("booster", ("gbtree",), f"{_USE_HOST} (gblinear always is)"),
    "process_type": _only("process_type", ("default",), _USE_HOST),
    "updater": _only("updater", ("grow_quantile_histmaker",), _USE_HOST),
    "updater_seq": _only("updater_seq", ("grow_quantile_histmaker",), _USE_HOST),
    "multi_strategy": Rule("no effect", "leaves are always vectors here"),
    "refresh_leaf": Rule("no effect", "only for process_type='update'"),
    "max_cached_hist_node": Rule("no effect", "histograms have a budget of their own here"),
    "extmem_single_page": Rule("no effect", "only for external memory"),
    "sparse_threshold": Rule("no effect", _INTERNAL),
    "debug_synchronize": Rule("no effect", _INTERNAL),
    "fail_on_invalid_gpu_id": Rule("no effect", _INTERNAL),
    "rng_state": Rule("no effect", _INTERNAL),
    "num_feature": Rule("no effect", "read from the data"),
    "num_target": Rule("no effect", "read from the labels"),
    "num_trees": Rule("no effect", _INTERNAL),
    "boost_from_average": Rule("no effect", "use base_score"),
    **{name: _argument(name) for name in ("num_boost_round", "num_round", "n_estimators")},
    # of other boosters and objectives
    **{
        name: Rule("elsewhere", _DART)
        for name in ("sample_type", "normalize_type", "rate_drop", "one_drop", "skip_drop")
    },
    **{
        name: Rule("elsewhere", _LINEAR)
        for name in ("feature_selector", "top_k", "tolerance", "max_row_perbatch")
    },
    **{
        name: Rule("elsewhere", _RANKING)
        for name in (
            "lambdarank_pair_method", "lambdarank_num_pair_per_sample", "lambdarank_normalization",
            "lambdarank_score_normalization", "lambdarank_unbiased", "lambdarank_bias_norm",
            "lambdarank_diff_normalization", "ndcg_exp_gain",
        )
    },
    "tweedie_variance_power": Rule("elsewhere", "of objective='reg:tweedie'"),
    "huber_slope": Rule("elsewhere", "of objective='reg:pseudohubererror'"),
    "quantile_alpha": Rule("elsewhere", "of objective='reg:quantileerror'"),
    "expectile_alpha": Rule("elsewhere", "of objective='reg:expectileerror'"),
    "aft_loss_distribution": Rule("elsewhere", "of objective='survival:aft'"),
    "aft_loss_distribution_scale": Rule("elsewhere", "of objective='survival:aft'"),
    # of earlier versions
    **{
        name: Rule("elsewhere", "of earlier versions of XGBoost")
        for name in (
            "silent", "predictor", "n_gpus", "gpu_id", "single_precision_histogram",
            "deterministic_histogram", "sketch_eps", "sketch_ratio", "max_search_group",
            "enable_experimental_json_serialization", "use_rmm", "cache_opt", "nbins",
        )
    },
    # new
    "hessian": _honoured("hessian", _text, "new: curvature of the leaves"),
    "split_hessian": _honoured("split_hessian", _text, "new: curvature of the split search"),
    "leaf_solver": _honoured("leaf_solver", _text, "new: how leaf values are found"),
    "leaf_prior": _honoured("leaf_prior", _text,
                            "new: what lambda pulls a leaf to; by default its parent where "
                            "leaves are exact"),
    "split_gain": _honoured("split_gain", _text, "new: what a split is scored by"),
}  # fmt: skip

ALIASES = {
    "learning_rate": "eta",
    "min_split_loss": "gamma",
    "reg_lambda": "lambda",
    "reg_alpha": "alpha",
    "n_jobs": "nthread",
    "random_state": "seed",
}

# Where XGBoost's default is not the engine's.
_DEFAULTS: dict[str, Any] = {
    "learning_rate": 0.3,
    "max_cat_threshold": 64,
    "margin_dtype": "float32",  # XGBoost adds its trees up in float32
}


@dataclass(frozen=True)
class Settings:
    """Parameters of one run, translated.

    engine : settings of ``fullhess.Params``.
    max_bin : None if not given.
    base_score : None if not given, else a list of numbers.
    """

    engine: dict[str, Any]
    max_bin: int | None
    base_score: list[float] | None

    @property
    def nthread(self) -> int | None:
        threads = self.engine.get("n_jobs")
        return None if threads is None else int(threads)


def main_name(name: str) -> str:
    """XGBoost's first name of a parameter."""
    return ALIASES.get(name, name)


def translate(params: Mapping[str, Any], warn: bool = True) -> Settings:
    """Parameters of a vector objective for the engine.

    params : with main names, as ``merge`` returns them.
    warn : of parameters without an effect.
    """
    engine = dict(_DEFAULTS)
    for name, value in params.items():
        rule = TABLE.get(name)
        if rule is None:
            raise _unknown(name)
        if value is None:
            continue
        if rule.kind == "elsewhere" and warn:
            warnings.warn(
                f"parameter {name!r} is not used: it is one {rule.note}",
                UserWarning,
                stacklevel=2,
            )
        if rule.read is not None:
            read = rule.read(name, value)
            if rule.engine is not None and read is not None:
                engine[rule.engine] = read
    if warn and str(params.get("device") or "cpu") != "cpu":
        warnings.warn(
            f"device={params['device']!r}: full-Hessian trees are grown on the CPU",
            UserWarning,
            stacklevel=2,
        )
    if not engine.get("n_jobs"):
        engine["n_jobs"] = xgboost.get_config().get("nthread") or None
    max_bin = params.get("max_bin")
    return Settings(
        engine,
        None if max_bin is None else _integer("max_bin", max_bin),
        _base_score(params.get("base_score")),
    )


def _base_score(value: Any) -> list[float] | None:
    if value is None:
        return None
    found = _literal("base_score", value, "a number or one for each class") if (
        isinstance(value, str) and value.strip().startswith("[")
    ) else value  # fmt: skip
    entries = list(found) if hasattr(found, "__len__") and not isinstance(found, str) else [found]
    return [_number("base_score", entry) for entry in entries]


def merge(old: dict[str, Any], items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Parameters after further ones are set, under their main names.

    Two names of one parameter with different values in one call are refused. Metrics
    add up, as XGBoost has it.
    """
    merged = dict(old)
    given: dict[str, tuple[str, Any]] = {}
    metrics: list[str] = []
    for name, value in items:
        main = main_name(name)
        if value is None:
            continue
        if main == "eval_metric":
            metrics.extend(value if isinstance(value, (list, tuple)) else [value])
            continue
        first, other = given.setdefault(main, (name, value))
        if first != name and str(other) != str(value):
            raise ParameterError(
                f"{first}={other!r} and {name}={value!r} are two names of one parameter with "
                "different values; pass one of them"
            )
        merged[main] = value
    if metrics:
        merged["eval_metric"] = [*old.get("eval_metric", []), *metrics]
    return merged


def check_new_unused(params: Mapping[str, Any], why: str) -> None:
    """Refuse settings of the full Hessian where XGBoost's own trainer is at work."""
    same = {"hessian": ("full",), "split_hessian": ("auto", "full")}
    for name in NEW:
        value = params.get(name)
        if value is not None and value not in same.get(name, ()):
            raise ParameterError(
                f"{name}={value!r} has no meaning here: {why}, so XGBoost's own trainer is used; "
                f"leave {name} out"
            )


def _unknown(name: str) -> ParameterError:
    known = [*TABLE, *ALIASES]
    close = difflib.get_close_matches(name, known, n=1)
    advice = f"did you mean {close[0]!r}?" if close else "leave it out"
    return ParameterError(f"{name!r} is a parameter neither of XGBoost nor of fullhess; {advice}")


def markdown_table() -> str:
    """The table of parameters for the documentation."""
    other: dict[str, list[str]] = {}
    for alias, name in ALIASES.items():
        other.setdefault(name, []).append(alias)
    lines = ["| parameter | here | note |", "|---|---|---|"]
    for name, rule in TABLE.items():
        names = ", ".join(f"`{n}`" for n in (name, *other.get(name, ())))
        lines.append(f"| {names} | {rule.kind} | {rule.note} |")
    return "\n".join(lines) + "\n"
