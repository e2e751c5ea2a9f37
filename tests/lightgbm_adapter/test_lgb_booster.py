"""Everything a Booster can do works on a model of vector trees."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

lgb = pytest.importorskip("lightgbm")

import pandas as pd  # noqa: E402
import scipy.sparse as sp  # noqa: E402
from lgb_cases import SOFTMAX, classes, log_loss, odd_rows  # noqa: E402

import fullhess.lightgbm as ours  # noqa: E402

ROUNDS = 6


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(4)
    X, y = classes(rng)
    data = lgb.Dataset(X, y, categorical_feature=[4], feature_name=list("abcde"))
    booster = ours.train({**SOFTMAX, "hessian": "full", "lambda_l2": 0.5}, data, ROUNDS)
    return booster, X, y, odd_rows(rng, X)


def predict_kinds(case):
    booster, _, _, rows = case
    raw = booster.predict(rows, raw_score=True)
    assert np.array_equal(raw, booster.native.predict_raw(rows))
    assert np.allclose(booster.predict(rows), booster.native.predict(rows), rtol=0, atol=1e-15)
    frame = pd.DataFrame(rows, columns=list("abcde"))
    assert np.array_equal(booster.predict(frame, raw_score=True), raw)
    assert np.array_equal(booster.predict(sp.csr_matrix(rows), raw_score=True), raw)
    assert np.array_equal(booster.predict(sp.csc_matrix(rows), raw_score=True), raw)
    part = booster.predict(rows, raw_score=True, start_iteration=1, num_iteration=3)
    native = booster.native
    expected = native.predict_raw(rows, rounds=slice(1, 4))
    assert np.array_equal(part, expected)
    early = booster.predict(rows, raw_score=True, pred_early_stop=True, pred_early_stop_margin=1e9)
    assert np.array_equal(early, raw)


def arrow(case):
    pa = pytest.importorskip("pyarrow")
    if lgb.__version__ < "4.7":
        pytest.importorskip("cffi")
    booster, _, _, rows = case
    table = pa.table({name: rows[:, j] for j, name in enumerate("abcde")})
    assert np.array_equal(booster.predict(table), booster.predict(rows))


def leaves(case):
    booster, _, _, rows = case
    found = booster.predict(rows, pred_leaf=True).reshape(len(rows), ROUNDS, 3)
    assert np.array_equal(found[:, :, 0], booster.native.apply(rows))
    assert (found == found[:, :, :1]).all()


def contributions(case):
    booster, X, _, _ = case
    contrib = booster.predict(X, pred_contrib=True).reshape(len(X), 3, 6)
    assert np.allclose(contrib.sum(axis=2), booster.predict(X, raw_score=True), atol=1e-12)
    mean = np.mean(booster.predict(X, raw_score=True), axis=0)
    assert np.allclose(contrib[0, :, -1], mean, atol=1e-9)  # counts are those of the training data


def importances(case):
    booster = case[0]
    trees = booster.native.trees
    splits = np.bincount(np.concatenate([t.feature[t.feature >= 0] for t in trees]), minlength=5)
    assert np.array_equal(booster.feature_importance(), splits)  # a vector split counts once
    gains = sum(np.bincount(t.feature[t.feature >= 0], t.gain[t.feature >= 0], 5) for t in trees)
    assert np.allclose(booster.feature_importance("gain"), gains, rtol=1e-5)
    assert booster.feature_name() == list("abcde")


def dumps(case):
    booster, X, _, _ = case
    dump = booster.dump_model()
    assert len(dump["tree_info"]) == 3 * ROUNDS and dump["num_class"] == 3
    json.dumps(dump)
    frame = booster.trees_to_dataframe()
    assert frame["tree_index"].nunique() == 3 * ROUNDS
    roots = frame[frame["node_depth"] == 1]
    assert (roots["count"] == len(X)).all()
    histogram, edges = booster.get_split_value_histogram("a")
    assert histogram.sum() > 0 and len(edges) == len(histogram) + 1


def plots(case):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    booster = case[0]
    assert ours.plot_importance(booster) is not None
    assert ours.plot_split_value_histogram(booster, "a") is not None
    pytest.importorskip("graphviz")
    assert "leaf" in ours.create_tree_digraph(booster, 0).source


def copies(case):
    booster, _, _, rows = case
    raw = booster.predict(rows, raw_score=True)
    text = booster.model_to_string()
    for twin in (
        copy.deepcopy(booster),
        copy.copy(booster),
        pickle.loads(pickle.dumps(booster)),
        ours.Booster(model_str=text),
    ):
        assert type(twin) is ours.Booster
        assert np.array_equal(twin.predict(rows, raw_score=True), raw)
        assert np.array_equal(twin.native.predict_raw(rows), raw)
        assert twin.native.n_rounds == ROUNDS and len(twin.native.trees) == ROUNDS
    assert pickle.loads(pickle.dumps(booster)).params["hessian"] == "full"
    plain = lgb.Booster(model_str=text)
    assert np.array_equal(plain.predict(rows, raw_score=True), raw)
    assert plain.params.get("num_class", 3) == 3


def files(case, tmp_path):
    booster, _, _, rows = case
    booster.save_model(tmp_path / "m.txt")
    again = ours.Booster(model_file=str(tmp_path / "m.txt"))
    assert np.array_equal(again.predict(rows), booster.predict(rows))
    text = (tmp_path / "m.txt").read_text()
    assert "[lambda_l2: 0.5]" in text and "hessian" not in text.split("parameters:")[1]
    short = ours.Booster(model_str=booster.model_to_string(num_iteration=2))
    expected = booster.predict(rows, num_iteration=2)
    assert np.array_equal(short.predict(rows), expected)


def single_leaves(case):
    booster, _, _, rows = case
    tree = booster.native.trees[0]
    for k in range(3):
        for leaf in range(tree.n_leaves):
            assert booster.get_leaf_output(k, leaf) == tree.values[leaf, k]
    values = [t.values for t in booster.native.trees]
    assert booster.upper_bound() == pytest.approx(sum(v.max(axis=0).sum() for v in values))
    assert booster.lower_bound() == pytest.approx(sum(v.min(axis=0).sum() for v in values))
    twin = copy.deepcopy(booster)
    before = twin.native.trees[0].values[0, 0]
    twin.set_leaf_output(0, 0, before + 1.0)
    assert twin.native.trees[0].values[0, 0] == before + 1.0
    shuffled = copy.deepcopy(booster).shuffle_models()
    assert np.allclose(shuffled.predict(rows), booster.predict(rows))


def refitting(case):
    booster, X, y, rows = case
    same = booster.refit(X, y, decay_rate=1.0)
    assert isinstance(same, ours.Booster)
    assert np.allclose(same.predict(rows), booster.predict(rows), atol=1e-12)
    other = np.roll(y, 7)
    moved = booster.refit(X, other, decay_rate=0.5)
    assert log_loss(moved.predict(X), other) < log_loss(booster.predict(X), other)
    loaded = ours.Booster(model_str=booster.model_to_string()).refit(X, y, decay_rate=1.0)
    assert np.allclose(loaded.predict(rows), booster.predict(rows), atol=1e-12)


def wrapping(case):
    """A fitted estimator around the model, as LightGBM's users build one."""
    booster, X, y, _ = case
    data = (X, np.array(["x", "y", "z"])[y])
    estimator = ours.LGBMClassifier(n_estimators=2, verbose=-1).fit(*data, init_model=booster)
    assert estimator.booster_.current_iteration() == ROUNDS + 2
    host = lgb.LGBMClassifier(n_estimators=2, verbose=-1).fit(*data, init_model=booster)
    assert host.booster_.current_iteration() == ROUNDS + 2


