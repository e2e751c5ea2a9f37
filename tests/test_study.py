"""The study: its search, its statistics against slow ones, its report and its figures."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparisons import budgets, data, libraries, study, study_stats
from comparisons.__main__ import main
from comparisons.contenders import BASELINE, OWN, PEERS, PLANS, Protocol, draws, full_name
from comparisons.data import Dataset
from comparisons.libraries import Method, RoundLog, Run, Settings, fullhess_
from comparisons.study_report import QUESTIONS
from comparisons.study_stats import Contrast, contrast, holm, tabulate
from comparisons.study_words import verdict

EVERY = {**libraries.MODULES, **libraries.FURTHER_MODULES}
TINY = Protocol(n_draws=2, seeds=(0,), rounds=4, patience=2, max_train=120, other_rows={})


def small_parts():
    generator = np.random.default_rng(0)
    y = np.arange(300).astype(np.int32) % 3
    X = (y[:, None] * [1.0, -1.0, 0.0] + generator.normal(size=(300, 3))).astype(np.float32)
    return data.split(Dataset("small", "test", X, y), 0, 120)


@pytest.mark.parametrize("library", EVERY)
def test_every_library_trains_predicts_and_tells_its_size(library):
    modules, notes = libraries.find({library: EVERY[library]})
    if not modules:
        pytest.skip(notes[0])
    parts, settings = small_parts(), Settings(rounds=12, patience=3, learning_rate=1.0, max_bin=64)
    for method in modules[0].METHODS:
        run = modules[0].train(parts.problem, settings, method, lambda loss: None)
        probability = modules[0].predict(run, parts.problem.X_valid)
        assert probability.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
        loss = study.log_loss(probability, parts.problem.y_valid)
        if library != "ChimeraBoost":  # which changes the temperature afterwards
            assert loss == pytest.approx(run.loss[run.best], rel=1e-4)
        leaves, n_bytes = modules[0].size(run)
        assert run.best + 1 <= leaves <= 3 * 2**settings.max_depth * (run.best + 1)
        assert n_bytes > 100


def test_custom_curvature_of_xgboost_is_the_absolute_residual():
    pytest.importorskip("xgboost")
    from comparisons.libraries import xgboost_

    parts, settings = small_parts(), Settings(rounds=3, max_depth=2, max_bin=64)
    params = {"multi_strategy": "multi_output_tree"}
    ours = {"hessian": "absolute_residual", "leaf_solver": "newton", "split_gain": "quadratic"}
    theirs = xgboost_.train(
        parts.problem, settings, Method("x", xgboost_.ABSOLUTE_RESIDUAL, params), lambda loss: None
    )
    own = fullhess_.train(parts.problem, settings, Method("o", "", ours), lambda loss: None)
    # Bins differ a little, the losses hardly.
    np.testing.assert_allclose(theirs.train_loss, own.train_loss, rtol=0.03)


def test_all_libraries_stop_by_the_same_rule():
    log = RoundLog(lambda loss: None, patience=2)
    stops = []
    for loss in (1.0, 0.5, 0.6, 0.5, 0.4, 0.4, 0.4):
        log.begin()
        stops.append(log.end(loss, loss, 0.0))
    assert stops == [False, False, False, True, False, False, True]


def test_search_tests_the_draw_of_the_lowest_validation_loss():
    parts = small_parts()
    tested = []

    class Library:
        LIBRARY = "x"

        @staticmethod
        def train(problem, settings, method, on_round):
            log = RoundLog(on_round)
            for loss in (0.9, settings.learning_rate):
                log.begin()
                log.end(loss, loss, 0.0)
            return log.finish("x", "1", method, settings)

        @staticmethod
        def predict(run, X):
            tested.append(run.model)
            return np.full((len(X), 3), 1 / 3)

        @staticmethod
        def size(run):
            return 1, 1

    result = study.search(parts, Library, Method("m", "c"), TINY, seed=0)
    rates = [draw.learning_rate for draw in draws(TINY, 0)]
    assert result.valid_loss == min(rates) and result.draw == int(np.argmin(rates))
    assert {settings.learning_rate for settings in tested} == {min(rates)}
    assert result.test_loss == pytest.approx(np.log(3))


def test_draws_are_the_same_for_all_and_other_ones_on_other_splits():
    assert draws(Protocol(), 0) == draws(Protocol(), 0)
    assert draws(Protocol(), 0) != draws(Protocol(), 1)
    assert len(draws(Protocol(), 0)) == Protocol().n_draws


def test_protocol_key_tells_protocols_apart_but_not_their_seeds():
    assert Protocol().key == replace(Protocol(), seeds=(7,)).key
    assert Protocol().key != replace(Protocol(), rounds=99).key


def test_questions_are_about_methods_that_take_part():
    names = {method.name for _, method in OWN} | {"default"}
    assert all({question.first, question.second} <= names for question in QUESTIONS)
    assert len({full_name(*c) for c in (*OWN, *PEERS)}) == len(OWN) + len(PEERS)
    assert len(set(PLANS["main"].sets)) >= 15


@pytest.mark.parametrize("plan", PLANS.values(), ids=lambda plan: plan.name)
def test_plans_name_methods_that_take_part_and_all_have_the_baseline(plan):
    every = {full_name(*contender) for contender in (*OWN, *PEERS)}
    assert set(plan.methods) <= every and BASELINE in plan.methods
    assert len(set(plan.sets)) == len(plan.sets)


def test_all_peers_take_part_in_the_study():
    assert {full_name(*peer) for peer in PEERS} <= set(PLANS["main"].methods)


def test_even_draws_take_every_stretch_of_a_range_once():
    protocol = Protocol(n_draws=7, learning_rate=(0.1, 0.4))
    for seed in range(3):
        for name, low, high in (("learning_rate", 0.1, 0.4), ("reg_lambda", 0.1, 10.0)):
            values = np.log([getattr(draw, name) for draw in draws(protocol, seed)])
            places = 7 * (values - np.log(low)) / np.log(high / low)
            # Values are rounded to three digits, so that the ends of stretches may be met.
            assert sorted(np.round(places - 0.5).astype(int).clip(0, 6)) == list(range(7))


def row(method, data_name, seed, loss, k=3):
    return {
        "method": method, "data": data_name, "seed": str(seed), "test_loss": str(loss),
        "n_classes": str(k),
    }  # fmt: skip


def test_only_splits_that_all_methods_finished_are_compared():
    rows = [row("a", "x", 0, 1.0), row("b", "x", 0, 2.0), row("a", "x", 1, 1.0)]
    assert study_stats.complete(rows) == rows[:2]


def test_contrast_is_the_geometric_mean_over_data_sets_of_paired_ratios():
    losses = {("a", "x"): [1.0, 2.0], ("b", "x"): [2.0, 2.0], ("a", "y"): [3.0, 3.0],
              ("b", "y"): [1.0, 1.0]}  # fmt: skip
    rows = [row(m, d, s, v) for (m, d), values in losses.items() for s, v in enumerate(values)]
    found = contrast(tabulate(rows, "test_loss"), "a", "b", np.array([True, True]))
    x = np.sqrt(0.5 * 1.0)  # over the two splits
    assert found.ratio == pytest.approx(np.sqrt(x * 3.0))
    assert (found.wins, found.losses) == (1, 1)
    assert found.low == pytest.approx(x) and found.high == pytest.approx(3.0)
    assert found.median == pytest.approx(np.sqrt(x * 3.0))  # of two
    only = contrast(tabulate(rows, "test_loss"), "a", "b", np.array([True, False]))
    assert only.ratio == pytest.approx(x)


def test_steady_sets_leave_out_the_fifth_on_which_methods_differ_most():
    losses = {"a": [1.0, 1.0, 1.0, 1.0, 0.001], "b": [1.0, 1.1, 1.2, 0.9, 0.004]}
    rows = [row(m, f"set{i}", 0, v) for m, values in losses.items() for i, v in enumerate(values)]
    steady = study_stats.steady_sets(tabulate(rows, "test_loss"))
    assert steady.tolist() == [True, True, True, True, False]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_against_its_definition(p_values):
    def slow(i):
        ordered = sorted(p_values)
        steps = [(len(ordered) - j) * p for j, p in enumerate(ordered) if p <= p_values[i]]
        return min(1.0, max(steps))

    expected = [slow(i) for i in range(len(p_values))]
    adjusted = holm(p_values)
    assert all(a <= e + 1e-12 for a, e in zip(adjusted, expected, strict=True))
    assert [sorted(adjusted)[-1]] == pytest.approx([max(expected)])
    if len(set(p_values)) == len(p_values):
        assert adjusted == pytest.approx(expected)


def test_nemenyi_distance_is_that_of_the_tables():
    # Demšar (2006), table 5: q = 2.343 for three and 3.164 for ten classifiers.
    for k, q in ((3, 2.343), (10, 3.164)):
        expected = q * np.sqrt(k * (k + 1) / (6 * 14))
        assert study_stats.nemenyi_distance(k, 14) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "words"),
    [(0.9, 0.8, 0.95, "lowers the loss by 10.0 %"), (1.1, 1.05, 1.2, "raises the loss by 10.0 %"),
     (0.99, 0.9, 1.1, "no clear difference")],
)  # fmt: skip
def test_the_words_follow_the_interval(ratio, low, high, words):
    assert words in verdict(Contrast("a", "b", ratio, low, high, ratio, 1, 2, 0.5))


def test_quick_study_reports_and_resumes(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    plan = replace(PLANS["quick"], protocol=TINY)
    monkeypatch.setitem(PLANS, "quick", plan)
    methods = ["fullhess full splits", "fullhess p(1−p) splits", "scikit-learn tree per class"]
    command = ["study", "--quick", "--sets", "wine", "digits", "--output", str(tmp_path)]
    assert main([*command, "--methods", *methods]) == 0
    report = (tmp_path / "study_quick.md").read_text(encoding="utf-8")
    assert "## The paper's question" in report and "Where fullhess stands" in report
    for name in methods:
        assert name.removeprefix("fullhess ") in report
    for figure in ("ratios", "ranks", "parts", "sets", "time"):
        assert (tmp_path / f"study_quick_{figure}.png").read_bytes().startswith(b"\x89PNG")
    table = tmp_path / "study_quick.csv"
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {(r["data"], r["method"]) for r in rows} == {
        (d, m) for d in ("wine", "digits") for m in methods
    }
    before = table.read_bytes()
    monkeypatch.setattr(study, "search", None)  # nothing is left to do
    assert main([*command, "--methods", *methods]) == 0
    assert table.read_bytes() == before


def test_unknown_method_is_named(tmp_path):
    with pytest.raises(SystemExit, match="fullhess defualt"):
        main(["study", "--quick", "--methods", "fullhess defualt", "--output", str(tmp_path)])


def timed_run(losses, seconds):
    """A training with these validation losses and processor seconds of its rounds."""
    losses = np.asarray(losses, float)
    return Run("x", "1", Method("m", "c"), losses, losses, losses, np.asarray(seconds, float),
               np.asarray(seconds, float), tuple(losses))  # fmt: skip


class TimedLibrary:
    """Predicts the round and the draw that it is asked for, as a probability."""

    @staticmethod
    def predict(run, X):
        p = np.exp(-run.loss[run.best])
        return np.tile([p, (1 - p) / 2, (1 - p) / 2], (len(X), 1))


def test_losses_within_a_budget_are_those_of_the_rounds_that_fit_in():
    parts = small_parts()
    parts = replace(parts, y_test=np.zeros_like(parts.y_test))  # test loss = validation loss
    slow = timed_run([0.9, 0.5, 0.2], [1.0, 1.0, 1.0])  # and half a second before the first
    fast = timed_run([0.8, 0.7, 0.75], [0.4, 0.4, 0.4])
    found = budgets.losses_within(
        (0.3, 0.5, 1.0, 1.6, 2.5, 3.5, 99.0), TimedLibrary, [slow, fast], [3.5, 1.2], parts
    )
    shares = np.bincount(parts.problem.y_train) / len(parts.problem.y_train)
    expected = [-np.log(shares[0]), 0.8, 0.7, 0.7, 0.5, 0.2, 0.2]
    assert found == pytest.approx(expected)


def test_a_library_that_tells_no_time_of_a_round_is_taken_to_be_even():
    run = timed_run([0.9, 0.5], [np.nan, np.nan])
    assert budgets.clock(run, 3.0).tolist() == [1.5, 3.0]


def test_packed_losses_come_back():
    assert budgets.unpack(budgets.pack([0.123456, 2.0])) == [0.12346, 2.0]


def test_equal_time_of_the_baseline_is_its_own_test_loss(tmp_path):
    parts, protocol = small_parts(), replace(TINY, rounds=6)
    result = study.search(parts, fullhess_, fullhess_.DEFAULT, protocol, seed=0)
    assert result.equal_time_loss == pytest.approx(result.test_loss)
    assert len(budgets.unpack(result.timed_losses)) == len(budgets.BUDGETS)
