from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from fractions import Fraction

import numpy as np
import pytest

from fullhess.params import ParameterError, Params, parameter_table

DEFAULTS = {
    "objective": "softmax",
    "num_class": None,
    "hessian": "full",
    "split_hessian": "auto",
    "split_gain": "guaranteed",
    "leaf_solver": "exact",
    "leaf_prior": "auto",
    "learning_rate": 0.1,
    "max_depth": 6,
    "max_leaves": 0,
    "grow_policy": "depthwise",
    "min_samples_leaf": 1,
    "min_child_weight": 1.0,
    "min_split_gain": 0.0,
    "reg_lambda": 1.0,
    "reg_alpha": 0.0,
    "max_delta_step": 0.0,
    "path_smooth": 0.0,
    "subsample": 1.0,
    "subsample_freq": 1,
    "sampling_method": "uniform",
    "top_rate": 0.2,
    "other_rate": 0.1,
    "colsample_bytree": 1.0,
    "colsample_bylevel": 1.0,
    "colsample_bynode": 1.0,
    "num_parallel_tree": 1,
    "monotone_constraints": None,
    "interaction_constraints": None,
    "extra_trees": False,
    "max_cat_to_onehot": 4,
    "max_cat_threshold": 0,
    "cat_smooth": 10.0,
    "cat_l2": 0.0,
    "min_data_per_group": 1,
    "max_histogram_mb": 1024,
    "margin_dtype": "float64",
    "random_state": 0,
    "n_jobs": None,
}
CHOICES = [name for name, value in DEFAULTS.items() if isinstance(value, str)]
FRACTIONS = [
    "learning_rate",
    "subsample",
    "top_rate",
    "other_rate",
    "colsample_bytree",
    "colsample_bylevel",
    "colsample_bynode",
]
AT_LEAST_ZERO = [
    "min_child_weight",
    "min_split_gain",
    "reg_lambda",
    "reg_alpha",
    "max_delta_step",
    "path_smooth",
    "cat_smooth",
    "cat_l2",
]
REALS = FRACTIONS + AT_LEAST_ZERO
INTEGERS = [
    "num_class",
    "max_depth",
    "max_leaves",
    "min_samples_leaf",
    "subsample_freq",
    "num_parallel_tree",
    "max_cat_to_onehot",
    "max_cat_threshold",
    "min_data_per_group",
    "max_histogram_mb",
    "random_state",
    "n_jobs",
]
LISTS = ["monotone_constraints", "interaction_constraints"]
FLAGS = ["extra_trees"]


def test_defaults_are_the_documented_ones():
    assert Params().to_dict() == DEFAULTS
    assert {*CHOICES, *REALS, *INTEGERS, *LISTS, *FLAGS} == {item.name for item in fields(Params)}


def test_from_dict_inverts_to_dict():
    params = Params(num_class=7, learning_rate=0.25, max_leaves=31, n_jobs=2)
    assert Params.from_dict(json.loads(json.dumps(params.to_dict()))) == params
    assert Params.from_dict(params) is params
    assert Params.from_dict({}) == Params.from_dict(None) == Params()


def test_pickle_keeps_params_equal():
    params = Params(leaf_prior="path", reg_lambda=3)
    assert pickle.loads(pickle.dumps(params)) == params


def test_params_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Params().learning_rate = 0.5  # type: ignore[misc]


def test_replace_validates_again():
    with pytest.raises(ParameterError, match="learning_rate"):
        replace(Params(), learning_rate=2.0)


@pytest.mark.parametrize(
    ("name", "closest"),
    [("learnin_rate", "learning_rate"), ("maxdepth", "max_depth"), ("lambda_reg", "reg_lambda")],
)
def test_unknown_name_is_answered_with_the_closest(name, closest):
    with pytest.raises(ParameterError, match=f"'{name}'.*did you mean '{closest}'.*README"):
        Params.from_dict({name: 1})


@pytest.mark.parametrize("name", ["zzz", 3])
def test_unknown_name_without_a_close_one_is_answered_with_all(name):
    with pytest.raises(ParameterError) as caught:
        Params.from_dict({name: 1})
    assert all(known in str(caught.value) for known in DEFAULTS)


@pytest.mark.parametrize("params", ["max_depth=3", 5, [("max_depth", 3)]])
def test_anything_but_a_mapping_is_refused(params):
    with pytest.raises(ParameterError, match="expected a mapping"):
        Params.from_dict(params)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("value", ["nonsense", "", None, True, 1, ["full"], b"full"])
