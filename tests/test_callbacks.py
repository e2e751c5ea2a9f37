from __future__ import annotations

import io
import math
import sys

import numpy as np
import pytest

from fullhess.callbacks import (
    Callback,
    CallbackList,
    EarlyStopping,
    Evaluation,
    LearningRateSchedule,
    PrintEvaluation,
    Progress,
    RecordEvaluation,
    TrainingState,
    as_callback,
)
from fullhess.params import Params


def run(callbacks, n_rounds=10, evaluate=None, params=None):
    """The boosting loop without boosting; returns the state and the rate of each round."""
    rates: list[float] = []
    trees: list[int] = []
    together = CallbackList(callbacks)
    state = TrainingState(params or Params(), n_rounds, build_model=lambda: tuple(trees))
    together.before_training(state)
    for iteration in range(n_rounds):
        state.iteration = iteration
        together.before_iteration(state)
        rates.append(state.learning_rate)
        trees.append(iteration)
        state.record(evaluate(iteration) if evaluate else [])
        if together.after_iteration(state):
            break
    together.after_training(state)
    return state, rates


def curve(values, data="valid", metric="log_loss", greater=False):
    """An evaluation of one set that gives these values round by round."""
    return lambda i: [Evaluation(data, metric, values[i], greater)]


class Spy(Callback):
    def __init__(self, log, name=""):
        self.log = log
        self.name = name

    def before_training(self, state):
        self.log.append((self.name, "before_training"))

    def before_iteration(self, state):
        self.log.append((self.name, "before", state.iteration))

    def after_iteration(self, state):
        self.log.append((self.name, "after", state.iteration))

    def after_training(self, state):
        self.log.append((self.name, "after_training"))


def test_callbacks_are_called_in_order():
    log: list[tuple] = []
    run([Spy(log, "a"), Spy(log, "b")], n_rounds=2)
    events = [
        ("before_training",),
        ("before", 0),
        ("after", 0),
        ("before", 1),
        ("after", 1),
        ("after_training",),
    ]
    assert log == [(name, *event) for event in events for name in "ab"]


def test_every_callback_sees_the_round_in_which_one_stops():
    log: list[tuple] = []
    run([lambda state: state.iteration == 1, Spy(log)])
    assert log[-2:] == [("", "after", 1), ("", "after_training")]


def test_base_callback_does_nothing():
    state, rates = run([Callback()], n_rounds=3)
    assert len(rates) == 3
    assert state.history == {}


@pytest.mark.parametrize("answer", [None, False, np.False_])
def test_a_function_that_does_not_say_true_lets_training_go_on(answer):
    assert len(run([lambda state: answer], n_rounds=4)[1]) == 4


@pytest.mark.parametrize("answer", [True, np.True_])
def test_a_function_that_says_true_stops_training(answer):
    assert len(run([lambda state: answer], n_rounds=4)[1]) == 1


@pytest.mark.parametrize("answer", [0, 1, "stop", [], np.array([True])])
def test_other_answers_are_refused(answer):
    def odd(state):
        return answer

    with pytest.raises(TypeError, match=r"odd.*must return True to stop"):
        run([odd])


@pytest.mark.parametrize("callback", [EarlyStopping, 3, None, "print"])
def test_what_cannot_be_called_back_is_refused(callback):
    with pytest.raises(TypeError, match=r"instance of fullhess\.Callback or a function"):
        as_callback(callback)


def test_state_carries_rounds_params_history_and_model():
    params = Params(learning_rate=0.3)
    seen = []

    def look(state):
        seen.append((state.iteration, state.num_boost_round, len(state.evaluations), state.model))
        assert state.params is params

    state, _ = run([look], 2, lambda i: [Evaluation("a", "m", i), Evaluation("b", "m", -i)], params)
    assert seen == [(0, 2, 2, (0,)), (1, 2, 2, (0, 1))]
    assert state.history == {"a": {"m": [0, 1]}, "b": {"m": [0, -1]}}
    assert (state.best_iteration, state.best_score) == (None, None)


def test_the_model_is_built_only_when_asked_for():
    def must_not_be_called():
        raise AssertionError("built without need")

    state = TrainingState(Params(), 1, build_model=must_not_be_called)
    CallbackList([Spy([])]).after_iteration(state)
    assert "build_model" not in repr(state)


def test_the_model_cannot_be_read_before_there_is_one():
    with pytest.raises(RuntimeError, match="after_iteration"):
        _ = TrainingState(Params(), 1).model


