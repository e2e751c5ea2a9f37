"""The estimators are LightGBM's with our training."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

lgb = pytest.importorskip("lightgbm")

from lgb_cases import classes, log_loss  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

import fullhess.lightgbm as ours  # noqa: E402
from fullhess import ParameterError  # noqa: E402

QUICK = {"n_estimators": 5, "num_leaves": 7, "verbose": -1}
NAMES = np.array(["ant", "bee", "cat"])

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # eval_set, from 4.7 on


def test_fit_is_train(rng):
    X, y = classes(rng)
    model = ours.LGBMClassifier(**QUICK, hessian="full", reg_lambda=1.0).fit(X, NAMES[y])
    params = {"objective": "multiclass", "num_class": 3, "num_leaves": 7, "verbose": -1}
    booster = ours.train({**params, "lambda_l2": 1.0}, lgb.Dataset(X, y), 5)
    assert np.array_equal(model.predict_proba(X), booster.predict(X))
    assert np.array_equal(model.predict(X), NAMES[booster.predict(X).argmax(axis=1)])
    assert isinstance(model, lgb.LGBMClassifier) and isinstance(model, ours.LGBMModel)
    assert model.objective_ == "multiclass" and model.n_classes_ == 3
    assert model.classes_.tolist() == NAMES.tolist() and model.n_features_in_ == 5
    assert model.booster_.native.n_rounds == model.n_estimators_ == 5
    assert model.feature_importances_.sum() > 0
    raw = model.predict(X, raw_score=True)
    assert np.array_equal(raw, model.booster_.native.predict_raw(X))


def test_evaluation_and_early_stopping(rng):
    X, y = classes(rng, n=600)
    model = ours.LGBMClassifier(n_estimators=80, learning_rate=0.9, verbose=-1)
    model.fit(
        X[:400], NAMES[y[:400]], eval_set=[(X[400:], NAMES[y[400:]]), (X[:400], NAMES[y[:400]])],
        eval_names=["out", "in"], eval_metric=["multi_error", "logloss"],
        callbacks=[lgb.early_stopping(4, verbose=False)],
    )  # fmt: skip
    assert 0 < model.best_iteration_ < 80
    assert set(model.evals_result_) == {"out", "in"}
    curve = model.evals_result_["out"]["multi_logloss"]
    assert log_loss(model.predict_proba(X[400:]), y[400:]) == pytest.approx(
        curve[model.best_iteration_ - 1], abs=1e-12
    )
    assert {"multi_error", "multi_logloss"} <= set(model.best_score_["out"])


def test_evaluation_data_apart(rng):
    if "eval_X" not in inspect.signature(lgb.LGBMClassifier.fit).parameters:
        pytest.skip("eval_X and eval_y came with 4.7")
    X, y = classes(rng, n=500)
    model = ours.LGBMClassifier(**QUICK)
    model.fit(X[:400], y[:400], eval_X=(X[400:],), eval_y=(y[400:],))
    loss = log_loss(model.predict_proba(X[400:]), y[400:])
    assert model.evals_result_["valid_0"]["multi_logloss"][-1] == pytest.approx(loss, abs=1e-12)


def test_functions_as_metric_and_objective(rng):
    X, y = classes(rng)

    def error(y_true, y_pred):
        return "own", float((y_pred.argmax(axis=1) != y_true).mean()), False

    def objective(y_true, y_pred):
        p = np.exp(y_pred) / np.exp(y_pred).sum(axis=1, keepdims=True)
        eye = np.eye(3)
        return p - eye[y_true.astype(int)], p[:, :, None] * (eye - p[:, None, :])

    model = ours.LGBMClassifier(**QUICK, reg_lambda=1.0)
    model.fit(X, y, eval_set=[(X, y)], eval_metric=error)
    assert "own" in model.evals_result_["training"]
    own = ours.LGBMClassifier(**QUICK, reg_lambda=1.0, objective=objective).fit(X, y)
    assert (own.predict(X, raw_score=True).argmax(axis=1) == y).mean() > 0.6


def test_weights_of_rows_and_classes(rng):
    X, y = classes(rng)
    weight = np.where(y == 1, 20.0, 1.0)
    by_row = ours.LGBMClassifier(**QUICK).fit(X, NAMES[y], sample_weight=weight)
    by_class = ours.LGBMClassifier(**QUICK, class_weight={"ant": 1, "bee": 20, "cat": 1})
    by_class.fit(X, NAMES[y])
    assert np.array_equal(by_row.predict_proba(X), by_class.predict_proba(X))
    plain = ours.LGBMClassifier(**QUICK).fit(X, NAMES[y])
    assert by_row.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    ours.LGBMClassifier(**QUICK, class_weight="balanced").fit(X, NAMES[y])


def test_tools_of_scikit_learn(rng):
    X, y = classes(rng)
    model = ours.LGBMClassifier(**QUICK, hessian="full", leaf_prior="path")
    assert model.get_params()["leaf_prior"] == "path"
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(hessian="diagonal").get_params()["hessian"] == "diagonal"
    assert cross_val_score(model, X, NAMES[y], cv=3).mean() > 0.5
    search = GridSearchCV(
        ours.LGBMClassifier(**QUICK),
        {"hessian": ["full", "upper_bound"], "num_leaves": [3, 7]},
        cv=2,
    ).fit(X, y)
    assert set(search.best_params_) == {"hessian", "num_leaves"}
    line = make_pipeline(StandardScaler(), ours.LGBMClassifier(**QUICK)).fit(np.nan_to_num(X), y)
    assert line.score(np.nan_to_num(X), y) > 0.5


def test_parameters_have_their_effect(rng):
    X, y = classes(rng)
    plain = ours.LGBMClassifier(**QUICK).fit(X, y).predict_proba(X)
    for own in (
        {"hessian": "diagonal"}, {"split_hessian": "diagonal"}, {"leaf_solver": "newton"},
        {"leaf_prior": "path", "reg_lambda": 1.0}, {"split_gain": "quadratic"},
    ):  # fmt: skip
        other = ours.LGBMClassifier(**QUICK, **own).fit(X, y).predict_proba(X)
        assert not np.array_equal(other, plain), own


def test_pickling(rng):
    X, y = classes(rng)
    model = ours.LGBMClassifier(**QUICK, hessian="full").fit(X, NAMES[y])
    twin = pickle.loads(pickle.dumps(model))
    assert type(twin) is ours.LGBMClassifier
    assert np.array_equal(twin.predict_proba(X), model.predict_proba(X))
    assert twin.booster_.native.n_rounds == 5 and twin.get_params() == model.get_params()


def test_two_classes_regression_and_ranking_are_the_hosts(rng):
    X, y = classes(rng)
    mine = ours.LGBMClassifier(**QUICK).fit(X, y > 0)
    theirs = lgb.LGBMClassifier(**QUICK).fit(X, y > 0)
    assert np.array_equal(mine.predict_proba(X), theirs.predict_proba(X))
    pairs = [(ours.LGBMRegressor, lgb.LGBMRegressor, {}),
             (ours.LGBMRanker, lgb.LGBMRanker, {"group": [200, 200]})]  # fmt: skip
    for ours_class, host_class, more in pairs:
        mine = ours_class(**QUICK).fit(X, y, **more)
        theirs = host_class(**QUICK).fit(X, y, **more)
        assert np.array_equal(mine.predict(X), theirs.predict(X))
    for estimator in (ours.LGBMClassifier, ours.LGBMRegressor):
        with pytest.raises(ParameterError, match="hessian"):
            estimator(**QUICK, hessian="full").fit(X, y > 0)


def test_ova_is_the_hosts(rng):
    X, y = classes(rng)
    mine = ours.LGBMClassifier(**QUICK, objective="multiclassova").fit(X, y)
    theirs = lgb.LGBMClassifier(**QUICK, objective="multiclassova").fit(X, y)
    assert np.array_equal(mine.predict_proba(X), theirs.predict_proba(X))


def test_wrong_names_are_told(rng):
    X, y = classes(rng)
    with pytest.raises(ParameterError, match="did you mean 'hessian'"):
        ours.LGBMClassifier(**QUICK, hesian="full").fit(X, y)


def test_bare_lgbm_model(rng):
    X, y = classes(rng)
    model = ours.LGBMModel(**QUICK, objective="multiclass", num_class=3).fit(X, y)
    assert model.predict(X).shape == (len(X), 3)
    assert len(model.booster_.native.trees) == 5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn_end_as_for_the_host():
    def results(estimator):
        found = check_estimator(estimator, on_fail=None)
        return {result["check_name"]: result["status"] for result in found}

    if "on_fail" not in inspect.signature(check_estimator).parameters:
        pytest.skip("scikit-learn before 1.6 stops at the first failure")
    quick = {"n_estimators": 2, "verbose": -1}
    assert results(ours.LGBMClassifier(**quick)) == results(lgb.LGBMClassifier(**quick))
