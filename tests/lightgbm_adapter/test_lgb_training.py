"""Training through LightGBM's interface is the engine's training."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import fields

import numpy as np
import pytest

lgb = pytest.importorskip("lightgbm")

from lgb_cases import SOFTMAX, classes, log_loss, odd_rows  # noqa: E402

import fullhess  # noqa: E402
import fullhess.lightgbm as ours  # noqa: E402
from fullhess import ParameterError  # noqa: E402


def dataset(X, y, **options):
    return lgb.Dataset(X, y, categorical_feature=[X.shape[1] - 1], **options)


def softmax(raw):
    return np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)


def test_a_model_is_the_engines_own_bit_for_bit(rng):
    X, y = classes(rng)
    weight = rng.random(len(X)).astype(np.float32) + 0.5
    booster = ours.train(SOFTMAX, dataset(X, y, weight=weight), 8)
    binned = ours.to_binned(dataset(X, y, params={"enable_bundle": False}))
    share = np.bincount(y, weight) / weight.sum(dtype=np.float64)
    settings = {
        "num_class": 3, "grow_policy": "lossguide", "max_depth": 0, "max_leaves": 7,
        "reg_lambda": 0.0, "min_samples_leaf": 20, "min_child_weight": 1e-3,
    }  # fmt: skip
    for name, default in (("max_cat_threshold", 32), ("cat_l2", 10.0)):
        if name in {item.name for item in fields(fullhess.Params)}:
            settings[name] = default
    trainer = fullhess.Trainer(settings, binned, y, weight=weight, base_score=np.log(share))
    for _ in range(8):
        trainer.step()
    rows = odd_rows(rng, X)
    expected = trainer.model().predict_raw(rows)
    assert np.array_equal(booster.predict(rows, raw_score=True), expected)
    assert np.array_equal(booster.native.predict_raw(rows), expected)
    assert np.array_equal(booster.predict(X, raw_score=True), trainer.raw)


def test_training_and_prediction_agree_on_every_row_bit_for_bit(rng):
    for options in ({}, {"zero_as_missing": True}, {"use_missing": False}, {"max_bin": 7}):
        X, y = classes(rng)
        X[rng.random(X.shape) < 0.05] = np.inf
        data = dataset(X, y)
        seen = []
        params = {**SOFTMAX, **options, "metric": "None"}
        booster = ours.train(
            params,
            data,
            5,
            valid_sets=[data],
            feval=lambda p, _, seen=seen: seen.append(p) or ("m", 0.0, True),
        )
        assert np.allclose(booster.predict(X), seen[-1], rtol=0, atol=1e-15)
        keep = ours.train(params, dataset(X, y), 5, keep_training_booster=True)
        assert np.array_equal(keep.predict(X, raw_score=True), keep._run.scores(0))


def test_the_same_bits_for_any_number_of_threads(rng):
    X, y = classes(rng, n=3000)
    params = {**SOFTMAX, "bagging_fraction": 0.7, "bagging_freq": 1, "feature_fraction": 0.8}
    texts = [
        ours.train({**params, "num_threads": n}, dataset(X, y), 5).native.predict_raw(X)
        for n in (1, 2)
    ]
    assert np.array_equal(*texts)
    other = ours.train({**params, "seed": 1}, dataset(X, y), 5).native.predict_raw(X)
    assert not np.array_equal(other, texts[0])


def test_sampling_by_gradients(rng):
    X, y = classes(rng)
    params = {**SOFTMAX, "learning_rate": 0.5, "data_sample_strategy": "goss"}
    plain = ours.train({**params, "data_sample_strategy": "bagging"}, dataset(X, y), 4)
    for chosen in (params, {**SOFTMAX, "learning_rate": 0.5, "boosting": "goss"}):
        goss = ours.train(chosen, dataset(X, y), 4)
        raw = [b.predict(X, raw_score=True, num_iteration=2) for b in (goss, plain)]
        assert np.array_equal(*raw)  # off in the first 1 / learning_rate rounds
        assert not np.array_equal(goss.predict(X), plain.predict(X))


def test_held_out_loss_is_in_the_hosts_region(rng):
    X, y = classes(rng, n=2000)
    params = {**SOFTMAX, "lambda_l2": 1.0}
    mine = ours.train(params, dataset(X[:1000], y[:1000]), 30).predict(X[1000:])
    theirs = lgb.train(params, dataset(X[:1000], y[:1000]), 30).predict(X[1000:])
    assert log_loss(mine, y[1000:]) < 1.1 * log_loss(theirs, y[1000:])


def test_callbacks_of_the_host_run_unchanged(rng, capsys):
    X, y = classes(rng, n=600)
    train = dataset(X[:400], y[:400])
    valid = train.create_valid(X[400:], y[400:])
    history: dict = {}
    rates = []
    booster = ours.train(
        {**SOFTMAX, "metric": ["multi_logloss", "multi_error"], "learning_rate": 0.9},
        train,
        60,
        valid_sets=[valid, train],
        valid_names=["held out", "own"],
        callbacks=[
            lgb.record_evaluation(history),
            lgb.log_evaluation(1),
            lgb.early_stopping(5, first_metric_only=True),
            lgb.reset_parameter(learning_rate=lambda i: 0.9 * 0.97**i),
            lambda env: rates.append(env.model.params["learning_rate"]),
        ],
    )
    assert set(history) == {"held out", "own"}
    curve = history["held out"]["multi_logloss"]
    assert booster.best_iteration == int(np.argmin(curve)) + 1 < len(curve) < 60
    assert booster.best_score["held out"]["multi_logloss"] == min(curve)
    assert booster.num_trees() == 3 * booster.best_iteration
    assert np.allclose(rates, 0.9 * 0.97 ** np.arange(len(rates)))
    assert "held out's multi_logloss" in capsys.readouterr().out
    own = history["own"]["multi_logloss"]
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(own))
    p = booster.predict(X[400:])
    assert log_loss(p, y[400:]) == pytest.approx(min(curve), abs=1e-12)


def test_early_stopping_from_parameters(rng):
    X, y = classes(rng, n=600)
    train = dataset(X[:400], y[:400])
    valid = dataset(X[400:], y[400:], reference=train)
    booster = ours.train({**SOFTMAX, "early_stopping_rounds": 3, "eta": 0.9}, train, 90, [valid])
    assert 0 < booster.best_iteration < 80


def test_weights_zero_and_copies_are_the_same_thing(rng):
    X, y = classes(rng)
    weight = rng.integers(1, 3, len(X))
    params = {**SOFTMAX, "min_data_in_leaf": 1, "max_bin": 15, "lambda_l2": 1.0}
    reference = dataset(X, y, params={"enable_bundle": False, "max_bin": 15})
    copies = np.repeat(np.arange(len(X)), weight)
    heavy = dataset(X, y, weight=weight, reference=reference)
    long = dataset(X[copies], y[copies], reference=reference)
    mine = ours.train(params, heavy, 3).predict(X)
    assert np.allclose(mine, ours.train(params, long, 3).predict(X), atol=1e-4)


def test_init_score_takes_the_place_of_the_intercept(rng):
    X, y = classes(rng)
    start = rng.normal(size=(len(X), 3))
    flat = start.ravel(order="F")
    models = [
        ours.train(SOFTMAX, dataset(X, y, init_score=score), 3, keep_training_booster=True)
        for score in (start, flat)
    ]
    raw = [model.predict(X, raw_score=True) for model in models]
    assert np.array_equal(*raw)
    assert np.allclose(models[0]._run.scores(0), start + raw[0])
    plain = ours.train({**SOFTMAX, "boost_from_average": False}, dataset(X, y), 1)
    zeros = ours.train(SOFTMAX, dataset(X, y, init_score=np.zeros((len(X), 3))), 1)
    assert np.array_equal(plain.predict(X), zeros.predict(X))


def test_validation_scores_follow_init_score_and_intercept(rng):
    X, y = classes(rng, n=500)
    start = rng.normal(size=(100, 3))
    train = dataset(X[:400], y[:400])
    valid = train.create_valid(X[400:], y[400:], init_score=start)
    history: dict = {}
    booster = ours.train(SOFTMAX, train, 3, [valid], callbacks=[lgb.record_evaluation(history)])
    raw = booster.predict(X[400:], raw_score=True) + start
    expected = log_loss(softmax(raw), y[400:])
    assert history["valid_0"]["multi_logloss"][-1] == pytest.approx(expected, abs=1e-12)


def soft_objective(shape):
    """Softmax as a function of one's own, with its Hessian in the given form."""
    calls = []

    def objective(raw, data):
        calls.append(raw.shape)
        y = data.get_label().astype(int)
        p = softmax(raw)
        weight = data.get_weight()
        weight = np.ones(len(y)) if weight is None else weight.astype(float)
        g = (p - np.eye(3)[y]) * weight[:, None]
        full = (p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None, :]) * weight[:, None, None]
        if shape == "full":
            return g, full
        if shape == "packed":
            return g, full[:, *np.triu_indices(3)]
        diagonal = full[:, range(3), range(3)]
        if shape == "flat":
            return g.ravel(order="F"), diagonal.ravel(order="F")
        return g, diagonal

    return objective, calls


