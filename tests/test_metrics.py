from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn import metrics as sklearn_metrics

from fullhess import metrics
from fullhess.metrics import METRICS, CustomMetric, Metric, as_metric, default_metric


def problem(seed: int, n: int, k: int, scale: float = 3.0):
    rng = np.random.default_rng(seed)
    label = rng.integers(k, size=n)
    return scale * rng.normal(size=(n, k)), label, rng.random(n) + 0.01


seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 200), st.integers(2, 9), st.booleans())
def test_log_loss_equals_sklearn(seed, n, k, weighted):
    raw, label, weight = problem(seed, n, k)
    weight = weight if weighted else None
    expected = sklearn_metrics.log_loss(
        label, softmax(raw, axis=1), sample_weight=weight, labels=range(k)
    )
    assert metrics.log_loss(raw, label, weight) == pytest.approx(expected, rel=1e-9)


@given(seeds, st.integers(1, 200), st.integers(2, 9), st.booleans())
def test_error_equals_sklearn(seed, n, k, weighted):
    raw, label, weight = problem(seed, n, k)
    weight = weight if weighted else None
    expected = sklearn_metrics.zero_one_loss(label, raw.argmax(axis=1), sample_weight=weight)
    assert metrics.error(raw, label, weight) == pytest.approx(expected, abs=1e-12)


@given(seeds, st.integers(1, 200), st.integers(1, 9), st.booleans())
def test_rmse_equals_sklearn(seed, n, k, weighted):
    raw, _, weight = problem(seed, n, k)
    target = np.random.default_rng(seed + 1).normal(size=(n, k))
    weight = weight if weighted else None
    expected = sklearn_metrics.root_mean_squared_error(target, raw, sample_weight=weight)
    assert metrics.rmse(raw, target, weight) == pytest.approx(expected, rel=1e-12)


def test_rmse_of_one_output_takes_vectors():
    assert metrics.rmse([1.0, 2.0], [0, 4]) == metrics.rmse([[1.0], [2.0]], [[0], [4]])
    assert metrics.rmse([1.0, 2.0], [0, 4]) == pytest.approx(np.sqrt(2.5))


@pytest.mark.parametrize("name", METRICS)
def test_blocks_do_not_change_the_meaning(name, monkeypatch):
    raw, label, weight = problem(1, 1000, 4)
    if name == "rmse":
        label = raw + 1
    whole = METRICS[name].function(raw, label, weight)
    monkeypatch.setattr(metrics, "_ROWS_PER_BLOCK", 7)
    assert METRICS[name].function(raw, label, weight) == pytest.approx(whole, rel=1e-13)


@pytest.mark.parametrize("name", METRICS)
def test_integer_weights_stand_for_repeated_rows(name, rng):
    raw, label, _ = problem(2, 50, 3)
    if name == "rmse":
        label = raw[::-1].copy()
    weight = rng.integers(0, 4, size=50)
    repeated = METRICS[name].function(
        raw.repeat(weight, axis=0), label.repeat(weight, axis=0), None
    )
    assert METRICS[name].function(raw, label, weight) == pytest.approx(repeated, rel=1e-12)


def test_log_loss_does_not_overflow():
    raw = np.array([[1e300, 0.0], [800.0, -800.0], [-1e300, -1e300]])
    assert metrics.log_loss(raw[:1], [0]) == 0.0
    assert metrics.log_loss(raw[:1], [1]) == 1e300
    assert metrics.log_loss(raw[1:2], [1]) == 1600.0
    assert metrics.log_loss(raw[2:], [1]) == pytest.approx(np.log(2))


def test_log_loss_ignores_a_constant_added_to_a_row(rng):
    raw, label, _ = problem(3, 30, 5)
    shifted = raw + rng.normal(size=(30, 1)) * 100
    assert metrics.log_loss(shifted, label) == pytest.approx(metrics.log_loss(raw, label))


def test_float32_scores_are_summed_in_float64():
    raw = np.zeros((100_003, 3), np.float32)
    raw[:, 0] = 0.1
    label = np.zeros(len(raw), np.int8)
    expected = np.log(1 + 2 * np.exp(-float(np.float32(0.1))))
    assert metrics.log_loss(raw, label) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_diverged_scores_give_a_value_that_is_never_an_improvement(bad):
    raw = np.array([[bad, 0.0], [0.0, 1.0]])
    assert not metrics.log_loss(raw, [0, 1]) < 1e300
    assert not metrics.rmse(raw, np.zeros((2, 2))) < 1e300


def test_a_row_with_nan_is_an_error():
    assert metrics.error([[np.nan, 0.0], [np.nan, 0.0]], [0, 1]) == 1.0


@pytest.mark.parametrize("name", METRICS)
def test_a_row_of_weight_zero_counts_for_nothing(name):
    raw = np.array([[np.nan, np.inf], [0.5, 0.25]])
    label = np.zeros((2, 2)) if name == "rmse" else np.array([0, 1])
    with_row = METRICS[name].function(raw, label, [0, 2])
    assert with_row == METRICS[name].function(raw[1:], label[1:], None)


def test_the_first_of_equal_scores_is_the_prediction():
    assert metrics.error([[1.0, 1.0]], [0]) == 0.0
    assert metrics.error([[1.0, 1.0]], [1]) == 1.0


@pytest.mark.parametrize("label", [[0, 3], [0, -1], [0, 0.5], [0, np.nan], [0, np.inf], [0, 2**40]])
@pytest.mark.parametrize("name", ["log_loss", "error"])
def test_class_numbers_outside_the_scores_are_refused(name, label):
    with pytest.raises(ValueError, match=r"expected class numbers 0 to 2.*got "):
        METRICS[name].function(np.zeros((2, 3)), label, None)