def test_a_learning_rate_set_after_a_round_holds_from_the_next():
    def halve(state):
        state.set_learning_rate(state.learning_rate / 2)

    assert run([halve], 3, params=Params(learning_rate=0.8))[1] == [0.8, 0.4, 0.2]


@pytest.mark.parametrize("rate", [0, -0.1, 1.5, math.nan, math.inf, "0.1", None, True])
def test_learning_rates_outside_their_interval_are_refused(rate):
    with pytest.raises(ValueError, match=r"learning rate must be a number in \(0, 1\]"):
        TrainingState(Params(), 1).set_learning_rate(rate)


# Early stopping


def test_early_stopping_stops_after_rounds_without_improvement():
    values = [5.0, 4.0, 3.0, 3.0, 3.5, 3.2, 1.0, 0.5, 0.4, 0.3]
    state, rates = run([EarlyStopping(3)], evaluate=curve(values))
    assert len(rates) == 6
    assert (state.best_iteration, state.best_score) == (2, 3.0)


def test_early_stopping_lets_an_improving_metric_run_to_the_end():
    state, rates = run([EarlyStopping(1)], evaluate=curve(np.linspace(1, 0, 10)))
    assert len(rates) == 10
    assert (state.best_iteration, state.best_score) == (9, 0.0)


def test_early_stopping_follows_metrics_that_should_grow():
    state, rates = run([EarlyStopping(2)], evaluate=curve([1, 3, 2, 2.5, 9, 9, 9], greater=True))
    assert len(rates) == 4
    assert (state.best_iteration, state.best_score) == (1, 3)


@pytest.mark.parametrize("greater", [False, True])
def test_an_improvement_must_exceed_min_delta(greater):
    sign = 1 if greater else -1
    values = [sign * value for value in (0.0, 0.5, 1.0, 1.5, 2.5, 2.5, 2.5)]
    stopper = EarlyStopping(2, min_delta=0.5)
    state, rates = run([stopper], evaluate=curve(values, greater=greater))
    # 0.5 does not exceed it, 1.0 does; 1.5 does not, 2.5 does; then twice nothing.
    assert state.best_iteration == 4
    assert len(rates) == 7


def two_sets(i):
    return [
        Evaluation("train", "log_loss", 1.0 - i / 10),
        Evaluation("train", "error", 1.0 - i / 10),
        Evaluation("valid", "log_loss", [3, 2, 9, 9, 9, 9, 9, 9, 9, 9][i]),
        Evaluation("valid", "error", [4, 3, 2, 1, 9, 9, 9, 9, 9, 9][i]),
    ]


@pytest.mark.parametrize(
    ("metric", "data", "best"),
    [
        (None, None, 3),
        ("log_loss", None, 1),
        ("error", None, 3),
        (None, "train", 9),
        ("log_loss", "valid", 1),
    ],
)
def test_early_stopping_watches_the_last_set_and_metric_unless_told(metric, data, best):
    state, _ = run([EarlyStopping(2, metric=metric, data=data)], evaluate=two_sets)
    assert state.best_iteration == best


def test_two_early_stoppings_do_not_mix_their_scores():
    callbacks = [EarlyStopping(8, data="train"), EarlyStopping(2, metric="log_loss")]
    assert len(run(callbacks, evaluate=two_sets)[1]) == 4


def test_nan_is_never_an_improvement():
    state, rates = run([EarlyStopping(3)], evaluate=curve([math.nan, 2.0, *[math.nan] * 8]))
    assert len(rates) == 5
    assert (state.best_iteration, state.best_score) == (1, 2.0)
    state, rates = run([EarlyStopping(3)], evaluate=curve([math.nan] * 10))
    assert len(rates) == 3
    assert state.best_iteration is None


def test_early_stopping_can_be_used_again():
    stopper = EarlyStopping(2)
    first = run([stopper], evaluate=curve([1, 0, 1, 1, 1, 1]))
    second = run([stopper], evaluate=curve([9, 8, 7, 8, 8, 8]))
    assert (first[0].best_iteration, len(first[1])) == (1, 4)
    assert (second[0].best_iteration, len(second[1])) == (2, 5)


def test_early_stopping_needs_an_evaluation_set():
    with pytest.raises(ValueError, match="needs an evaluation set, got none; pass evals="):
        run([EarlyStopping(2)])


def test_early_stopping_names_what_it_could_watch():
    with pytest.raises(ValueError, match="watches data 'test'; evaluated are 'train', 'valid'"):
        run([EarlyStopping(2, data="test")], evaluate=two_sets)
    with pytest.raises(ValueError, match=r"watches metric 'auc'.*'valid' are 'log_loss', 'error'"):
        run([EarlyStopping(2, metric="auc")], evaluate=two_sets)


