"""Every parameter of XGBoost is honoured, known to have no effect, or refused."""

from __future__ import annotations

import inspect
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

from fullhess_xgboost.params import ALIASES, NEW, TABLE, main_name, merge, translate  # noqa: E402

import fullhess.xgboost as xgb  # noqa: E402
from fullhess.params import ParameterError, Params  # noqa: E402

K = 3
SOFT = {"objective": "multi:softprob", "num_class": K, "nthread": 1}

#: Of XGBoost's estimators: what is about the estimator and never reaches the trees.
_OF_ESTIMATORS = {
    "n_estimators", "missing", "importance_type", "enable_categorical", "feature_types",
    "feature_weights", "early_stopping_rounds", "callbacks", "kwargs", "objective",
}  # fmt: skip


def data(rng, n=240, d=5):
    X = rng.normal(size=(n, d))
    y = (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int) + (X[:, 1] > 0.5)
    return X, y


def names_in(config):
    """Names of all parameters in a saved configuration, whatever they are nested in."""
    if isinstance(config, list):
        return set().union(*map(names_in, config)) if config else set()
    if not isinstance(config, dict):
        return set()
    found = set()
    for key, value in config.items():
        if isinstance(value, dict) and key.endswith("_param"):
            found |= set(value)
        elif isinstance(value, (dict, list)):
            found |= names_in(value)
    return found