@pytest.mark.parametrize("weighted", [False, True])
def test_functions_as_objectives(rng, weighted):
    X, y = classes(rng)
    weight = rng.random(len(X)) + 0.5 if weighted else None
    predicted = {}
    params = {**SOFTMAX, "lambda_l2": 1.0, "leaf_solver": "newton", "split_gain": "quadratic"}
    for shape in ("full", "packed", "diagonal", "flat"):
        objective, calls = soft_objective(shape)
        booster = ours.train({**params, "objective": objective}, dataset(X, y, weight=weight), 4)
        assert calls == [(len(X), 3)] * 4  # once a round, as by the host
        predicted[shape] = booster.predict(X)  # raw scores, as from the host
    assert np.array_equal(predicted["full"], predicted["packed"])
    assert np.array_equal(predicted["diagonal"], predicted["flat"])
    assert not np.allclose(predicted["full"], predicted["diagonal"])
    built_in = ours.train(
        {**params, "boost_from_average": False}, dataset(X, y, weight=weight), 4
    ).predict(X, raw_score=True)
    assert np.allclose(predicted["full"], built_in, atol=1e-3)


def test_functions_with_metrics_and_validation(rng):
    X, y = classes(rng, n=500)
    train = dataset(X[:400], y[:400])
    valid = train.create_valid(X[400:], y[400:])
    seen = []

    def metric(raw, data):
        seen.append(raw)
        return [
            ("loss", log_loss(softmax(raw), data.get_label().astype(int)), False),
            ("x", 1.0, True),
        ]

    history: dict = {}
    booster = ours.train(
        {**SOFTMAX, "objective": soft_objective("full")[0], "metric": "multi_error", "lambda": 1},
        train, 5, [valid], feval=[metric, None], callbacks=[lgb.record_evaluation(history)],
    )  # fmt: skip
    assert list(history["valid_0"]) == ["multi_error", "loss", "x"]
    assert np.array_equal(seen[-1], booster.predict(X[400:]))
    assert history["valid_0"]["loss"][-1] < history["valid_0"]["loss"][0]
    assert "objective=" not in booster.model_to_string().split("\n\n")[0]


