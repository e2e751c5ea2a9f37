"""``train``, ``cv`` and the booster they return."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

xgboost = pytest.importorskip("xgboost")

import fullhess_xgboost.booster as booster_module  # noqa: E402
from fullhess_xgboost.host import check_version  # noqa: E402

import fullhess.xgboost as xgb  # noqa: E402

K = 3
SOFT = {"objective": "multi:softprob", "num_class": K, "max_depth": 3, "nthread": 1}


def arrays(rng, n=300, d=5):
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    z = np.nan_to_num(X)
    y = (z[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int) + (z[:, 1] > 0.5)
    return X, y


@pytest.fixture
def sets(rng):
    """A training and an evaluation set with weights."""
    made = []
    for n in (300, 130):
        X, y = arrays(rng, n)
        made.append(xgb.DMatrix(X, label=y, weight=rng.integers(1, 4, n).astype(float)))
    return made


def softmax(raw):
    p = np.exp(raw - raw.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def margin(booster, dmatrix, **options):
    return booster.predict(dmatrix, output_margin=True, **options)


# The namespace and its signatures.


def test_the_whole_namespace_of_the_host_is_there():
    assert set(xgboost.__all__) <= set(xgb.__all__)
    for name in xgboost.__all__:
        assert hasattr(xgb, name)
    assert xgb.DMatrix is xgboost.DMatrix
    assert xgb.callback is xgboost.callback
    assert xgb.__version__ == xgboost.__version__
    assert xgb.sklearn.XGBClassifier is xgb.XGBClassifier
    assert xgb.training.train is xgb.train
    assert {"Booster", "DMatrix", "train", "callback"} <= set(dir(xgb))
    with pytest.raises(AttributeError):
        xgb.no_such_name  # noqa: B018


@pytest.mark.parametrize("name", ["train", "cv"])
def test_signatures_are_the_hosts(name):
    ours, host = (inspect.signature(getattr(m, name)) for m in (xgb, xgboost))
    assert list(ours.parameters) == list(host.parameters)


def test_the_host_is_left_alone(sets):
    xgb.train(SOFT, sets[0], 1)
    assert xgboost.train is not xgb.train
    assert type(xgboost.train(SOFT, sets[0], 1)) is xgboost.Booster


def test_missing_host_is_named():
    code = "import sys; sys.modules['xgboost'] = None; import fullhess.xgboost"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "needs the xgboost package" in done.stderr
    assert "pip install 'xgboost>=3.2'" in done.stderr


@pytest.mark.parametrize("version", ["2.1.4", "3.1.3", "unknown"])
def test_unsupported_version_is_named(version):
    with pytest.raises(ImportError, match=version):
        check_version(version)


# Training.


def test_metrics_are_the_hosts_on_the_model_of_every_round(sets):
    dtrain, dvalid = sets
    result = {}
    params = {**SOFT, "eval_metric": ["merror", "mlogloss", "auc"]}
    evals = [(dtrain, "train"), (dvalid, "valid")]
    booster = xgb.train(params, dtrain, 6, evals=evals, evals_result=result, verbose_eval=False)
    assert list(result) == ["train", "valid"]
    assert list(result["valid"]) == ["merror", "mlogloss", "auc"]
    for i in range(6):
        host = xgboost.Booster(params, model_file=booster[: i + 1].save_raw())
        words = host.eval_set(evals, i).split("\t")[1:]
        values = [float(word.rsplit(":", 1)[1]) for word in words]
        ours = [result[s][m][i] for s in result for m in result[s]]
        assert ours == pytest.approx(values, rel=1e-6, abs=1e-12)


def test_training_loss_never_rises(sets):
    result = {}
    params = {**SOFT, "eta": 1.0, "lambda": 0.0}
    xgb.train(params, sets[0], 12, evals=[(sets[0], "t")], evals_result=result, verbose_eval=False)
    assert (np.diff(result["t"]["mlogloss"]) < 1e-6).all()


def test_margins_are_those_of_the_native_model_and_of_the_plain_host(sets, tmp_path):
    dtrain, dvalid = sets
    booster = xgb.train(SOFT, dtrain, 5)
    wanted = booster.native.predict_raw(dvalid.get_data())
    assert wanted.dtype == np.float32
    assert np.array_equal(margin(booster, dvalid), wanted)
    for suffix in ("json", "ubj"):
        booster.save_model(tmp_path / f"model.{suffix}")
        plain = xgboost.Booster(model_file=str(tmp_path / f"model.{suffix}"))
        assert np.array_equal(margin(plain, dvalid), wanted)
        assert plain.predict(dvalid) == pytest.approx(softmax(wanted), abs=2e-7)


def test_plain_host_needs_no_fullhess(sets, tmp_path):
    xgb.train(SOFT, sets[0], 2).save_model(tmp_path / "model.ubj")
    code = (
        "import sys; sys.modules['fullhess'] = sys.modules['fullhess_xgboost'] = None\n"
        f"import xgboost; b = xgboost.Booster(model_file={str(tmp_path / 'model.ubj')!r})\n"
        "print(b.num_boosted_rounds())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "2", done.stderr


def test_quantile_matrices_train_the_same_model(rng):
    X, y = arrays(rng)
    Xv, yv = arrays(rng, 80)
    plain, result = xgb.DMatrix(X, label=y), {}
    quantile = xgb.QuantileDMatrix(X, label=y)
    dvalid = xgb.QuantileDMatrix(Xv, label=yv, ref=quantile)
    a = xgb.train(SOFT, plain, 4)
    b = xgb.train(SOFT, quantile, 4, evals=[(dvalid, "v")], evals_result=result, verbose_eval=False)
    assert a.save_raw() == b.save_raw()
    host = float(b.eval(xgb.DMatrix(Xv, label=yv)).rsplit(":", 1)[1])
    assert result["v"]["mlogloss"][-1] == pytest.approx(host, rel=1e-6)


def test_same_bits_on_any_number_of_threads(rng):
    X, y = arrays(rng, 5000)
    models = [xgb.train({**SOFT, "nthread": t}, xgb.DMatrix(X, label=y), 3) for t in (1, 2)]
    assert models[0].save_raw() == models[1].save_raw()


def test_base_margin_replaces_the_intercept(rng):
    X, y = arrays(rng)
    offset = rng.normal(size=(len(X), K)).astype(np.float32)
    dtrain = xgb.DMatrix(X, label=y, base_margin=offset)
    result = {}
    booster = xgb.train(
        SOFT, dtrain, 3, evals=[(dtrain, "t")], evals_result=result, verbose_eval=False
    )
    assert np.array_equal(
        margin(booster, dtrain), booster.native.predict_raw(X, base_margin=offset)
    )
    assert float(booster.eval(dtrain).rsplit(":", 1)[1]) == pytest.approx(
        result["t"]["mlogloss"][-1], rel=1e-6
    )


def test_intercept_is_the_hosts(sets):
    ours = xgb.train(SOFT, sets[0], 1).native.base_score
    config = xgboost.train(SOFT, sets[0], 1).save_config()
    host = json.loads(json.loads(config)["learner"]["learner_model_param"]["base_score"])
    assert ours == pytest.approx(np.array(host), abs=1e-6)


def test_feature_weights_steer_column_sampling(rng):
    X, y = arrays(rng)
    dtrain = xgb.DMatrix(X, label=y)
    dtrain.set_info(feature_weights=[0.0, 0.0, 1.0, 1.0, 1.0])
    booster = xgb.train({**SOFT, "colsample_bynode": 0.4}, dtrain, 5)
    assert set(booster.get_score()) <= {"f2", "f3", "f4"}


def test_two_classes_under_softprob_keep_two_columns(rng):
    X, y = arrays(rng)
    dtrain = xgb.DMatrix(X, label=y > 0)
    booster = xgb.train({**SOFT, "num_class": 2}, dtrain, 3)
    assert booster.predict(dtrain).shape == (len(X), 2)
    assert np.array_equal(margin(booster, dtrain), booster.native.predict_raw(X))


def test_softmax_predicts_class_numbers(sets):
    booster = xgb.train({**SOFT, "objective": "multi:softmax"}, sets[0], 3)
    classes = booster.predict(sets[0])
    assert np.array_equal(classes, margin(booster, sets[0]).argmax(axis=1))


# Callbacks.


def test_early_stopping_and_the_rate_schedule(sets):
    dtrain, dvalid = sets
    rates = [0.5] * 3 + [1e-6] * 50
    booster = xgb.train(
        SOFT, dtrain, 50, evals=[(dvalid, "v")], early_stopping_rounds=4, verbose_eval=False,
        callbacks=[xgb.callback.LearningRateScheduler(lambda i: rates[i])],
    )  # fmt: skip
    assert booster.best_iteration < booster.num_boosted_rounds() < 50
    assert booster.best_score == pytest.approx(float(booster.attr("best_score")))
    assert booster.native.best_iteration == booster.best_iteration
    sizes = [np.abs(tree.values).max() for tree in booster.native.trees]
    assert min(sizes[:2]) > 1e-3 > max(sizes[4:])


def test_saved_best_is_a_booster_of_ours(sets):
    stop = xgb.callback.EarlyStopping(rounds=2, save_best=True, metric_name="mlogloss")
    booster = xgb.train(
        {**SOFT, "eta": 1.0, "max_depth": 6}, sets[0], 30, evals=[(sets[1], "v")],
        callbacks=[stop], verbose_eval=False,
    )  # fmt: skip
    assert type(booster) is xgb.Booster
    assert booster.num_boosted_rounds() == booster.best_iteration + 1


@pytest.mark.parametrize("as_pickle", [False, True])
def test_checkpoints_are_whole_models(sets, tmp_path, as_pickle):
    check = xgb.callback.TrainingCheckPoint(directory=tmp_path, interval=2, as_pickle=as_pickle)
    booster = xgb.train(SOFT, sets[0], 6, callbacks=[check])
    files = sorted(tmp_path.iterdir())
    assert files
    for file in files:
        if as_pickle:
            part = pickle.loads(file.read_bytes())
        else:
            part = xgboost.Booster(model_file=str(file))
        n = part.num_boosted_rounds()
        assert np.array_equal(
            margin(part, sets[1]), margin(booster, sets[1], iteration_range=(0, n))
        )


def test_a_callback_may_predict_between_rounds(sets):
    seen = []

    class Watch(xgb.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            seen.append(margin(model, sets[1]))
            return False

    booster = xgb.train(SOFT, sets[0], 3, callbacks=[Watch()])
    for i, raw in enumerate(seen):
        assert np.array_equal(raw, margin(booster, sets[1], iteration_range=(0, i + 1)))


def test_the_model_is_written_once_whatever_is_watched(sets, monkeypatch):
    written = []

    def counting(model, *args, **kwargs):
        written.append(model.n_rounds)
        return original(model, *args, **kwargs)

    original = booster_module.model_bytes
    monkeypatch.setattr(booster_module, "model_bytes", counting)
    xgb.train(
        SOFT, sets[0], 8, evals=[(sets[0], "t"), (sets[1], "v")], early_stopping_rounds=8,
        verbose_eval=False, callbacks=[xgb.callback.LearningRateScheduler(lambda i: 0.3)],
    )  # fmt: skip
    assert written == [8]


def test_evaluation_is_printed_as_the_host_prints_it(sets, capsys):
    xgb.train(SOFT, sets[0], 3, evals=[(sets[0], "t")], verbose_eval=2)
    lines = capsys.readouterr().out.splitlines()
    lines = [line for line in lines if line.startswith("[")]
    assert [line.split("\t")[0] for line in lines] == ["[0]", "[2]"]
    assert "t-mlogloss:" in lines[0]


# Custom objectives and metrics.


def own_softmax(form):
    """The softmax objective with its Hessian in one of the accepted forms."""

    def objective(raw, dtrain):
        p = softmax(raw.astype(np.float64))
        y = dtrain.get_label().astype(int)
        gradient = p - np.eye(K)[y]
        hessian = p[:, :, None] * (np.eye(K) - p[:, None, :])
        if form == "packed":
            i, j = np.triu_indices(K)
            hessian = hessian[:, i, j]
        if form == "diagonal":
            hessian = p * (1 - p)
        return gradient, hessian

    return objective


@pytest.mark.parametrize("form", ["full", "packed", "diagonal"])
def test_custom_objective_is_the_built_in_one(rng, form):
    X, y = arrays(rng)
    dtrain = xgb.DMatrix(X, label=y)
    plain = {"leaf_solver": "newton", "split_gain": "quadratic", "base_score": 0.5}
    hessian = "diagonal" if form == "diagonal" else "full"
    built_in = xgb.train({**SOFT, **plain, "hessian": hessian}, dtrain, 3)
    custom = xgb.train(SOFT, dtrain, 3, obj=own_softmax(form))
    assert margin(custom, dtrain) == pytest.approx(margin(built_in, dtrain), abs=2e-4)
    assert custom.predict(dtrain).shape == (len(X), K)


def test_custom_objective_is_called_once_a_round_with_the_margins(sets):
    dtrain = sets[0]
    calls = []

    def objective(raw, data):
        assert data is dtrain and raw.dtype == np.float32
        calls.append(raw)
        return own_softmax("full")(raw, data)

    booster = xgb.train(SOFT, dtrain, 4, obj=objective)
    assert len(calls) == 4
    assert np.array_equal(calls[0], np.full((dtrain.num_row(), K), 0.5, np.float32))
    for i in (1, 2, 3):
        assert np.array_equal(calls[i], margin(booster, dtrain, iteration_range=(0, i)))


def test_weights_of_a_custom_objective_are_its_own(rng):
    X, y = arrays(rng)
    weighted = xgb.DMatrix(X, label=y, weight=rng.random(len(X)))
    booster = xgb.train({**SOFT, "max_bin": 512}, weighted, 1, obj=own_softmax("full"))
    again = xgb.DMatrix(X, label=y, weight=weighted.get_weight() * 2)
    assert (
        booster.save_raw()
        == xgb.train({**SOFT, "max_bin": 512}, again, 1, obj=own_softmax("full")).save_raw()
    )


def test_custom_objective_of_several_targets(rng):
    X, _ = arrays(rng)
    Y = np.stack([np.nan_to_num(X[:, 0]), np.nan_to_num(X[:, 0] + X[:, 1])], axis=1)
    A = np.array([[2.0, 1.0], [1.0, 2.0]])

    def objective(raw, dtrain):
        return (raw - Y) @ A, np.broadcast_to(A, (len(raw), 2, 2))

    dtrain = xgb.DMatrix(X, label=Y)
    booster = xgb.train({"max_depth": 3, "eta": 0.5}, dtrain, 10, obj=objective)
    prediction = booster.predict(dtrain)
    assert prediction.shape == Y.shape
    assert np.mean((prediction - Y) ** 2) < 0.1 * Y.var()


@pytest.mark.parametrize(
    "result, words",
    [
        (lambda g: g, r"must return \(gradient, hessian\)"),
        (lambda g: (g, g[:, 0]), "the Hessian must be"),
        (lambda g: (g[:, :2], g), "the gradient must be"),
        (lambda g: (g * np.nan, g), "NaN or infinity"),
    ],
)
def test_bad_derivatives_are_refused(sets, result, words):
    with pytest.raises((TypeError, ValueError), match=words):
        xgb.train(SOFT, sets[0], 1, obj=lambda raw, d: result(np.ones_like(raw)))


def test_a_hessian_that_changes_its_form_is_refused(sets):
    forms = iter(["full", "diagonal"])
    with pytest.raises(ValueError, match="in the round before"):
        xgb.train(SOFT, sets[0], 2, obj=lambda raw, d: own_softmax(next(forms))(raw, d))


def test_custom_metric_sees_predictions_or_margins(sets):
    dtrain = sets[0]
    seen = []

    def metric(prediction, data):
        seen.append(prediction)
        return "mine", float(prediction[0, 0])

    result = {}
    options = {"evals": [(dtrain, "t")], "verbose_eval": False, "custom_metric": metric}
    booster = xgb.train(SOFT, dtrain, 1, evals_result=result, **options)
    assert seen[-1] == pytest.approx(booster.predict(dtrain), abs=1e-6)
    assert list(result["t"]) == ["mlogloss", "mine"]
    booster = xgb.train(SOFT, dtrain, 1, obj=own_softmax("full"), **options)
    assert np.array_equal(seen[-1], margin(booster, dtrain))


# Continuation.


def test_continuing_is_training_on(sets, tmp_path):
    dtrain, dvalid = sets
    whole = xgb.train(SOFT, dtrain, 6)
    part = xgb.train(SOFT, dtrain, 3)
    part.save_model(tmp_path / "part.json")
    for start in (part, str(tmp_path / "part.json"), part.save_raw()):
        result = {}
        more = xgb.train(
            SOFT, dtrain, 3, xgb_model=start, evals=[(dvalid, "v")], evals_result=result,
            verbose_eval=False,
        )  # fmt: skip
        assert more.num_boosted_rounds() == 6
        assert np.array_equal(margin(more, dvalid), margin(whole, dvalid))
        host = float(more.eval(dvalid).rsplit(":", 1)[1])
        assert result["v"]["mlogloss"][-1] == pytest.approx(host, rel=1e-6)


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_models_of_the_host_are_continued_and_ours_by_the_host(sets, strategy):
    dtrain, dvalid = sets
    params = {**SOFT, "multi_strategy": strategy}
    host = xgboost.train(params, dtrain, 2)
    ours = xgb.train(SOFT, dtrain, 2, xgb_model=host)
    assert ours.num_boosted_rounds() == 4
    assert np.array_equal(margin(ours, dvalid, iteration_range=(0, 2)), margin(host, dvalid))
    back = xgboost.train(params, dtrain, 2, xgb_model=ours)
    assert type(back) is xgboost.Booster
    assert back.num_boosted_rounds() == 6
    assert np.array_equal(margin(back, dvalid, iteration_range=(0, 4)), margin(ours, dvalid))


def test_continuation_with_other_classes_is_refused(sets):
    booster = xgb.train(SOFT, sets[0], 1)
    with pytest.raises(xgboost.core.XGBoostError, match="`n_classes`: 4"):
        xgb.train({**SOFT, "num_class": 4}, sets[0], 1, xgb_model=booster)


def test_updating_by_hand(sets):
    dtrain, dvalid = sets
    booster = xgb.Booster(SOFT, [dtrain, dvalid])
    for i in range(4):
        booster.update(dtrain, i)
        assert booster.eval_set([(dvalid, "v")], i).startswith(f"[{i}]\tv-mlogloss:")
    assert booster.num_boosted_rounds() == 4
    assert booster.num_features() == 5
    whole = xgb.train(SOFT, dtrain, 4)
    assert np.array_equal(margin(booster, dvalid), margin(whole, dvalid))
    booster.reset()
    booster.update(dtrain, 4)  # a new run that goes on
    assert np.array_equal(margin(booster, dvalid), margin(xgb.train(SOFT, dtrain, 5), dvalid))


def test_labels_and_weights_changed_between_rounds_count(rng):
    X, y = arrays(rng)
    dtrain = xgb.DMatrix(X, label=y)
    booster = xgb.Booster(SOFT, [dtrain])
    booster.update(dtrain, 0)
    before = booster.eval(dtrain)
    dtrain.set_label((y + 1) % K)
    assert booster.eval(dtrain) != before
    dtrain.set_weight(np.linspace(0.1, 2.0, len(y)))
    booster.update(dtrain, 1)
    again = xgb.DMatrix(X, label=(y + 1) % K, weight=np.linspace(0.1, 2.0, len(y)))
    wanted = xgb.train(SOFT, again, 1, xgb_model=booster[:1])
    assert np.array_equal(margin(booster, dtrain), margin(wanted, dtrain))


def test_boosting_with_given_derivatives(sets):
    dtrain = sets[0]
    booster = xgb.Booster(SOFT, [dtrain])
    for i in range(3):
        raw = margin(booster, dtrain) if i else np.full((dtrain.num_row(), K), 0.5, np.float32)
        gradient, hessian = own_softmax("full")(raw, dtrain)
        booster.boost(dtrain, i, grad=gradient, hess=hessian)
    whole = xgb.train(SOFT, dtrain, 3, obj=own_softmax("full"))
    assert np.array_equal(margin(booster, dtrain), margin(whole, dtrain))


# What the host trains itself.


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "binary:logistic"},
        {"objective": "reg:squarederror"},
        {},
        {"objective": "multi:softprob", "num_class": K, "booster": "gblinear"},
    ],
)
@pytest.mark.filterwarnings("ignore:.*gblinear.*:UserWarning")
def test_scalar_objectives_are_the_hosts_own(rng, params):
    X, y = arrays(rng)
    X = np.nan_to_num(X)
    label = y if "num_class" in params else y > 0
    models, results = [], []
    for module in (xgb, xgboost):
        dtrain = module.DMatrix(X, label=label)
        result = {}
        models.append(module.train(
            {**params, "nthread": 1}, dtrain, 3, evals=[(dtrain, "t")], evals_result=result,
            verbose_eval=False,
        ))  # fmt: skip
        results.append(result)
    assert models[0].save_raw() == models[1].save_raw()
    assert results[0] == results[1]


def test_binary_models_have_a_native_form(rng):
    X, y = arrays(rng)
    dtrain = xgb.DMatrix(X, label=y > 0)
    booster = xgb.train({"objective": "binary:logistic"}, dtrain, 3)
    assert np.array_equal(margin(booster, dtrain), booster.native.predict_raw(X)[:, 0])


# Cross-validation.


def test_cross_validation_returns_the_hosts_frame(rng):
    X, y = arrays(rng)
    dtrain = xgb.DMatrix(X, label=y)
    options = {"nfold": 3, "metrics": ["mlogloss", "merror"], "seed": 5, "stratified": True}
    ours, host = (module.cv(SOFT, dtrain, 4, **options) for module in (xgb, xgboost))
    assert list(ours.columns) == list(host.columns)
    assert ours.shape == host.shape
    assert not np.allclose(ours.to_numpy(), host.to_numpy(), atol=1e-4)  # other trees


def test_cross_validation_is_training_on_the_folds(rng):
    X, y = arrays(rng, 120)
    dtrain = xgb.DMatrix(X, label=y)
    rows = np.arange(120)
    folds = [(rows[rows % 3 != i], rows[rows % 3 == i]) for i in range(3)]
    found = xgb.cv(SOFT, dtrain, 3, folds=folds, metrics=["mlogloss"], as_pandas=False)
    wanted = []
    for inside, outside in folds:
        result = {}
        xgb.train(
            SOFT, dtrain.slice(inside), 3, evals=[(dtrain.slice(outside), "v")],
            evals_result=result, verbose_eval=False,
        )  # fmt: skip
        wanted.append(result["v"]["mlogloss"])
    assert found["test-mlogloss-mean"] == pytest.approx(np.mean(wanted, axis=0), rel=1e-6)


def test_cross_validation_stops_early_and_takes_custom_functions(rng):
    X, y = arrays(rng)
    dtrain = xgb.DMatrix(X, label=y)
    found = xgb.cv(
        {**SOFT, "eta": 1.0, "max_depth": 6}, dtrain, 40, early_stopping_rounds=2,
        obj=own_softmax("full"), custom_metric=lambda p, d: ("size", float(np.abs(p).max())),
        maximize=False,
    )  # fmt: skip
    assert 1 <= len(found) < 40
    assert "test-size-mean" in found


# Copies.


def test_copies_slices_and_pickles_stay_ours(sets):
    booster = xgb.train(SOFT, sets[0], 4)
    booster.set_attr(note="kept")
    whole = margin(booster, sets[1])
    copies = [copy.copy(booster), copy.deepcopy(booster), booster.copy()]
    copies += [pickle.loads(pickle.dumps(booster)), xgb.Booster(model_file=booster)]
    for other in copies:
        assert type(other) is xgb.Booster
        assert np.array_equal(margin(other, sets[1]), whole)
        assert other.attr("note") == "kept"
        assert np.array_equal(other.native.predict_raw(sets[1].get_data()), whole)
    part = booster[1:3]
    assert type(part) is xgb.Booster
    assert np.array_equal(margin(part, sets[1]), margin(booster, sets[1], iteration_range=(1, 3)))
    assert [b.num_boosted_rounds() for b in booster] == [1] * 4
    plain = xgboost.Booster(model_file=booster)
    assert set(pickle.loads(pickle.dumps(plain)).__dict__) <= {"handle", "_params"}


def test_attributes_and_names_survive_training(rng):
    X, y = arrays(rng)
    names = list("abcde")
    dtrain = xgb.DMatrix(X, label=y, feature_names=names)
    booster = xgb.Booster(SOFT, [dtrain])
    booster.set_attr(before="1")
    for i in range(2):
        booster.update(dtrain, i)
        booster.set_attr(during=str(i))
    assert booster.attributes() == {"before": "1", "during": "1"}
    assert booster.feature_names == names
    assert xgboost.Booster(model_file=booster.save_raw()).attributes() == booster.attributes()
    assert booster.native.features.names == tuple(names)


def test_dumps_are_valid_json_whatever_the_splits(rng):
    X, y = arrays(rng)
    X[:, 0] = np.where(y == 2, np.nan, 1.0)  # only "missing" tells something
    booster = xgb.train(SOFT, xgb.DMatrix(X, label=y), 2)
    dump = booster.get_dump(dump_format="json")

    def refuse(word):
        raise AssertionError(word)

    trees = [json.loads(tree, parse_constant=refuse) for tree in dump]
    assert trees[0]["split_condition"] > 1e38
    assert len(booster.get_dump()) == 2


# Bad input.


def test_labels_out_of_range(rng):
    X, y = arrays(rng)
    with pytest.raises(ValueError, match="class"):
        xgb.train({**SOFT, "num_class": 2}, xgb.DMatrix(X, label=y), 1)
    with pytest.raises(ValueError, match="whole numbers"):
        xgb.train(SOFT, xgb.DMatrix(X, label=y + 0.5), 1)
    with pytest.raises(ValueError, match="no labels"):
        xgb.train(SOFT, xgb.DMatrix(X), 1)


def test_evaluation_sets_must_have_the_features_of_training(rng):
    X, y = arrays(rng)
    dtrain = xgb.DMatrix(X, label=y)
    with pytest.raises(ValueError, match="4"):
        xgb.train(SOFT, dtrain, 1, evals=[(xgb.DMatrix(X[:, :4], label=y), "narrow")])
    named = xgb.DMatrix(X, label=y, feature_names=list("abcde"))
    other = xgb.DMatrix(X, label=y, feature_names=list("abcdx"))
    with pytest.raises(ValueError, match="feature_names mismatch"):
        xgb.train(SOFT, named, 1, evals=[(other, "other")])
    with pytest.raises(TypeError):
        xgb.train(SOFT, dtrain, 1, evals=[(X, "array")])


def test_base_margin_of_another_shape_is_refused(rng):
    X, y = arrays(rng)
    dtrain = xgb.DMatrix(X, label=y)
    dtrain.set_base_margin(np.zeros((len(X), 2)))
    with pytest.raises(ValueError, match="base_margin must have the shape"):
        xgb.train(SOFT, dtrain, 1)


def test_missing_num_class_is_the_hosts_error(rng):
    X, y = arrays(rng)
    with pytest.raises(xgboost.core.XGBoostError, match="num_class"):
        xgb.train({"objective": "multi:softprob"}, xgb.DMatrix(X, label=y), 1)


def test_arrays_are_refused(rng):
    with pytest.raises(TypeError):
        xgb.train(SOFT, arrays(rng)[0], 1)