def shap_values(case):
    shap = pytest.importorskip("shap")
    booster, X, _, _ = case
    values = np.asarray(shap.TreeExplainer(booster).shap_values(X[:20]))
    contrib = booster.predict(X[:20], pred_contrib=True).reshape(20, 3, 6)[:, :, :5]
    assert np.allclose(np.sort(values.ravel()), np.sort(contrib.ravel()), atol=1e-9)


def treelite_model(case):
    treelite = pytest.importorskip("treelite")
    booster, X, _, _ = case
    model = treelite.frontend.from_lightgbm(booster)
    raw = treelite.gtil.predict(model, X, pred_margin=True)
    assert np.array_equal(np.asarray(raw).reshape(len(X), 3), booster.predict(X, raw_score=True))


FEATURES = [
    predict_kinds, arrow, leaves, contributions, importances, dumps, plots, copies, single_leaves,
    refitting, wrapping, shap_values, treelite_model,
]  # fmt: skip


@pytest.mark.parametrize("check", FEATURES, ids=lambda check: check.__name__)
def test_feature_of_the_host(case, check):
    check(case)


def test_files(case, tmp_path):
    files(case, tmp_path)


def test_a_booster_in_training_can_be_copied_and_pickled(case):
    _, X, y, rows = case
    data = lgb.Dataset(X, y, categorical_feature=[4])
    booster = ours.train(SOFTMAX, data, 2, keep_training_booster=True)
    raw = booster.predict(rows, raw_score=True)
    for twin in (copy.deepcopy(booster), pickle.loads(pickle.dumps(booster))):
        assert np.array_equal(twin.predict(rows, raw_score=True), raw)
        with pytest.raises((AttributeError, lgb.basic.LightGBMError)):
            twin.update()
    booster.update()
    assert booster.native.n_rounds == 3  # the original goes on
    assert not np.array_equal(booster.predict(rows, raw_score=True), raw)


def test_categories_of_pandas_are_kept(rng):
    n = 300
    frame = pd.DataFrame(
        {"c": pd.Categorical(rng.choice(list("pqrs"), n)), "x": rng.normal(size=n)}
    )
    y = frame["c"].cat.codes.to_numpy() % 3
    booster = ours.train(SOFTMAX, lgb.Dataset(frame, y), 5)
    p = booster.predict(frame)
    assert (p.argmax(axis=1) == y).mean() > 0.9
    other = frame.copy()
    other["c"] = other["c"].cat.reorder_categories(list("srqp"))
    for twin in (booster, pickle.loads(pickle.dumps(booster)), copy.deepcopy(booster)):
        assert np.array_equal(twin.predict(other), p)
    codes = np.column_stack([frame["c"].cat.codes, frame["x"]])
    assert np.allclose(booster.native.predict(codes), p, atol=1e-15)


def test_a_finished_booster_answers_as_the_hosts_do(case):
    booster, X, y, _ = case
    theirs = lgb.train(SOFTMAX, lgb.Dataset(X, y), 1)
    for name, arguments in (("eval_train", ()), ("update", ())):
        with pytest.raises(Exception) as mine:
            getattr(booster, name)(*arguments)
        with pytest.raises(Exception) as host:
            getattr(theirs, name)(*arguments)
        assert type(mine.value) is type(host.value)