def test_bad_functions_are_refused(rng):
    X, y = classes(rng)
    for result in (None, (1, 2, 3), (np.zeros((400, 2)), np.zeros((400, 3)))):
        with pytest.raises((TypeError, ValueError), match=r"gradient|return"):
            ours.train(
                {**SOFTMAX, "objective": lambda raw, data, result=result: result}, dataset(X, y), 1
            )


@pytest.mark.parametrize("kind", ["booster", "file", "host booster", "host loop"])
def test_training_goes_on(rng, kind, tmp_path):
    X, y = classes(rng)
    first = ours.train(SOFTMAX, dataset(X, y), 3)
    init = first
    if kind == "file":
        first.save_model(tmp_path / "model.txt")
        init = str(tmp_path / "model.txt")
    elif kind == "host booster":
        first = init = lgb.train(SOFTMAX, dataset(X, y), 3)
    trainer = lgb.train if kind == "host loop" else ours.train
    data = dataset(X, y, free_raw_data=False)
    valid = dataset(X, y, reference=data)
    history: dict = {}
    both = trainer(
        SOFTMAX, data, 4, [valid], init_model=init, callbacks=[lgb.record_evaluation(history)]
    )
    rows = odd_rows(rng, X)
    assert both.current_iteration() == 7 and both.num_trees() == 21
    start = both.predict(rows, raw_score=True, num_iteration=3)
    assert np.array_equal(start, first.predict(rows, raw_score=True))
    assert history["valid_0"]["multi_logloss"][-1] == pytest.approx(
        log_loss(both.predict(X), y), abs=1e-9
    )
    native = ours.Booster(model_str=both.model_to_string()).native
    assert np.array_equal(native.predict_raw(rows), both.predict(rows, raw_score=True))
    assert native.n_rounds == 7


