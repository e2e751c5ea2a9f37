"""XGBoost's estimators with our training inside."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

xgboost = pytest.importorskip("xgboost")

from fullhess_xgboost.host import AT_LEAST_3_4  # noqa: E402

import fullhess.xgboost as xgb  # noqa: E402

FAST = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1}


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


def test_classifier_is_a_classifier_of_the_host(wine):
    X, y = wine
    model = xgb.XGBClassifier(**FAST).fit(X, y)
    assert isinstance(model, xgboost.XGBClassifier)
    assert is_classifier(model)
    assert type(model.get_booster()) is xgb.Booster
    assert model.get_booster().native.n_rounds == 5
    assert model.score(X, y) > 0.95
    assert model.predict(X).shape == (len(X),)
    probability = model.predict_proba(X)
    assert probability.shape == (len(X), 3)
    assert probability.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.n_classes_ == 3
    assert model.n_features_in_ == X.shape[1]
    assert model.objective == "multi:softprob"
    assert model.feature_importances_.sum() == pytest.approx(1.0, abs=1e-5)
    assert model.apply(X).shape == (len(X), 5)
    assert model.intercept_.shape == (3,)


def test_estimator_trains_what_train_trains(wine):
    X, y = wine
    model = xgb.XGBClassifier(**FAST, leaf_prior="path").fit(X, y)
    params = {
        "objective": "multi:softprob", "num_class": 3, "max_depth": 3, "nthread": 1,
        "leaf_prior": "path",
    }  # fmt: skip
    booster = xgb.train(params, xgb.QuantileDMatrix(X, label=y), 5)
    boosters = (model.get_booster(), booster)
    margins = [b.predict(xgb.DMatrix(X), output_margin=True) for b in boosters]
    assert np.array_equal(*margins)


def test_labels_are_checked_as_the_host_checks_them(wine):
    X, y = wine
    with pytest.raises(ValueError, match="Invalid classes inferred"):
        xgb.XGBClassifier(**FAST).fit(X, y + 1)


def test_binary_problems_are_the_hosts(wine):
    X, y = wine
    ours, host = (m.XGBClassifier(**FAST).fit(X, y > 0) for m in (xgb, xgboost))
    assert np.array_equal(ours.predict_proba(X), host.predict_proba(X))
    assert ours.objective == "binary:logistic"


def test_evaluation_sets_and_early_stopping(wine):
    X, y = wine
    weight = np.linspace(0.5, 1.5, len(X))
    model = xgb.XGBClassifier(
        n_estimators=200, learning_rate=1.0, early_stopping_rounds=3, n_jobs=1,
        eval_metric=["mlogloss", "merror"],
    )  # fmt: skip
    model.fit(
        X[::2], y[::2], sample_weight=weight[::2], eval_set=[(X[::2], y[::2]), (X[1::2], y[1::2])],
        sample_weight_eval_set=[weight[::2], weight[1::2]], verbose=False,
    )  # fmt: skip
    assert model.best_iteration < 199
    result = model.evals_result()
    assert list(result) == ["validation_0", "validation_1"]
    assert list(result["validation_1"]) == ["mlogloss", "merror"]
    assert model.best_score == result["validation_1"]["merror"][model.best_iteration]
    raw = model.get_booster().predict(
        xgb.DMatrix(X), output_margin=True, iteration_range=(0, model.best_iteration + 1)
    )
    assert np.array_equal(model.predict(X, output_margin=True), raw)


def test_base_margin_and_continuation(wine):
    X, y = wine
    first = xgb.XGBClassifier(**FAST).fit(X, y)
    again = xgb.XGBClassifier(**FAST).fit(X, y, xgb_model=first.get_booster())
    assert again.get_booster().num_boosted_rounds() == 10
    margin = np.random.default_rng(0).normal(size=(len(X), 3))
    offset = xgb.XGBClassifier(**FAST).fit(X, y, base_margin=margin)
    assert not np.array_equal(offset.predict_proba(X), first.predict_proba(X))


def test_custom_objective(wine):
    X, y = wine

    def objective(label, raw):
        p = np.exp(raw - raw.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return p - np.eye(3)[label.astype(int)], p[:, :, None] * (np.eye(3) - p[:, None])

    model = xgb.XGBClassifier(**FAST, objective=objective).fit(X, y)
    assert model.score(X, y) > 0.95


def test_new_parameters_are_parameters(wine):
    X, y = wine
    model = xgb.XGBClassifier(**FAST, hessian="upper_bound", leaf_solver="newton")
    assert model.get_params()["hessian"] == "upper_bound"
    copy = clone(model).set_params(hessian="full")
    assert copy.get_params()["leaf_solver"] == "newton"
    assert copy.get_params()["hessian"] == "full"
    a, b = (m.fit(X, y).get_booster().save_raw() for m in (model, copy))
    assert a != b
    forest = xgb.XGBRFClassifier
    with pytest.warns() if AT_LEAST_3_4 else _nothing():
        made = clone(forest(n_estimators=3, hessian="upper_bound"))
    assert made.get_params()["hessian"] == "upper_bound"


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False


def test_tools_of_scikit_learn(wine):
    X, y = wine
    search = GridSearchCV(
        xgb.XGBClassifier(**FAST), {"leaf_prior": ["ridge", "path"], "max_depth": [2]}, cv=2
    ).fit(X, y)
    assert search.best_params_["leaf_prior"] in ("ridge", "path")
    assert cross_val_score(xgb.XGBClassifier(**FAST), X, y, cv=3).mean() > 0.85
    pipeline = make_pipeline(StandardScaler(), xgb.XGBClassifier(**FAST)).fit(X, y)
    assert pipeline.score(X, y) > 0.95


def test_pickles_and_files(wine, tmp_path):
    X, y = wine
    model = xgb.XGBClassifier(**FAST).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert type(again) is xgb.XGBClassifier
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    model.save_model(tmp_path / "model.json")
    for module in (xgb, xgboost):
        loaded = module.XGBClassifier()
        loaded.load_model(tmp_path / "model.json")
        assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
        assert type(loaded.get_booster()) is module.Booster
    assert type(loaded.get_booster()) is xgboost.Booster


def test_frames_with_categories():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(3)
    levels = [f"level {i}" for i in range(9)]
    frame = pd.DataFrame({
        "a": pd.Categorical(rng.choice(levels, 400), categories=levels),
        "b": rng.normal(size=400),
    })  # fmt: skip
    y = (frame["a"].cat.codes.to_numpy() % 3).astype(int)
    model = xgb.XGBClassifier(n_estimators=10, enable_categorical=True, n_jobs=1)
    model.fit(frame[:300], y[:300], eval_set=[(frame[300:], y[300:])], verbose=False)
    assert model.score(frame[300:], y[300:]) > 0.99
    assert model.evals_result()["validation_0"]["mlogloss"][-1] < 0.2
    other = frame.assign(a=frame["a"].cat.reorder_categories(levels[::-1]))
    assert np.array_equal(model.predict_proba(other), model.predict_proba(frame))
    assert model.feature_names_in_.tolist() == ["a", "b"]


def test_forests(wine):
    X, y = wine
    with pytest.warns() if AT_LEAST_3_4 else _nothing():
        model = xgb.XGBRFClassifier(n_estimators=7, n_jobs=1).fit(X, y)
    assert isinstance(model, xgboost.XGBRFClassifier)
    assert type(model.get_booster()) is xgb.Booster
    assert len(model.get_booster().native.trees) == 7
    assert model.get_booster().num_boosted_rounds() == 1
    assert model.score(X, y) > 0.9


def test_regressors_are_the_hosts(wine):
    X, y = wine
    ours, host = (m.XGBRegressor(**FAST).fit(X, y) for m in (xgb, xgboost))
    assert np.array_equal(ours.predict(X), host.predict(X))


def test_regressor_with_a_custom_objective_of_several_outputs():
    X, _ = load_iris(return_X_y=True)
    Y = X[:, 2:]
    A = np.array([[1.0, 0.5], [0.5, 1.0]])

    def objective(label, raw):
        return (raw - label.reshape(raw.shape)) @ A, np.broadcast_to(A, (len(raw), 2, 2))

    model = xgb.XGBRegressor(n_estimators=20, objective=objective, n_jobs=1).fit(X[:, :2], Y)
    assert model.predict(X[:, :2]).shape == Y.shape
    assert np.mean((model.predict(X[:, :2]) - Y) ** 2) < 0.3 * Y.var()


def test_sparse_input_and_a_value_named_missing(wine):
    import scipy.sparse as sp

    X, y = wine
    dense = X.copy()
    dense[::5, 0] = -1.0
    model = xgb.XGBClassifier(**FAST, missing=-1.0).fit(dense, y)
    holes = dense.copy()
    holes[holes == -1.0] = np.nan
    same = xgb.XGBClassifier(**FAST).fit(holes, y)
    assert np.array_equal(model.predict_proba(dense), same.predict_proba(holes))
    sparse = xgb.XGBClassifier(**FAST).fit(sp.csr_matrix(X), y)
    assert sparse.score(sp.csr_matrix(X), y) > 0.95
