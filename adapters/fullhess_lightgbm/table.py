"""Every parameter of LightGBM and what becomes of it here: one table.

A parameter is honoured (by the engine, by the host's own code that still runs, or by
the adapter), has no meaning for what the engine does, or is refused when it has
another value than the host's default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["OWN", "TABLE", "Entry", "parameter_table"]

Kind = Literal["engine", "adapter", "dataset", "loop", "prediction", "irrelevant", "refused"]
Type = Literal["real", "integer", "flag", "text", "reals", "integers", "groups", "any"]


@dataclass(frozen=True)
class Entry:
    """What becomes of one parameter.

    Attributes
    ----------
    kind : ``"engine"``: the setting ``engine`` of the engine; ``"adapter"``: read here;
        ``"dataset"``, ``"loop"``, ``"prediction"``: the host's own code reads it when it
        bins, trains or predicts; ``"irrelevant"``; ``"refused"``.
    note : how it is honoured, why it does not matter, or what to do instead.
    type : how a value is read.
    default : the host's default.
    engine : name of the engine's setting.
    """

    kind: Kind
    note: str
    type: Type = "any"
    default: Any = None
    engine: str = ""


def _engine(name: str, type_: Type, default: Any, note: str = "") -> Entry:
    return Entry("engine", note, type_, default, name)


def _refused(type_: Type, default: Any, note: str) -> Entry:
    return Entry("refused", note, type_, default)


def _same(kind: Kind, note: str, *names: str) -> dict[str, Entry]:
    return {name: Entry(kind, note) for name in names}


# Settings that LightGBM does not have, with the engine's names.
OWN = ("hessian", "split_hessian", "leaf_solver", "leaf_prior", "split_gain")

TABLE: dict[str, Entry] = {
    "objective": Entry("adapter", "multiclass, or a function with num_class > 1", "any"),
    "num_class": Entry("adapter", "scores of a row", "integer", 1),
    "boosting": Entry("adapter", "gbdt only; dart and rf are refused", "text", "gbdt"),
    "data_sample_strategy": Entry("adapter", "bagging or goss", "text", "bagging"),
    "learning_rate": _engine("learning_rate", "real", 0.1, "above 0, at most 1"),
    "num_leaves": _engine("max_leaves", "integer", 31, "leaves of a vector tree"),
    "max_depth": _engine("max_depth", "integer", -1),
    "min_data_in_leaf": _engine(
        "min_samples_leaf", "integer", 20, "exact counts (LightGBM estimates them)"
    ),
    "min_sum_hessian_in_leaf": _engine(
        "min_child_weight", "real", 1e-3, "mean over the classes: trace of the sum over num_class"
    ),
    "lambda_l1": _engine("reg_alpha", "real", 0.0, "splits are then searched with a diagonal"),
    "lambda_l2": _engine("reg_lambda", "real", 0.0),
    "min_gain_to_split": _engine("min_split_gain", "real", 0.0, "same scale, without a half"),
    "max_delta_step": _engine("max_delta_step", "real", 0.0, "bound on every score of a leaf"),
    "path_smooth": _engine("path_smooth", "real", 0.0),
    "feature_fraction": _engine("colsample_bytree", "real", 1.0, "drawn for a vector tree"),
    "feature_fraction_bynode": _engine("colsample_bynode", "real", 1.0),
    "bagging_fraction": _engine("subsample", "real", 1.0, "with bagging_freq above 0"),
    "bagging_freq": _engine("subsample_freq", "integer", 0),
    "top_rate": _engine("top_rate", "real", 0.2, "with goss"),
    "other_rate": _engine("other_rate", "real", 0.1, "with goss"),
    "extra_trees": _engine("extra_trees", "flag", False),
    "monotone_constraints": _engine(
        "monotone_constraints", "integers", None, "on every score, as in LightGBM"
    ),
    "interaction_constraints": _engine(
        "interaction_constraints", "groups", None, "features in no group are not used"
    ),
    "max_cat_threshold": _engine("max_cat_threshold", "integer", 32),
    "cat_l2": _engine("cat_l2", "real", 10.0),
    "cat_smooth": _engine("cat_smooth", "real", 10.0),
    "max_cat_to_onehot": _engine("max_cat_to_onehot", "integer", 4),
    # The engine counts the rows of a single category, the host those of a growing group: its
    # default of 100 would keep small data from being split at all.
    "min_data_per_group": _engine(
        "min_data_per_group", "integer", 1, "rows of a category; 1 by default, not 100"
    ),
    "histogram_pool_size": _engine("max_histogram_mb", "real", -1.0, "megabytes"),
    "num_threads": _engine("n_jobs", "integer", 0, "same bits for any number"),
    "seed": _engine("random_state", "integer", 0, "of all random choices"),
    **{
        name: Entry("adapter", "mixed into the one seed", "integer")
        for name in ("bagging_seed", "feature_fraction_seed", "extra_seed")
    },
    "deterministic": Entry("adapter", "always so", "flag", False),
    "boost_from_average": Entry("adapter", "as in LightGBM", "flag", True),
    "metric": Entry("adapter", "multi_logloss, multi_error, auc_mu", "any"),
    "multi_error_top_k": Entry("adapter", "as in LightGBM", "integer", 1),
    "auc_mu_weights": Entry("adapter", "as in LightGBM", "reals"),
    "enable_bundle": Entry("irrelevant", "always off: bundling may lose values", "flag", True),
    **_same(
        "dataset",
        "when the Dataset is built",
        "max_bin", "max_bin_by_feature", "min_data_in_bin", "bin_construct_sample_cnt",
        "data_random_seed", "use_missing", "zero_as_missing", "feature_pre_filter",
        "forcedbins_filename", "is_enable_sparse", "two_round", "header", "label_column",
        "weight_column", "group_column", "ignore_column", "categorical_feature",
        "precise_float_parser", "parser_config_file", "pre_partition",
    ),
    **_same(
        "loop",
        "by the training loop",
        "num_iterations", "early_stopping_round", "early_stopping_min_delta",
        "first_metric_only",
    ),
    "verbosity": Entry("loop", "by the training loop", "integer", 1),
    **_same(
        "prediction",
        "by predict, refit or save_model",
        "num_iteration_predict", "start_iteration_predict", "predict_raw_score",
        "predict_leaf_index", "predict_contrib", "predict_disable_shape_check",
        "pred_early_stop", "pred_early_stop_freq", "pred_early_stop_margin",
        "refit_decay_rate", "saved_feature_importance_type",
    ),
    **_same(
        "irrelevant",
        "belongs to LightGBM's command line",
        "config", "task", "data", "valid", "input_model", "output_model", "output_result",
        "save_binary", "snapshot_freq", "convert_model", "convert_model_language",
        "is_provide_training_metric", "metric_freq",
    ),
    **_same(
        "irrelevant",
        "belongs to other objectives",
        "objective_seed", "is_unbalance", "scale_pos_weight", "sigmoid", "reg_sqrt", "alpha",
        "fair_c", "poisson_max_delta_step", "tweedie_variance_power", "label_gain", "eval_at",
        "lambdarank_truncation_level", "lambdarank_norm",
        "lambdarank_position_bias_regularization",
    ),
    **_same(
        "irrelevant",
        "belongs to boosting='dart', which is refused",
        "drop_rate", "max_drop", "skip_drop", "xgboost_dart_mode", "uniform_drop", "drop_seed",
    ),
    **_same(
        "irrelevant",
        "belongs to use_quantized_grad, which is refused",
        "num_grad_quant_bins", "quant_train_renew_leaf", "stochastic_rounding",
    ),
    **_same(
        "irrelevant",
        "belongs to training on GPUs or several machines, which is refused",
        "gpu_platform_id", "gpu_device_id", "gpu_use_dp", "num_gpu", "gpu_device_id_list",
        "local_listen_port", "time_out", "machine_list_filename", "top_k",
    ),
    **_same(
        "irrelevant", "the engine has one memory layout", "force_col_wise", "force_row_wise"
    ),
    "linear_lambda": Entry("irrelevant", "belongs to linear_tree, which is refused"),
    "linear_tree": _refused("flag", False, "vector leaves are constants; leave it out"),
    "use_quantized_grad": _refused("flag", False, "sums are kept in floats; leave it out"),
    "monotone_constraints_method": _refused("text", "basic", "use 'basic'"),
    "monotone_penalty": _refused("real", 0.0, "leave it out"),
    "feature_contri": _refused("reals", None, "drop the feature, or use feature_fraction"),
    "forcedsplits_filename": _refused("text", "", "splits cannot be forced; leave it out"),
    "cegb_tradeoff": _refused("real", 1.0, "costs of features are not known; leave it out"),
    "cegb_penalty_split": _refused("real", 0.0, "use min_gain_to_split"),
    "cegb_penalty_feature_lazy": _refused("reals", None, "leave it out"),
    "cegb_penalty_feature_coupled": _refused("reals", None, "leave it out"),
    "pos_bagging_fraction": _refused("real", 1.0, "belongs to binary; use bagging_fraction"),
    "neg_bagging_fraction": _refused("real", 1.0, "belongs to binary; use bagging_fraction"),
    "bagging_by_query": _refused("flag", False, "belongs to ranking; leave it out"),
    "tree_learner": _refused("text", "serial", "train on one machine with 'serial'"),
    "num_machines": _refused("integer", 1, "train on one machine"),
    "machines": _refused("text", "", "train on one machine"),
    "device_type": _refused("text", "cpu", "train on the CPU with 'cpu'"),
}  # fmt: skip

_WORDS = {
    "engine": "honoured",
    "adapter": "honoured",
    "dataset": "honoured",
    "loop": "honoured",
    "prediction": "honoured",
    "irrelevant": "no effect",
    "refused": "refused",
}


def parameter_table() -> str:
    """All parameters of LightGBM as a Markdown table: ``python -m fullhess_lightgbm``."""
    lines = ["| parameter | here | how, or why not |", "|---|---|---|"]
    for name, entry in sorted(TABLE.items()):
        parts = [entry.note]
        if entry.kind == "engine":
            parts.insert(0, f"engine: `{entry.engine}`")
        if entry.kind == "refused":
            parts.insert(0, f"other than `{entry.default!r}`" if entry.default else "when given")
        note = "; ".join(part for part in parts if part)
        lines.append(f"| `{name}` | {_WORDS[entry.kind]} | {note} |")
    lines += [f"| `{name}` | new | engine: `{name}` |" for name in OWN]
    return "\n".join(lines) + "\n"
