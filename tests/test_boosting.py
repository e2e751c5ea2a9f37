"""The boosting loop: what a training run returns, continues, stops and samples."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Any

import numpy as np
import pytest

import fullhess
from fullhess import BinnedMatrix, EvalSet
from fullhess.auto import FULL_SPLIT_MAX_OUTPUTS

FAST = {"max_depth": 3, "min_child_weight": 0.01, "learning_rate": 0.3, "n_jobs": 1}


def blobs(n: int = 300, k: int = 3, d: int = 5, seed: int = 0) -> tuple[Any, Any]:
    """Noisy classes with missing values and a categorical last column."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, k, n)
    X = rng.normal(size=(n, d)) + np.array([np.cos(label + j) for j in range(d)]).T
    X[rng.random((n, d)) < 0.1] = np.nan
    X[:, -1] = (label + rng.integers(0, 3, n)) % 7
    return X, label


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, BinnedMatrix]:
    X, label = blobs()
    return X, label, BinnedMatrix.from_quantiles(X, max_bins=32, categorical=[X.shape[1] - 1])


def history_of(params: dict[str, Any], binned: BinnedMatrix, label: Any, **kwargs: Any) -> Any:
    result: dict[str, Any] = {}
    rounds = kwargs.pop("num_boost_round", 10)
    callbacks = [*kwargs.pop("callbacks", []), fullhess.RecordEvaluation(result)]
    model = fullhess.train(
        params, binned, label, num_boost_round=rounds, callbacks=callbacks, **kwargs
    )
    return model, result


def test_margins_of_the_loop_are_the_models_predictions_bit_for_bit(data: Any) -> None:
    X, label, binned = data
    for dtype in ("float64", "float32"):
        seen: list[Any] = []

        def metric(prediction: Any, label: Any, weight: Any, seen: list[Any] = seen) -> Any:
            seen.append(prediction.copy())
            return "seen", 0.0

        valid = binned.binning.encode(X[::-1])
        params = {**FAST, "margin_dtype": dtype, "subsample": 0.7}
        model = fullhess.train(
            params,
            binned,
            label,
            num_boost_round=6,
            evals=[EvalSet(binned, label, name="train"), EvalSet(valid, label[::-1])],
            metric=metric,
        )
        assert model.predict_raw(X).dtype == np.dtype(dtype)
        assert np.array_equal(seen[-2], model.predict(X))
        assert np.array_equal(seen[-1], model.predict(X[::-1]))
        assert np.array_equal(model.predict_raw(X), model.predict_raw(binned))


def test_evaluations_are_those_of_the_truncated_models(data: Any) -> None:
    X, label, binned = data
    model, result = history_of(FAST, binned, label, evals=[EvalSet(binned, label, name="train")])
    for rounds, value in enumerate(result["train"]["log_loss"], start=1):
        p = model.predict(X, rounds=slice(0, rounds))
        assert value == pytest.approx(-np.log(p[np.arange(len(label)), label]).mean(), rel=1e-12)


def test_early_stopping_predicts_with_the_best_round(data: Any) -> None:
    _, label, binned = data
    other, other_label = blobs(seed=5)
    valid = EvalSet(binned.binning.encode(other), other_label)
    params = {**FAST, "learning_rate": 1.0}
    stop = fullhess.EarlyStopping(5)
    model, result = history_of(
        params, binned, label, evals=[valid], num_boost_round=200, callbacks=[stop]
    )
    losses = result["valid"]["log_loss"]
    assert model.best_iteration == int(np.argmin(losses))
    assert len(losses) == model.best_iteration + 6 < 200
    best = model.predict(other, rounds=slice(0, model.best_iteration + 1))
    assert np.array_equal(model.predict(other), best)


def test_continued_training_equals_training_in_one_go(data: Any) -> None:
    X, label, binned = data
    params = {**FAST, "subsample": 0.8, "colsample_bynode": 0.6}
    whole = fullhess.train(params, binned, label, num_boost_round=8)
    start = fullhess.train(params, binned, label, num_boost_round=3)
    rest = fullhess.train(params, binned, label, num_boost_round=5, init_model=start)
    assert len(rest) == 8
    assert np.array_equal(whole.predict_raw(X), rest.predict_raw(X))
    reloaded = fullhess.serialization.loads(fullhess.serialization.dumps(start))
    again = fullhess.train(params, binned, label, num_boost_round=5, init_model=reloaded)
    assert np.array_equal(whole.predict_raw(X), again.predict_raw(X))


