"""Bad input to training: a clear error before anything happens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fullhess
from fullhess import BinnedMatrix, CustomObjective, EvalSet, Params

X = np.random.default_rng(0).normal(size=(60, 3))
LABEL = np.arange(60) % 3
BINNED = BinnedMatrix.from_quantiles(X, max_bins=16)
FAST = {"max_depth": 2, "min_child_weight": 0.0, "n_jobs": 1}


def spoiled(array: Any, value: float) -> Any:
    copy = np.array(array, dtype=float)
    copy.flat[7] = value
    return copy


def fit(
    params: Any = FAST, binned: Any = BINNED, label: Any = LABEL, rounds: Any = 1, **kwargs: Any
) -> Any:
    return fullhess.train(params, binned, label, num_boost_round=rounds, **kwargs)


CASES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "raw matrix": ({"binned": X}, TypeError, "BinnedMatrix.from_quantiles"),
    "no rows": (
        {"binned": BINNED.binning.encode(X[:0]), "label": LABEL[:0]},
        ValueError, "at least one row",
    ),
    "constant columns": (
        {"binned": BinnedMatrix.from_quantiles(np.ones((60, 2)))}, ValueError, "constant",
    ),
    "too few labels": ({"label": LABEL[:-1]}, ValueError, "expected 60 labels"),
    "2-D classes": ({"label": np.eye(3)[LABEL]}, ValueError, "1-D array of class labels"),
    "text classes": ({"label": np.array(["a", "b", "c"])[LABEL]}, TypeError, "LabelEncoder"),
    "NaN label": ({"label": spoiled(LABEL, np.nan)}, ValueError, "finite"),
    "infinite label": ({"label": spoiled(LABEL, np.inf)}, ValueError, "finite"),
    "broken class": ({"label": spoiled(LABEL, 0.5)}, ValueError, "whole numbers"),
    "negative class": ({"label": spoiled(LABEL, -1.0)}, ValueError, r"\[0, 3\), got -1"),
    "class out of range": (
        {"params": {**FAST, "num_class": 3}, "label": spoiled(LABEL, 3.0)},
        ValueError, r"\[0, 3\), got 3",
    ),
    "one class": ({"label": np.zeros(60)}, ValueError, "at least two classes"),
    "NaN target": (
        {"params": {**FAST, "objective": "squared_error"}, "label": spoiled(X, np.nan)},
        ValueError, "finite",
    ),
    "short targets": (
        {"params": {**FAST, "objective": "squared_error"}, "label": X[:9]},
        ValueError, r"shape \(60, 3\)",
    ),
    "text targets": (
        {"params": {**FAST, "objective": "squared_error"}, "label": np.array(["x"] * 60)},
        TypeError, "numbers",
    ),
    "short weights": ({"weight": np.ones(59)}, ValueError, r"shape \(60,\)"),
    "NaN weight": ({"weight": spoiled(np.ones(60), np.nan)}, ValueError, "finite"),
    "infinite weight": ({"weight": spoiled(np.ones(60), np.inf)}, ValueError, "finite"),
    "negative weight": ({"weight": spoiled(np.ones(60), -1.0)}, ValueError, "not negative"),
    "no weight at all": ({"weight": np.zeros(60)}, ValueError, "sum between"),
    "text weights": ({"weight": np.array(["1"] * 60)}, TypeError, "numbers"),
    "flat margin": ({"base_margin": np.zeros(180)}, ValueError, r"\(60, 3\)"),
    "NaN margin": ({"base_margin": spoiled(X, np.nan)}, ValueError, "finite"),
    "text margin": ({"base_margin": np.array([["a"] * 3] * 60)}, TypeError, "numbers"),
    "unknown parameter": ({"params": {"max_dept": 3}}, ValueError, "max_depth"),
    "mistyped value": ({"params": {"max_depth": "3"}}, ValueError, "without quotes"),
    "params of another kind": ({"params": [("max_depth", 3)]}, ValueError, "mapping"),
    "rounds as text": ({"rounds": "10"}, TypeError, "num_boost_round"),
    "rounds as bool": ({"rounds": True}, TypeError, "num_boost_round"),
    "negative rounds": ({"rounds": -1}, ValueError, "not be negative"),
    "tuple as evaluation set": ({"evals": [(BINNED, LABEL)]}, TypeError, "EvalSet"),
    "evaluation sets of one name": (
        {"evals": [EvalSet(BINNED, LABEL), EvalSet(BINNED, LABEL)]}, ValueError, "different names",
    ),
    "evaluation set with other cuts": (
        {"evals": [EvalSet(BinnedMatrix.from_quantiles(X, max_bins=4), LABEL)]},
        ValueError, "binning.encode",
    ),
    "evaluation set with other features": (
        {"evals": [EvalSet(BinnedMatrix.from_quantiles(X[:, :2]), LABEL)]},
        ValueError, "other cuts",
    ),
    "evaluation labels out of range": (
        {"evals": [EvalSet(BINNED, LABEL + 1)]}, ValueError, r"\[0, 3\)",
    ),
    "evaluation weights": (
        {"evals": [EvalSet(BINNED, LABEL, weight=np.ones(3))]}, ValueError, r"shape \(60,\)",
    ),
    "evaluation margin": (
        {"evals": [EvalSet(BINNED, LABEL, base_margin=np.zeros((60, 2)))]},
        ValueError, "base_margin of 'valid'",
    ),
    "unknown metric": (
        {"metric": "logloss", "evals": [EvalSet(BINNED, LABEL)]}, ValueError, "log_loss",
    ),
    "function as objective": (
        {"objective": lambda raw, label: (raw, raw)}, TypeError, "CustomObjective",
    ),
    "callback of another kind": ({"callbacks": [3]}, TypeError, "callback"),
    "early stopping without data": (
        {"callbacks": [fullhess.EarlyStopping(3)]}, ValueError, "evaluation set",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_with_a_message_that_helps(case: str) -> None:
    arguments, error, message = CASES[case]
    with pytest.raises(error, match=message):
        fit(**arguments)


def bad_objective(answer: Any) -> CustomObjective:
    return CustomObjective(lambda raw, label: answer, 3)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (np.zeros((60, 3)), TypeError, r"\(gradient, hessian\)"),
        ((np.zeros((60, 2)), np.zeros((60, 3))), ValueError, "gradient must be"),
        ((np.zeros((60, 3)), np.zeros(60)), ValueError, "Hessian must be"),
        ((np.zeros((60, 3)), np.zeros((60, 3, 2))), ValueError, "Hessian must be"),
        ((np.full((60, 3), np.nan), np.zeros((60, 3))), ValueError, "NaN"),
        ((np.zeros((60, 3)), np.full((60, 3), np.inf)), ValueError, "infinity"),
    ],
)
def test_a_custom_objective_must_return_usable_derivatives(
    answer: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        fit(objective=bad_objective(answer))


def test_a_custom_objective_knows_only_its_own_curvatures() -> None:
    answer = (np.zeros((60, 3)), np.ones((60, 3)))
    with pytest.raises(ValueError, match="choose one of full, diagonal"):
        fit({**FAST, "hessian": "upper_bound"}, objective=bad_objective(answer))


def test_a_custom_objective_itself_is_checked() -> None:
    with pytest.raises(TypeError, match="callable"):
        CustomObjective(3, 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_outputs"):
        CustomObjective(lambda raw, label: (raw, raw), 0)
    with pytest.raises(ValueError, match="intercept"):
        CustomObjective(lambda raw, label: (raw, raw), 2, intercept=[0.0, np.nan])


def test_a_model_continues_only_with_its_own_outputs_and_precision() -> None:
    model = fit()
    with pytest.raises(ValueError, match="margin_dtype='float64'"):
        fit({**FAST, "margin_dtype": "float32"}, init_model=model)
    with pytest.raises(ValueError, match="3 outputs"):
        fit({**FAST, "num_class": 4}, init_model=model)
    coarse = BinnedMatrix.from_quantiles(X, max_bins=3)
    with pytest.raises(ValueError, match="cuts"):
        fit(binned=coarse, init_model=model)


def test_the_path_prior_refuses_more_scores_than_its_matrices_allow() -> None:
    label = np.arange(60)
    with pytest.raises(ValueError, match="leaf_prior='ridge'"):
        fit({**FAST, "leaf_prior": "path", "num_class": 300}, label=label)


def test_more_rows_than_counts_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullhess.validation.MAX_SAMPLES", 50)
    with pytest.raises(ValueError, match="at most 50 rows"):
        fit()


def test_codes_changed_behind_the_matrix_are_noticed() -> None:
    codes = BINNED.codes.copy()
    binned = BinnedMatrix(codes, BINNED.binning)
    codes[3, 1] = 200
    with pytest.raises(ValueError, match="codes up to 200"):
        fit(binned=binned)
    with pytest.raises(ValueError, match="codes up to 200"):
        fit(evals=[EvalSet(binned, LABEL)])


def test_settings_may_come_as_params() -> None:
    model = fit(Params(max_depth=2, n_jobs=1))
    assert model.metadata["max_depth"] == 2