def host_parameters(rng):
    """What the installed XGBoost says of itself: configurations and estimators."""
    X, y = data(rng)
    dtrain = xgboost.DMatrix(X, label=y)
    found = set()
    for booster in ("gbtree", "dart", "gblinear"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a booster may be deprecated
            model = xgboost.train({**SOFT, "booster": booster}, dtrain, 1)
        found |= names_in(json.loads(model.save_config()))
    ranking = xgboost.DMatrix(X, label=y, qid=np.repeat(np.arange(24), 10))
    model = xgboost.train({"objective": "rank:ndcg"}, ranking, 1)
    found |= names_in(json.loads(model.save_config()))
    found |= set(inspect.signature(xgboost.XGBModel.__init__).parameters) - {"self"}
    return found - _OF_ESTIMATORS


def test_every_parameter_of_the_host_has_a_rule(rng):
    found = host_parameters(rng)
    assert {"max_depth", "eta", "rate_drop", "max_bin", "lambdarank_pair_method"} <= found
    assert sorted(name for name in found if main_name(name) not in TABLE) == []


def test_aliases_are_the_hosts(rng):
    X, y = data(rng)
    dtrain = xgboost.DMatrix(X, label=y)
    for alias, name in ALIASES.items():
        value = 2 if name in ("nthread", "seed") else 0.25
        models = [xgboost.train({**SOFT, n: value}, dtrain, 2) for n in (alias, name)]
        assert models[0].save_raw() == models[1].save_raw()


def test_rules_name_settings_of_the_engine():
    fields = set(Params.__dataclass_fields__)
    engine = {rule.engine for rule in TABLE.values() if rule.engine is not None}
    assert engine <= fields
    assert set(NEW) <= engine


def test_defaults_are_the_hosts(rng):
    X, y = data(rng)
    booster = xgboost.train(SOFT, xgboost.DMatrix(X, label=y), 1)
    trees = json.loads(booster.save_config())["learner"]["gradient_booster"]["tree_train_param"]
    ours = Params.from_dict(translate(SOFT).engine)
    for name, rule in TABLE.items():
        if rule.engine is None or name not in trees or name.endswith("constraints"):
            continue
        value = getattr(ours, rule.engine)
        host = trees[name]
        assert (np.float32(host) == np.float32(value)) if not isinstance(value, str) else (
            host == value
        ), name  # fmt: skip


#: Values that make a visible difference to the model, for every honoured tree parameter.
_TELLING = {
    "eta": 0.05, "gamma": 20.0, "max_depth": 2, "max_leaves": 3, "min_child_weight": 15.0,
    "lambda": 50.0, "alpha": 5.0, "max_delta_step": 0.05, "max_bin": 4, "subsample": 0.5,
    "colsample_bytree": 0.4, "colsample_bylevel": 0.4, "colsample_bynode": 0.4,
    "num_parallel_tree": 2, "base_score": 1.0, "monotone_constraints": "(-1,-1)",
    "interaction_constraints": "[[0, 2], [1, 3]]", "hessian": "upper_bound",
    "split_hessian": "upper_bound", "leaf_solver": "newton", "leaf_prior": "ridge",
    "split_gain": "quadratic",
}  # fmt: skip


def model_of(rng, **params):
    X, y = data(rng)
    return xgb.train({**SOFT, "max_depth": 4, **params}, xgb.DMatrix(X, label=y), 2)


@pytest.mark.parametrize("name", sorted(_TELLING))
def test_parameter_has_an_effect(name):
    first = model_of(np.random.default_rng(1))
    other = model_of(np.random.default_rng(1), **{name: _TELLING[name]})
    assert first.save_raw() != other.save_raw()


def test_parameters_that_work_together():
    def raw(**params):
        return model_of(np.random.default_rng(1), **params).save_raw()

    assert raw(subsample=0.5) != raw(subsample=0.5, seed=7)
    assert raw(subsample=0.5) != raw(subsample=0.5, sampling_method="gradient_based")
    assert raw(max_leaves=10) != raw(max_leaves=10, grow_policy="lossguide")
    assert raw(nthread=1) == raw(nthread=2)


def test_every_honoured_tree_parameter_is_shown_to_have_an_effect():
    shown = {*_TELLING, "seed", "sampling_method", "grow_policy", "nthread"}
    shown |= {"max_cat_to_onehot", "max_cat_threshold"}  # see the tests of categories
    honoured = {name for name, rule in TABLE.items() if rule.engine is not None}
    assert honoured <= shown


@pytest.mark.parametrize("name, value", [("max_cat_to_onehot", 10), ("max_cat_threshold", 1)])
def test_categorical_parameter_has_an_effect(name, value, rng):
    X = rng.integers(0, 8, (400, 2)).astype(float)
    y = (X[:, 0] % 3 + (X[:, 1] > 4)).astype(int) % K

    def raw(**params):
        dtrain = xgb.DMatrix(X, label=y, feature_types=["c", "c"], enable_categorical=True)
        return xgb.train({**SOFT, "max_depth": 2, **params}, dtrain, 2).save_raw()

    assert raw() != raw(**{name: value})


@pytest.mark.parametrize(
    "params, words",
    [
        ({"max_dept": 3}, "neither of XGBoost nor of fullhess; did you mean 'max_depth'"),
        ({"split_hesian": "full"}, "did you mean 'split_hessian'"),
        ({"eta": 0.1, "learning_rate": 0.2}, "two names of one parameter"),
        ({"tree_method": "exact"}, "tree_method='hist'"),
        ({"tree_method": "approx"}, "tree_method='hist'"),
        ({"booster": "dart"}, "train this model with xgboost itself"),
        ({"process_type": "update"}, "process_type='update' is not available"),
        ({"updater": "refresh"}, "updater='refresh' is not available"),
        ({"num_round": 5}, "pass num_boost_round as an argument"),
        ({"eta": "fast"}, "eta: expected a number, got 'fast'"),
        ({"max_depth": 3.5}, "max_depth: expected an integer"),
        ({"eta": 1.5}, "learning_rate"),
        ({"hessian": "half"}, "hessian"),
        ({"base_score": [0.0, 1.0]}, "base_score must be one number or 3"),
        ({"max_depth": 0}, "max_leaves"),
        ({"leaf_prior": "path", "alpha": 1.0}, "leaf_prior"),
        ({"monotone_constraints": "(1,0,0,0,0,1)"}, "monotone_constraints"),
        ({"interaction_constraints": "[[0, 9]]"}, "no feature 9"),
        ({"interaction_constraints": "[[0, 1"}, "interaction_constraints: expected lists"),
    ],
)
def test_refusals_say_what_to_do(params, words, rng):
    X, y = data(rng)
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        xgb.train({**SOFT, **params}, xgb.DMatrix(X, label=y), 1)


@pytest.mark.parametrize(
    "params, words",
    [
        ({"rate_drop": 0.1}, "'rate_drop' is not used: it is one of booster='dart'"),
        ({"tweedie_variance_power": 1.5}, "reg:tweedie"),
        ({"silent": 1}, "of earlier versions"),
        ({"device": "cuda"}, "grown on the CPU"),
    ],
)
def test_parameters_without_effect_are_named(params, words):
    with pytest.warns(UserWarning, match=words):
        translate({**SOFT, **params})


def test_new_parameters_are_refused_where_the_host_trains(rng):
    X, y = data(rng)
    binary = xgb.DMatrix(X, label=y > 0)
    with pytest.raises(ParameterError, match="leaf_solver='exact' has no meaning here"):
        xgb.train({"objective": "binary:logistic", "leaf_solver": "exact"}, binary, 1)
    xgb.train({"objective": "binary:logistic", "hessian": "full"}, binary, 1)  # the same thing


def test_merging_keeps_the_last_value_and_all_metrics():
    merged = merge({"eta": 0.1, "eval_metric": ["auc"]}, [("learning_rate", 0.2)])
    assert merged == {"eta": 0.2, "eval_metric": ["auc"]}
    assert merge(merged, [("eval_metric", "merror")])["eval_metric"] == ["auc", "merror"]


def test_constraints_by_name(rng):
    X, y = data(rng)
    names = list("abcde")
    by_name = {"monotone_constraints": {"b": 1}, "interaction_constraints": [["a", "b"]]}
    by_number = {"monotone_constraints": "(0,1)", "interaction_constraints": "[[0, 1]]"}
    models = [
        xgb.train({**SOFT, **p}, xgb.DMatrix(X, label=y, feature_names=names), 2)
        for p in (by_name, by_number)
    ]
    assert models[0].save_raw() == models[1].save_raw()


def test_documented_table_is_the_one_in_the_code():
    source = Path(xgb.to_binned.__code__.co_filename).with_name("README.md")
    text = source.read_text(encoding="utf-8")
    pattern = r"<!-- parameters: [^\n]* -->\n(.*?)<!-- end of parameters -->"
    found = re.search(pattern, text, re.DOTALL)
    assert found is not None
    assert found[1] == xgb.markdown_table()
