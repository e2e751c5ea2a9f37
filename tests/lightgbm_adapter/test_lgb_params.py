"""Every parameter of LightGBM is honoured, without meaning here, or refused."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

lgb = pytest.importorskip("lightgbm")


import fullhess_lightgbm  # noqa: E402
from fullhess_lightgbm.params import Settings, aliases, is_vector, split_own  # noqa: E402
from fullhess_lightgbm.table import OWN, TABLE, parameter_table  # noqa: E402
from lgb_cases import SOFTMAX, classes  # noqa: E402

from fullhess import ParameterError  # noqa: E402

BASE = {"objective": "multiclass", "num_class": 3}


def settings_of(**params):
    return Settings.of({**BASE, **params})


def test_every_parameter_of_the_host_has_its_place():
    host = set(aliases())
    assert host - set(TABLE) == set(), "parameters of the host that no class covers"
    if lgb.__version__.startswith("4.7"):
        assert set(TABLE) - host == set(), "names that the host does not have"


def test_every_refused_parameter_says_what_to_do():
    other = {
        "real": 0.37, "integer": 7, "flag": True, "text": "other", "reals": [0.3, 0.2],
    }  # fmt: skip
    for name, entry in TABLE.items():
        if entry.kind != "refused" or name not in aliases():
            continue
        assert entry.note
        with pytest.raises(ParameterError, match=name):
            settings_of(**{name: other[entry.type]})
        if entry.default is not None:
            settings_of(**{name: entry.default})  # the host's default asks for nothing


def test_every_honoured_parameter_changes_a_setting():
    values = {
        "learning_rate": 0.3, "num_leaves": 9, "max_depth": 4, "min_data_in_leaf": 3,
        "min_sum_hessian_in_leaf": 0.5, "lambda_l1": 0.25, "lambda_l2": 2.0,
        "min_gain_to_split": 0.75, "max_delta_step": 1.5, "path_smooth": 3.0,
        "feature_fraction": 0.5, "feature_fraction_bynode": 0.25, "bagging_fraction": 0.5,
        "bagging_freq": 4, "top_rate": 0.3, "other_rate": 0.2, "extra_trees": True,
        "monotone_constraints": [1, 0, -1], "interaction_constraints": [[0, 1], [1, 2]],
        "max_cat_threshold": 5, "cat_l2": 3.0, "cat_smooth": 4.0, "max_cat_to_onehot": 2,
        "min_data_per_group": 7, "histogram_pool_size": 64.0, "num_threads": 2, "seed": 5,
    }  # fmt: skip
    with_it = {
        "bagging_fraction": {"bagging_freq": 1},
        "bagging_freq": {"bagging_fraction": 0.5},
        "top_rate": {"data_sample_strategy": "goss"},
        "other_rate": {"data_sample_strategy": "goss"},
    }
    assert {n for n, e in TABLE.items() if e.kind == "engine"} == set(values)
    plain = settings_of().engine
    for name, value in values.items():
        entry = TABLE[name]
        extra = with_it.get(name, {})
        changed = settings_of(**{name: value}, **extra).engine
        assert getattr(changed, entry.engine) != getattr(plain, entry.engine), name


def test_defaults_are_the_hosts():
    engine = settings_of().engine
    assert (engine.max_leaves, engine.max_depth, engine.grow_policy) == (31, 0, "lossguide")
    assert (engine.min_samples_leaf, engine.min_child_weight) == (20, 1e-3)
    assert (engine.reg_lambda, engine.reg_alpha, engine.learning_rate) == (0.0, 0.0, 0.1)
    assert (engine.subsample, engine.colsample_bytree, engine.min_split_gain) == (1.0, 1.0, 0.0)
    assert engine.margin_dtype == "float64" and engine.n_jobs is None
    assert (engine.max_cat_threshold, engine.cat_l2, engine.min_data_per_group) == (32, 10.0, 1)


def test_all_names_of_a_parameter_mean_the_same():
    for main, names in aliases().items():
        entry = TABLE[main]
        if entry.kind != "engine" or entry.type not in ("real", "integer"):
            continue
        value = {"num_leaves": 9, "max_depth": 3}.get(main, 1)
        expected = settings_of(**{main: value}).engine
        for name in names:
            assert settings_of(**{name: value}).engine == expected, name


def test_the_main_name_counts_before_its_aliases():
    assert settings_of(num_leaves=5, max_leaves=9).engine.max_leaves == 5
    assert settings_of(eta=0.5, shrinkage_rate=0.2).engine.learning_rate == 0.5
    assert settings_of(num_leaves=None, max_leaf=9).engine.max_leaves == 9


def test_values_may_be_text():
    engine = settings_of(
        num_leaves="9", lambda_l2="0.5", monotone_constraints="1,0,-1",
        interaction_constraints="[0,1],[1,2]", boost_from_average="false",
    ).engine  # fmt: skip
    assert (engine.max_leaves, engine.reg_lambda) == (9, 0.5)
    assert engine.monotone_constraints == (1, 0, -1)
    assert engine.interaction_constraints == ((0, 1), (1, 2))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_leavess": 9}, "did you mean 'num_leaves'"),
        ({"hesian": "full"}, "did you mean 'hessian'"),
        ({"xyzzy_qq": 1}, "no parameter of LightGBM"),
        ({"num_leaves": 1}, "num_leaves"),
        ({"num_leaves": 2.5}, "whole number"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": "fast"}, "a number"),
        ({"lambda_l2": -1.0}, "lambda_l2: expected"),
        ({"min_sum_hessian_in_leaf": -1}, "min_sum_hessian_in_leaf"),
        ({"hessian": "fulll"}, "did you mean 'full'"),
        ({"boosting": "dart"}, "import lightgbm itself"),
        ({"boosting_type": "rf"}, "boosting='rf'"),
        ({"linear_tree": True}, "linear_tree"),
        ({"device": "gpu"}, "device_type"),
        ({"num_class": 1}, "num_class"),
        ({"monotone_constraints": [2]}, "monotone_constraints"),
        ({"interaction_constraints": "0,1"}, "interaction_constraints"),
        ({"boost_from_average": "maybe"}, "True or False"),
        ({"multi_error_top_k": 0}, "multi_error_top_k"),
        ({"data_sample_strategy": "other"}, "goss"),
        ({"boosting": "goss", "bagging_freq": 1, "bagging_fraction": 0.5}, "bagging"),
        ({"lambda_l1": 1.0, "split_hessian": "full"}, "lambda_l1"),
        ({"lambda_l1": 1.0, "leaf_prior": "path"}, "lambda_l1"),
    ],
)
def test_what_cannot_be_is_refused_in_the_hosts_words(params, message):
    with pytest.raises(ParameterError, match=message):
        settings_of(**params)


def test_seeds():
    def seed(**params):
        return settings_of(**params).engine.random_state

    assert seed() == 0 and seed(random_state=7) == 7
    others = [seed(bagging_seed=3), seed(feature_fraction_seed=3), seed(seed=1, bagging_seed=3)]
    assert len({seed(), *others}) >= 3
    assert seed(bagging_seed=3) == seed(bagging_seed=3)
    assert seed(seed=-5) >= 0


def test_which_objectives_are_ours():
    def loss(raw, data):
        return raw, raw

    ours = [BASE, {"app": "softmax"}, {"objective": loss, "num_class": 2}]
    ours += [{"objective": "none", "num_classes": "3"}]
    hosts = [{}, {"objective": "binary"}, {"objective": loss}, {"objective": "multiclassova"}]
    hosts += [{"objective": "none"}, {"objective": "regression", "num_class": 1}]
    assert all(is_vector(params) for params in ours)
    assert not any(is_vector(params) for params in hosts)


def test_our_parameters_travel_beside_the_hosts():
    params = split_own({"hessian": "full", "num_leaves": 5, "leaf_prior": None})
    assert dict(params) == {"num_leaves": 5} and params.own == {"hessian": "full"}
    for twin in (copy.deepcopy(params), params.copy(), copy.copy(params), split_own(params)):
        assert dict(twin) == dict(params) and twin.own == params.own


def test_scalar_objectives_do_not_take_our_parameters(rng):
    X, y = classes(rng)
    for name in OWN:
        with pytest.raises(ParameterError, match=name):
            fullhess_lightgbm.train({"objective": "regression", name: "x"}, lgb.Dataset(X, y), 2)


def test_the_table_for_the_documentation_is_complete():
    lines = parameter_table().splitlines()
    assert len(lines) == 2 + len(TABLE) + len(OWN)
    assert all(line.count("|") == 4 for line in lines)
    command = [sys.executable, "-m", "fullhess_lightgbm"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stdout == parameter_table() and not printed.stderr


def test_documented_table_is_the_one_in_the_code():
    text = Path(fullhess_lightgbm.__file__).with_name("README.md").read_text(encoding="utf-8")
    pattern = r"<!-- parameters: [^\n]* -->\n(.*?)<!-- end of parameters -->"
    found = re.search(pattern, text, re.DOTALL)
    assert found is not None
    assert found[1] == parameter_table()


def test_parameters_are_checked_before_the_data_are_built(rng):
    X, y = classes(rng)
    data = lgb.Dataset(X, y)
    with pytest.raises(ParameterError):
        fullhess_lightgbm.train({**SOFTMAX, "num_leafs": 9}, data, 2)
    assert data._handle is None


def test_numbers_of_numpy_are_numbers():
    engine = settings_of(num_leaves=np.int64(9), lambda_l2=np.float32(0.5)).engine
    assert (engine.max_leaves, engine.reg_lambda) == (9, 0.5)