def test_a_continued_model_can_be_used_from_the_beginning(rng):
    X, y = classes(rng)
    first = ours.train(SOFTMAX, dataset(X, y), 2)
    seen = []

    def look(env):
        seen.append((env.model.current_iteration(), env.model.predict(X)))

    look.before_iteration = True
    ours.train(SOFTMAX, dataset(X, y), 2, init_model=first, callbacks=[look])
    assert [count for count, _ in seen] == [2, 3]
    assert np.array_equal(seen[0][1], first.predict(X))
    result = ours.cv(SOFTMAX, lgb.Dataset(X, y, free_raw_data=False), 2, init_model=first, nfold=2)
    assert result["valid multi_logloss-mean"][0] < log_loss(first.predict(X), y) + 0.1


def test_continuing_is_the_same_as_not_stopping(rng):
    X, y = classes(rng)
    once = ours.train({**SOFTMAX, "seed": 3}, dataset(X, y), 6).predict(X, raw_score=True)
    first = ours.train({**SOFTMAX, "seed": 3}, dataset(X, y), 3)
    then = ours.train({**SOFTMAX, "seed": 3}, dataset(X, y), 3, init_model=first)
    assert np.array_equal(then.predict(X, raw_score=True), once)


def test_a_booster_in_training_can_be_used(rng):
    X, y = classes(rng)
    data = dataset(X, y)
    booster = ours.train(SOFTMAX, data, 3, keep_training_booster=True)
    before = booster.predict(X)
    assert booster.current_iteration() == 3 and booster.num_trees() == 9
    assert booster.update() is False and booster.current_iteration() == 4
    after = booster.predict(X)
    assert log_loss(after, y) < log_loss(before, y)
    (result,) = booster.eval_train()
    assert tuple(result)[:2] == ("training", "multi_logloss")
    assert tuple(result)[2] == pytest.approx(log_loss(after, y), abs=1e-12)
    valid = data.create_valid(X[:50], y[:50])
    (result,) = booster.eval(valid, "new")
    assert tuple(result)[2] == pytest.approx(log_loss(after[:50], y[:50]), abs=1e-12)
    assert len(booster.eval_valid()) == 1 and len(booster.eval(data, "t")) == 1
    booster.reset_parameter({"eta": 1e-9})
    booster.update()
    assert np.allclose(booster.predict(X), after, atol=1e-6)
    with pytest.raises(NotImplementedError, match="training"):
        booster.shuffle_models()
    with pytest.raises(ValueError, match="init_model"):
        booster.update(train_set=dataset(X, y))
    with pytest.raises(ParameterError, match="num_class"):
        booster.reset_parameter({"num_class": 4})
    booster.free_dataset()
    assert booster.num_trees() == 15 and np.allclose(booster.predict(X), after, atol=1e-6)


def test_a_booster_of_ones_own_loop(rng):
    X, y = classes(rng)
    booster = ours.Booster(SOFTMAX, dataset(X, y))
    assert booster.num_trees() == booster.native.n_rounds == 0
    assert np.allclose(booster.predict(X), 1 / 3)  # as the host before its first round
    for _ in range(3):
        booster.update()
    assert np.array_equal(booster.predict(X), ours.train(SOFTMAX, dataset(X, y), 3).predict(X))


def test_rounds_cost_the_same_however_many_there_are(rng):
    """No walk through earlier trees: the host's model is not made while training goes on."""
    X, y = classes(rng)
    data = dataset(X, y)
    booster = ours.Booster(SOFTMAX, data)
    booster.add_valid(data.create_valid(X, y), "v")
    for _ in range(4):
        booster.update()
        booster.eval_valid()
        booster.current_iteration()
        assert booster.__dict__["_handle"] is None