def test_continuation_counts_the_best_round_in_the_whole_model(data: Any) -> None:
    _, label, binned = data
    start = fullhess.train(FAST, binned, label, num_boost_round=4)
    model = fullhess.train(
        FAST,
        binned,
        label,
        num_boost_round=5,
        init_model=start,
        evals=[EvalSet(binned, label)],
        callbacks=[fullhess.EarlyStopping(5)],
    )
    assert model.best_iteration == 8  # the training loss falls in every round


def test_base_margin_replaces_the_intercept(data: Any) -> None:
    X, label, binned = data
    margin = np.random.default_rng(3).normal(size=(len(X), 3))
    model = fullhess.train(FAST, binned, label, num_boost_round=4, base_margin=margin)
    plain = fullhess.train(FAST, binned, label, num_boost_round=4)
    assert not np.array_equal(model.predict_raw(X), plain.predict_raw(X))
    leaves = zip(model.trees, model.apply(X).T, strict=True)
    total = margin + sum(tree.values[leaf] for tree, leaf in leaves)
    assert model.predict_raw(X, base_margin=margin) == pytest.approx(total, rel=1e-12)


def test_zero_rounds_give_the_intercept(data: Any) -> None:
    X, label, binned = data
    model = fullhess.train(None, binned, label, num_boost_round=0)
    shares = np.bincount(label) / len(label)
    assert model.predict(X) == pytest.approx(np.tile(shares, (len(X), 1)))


def test_interrupt_returns_the_finished_rounds(data: Any) -> None:
    _, label, binned = data

    def interrupt(state: Any) -> None:
        if state.iteration == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted after 4 of 50 rounds"):
        model = fullhess.train(FAST, binned, label, num_boost_round=50, callbacks=[interrupt])
    assert len(model) == 4
    reference = fullhess.train(FAST, binned, label, num_boost_round=4)
    assert np.array_equal(model.predict_raw(binned), reference.predict_raw(binned))


def test_a_signal_in_the_middle_of_kernels_leaves_a_usable_model() -> None:
    X, label = blobs(20_000)
    binned = BinnedMatrix.from_quantiles(X)
    params = {**FAST, "max_depth": 6, "n_jobs": 2}
    fullhess.train(params, binned, label, num_boost_round=1)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.warns(UserWarning, match="interrupted"):
        model = fullhess.train(params, binned, label, num_boost_round=5000)
    timer.join()
    assert 0 < len(model) < 5000
    assert np.isfinite(model.predict(binned)).all()


def test_callbacks_steer_the_learning_rate(data: Any) -> None:
    _, label, binned = data
    rates = [0.5, 0.25, 0.125]
    model = fullhess.train(
        FAST, binned, label, num_boost_round=3, callbacks=[fullhess.LearningRateSchedule(rates)]
    )
    first = fullhess.train({**FAST, "learning_rate": 0.5}, binned, label, num_boost_round=1)
    assert np.array_equal(model.trees[0].values, first.trees[0].values)


def test_a_callback_sees_the_model_of_the_rounds_so_far(data: Any) -> None:
    _, label, binned = data
    sizes: list[int] = []
    fullhess.train(
        FAST,
        binned,
        label,
        num_boost_round=3,
        callbacks=[lambda state: sizes.append(len(state.model))],
    )
    assert sizes == [1, 2, 3]


def test_many_classes_switch_the_split_search_to_the_diagonal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    k = FULL_SPLIT_MAX_OUTPUTS + 1
    X, _ = blobs(200)
    binned = BinnedMatrix.from_quantiles(X)
    label = np.arange(200) % k
    with caplog.at_level(logging.INFO, logger="fullhess"):
        model = fullhess.train(FAST, binned, label, num_boost_round=1)
    assert model.metadata["split_hessian"] == "diagonal"
    assert "diagonal of the Hessian" in caplog.text
    forced = fullhess.train({**FAST, "split_hessian": "full"}, binned, label, num_boost_round=1)
    assert forced.metadata["split_hessian"] == "full"


def test_a_thousand_classes_train() -> None:
    rng = np.random.default_rng(0)
    label = rng.permutation(np.arange(2000) % 1000)
    X = np.column_stack([label % m for m in (2, 3, 5, 7, 11)]) + 0.1 * rng.normal(size=(2000, 5))
    binned = BinnedMatrix.from_quantiles(X, max_bins=32)
    params = {**FAST, "min_child_weight": 0.0, "learning_rate": 1.0, "max_depth": 4}
    _, result = history_of(params, binned, label, evals=[EvalSet(binned, label)], num_boost_round=3)
    losses = result["valid"]["log_loss"]
    assert losses[0] < np.log(1000) - 0.3
    assert losses[0] > losses[1] > losses[2]