@pytest.mark.parametrize("label", [[0.0, 1.0], [False, True], np.array([0, 1], np.uint8)])
def test_class_numbers_may_have_any_numeric_dtype(label):
    assert metrics.error(np.eye(2), label) == 0.0


@pytest.mark.parametrize("name", ["log_loss", "error"])
def test_class_labels_that_are_no_numbers_are_refused(name):
    with pytest.raises(TypeError, match="encode the classes"):
        METRICS[name].function(np.zeros((2, 3)), ["a", "b"], None)
    with pytest.raises(ValueError, match="one class number for each of 2 rows"):
        METRICS[name].function(np.zeros((2, 3)), [[0], [1]], None)


def test_targets_must_be_finite_numbers_of_the_scores_shape():
    with pytest.raises(ValueError, match=r"shape \(2, 3\).*got \(2,\)"):
        metrics.rmse(np.zeros((2, 3)), [0.0, 1.0])
    with pytest.raises(ValueError, match="finite"):
        metrics.rmse(np.zeros((2, 1)), [0.0, np.nan])
    with pytest.raises(TypeError, match="real numbers"):
        metrics.rmse(np.zeros((2, 1)), ["0", "1"])


@pytest.mark.parametrize("raw", [np.zeros((0, 3)), np.zeros((2, 0)), np.zeros((2, 2, 2)), 3.0])
def test_scores_of_another_shape_are_refused(raw):
    with pytest.raises(ValueError, match="raw scores must be"):
        metrics.log_loss(raw, [])


def test_scores_that_are_no_numbers_are_refused():
    with pytest.raises(TypeError, match="raw scores must be real numbers"):
        metrics.log_loss([["a", "b"]], [0])


@pytest.mark.parametrize("weight", [[1, -1], [0, 0], [1, np.nan], [1, np.inf]])
def test_weights_must_be_usable(weight):
    with pytest.raises(ValueError, match="weights must be finite and not negative"):
        metrics.log_loss(np.zeros((2, 2)), [0, 1], weight)


def test_weights_must_match_the_rows():
    with pytest.raises(ValueError, match="one weight for each of 2 rows"):
        metrics.error(np.zeros((2, 2)), [0, 1], [1.0])
    with pytest.raises(TypeError, match="weights must be real numbers"):
        metrics.error(np.zeros((2, 2)), [0, 1], ["a", "b"])


def test_registry_names_its_metrics():
    for name, metric in METRICS.items():
        assert metric.name == name
        assert as_metric(name) is metric
        assert not metric.greater_is_better
    assert as_metric("error").evaluate(np.eye(2), [1, 1]) == ("error", 0.5, False)


def test_unknown_metric_is_answered_with_the_closest():
    with pytest.raises(ValueError, match=r"did you mean 'log_loss'.*known are"):
        as_metric("logloss")
    with pytest.raises(TypeError, match="name of a metric or a function"):
        as_metric(7)


def test_default_metric_belongs_to_the_objective():
    assert default_metric("softmax") is METRICS["log_loss"]
    assert default_metric("squared_error") is METRICS["rmse"]
    with pytest.raises(ValueError, match="no metric belongs to objective 'rank'"):
        default_metric("rank")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (("mine", 0.5), ("mine", 0.5, False)),
        (("mine", 1), ("mine", 1.0, False)),
        (["mine", np.float32(0.5), np.True_], ("mine", 0.5, True)),
        (("mine", np.array(2.0), True), ("mine", 2.0, True)),
    ],
)
def test_custom_metric_answers_are_normalised(answer, expected):
    got = as_metric(lambda prediction, label, weight: answer).evaluate(np.eye(2), [0, 1])
    assert got == expected
    assert (type(got.value), type(got.greater_is_better)) == (float, bool)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (0.5, r"must return \(name, value\)"),
        (None, r"must return \(name, value\)"),
        (("mine",), r"must return \(name, value\)"),
        (("mine", 1, True, 2), r"must return \(name, value\)"),
        ("ab", r"must return \(name, value\)"),
        ((0.5, "mine"), "its name as text"),
        (("", 0.5), "its name as text"),
        (("mine", "0.5"), "one number as its value"),
        (("mine", np.array([0.5])), "one number as its value"),
        (("mine", True), "one number as its value"),
        (("mine", 0.5, "yes"), "greater_is_better by a bool"),
    ],
)
def test_custom_metric_answers_are_checked(answer, message):
    def my_metric(prediction, label, weight):
        return answer

    with pytest.raises(TypeError, match=f"metric my_metric .*{message}"):
        as_metric(my_metric).evaluate(np.eye(2), [0, 1])


def test_custom_metric_gets_transformed_predictions():
    seen = []

    def first_share(prediction, label, weight):
        seen.append((prediction, label, weight))
        return "share", prediction[0, 0]

    raw, label, weight = np.array([[0.0, np.log(3)]]), np.array([1]), np.array([2.0])
    metric = as_metric(first_share, transform=lambda raw: softmax(raw, axis=1))
    assert metric.evaluate(raw, label, weight).value == pytest.approx(0.25)
    assert seen[0][1] is label
    assert seen[0][2] is weight
    assert CustomMetric(first_share).evaluate(raw, label, weight).value == 0.0


def test_a_metric_object_stays_as_it_is():
    metric = Metric("gain", lambda raw, label, weight: 1.5, greater_is_better=True)
    assert as_metric(metric) is metric
    assert metric.evaluate(np.eye(2), [0, 1]) == ("gain", 1.5, True)
