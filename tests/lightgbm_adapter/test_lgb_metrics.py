"""Metrics have the host's names and values."""

from __future__ import annotations

import numpy as np
import pytest

lgb = pytest.importorskip("lightgbm")

from fullhess_lightgbm.metrics import choose_metrics, probabilities  # noqa: E402
from fullhess_lightgbm.params import Settings  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from fullhess import ParameterError  # noqa: E402


def host_values(raw, y, weight, params):
    """What the host says of these scores: they are the init_score of data to validate."""
    n, k = raw.shape
    X = np.zeros((n, 1))
    quiet = {"verbose": -1, "min_data_in_leaf": 1, "min_data_in_bin": 1}
    X[: n // 2] = 1.0
    train = lgb.Dataset(X, y, init_score=np.zeros((n, k)), params={**quiet})
    valid = lgb.Dataset(X, y, weight=weight, init_score=raw, reference=train, params={**quiet})
    found = {}
    lgb.train(
        {**quiet, **params, "learning_rate": 1e-300, "objective": "multiclass", "num_class": k},
        train,
        1,
        valid_sets=[valid],
        callbacks=[lgb.record_evaluation(found)],
    )
    return {name: values[0] for name, values in found["valid_0"].items()}


@given(
    st.integers(0, 10**9),
    st.sampled_from([2, 3, 5]),
    st.booleans(),
    st.sampled_from([1, 2]),
    st.booleans(),
)
@settings(max_examples=30)
def test_values_equal_the_hosts(seed, k, weighted, top_k, costly):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(k + 1, 80))
    raw = rng.choice([rng.normal(size=(n, k)), rng.integers(-2, 3, (n, k)) * 20.0])
    y = rng.integers(0, k, n)
    y[:k] = np.arange(k)
    weight = rng.random(n).astype(np.float32) + 0.1 if weighted else None
    params = {"metric": ["multi_logloss", "multi_error", "auc_mu"], "multi_error_top_k": top_k}
    if costly:
        params["auc_mu_weights"] = (rng.integers(1, 5, (k, k)) * (1 - np.eye(k))).ravel().tolist()
    expected = host_values(raw, y, weight, params)
    chosen = choose_metrics(Settings.of({"objective": "multiclass", "num_class": k, **params}))
    assert [metric.name for metric in chosen] == list(expected)
    mass = np.ones(n) if weight is None else weight.astype(np.float64)
    for metric in chosen:
        scores = raw if metric.on_scores else probabilities(raw)
        assert metric.compute(scores, y, mass) == pytest.approx(expected[metric.name], abs=1e-12)


def names(metric, objective="multiclass"):
    params = {"objective": objective, "num_class": 3, "metric": metric}
    return [m.name for m in choose_metrics(Settings.of(params))]


def test_names_and_their_synonyms():
    assert names(None) == names("") == names("softmax") == names(["ova"]) == ["multi_logloss"]
    assert names("multi_error,multi_logloss") == ["multi_error", "multi_logloss"]
    assert names(["multi_error", "multi_error"]) == ["multi_error"]
    assert names("None") == names(["na"]) == names(None, "none") == []
    assert names("auc_mu", "none") == ["auc_mu"]


@pytest.mark.parametrize("metric", ["auc", "l2", "ndcg", "multi_loglos", [len]])
def test_other_metrics_are_refused(metric):
    with pytest.raises(ParameterError, match="feval"):
        names(metric)


def test_bad_costs_are_refused():
    for costs in ([1.0, 2.0], [0.0] * 9):
        with pytest.raises(ParameterError, match="auc_mu_weights"):
            choose_metrics(
                Settings.of(
                    {"objective": "multiclass", "num_class": 3, "metric": "auc_mu",
                     "auc_mu_weights": costs}
                )
            )  # fmt: skip