def test_many_classes_get_the_same_leaves_with_and_without_matrices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, label = blobs(400, k=24)
    binned = BinnedMatrix.from_quantiles(X)
    for solver in ("exact", "damped", "newton"):
        for reg_lambda in (0.01, 1.0):  # at 0 an infinite optimum is cut off where it was met
            params = {**FAST, "leaf_solver": solver, "reg_lambda": reg_lambda}
            by_products = fullhess.train(params, binned, label, num_boost_round=2)
            with monkeypatch.context() as patch:
                patch.setattr("fullhess.leaves.MATRIX_MAX_OUTPUTS", 100)
                by_matrix = fullhess.train(params, binned, label, num_boost_round=2)
            a, b = by_products.predict(X), by_matrix.predict(X)
            assert a == pytest.approx(b, rel=1e-5, abs=1e-9)


def test_custom_objective_with_the_true_hessian_equals_softmax(data: Any) -> None:
    X, label, binned = data

    def derivatives(raw: Any, label: Any) -> Any:
        p = np.exp(raw - raw.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        hessian = -p[:, :, None] * p[:, None, :]
        hessian[:, [0, 1, 2], [0, 1, 2]] += p
        p[np.arange(len(label)), label] -= 1
        return p, hessian

    shares = np.log(np.bincount(label) / len(label))
    custom = fullhess.CustomObjective(
        derivatives, 3, link="softmax", intercept=shares - shares.mean()
    )
    params = {**FAST, "split_gain": "quadratic", "leaf_solver": "newton"}
    a = fullhess.train(params, binned, label, num_boost_round=4, objective=custom)
    b = fullhess.train(params, binned, label, num_boost_round=4)
    assert a.predict(X) == pytest.approx(b.predict(X), abs=1e-5)


def test_custom_objective_with_a_loss_descends_by_backtracking(data: Any) -> None:
    _, _, binned = data
    target = np.random.default_rng(1).poisson(3.0, (binned.n_samples, 2)).astype(float)

    def derivatives(raw: Any, label: Any) -> Any:
        mean = np.exp(raw)
        return mean - label, mean

    def loss(raw: Any, label: Any) -> Any:
        return (np.exp(raw) - label * raw).sum(axis=1)

    for prior in ("ridge", "path"):
        for solver in ("exact", "damped"):
            objective = fullhess.CustomObjective(derivatives, 2, loss=loss)
            params = {**FAST, "learning_rate": 1.0, "leaf_solver": solver, "leaf_prior": prior}
            _, result = history_of(
                params, binned, target, objective=objective, evals=[EvalSet(binned, target)]
            )
            losses = np.array(result["valid"]["loss"])
            assert (np.diff(losses) <= 1e-12).all() and losses[-1] < losses[0]


def test_squared_error_fits_all_outputs(data: Any) -> None:
    X, label, binned = data
    target = np.column_stack([label, -2.0 * label, np.nan_to_num(X[:, 0])])
    params = {**FAST, "objective": "squared_error"}
    model, result = history_of(
        params, binned, target, evals=[EvalSet(binned, target)], num_boost_round=40
    )
    assert model.predict(X).shape == target.shape
    assert result["valid"]["rmse"][-1] < 0.5 * result["valid"]["rmse"][0]


@pytest.mark.parametrize("method", ["uniform", "gradient_based"])
def test_subsampling_still_learns_and_depends_on_the_seed_alone(data: Any, method: str) -> None:
    X, label, binned = data
    params = {**FAST, "subsample": 0.5, "sampling_method": method, "random_state": 4}
    evals = [EvalSet(binned, label)]
    a, result = history_of(params, binned, label, evals=evals)
    b, _ = history_of(params, binned, label)
    c, _ = history_of({**params, "random_state": 5}, binned, label)
    assert np.array_equal(a.predict_raw(X), b.predict_raw(X))
    assert not np.array_equal(a.predict_raw(X), c.predict_raw(X))
    assert result["valid"]["log_loss"][-1] < 0.8 * result["valid"]["log_loss"][0]


def test_weights_of_zero_equal_rows_left_out(data: Any) -> None:
    X, label, binned = data
    keep = np.arange(len(label)) % 3 > 0
    few = BinnedMatrix(binned.codes[keep], binned.binning)
    a = fullhess.train(FAST, binned, label, num_boost_round=3, weight=keep.astype(float))
    b = fullhess.train(FAST, few, label[keep], num_boost_round=3)
    assert a.predict(X) == pytest.approx(b.predict(X), rel=1e-5)