def test_cross_validation(rng):
    X, y = classes(rng)
    result = ours.cv(
        {**SOFTMAX, "hessian": "full"}, dataset(X, y), 6, nfold=3, metrics="multi_error",
        eval_train_metric=True, return_cvbooster=True,
        callbacks=[lgb.early_stopping(4, verbose=False)],
    )  # fmt: skip
    boosters = result.pop("cvbooster")
    assert set(result) == {
        f"{part} multi_error-{what}" for part in ("train", "valid") for what in ("mean", "stdv")
    }
    assert isinstance(boosters, ours.CVBooster) and len(boosters.boosters) == 3
    assert np.shape(boosters.predict(X)) == (3, len(X), 3)
    again = ours.CVBooster().model_from_string(boosters.model_to_string())
    assert all(isinstance(b, ours.Booster) for b in again.boosters)
    assert np.array_equal(again.predict(X), boosters.predict(X))
    folds = [(np.arange(300), np.arange(300, 400))]
    alone = ours.cv(SOFTMAX, lgb.Dataset(X, y), 4, folds=folds, stratified=False)
    train = lgb.Dataset(X, y, free_raw_data=False)
    history: dict = {}
    ours.train(
        SOFTMAX, train.subset(range(300)), 4, [train.subset(range(300, 400))],
        callbacks=[lgb.record_evaluation(history)],
    )  # fmt: skip
    assert alone["valid multi_logloss-mean"] == history["valid_0"]["multi_logloss"]


def test_scalar_objectives_are_the_hosts(rng):
    X, y = classes(rng)
    for params in (
        {"objective": "binary", "metric": "auc"},
        {"objective": "regression"},
        {"objective": "multiclassova", "num_class": 3},
    ):
        label = (y > 0).astype(int) if params["objective"] == "binary" else y
        quiet = {**params, "verbose": -1}
        mine = ours.train(quiet, dataset(X, label), 5)
        assert isinstance(mine, ours.Booster)
        theirs = lgb.train(quiet, dataset(X, label), 5)
        assert mine.model_to_string() == theirs.model_to_string()


def test_constraints(rng):
    X, y = classes(rng)
    mono = ours.train({**SOFTMAX, "monotone_constraints": [1, 0, 0, 0, 0]}, dataset(X, y), 8)
    grid = np.repeat(X[:40], 20, axis=0)
    grid[:, 0] = np.tile(np.linspace(-3, 3, 20), 40)
    scores = mono.predict(grid, raw_score=True).reshape(40, 20, 3)
    assert (np.diff(scores, axis=1) >= -1e-12).all()
    groups = ours.train({**SOFTMAX, "interaction_constraints": [[0, 1], [1, 2]]}, dataset(X, y), 8)
    assert (groups.feature_importance()[3:] == 0).all()  # in no group: not used, as in LightGBM
    assert (groups.feature_importance()[:3] > 0).any()
    frame = groups.trees_to_dataframe()
    for tree in groups.native.trees:
        for path in _paths(tree):
            assert path <= {0, 1} or path <= {1, 2}
    assert len(frame)


def _paths(tree, node=0, path=frozenset()):
    if tree.feature[node] < 0:
        return [path]
    longer = path | {int(tree.feature[node])}
    return _paths(tree, tree.left[node], longer) + _paths(tree, tree.right[node], longer)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (lambda y: np.where(y == 2, 3, y), r"\[0, 3\)"),
        (lambda y: y - 1, r"\[0, 3\)"),
        (lambda y: y + 0.5, "whole|integer"),
    ],
)
def test_bad_labels_are_refused(rng, label, message):
    X, y = classes(rng)
    with pytest.raises(ValueError, match=message):
        ours.train(SOFTMAX, dataset(X, label(y)), 2)
    data = dataset(X, y)
    with pytest.raises(ValueError, match=message):
        ours.train(SOFTMAX, data, 2, [data.create_valid(X, label(y))])


def test_labels_that_are_missing_are_refused(rng):
    X, y = classes(rng)
    bad = y.astype(float)
    bad[3] = np.nan
    with pytest.raises((ValueError, lgb.basic.LightGBMError), match=r"NaN|finite"):
        ours.train(SOFTMAX, dataset(X, bad), 2)


def test_validation_data_must_fit(rng):
    X, y = classes(rng)
    train = dataset(X, y).construct()
    alien = lgb.Dataset(X[:, :4], y).construct()
    with pytest.raises((ValueError, lgb.basic.LightGBMError)):
        ours.train(SOFTMAX, train, 2, [alien])
    booster = ours.Booster(SOFTMAX, dataset(X, y))
    with pytest.raises(ValueError, match="4 features"):
        booster.add_valid(lgb.Dataset(X[:, :4], y), "narrow")
    with pytest.raises(ValueError, match="reference"):
        booster.add_valid(lgb.Dataset(X[:100] * 2, y[:100]), "other")
    for data in (X, None):
        with pytest.raises(TypeError, match="Dataset"):
            ours.train(SOFTMAX, data, 2)