def test_choice_refuses_other_values(name, value):
    with pytest.raises(ParameterError, match=rf"{name}: expected one of .*got .*; "):
        Params(**{name: value})


def test_choice_suggests_the_closest_option():
    with pytest.raises(ParameterError, match="did you mean 'lossguide'"):
        Params(grow_policy="loss_guide")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", REALS)
@pytest.mark.parametrize(
    "value", [True, np.True_, "0.5", None, 1j, [0.5], np.array([0.5]), np.nan, np.inf, -np.inf]
)
def test_real_refuses_what_is_not_a_finite_number(name, value):
    with pytest.raises(ParameterError, match=rf"{name}: expected a finite number .*got .*; "):
        Params(**{name: value})


def test_real_refuses_an_int_beyond_float():
    with pytest.raises(ParameterError, match="reg_lambda: expected a finite number"):
        Params(reg_lambda=10**400)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [True, np.False_, "3", 3.0, np.float64(3), [3], np.array([3])])
def test_integer_refuses_what_is_not_an_integer(name, value):
    with pytest.raises(ParameterError, match=rf"{name}: expected an integer.*got .*; "):
        Params(**{name: value})


@pytest.mark.parametrize("name", sorted({*INTEGERS} - {"num_class", "n_jobs"}))
def test_integer_refuses_none_unless_it_has_a_meaning(name):
    with pytest.raises(ParameterError, match=rf"{name}: expected an integer"):
        Params(**{name: None})


def test_a_whole_float_is_answered_with_the_integer_to_write():
    with pytest.raises(ParameterError, match=r"got 6\.0; write 6"):
        Params(max_depth=6.0)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="pass an int"):
        Params(max_depth=float("nan"))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FRACTIONS)
def test_fractions_lie_in_the_half_open_unit_interval(name):
    assert getattr(Params(**{name: 1}), name) == 1.0
    assert getattr(Params(**{name: 5e-324}), name) == 5e-324
    for value in (0, -0.0, -0.1, np.nextafter(1.0, 2.0)):
        with pytest.raises(ParameterError, match=rf"{name}: .*in \(0, 1\]"):
            Params(**{name: value})


@pytest.mark.parametrize("name", AT_LEAST_ZERO)
def test_sizes_are_not_negative(name):
    assert getattr(Params(**{name: 0}), name) == 0.0
    with pytest.raises(ParameterError, match=rf"{name}: .*at least 0"):
        Params(**{name: -5e-324})


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("num_class", [2, 1000], [1, 0, -1]),
        ("max_depth", [1, 512], [-1, 513]),
        ("max_leaves", [0, 2, 2**30], [1, -1, 2**30 + 1]),
        ("min_samples_leaf", [1, 10**6], [0, -1]),
        ("subsample_freq", [1, 100], [0, -1]),
        ("num_parallel_tree", [1, 100], [0, -1]),
        ("max_cat_threshold", [0, 1, 500], [-1]),
        ("min_data_per_group", [1, 500], [0, -1]),
        ("max_cat_to_onehot", [1, 500], [0]),
        ("max_histogram_mb", [1, 10**5], [0]),
        ("random_state", [0, 2**63 - 1], [-1, 2**63]),
        ("n_jobs", [-2, -1, 0, 1, 64], []),
    ],
)
def test_integers_keep_to_their_limits(name, allowed, refused):
    for value in allowed:
        assert getattr(Params(**{name: value}), name) == value
    for value in refused:
        with pytest.raises(ParameterError, match=rf"{name}: .*got {value}"):
            Params(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("max_depth", np.int8(3), int),
        ("max_depth", np.uint64(3), int),
        ("learning_rate", np.float32(0.5), float),
        ("learning_rate", np.longdouble(0.5), float),
        ("learning_rate", Fraction(1, 2), float),
        ("reg_lambda", np.int64(2), float),
        ("hessian", np.str_("diagonal"), str),
    ],
)
def test_numpy_scalars_become_python_values(name, value, stored):
    got = getattr(Params(**{name: value}), name)
    assert type(got) is stored
    assert got == value


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
def test_trees_without_any_limit_are_refused(policy):
    with pytest.raises(ParameterError, match="max_depth and max_leaves are both 0"):
        Params(grow_policy=policy, max_depth=0, max_leaves=0)
    Params(grow_policy=policy, max_depth=0, max_leaves=2)
    Params(grow_policy=policy, max_depth=1, max_leaves=0)