@pytest.mark.parametrize("rounds", [0, -1, 2.0, True, None, "5"])
def test_early_stopping_refuses_odd_rounds(rounds):
    with pytest.raises(ValueError, match="rounds must be an integer, 1 or more"):
        EarlyStopping(rounds)


@pytest.mark.parametrize("min_delta", [-1e-9, math.nan, math.inf, "0", True])
def test_early_stopping_refuses_odd_min_delta(min_delta):
    with pytest.raises(ValueError, match="min_delta must be a finite number"):
        EarlyStopping(1, min_delta=min_delta)


# Records and prints


def test_recorded_evaluations_equal_the_history():
    result = {"left over": {}}
    state, _ = run([RecordEvaluation(result)], evaluate=two_sets)
    assert result == state.history
    assert len(result["valid"]["error"]) == 10


def test_a_record_begins_anew_with_every_training():
    result: dict = {}
    recorder = RecordEvaluation(result)
    run([recorder], 3, two_sets)
    run([recorder], 2, two_sets)
    assert len(result["train"]["error"]) == 2


def test_a_record_needs_a_dictionary():
    with pytest.raises(TypeError, match="dictionary to fill, got list"):
        RecordEvaluation([])


def test_printed_lines_are_every_period_and_the_last(capsys):
    run([PrintEvaluation(3)], 6, two_sets)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["[0]", "[3]", "[5]"]
    assert "train-log_loss:1  train-error:1  valid-log_loss:3  valid-error:4" in lines[0]


def test_the_last_line_is_not_printed_twice():
    out = io.StringIO()
    run([PrintEvaluation(3, file=out)], 4, two_sets)
    assert [line.split()[0] for line in out.getvalue().splitlines()] == ["[0]", "[3]"]


def test_without_evaluations_nothing_is_printed(capsys):
    result: dict = {}
    run([PrintEvaluation(1), RecordEvaluation(result)], 3)
    assert capsys.readouterr().out == ""
    assert result == {}


@pytest.mark.parametrize("period", [0, -2, 1.5, False])
def test_print_refuses_odd_periods(period):
    with pytest.raises(ValueError, match="period must be an integer, 1 or more"):
        PrintEvaluation(period)


@pytest.mark.parametrize("evaluate", [None, two_sets])
def test_progress_without_tqdm_prints_lines(monkeypatch, evaluate):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    out = io.StringIO()
    run([Progress("fit", seconds=0, file=out)], 2, evaluate)
    lines = out.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["1/2", "2/2", "2/2"]
    assert ("valid-error:4" in lines[0]) == (evaluate is not None)


def test_progress_without_tqdm_keeps_quiet_between_its_lines(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    out = io.StringIO()
    run([Progress("fit", seconds=1000, file=out)], 50)
    assert out.getvalue() == "fit: 50/50\n"


def test_progress_with_tqdm_counts_rounds_and_shows_metrics():
    pytest.importorskip("tqdm")
    out = io.StringIO()
    progress = Progress("fit", file=out)
    run([progress, lambda state: state.iteration == 2], 5, two_sets)
    assert "fit" in out.getvalue()
    assert "3/5" in out.getvalue()
    assert "valid-error:2" in out.getvalue()
    run([progress], 2)
    assert "2/2" in out.getvalue()


@pytest.mark.parametrize("seconds", [-1, math.nan, "5"])
def test_progress_refuses_odd_times(seconds):
    with pytest.raises(ValueError, match="seconds must be a finite number"):
        Progress(seconds=seconds)


# Learning rates


def test_schedule_by_function_sets_the_rate_of_every_round():
    assert run([LearningRateSchedule(lambda i: 1 / (1 + i))], 3)[1] == [1, 1 / 2, 1 / 3]


@pytest.mark.parametrize("rates", [[0.5, 0.25], np.array([0.5, 0.25, 0.1])])
def test_schedule_by_list_sets_the_rate_of_every_round(rates):
    assert run([LearningRateSchedule(rates)], 2)[1] == [0.5, 0.25]


def test_a_list_shorter_than_training_is_refused_before_the_first_round():
    log: list[tuple] = []
    with pytest.raises(ValueError, match="for each of 3 rounds, got 2"):
        run([LearningRateSchedule([0.5, 0.25]), Spy(log)], 3)
    assert log == []


def test_rates_of_a_schedule_are_checked():
    with pytest.raises(ValueError, match="learning rate must be"):
        LearningRateSchedule([0.5, 2.0])
    with pytest.raises(ValueError, match="learning rate must be"):
        run([LearningRateSchedule(lambda i: 0.0)])