def test_bundled_data_are_not_trained_on(rng):
    n = 3000
    X = np.zeros((n, 9))
    X[np.arange(n), rng.integers(0, 9, n)] = 1.0
    X[rng.random(n) < 0.001, 2] = 1.0
    y = X[:, :3].argmax(axis=1)
    fresh = ours.train({**SOFTMAX, "enable_bundle": True}, lgb.Dataset(X, y), 2)
    assert fresh.num_trees() == 6
    kept = lgb.Dataset(X, y, free_raw_data=False).construct()
    assert np.array_equal(ours.train(SOFTMAX, kept, 2).predict(X), fresh.predict(X))
    freed = lgb.Dataset(X, y, params={"verbose": -1}).construct()
    with pytest.raises(ValueError, match="enable_bundle"):
        ours.train(SOFTMAX, freed, 2)


def test_a_model_to_continue_must_fit(rng):
    X, y = classes(rng)
    binary = lgb.train({"objective": "binary", "verbose": -1}, dataset(X, y > 0), 2)
    with pytest.raises((ValueError, lgb.basic.LightGBMError), match=r"num_class|init"):
        ours.train(SOFTMAX, dataset(X, y), 2, init_model=binary)
    with pytest.raises(TypeError, match="init_model"):
        ours.train(SOFTMAX, dataset(X, y), 2, init_model=ours.LGBMClassifier())


def test_an_absent_class_and_a_constant_column_are_no_trouble(rng):
    X, y = classes(rng)
    y[y == 1] = 0
    booster = ours.train(SOFTMAX, dataset(X, y), 3)
    theirs = lgb.train(SOFTMAX, dataset(X, y), 3)
    assert booster.predict(X)[:, 1].max() < 1e-6
    assert theirs.predict(X)[:, 1].max() < 1e-6


def test_no_unknown_parameter_reaches_the_host(rng, capfd):
    X, y = classes(rng)
    params = {**SOFTMAX, "hessian": "full", "leaf_prior": "path", "boosting_type": "gbdt"}
    params["verbose"] = 1
    first = ours.train(params, dataset(X, y), 2)
    ours.train(params, dataset(X, y), 2, init_model=first)
    ours.cv(params, dataset(X, y), 2, nfold=2)
    ours.LGBMClassifier(n_estimators=2, hessian="full", verbose=1).fit(X, y).predict(X)
    out = capfd.readouterr()
    assert "nknown parameter" not in out.out + out.err
    assert "nrecognized parameter" not in out.out + out.err


def test_silence_lasts(rng, capfd):
    X, y = classes(rng)
    data = lgb.Dataset(X, y).construct()  # speaks, by default
    valid = data.create_valid(X, y).construct()
    capfd.readouterr()
    ours.train(SOFTMAX, data, 2, [valid], init_model=None)
    assert capfd.readouterr() == ("", "")


def test_no_warning_of_ours(rng):
    X, y = classes(rng, n=500)
    train = lgb.Dataset(X[:400], y[:400])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours.train(SOFTMAX, train, 2, [train.create_valid(X[400:], y[400:]), lgb.Dataset(X, y)])


def test_rounds_can_be_taken_back(rng):
    X, y = classes(rng)
    data = dataset(X, y)
    booster = ours.Booster(SOFTMAX, data)
    booster.add_valid(data.create_valid(X[:90], y[:90]), "v")
    seen = []
    for _ in range(4):
        booster.update()
        seen.append(
            (booster.predict(X, raw_score=True), booster.eval_train(), booster.eval_valid())
        )
    booster.rollback_one_iter().rollback_one_iter()
    assert booster.num_trees() == 6
    assert np.array_equal(booster.predict(X, raw_score=True), seen[1][0])
    assert (booster.eval_train(), booster.eval_valid()) == seen[1][1:]
    booster.update()
    assert np.array_equal(booster.predict(X, raw_score=True), seen[2][0])
    assert booster.eval_valid() == seen[2][2]
    fresh = ours.Booster(SOFTMAX, dataset(X, y))
    with pytest.raises(ValueError, match="no round"):
        fresh.rollback_one_iter()