@pytest.mark.parametrize("name", FLAGS)
def test_flags_are_true_or_false(name):
    assert getattr(Params(**{name: np.True_}), name) is True
    for value in (0, 1, "true", None, 1.0, [True]):
        with pytest.raises(ParameterError, match=rf"{name}: expected True or False, got"):
            Params(**{name: value})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sampling_method": "goss", "subsample": 0.5}, "leave subsample out"),
        ({"sampling_method": "goss", "top_rate": 0.8, "other_rate": 0.3}, "must not exceed 1"),
        ({"sampling_method": "goss", "subsample_freq": 2}, "leave subsample_freq out"),
        ({"sampling_method": "gradient_based", "subsample_freq": 2}, "leave subsample_freq out"),
        ({"path_smooth": 1.0, "leaf_prior": "path"}, "path_smooth cannot be combined"),
        ({"path_smooth": 1.0, "monotone_constraints": (1,)}, "path_smooth cannot be combined"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        Params(**given)


def test_rates_of_goss_may_add_up_to_one():
    for top in (0.1, 0.3, 0.7, 0.9):
        Params(sampling_method="goss", top_rate=top, other_rate=1.0 - top)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        ((0, 0), None),
        ([1, 0, -1], (1, 0, -1)),
        (np.array([1, -1], np.int8), (1, -1)),
        ((1.0, np.float32(-1)), (1, -1)),
    ],
)
def test_monotone_constraints_are_signs(value, stored):
    assert Params(monotone_constraints=value).monotone_constraints == stored


@pytest.mark.parametrize(
    "value",
    ["(1,0)", 1, {0: 1}, (2,), (0.5, 1), (np.nan,), (np.inf,), ("1",), [[1, 0]], np.ones((2, 2))],
)
def test_monotone_constraints_refuse_what_is_no_list_of_signs(value):
    with pytest.raises(ParameterError, match=r"monotone_constraints: expected -1, 0 or 1"):
        Params(monotone_constraints=value)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        ([], None),
        ([[3, 1, 1], (2,)], ((1, 3), (2,))),
        (({0, 2}, np.array([1])), ((0, 2), (1,))),
    ],
)
def test_interaction_constraints_are_sets_of_numbers(value, stored):
    params = Params(interaction_constraints=value)
    assert params.interaction_constraints == stored
    assert Params.from_dict(json.loads(json.dumps(params.to_dict()))) == params


@pytest.mark.parametrize(
    "value", ["[[0,1]]", 3, [1, 2], [[]], [[-1]], [["a"]], [[0.5]], [[True]], {0: [1]}, [[[0]]]]
)
def test_interaction_constraints_refuse_what_is_no_list_of_sets(value):
    with pytest.raises(ParameterError, match=r"interaction_constraints: expected lists"):
        Params(interaction_constraints=value)


@pytest.mark.parametrize("given", [{"reg_alpha": 1.0}, {"monotone_constraints": (1,)}])
def test_penalties_refuse_what_their_search_cannot_do(given):
    for clash in ({"leaf_prior": "path"}, {"split_hessian": "full"}):
        with pytest.raises(ParameterError, match=f"{next(iter(given))} cannot be combined with"):
            Params(**given, **clash)
    Params(**given, split_hessian="full", objective="squared_error")  # a diagonal one


def test_squared_error_refuses_num_class():
    with pytest.raises(ParameterError, match="num_class belongs to objective='softmax'"):
        Params(objective="squared_error", num_class=3)


@pytest.mark.parametrize("name", ["hessian", "split_hessian"])
@pytest.mark.parametrize("value", ["upper_bound", "absolute_residual", "scaled_diagonal"])
def test_squared_error_refuses_the_curvatures_of_softmax(name, value):
    with pytest.raises(ParameterError, match=f"{name}='{value}' belongs to objective='softmax'"):
        Params(objective="squared_error", **{name: value})


def test_squared_error_accepts_its_own_curvatures():
    for value in ("full", "diagonal"):
        Params(objective="squared_error", hessian=value, split_hessian=value)
    assert Params(objective="squared_error").split_hessian == "auto"


def test_table_has_a_row_for_every_parameter():
    rows = parameter_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [item.name for item in fields(Params)]
    assert all(row.count("|") == 5 for row in rows)