@pytest.mark.parametrize("objective", ["multiclass", soft_objective("full")[0]])
def test_data_without_anything_to_split_give_the_constant_model(rng, objective):
    X, y = np.ones((60, 2)), rng.integers(0, 3, 60)
    train = lgb.Dataset(X, y)
    valid = lgb.Dataset(X[:9], y[:9], reference=train)
    history: dict = {}
    params = {**SOFTMAX, "objective": objective, "metric": "multi_logloss"}
    booster = ours.train(params, train, 3, [valid], callbacks=[lgb.record_evaluation(history)])
    share = np.bincount(y) / 60 if objective == "multiclass" else np.ones(3) / 3
    p = softmax(booster.predict(X, raw_score=True))
    assert np.allclose(p, share)
    assert len(history["valid_0"]["multi_logloss"]) == 3
    if objective == "multiclass":
        theirs = lgb.train(SOFTMAX, lgb.Dataset(X, y), 3)
        assert np.allclose(theirs.predict(X), booster.predict(X))
    assert np.array_equal(booster.native.predict_raw(X), booster.predict(X, raw_score=True))


def test_metrics_of_classes_need_classes(rng):
    X, _ = classes(rng)
    target = rng.normal(size=len(X))

    def squares(raw, data):
        return raw - data.get_label()[:, None], np.ones_like(raw)

    params = {**SOFTMAX, "objective": squares}
    assert ours.train(params, dataset(X, target), 2).num_trees() == 6
    with pytest.raises(ValueError, match="labels"):
        ours.train({**params, "metric": "multi_error"}, dataset(X, target), 2)


def test_names_of_features_may_be_of_any_language(rng):
    X, y = classes(rng)
    names = ["größe", "名前", "a b", "c-d", "e"]
    booster = ours.train(SOFTMAX, lgb.Dataset(X, y, feature_name=names), 2)
    assert booster.feature_name() == ["größe", "名前", "a_b", "c-d", "e"]
    assert booster.native.features.names == tuple(booster.feature_name())


def test_data_for_linear_trees_are_refused(rng):
    X, y = classes(rng)
    with pytest.raises(ValueError, match="linear"):
        ours.train(SOFTMAX, lgb.Dataset(X, y, params={"linear_tree": True}), 2)


def test_files_of_binned_data(rng, tmp_path):
    X, y = classes(rng)
    direct = ours.train(SOFTMAX, dataset(X, y), 2).predict(X)
    dataset(X, y).save_binary(tmp_path / "train.bin")
    stored = lgb.Dataset(str(tmp_path / "train.bin"))
    assert np.array_equal(ours.train(SOFTMAX, stored, 2).predict(X), direct)


def test_data_changed_during_a_run_are_noticed(rng):
    X, y = classes(rng)
    data = dataset(X, y)
    booster = ours.Booster(SOFTMAX, data)
    booster.update()
    data.set_label(y[::-1])
    with pytest.raises(ValueError, match="replaced"):
        booster.update()


def test_parameters_of_every_kind_survive_in_the_text(rng):
    X, y = classes(rng)
    params = {
        **SOFTMAX, "monotone_constraints": [1, 0, 0, 0, 0], "metric": ["multi_error", "auc_mu"],
        "interaction_constraints": [[0, 1], [1, 2]], "categorical_column": [4], "max_bin": 31,
        "auc_mu_weights": [0, 1, 2, 3, 0, 4, 5, 6, 0], "deterministic": True, "eta": 0.25,
        "min_split_gain": 1e-7, "zero_as_missing": True, "random_state": None,
    }  # fmt: skip
    booster = ours.train(params, lgb.Dataset(X, y), 2)
    loaded = ours.Booster(model_str=booster.model_to_string())
    assert loaded.params["max_bin"] == 31 and loaded.params["learning_rate"] == 0.25
    assert loaded.params["monotone_constraints"] == [1, 0, 0, 0, 0]
    assert loaded.params["zero_as_missing"] in (True, 1)
    assert loaded.params["min_gain_to_split"] == 1e-7
    for model in (booster, loaded):
        assert np.allclose(model.refit(X, y, decay_rate=1.0).predict(X), booster.predict(X))


def test_weights_without_any_weight_are_refused(rng):
    X, y = classes(rng)
    with pytest.raises(ValueError, match="weights"):
        ours.train(SOFTMAX, dataset(X, y, weight=np.zeros(len(X))), 2)
