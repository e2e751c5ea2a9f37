"""``python -m comparisons speed``: what it measures and says, never how fast anything is."""

from __future__ import annotations

import csv
import json
import os
import sys
from dataclasses import replace

import numpy as np
import pytest

import fullhess
from comparisons.__main__ import main
from comparisons.problems import like_covertype, like_letter
from comparisons.speed import cases, clocks, cold, lines, memory, prediction, rounds
from comparisons.speed.cases import CASES, METHODS
from comparisons.speed.lines import Line

K7 = next(case for case in CASES if case.name == "k7")
LOSSGUIDE = next(case for case in CASES if case.name == "lossguide")


def line(**changes):
    settings = {"problem": "p", "method": "m", "threads": 1, "unit": "s", "own": 1.0}
    return Line("rounds", **{**settings, **changes})


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Run the command on a few rows; its lines as in the JSON file."""
    pytest.importorskip("xgboost", exc_type=ImportError)

    def run(*options):
        options = ["--quick", "--rows", "1500", "--output", str(tmp_path), *options]
        assert main(["speed", *options]) == 0
        return json.loads((tmp_path / "speed_quick.json").read_text(encoding="utf-8"))["lines"]

    return run


def test_rounds_are_one_ratio_a_line_on_screen_and_in_files(small, tmp_path, capsys):
    found = small("--only", "letter", "--threads", "1", "2")
    printed = capsys.readouterr().out
    assert "quick" in printed and "Targets" in printed
    assert [(line["method"], line["threads"]) for line in found] == [
        (method, threads)
        for method in next(c for c in CASES if c.name == "letter").targets
        for threads in (1, 2)
    ]
    for one in found:
        assert one["value"] == pytest.approx(
            np.median(one["own_samples"]) / np.median(one["host_samples"])
        )
        assert one["target"] is None, "targets are for the full sizes"
        assert f"{one['value']:.2f}" in printed
    with (tmp_path / "speed_quick.csv").open(encoding="utf-8") as file:
        assert [float(row["value"]) for row in csv.DictReader(file)] == [o["value"] for o in found]


def test_memory_is_told_for_both():
    pytest.importorskip("xgboost", exc_type=ImportError)
    case = replace(K7, rows=1500, rounds=2, targets={cases.DIAGONAL: None})
    found = memory.measure(case, cases.load(case, None, False), 1)
    if sys.platform == "linux":
        assert [(x.method, x.target) for x in found] == [(cases.DIAGONAL, None)]
        assert found[0].own > 0 and found[0].host > 0


def test_without_xgboost_it_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert main(["speed", "--quick", "--output", str(tmp_path)]) == 1
    assert ".[compare]" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_unknown_part_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["speed", "--only", "k8"])
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert "k8" in message and "lossguide" in message


@pytest.mark.parametrize("case", [K7, LOSSGUIDE], ids=lambda case: case.host)
def test_speed_ups_are_shown_beside_the_hosts(case):
    pytest.importorskip(case.host.lower(), exc_type=ImportError)
    sized = replace(case, rows=1200, turns=1, rounds=2)
    found = rounds.measure(sized, cases.load(sized, None, False), (1, 2))
    ratios = {(x.method, x.threads): x for x in found if x.part == "rounds"}
    faster = [x for x in found if x.part == "threads"]
    assert [x.method for x in faster] == list(case.targets)
    for x in faster:
        one, two = ratios[x.method, 1], ratios[x.method, 2]
        assert x.value == pytest.approx(one.own / two.own)
        assert x.host == pytest.approx(one.host / two.host)


@pytest.mark.parametrize("case", [K7, LOSSGUIDE], ids=lambda case: case.host)
def test_trees_of_both_sides_have_the_same_size_and_bins(case):
    pytest.importorskip(case.host.lower(), exc_type=ImportError)
    sized = replace(case, rows=8000)
    rows = cases.load(sized, None, False)
    prepare = {"XGBoost": clocks.on_xgboost_bins, "LightGBM": clocks.on_lightgbm_bins}[case.host]
    host, binned, tree = prepare(rows.X, rows.label, case.tree)
    theirs = host(2, 1)
    ours = clocks.train_fullhess(binned, rows.label, {**tree, **METHODS[cases.FULL]}, 2, 1)
    assert ours.leaves == pytest.approx(theirs.leaves, rel=0.1)
    assert len(ours.seconds) == len(theirs.seconds) == 2
    assert binned.binning.n_bins.max() > 200
    assert binned.binning.n_bins.max() <= clocks.MAX_BINS[case.host]


def test_every_case_has_a_known_method_and_the_targets_are_for_its_size_only():
    for case in CASES:
        assert set(case.targets) <= set(METHODS)
        assert case.smaller(case.rows) is case
        few = case.smaller(100)
        assert few.rows == 100 and set(few.targets.values()) == {None} and few.speed_up is None


def test_a_set_that_is_not_at_hand_is_named_a_stand_in(tmp_path):
    case = replace(next(c for c in CASES if c.name == "letter"), rows=60)
    made = cases.load(case, None, False)
    assert "stand-in for letter" in made.words
    np.savez(tmp_path / "letter.npz", X=np.ones((99, 16)), y=np.arange(99) % 26, test_start=70)
    real = cases.load(case, str(tmp_path), False)
    assert "stand-in" not in real.words and "60 × 16 letter" in real.words
    assert len(real.X) == len(real.label) == 60


def test_stand_ins_have_the_shape_of_the_originals():
    X, label = like_covertype(4000)
    assert X.shape == (4000, 54) and X.dtype == np.float32 and set(label) == set(range(7))
    assert (X[:, 10:14].sum(axis=1) == 1).all() and (X[:, 14:].sum(axis=1) == 1).all()
    assert all(len(np.unique(column)) > 10 for column in X[:, :10].T)
    X, label = like_letter(4000)
    assert X.shape == (4000, 16) and set(label) == set(range(26))
    assert (np.rint(X) == X).all() and X.min() >= 0 and X.max() <= 15


def test_a_ratio_is_met_from_below_and_a_speed_up_from_above():
    assert line(host=2.0, target=0.5).met and not line(host=2.0, target=0.49).met
    assert line(own=1.8, kind="speed-up", target=1.7).met
    assert not line(own=1.6, kind="speed-up", target=1.7).met
    assert line(own=3.0, kind="absolute", target=3.0).met
    assert line(host=2.0).met is None and line(host=None, target=1.0).met is None


def test_summary_counts_targets_by_part_and_doubts_what_a_busy_machine_says():
    found = [line(host=2.0, target=0.5), line(host=1.0, target=0.5), line(host=1.0)]
    other = replace(found[0], part="memory")
    assert lines.summary([*found, other]) == "2 of 3 reached: rounds 1 of 2, memory 1 of 1"
    slower = line(kind="speed-up", host=0.9, threads=2)
    assert "see the cautions" in lines.summary([*found, slower])
    assert "full sizes" in lines.summary(found[2:])


def test_measurements_that_say_little_are_told():
    steady = line(host=1.0, own_samples=(1.0, 1.01, 1.02), host_samples=(1.0, 1.0, 1.0))
    assert lines.cautions([steady]) == []
    uneven = replace(steady, own_samples=(0.5, 0.9, 0.95))
    assert "other work was running" in lines.cautions([steady, uneven])[0]
    slower = line(kind="speed-up", host=0.9, threads=2)
    assert "slower on several threads" in lines.cautions([slower])[0]
    smaller = line(host=1.0, own_leaves=40.0, host_leaves=64.0)
    assert "40 leaves" in lines.cautions([smaller])[0]


def test_prediction_and_binning_are_compared_with_both_hosts(small):
    pytest.importorskip("lightgbm", exc_type=ImportError)
    found = small("--only", "prediction", "binning")
    by_part = {p: [x for x in found if x["part"] == p] for p in ("prediction", "binning")}
    assert [x["unit"].split()[0] for x in by_part["prediction"]] == ["seconds", "microseconds"] * 2
    assert len(by_part["binning"]) == 4
    for part in by_part.values():
        names = [x["against"].split()[0] for x in part]
        assert names == ["XGBoost"] * (len(part) // 2) + ["LightGBM"] * (len(part) // 2)
        assert all(x["own"] > 0 and x["host"] > 0 for x in part)


def test_a_host_that_predicts_otherwise_is_not_timed():
    binned = fullhess.BinnedMatrix.from_quantiles(np.arange(60.0)[:, None])
    model = fullhess.train({"max_depth": 1}, binned, np.arange(60) % 3, num_boost_round=1)
    X = np.arange(60, dtype=np.float32)[:, None]
    same = prediction.Pair(model, "same", lambda X, n: model.predict(X), 1.0)
    prediction.check_equal(same, X)
    other = replace(same, words="other", host=lambda X, n: model.predict(X) + 1e-3)
    with pytest.raises(RuntimeError, match="other predicts otherwise"):
        prediction.check_equal(other, X)


def test_alternating_actions_are_all_timed_and_warmed_up():
    calls = []
    seconds = clocks.alternate({n: lambda n=n: calls.append(n) for n in "ab"}, 2)
    assert "".join(calls) == "ab" + "abab"
    assert [len(s) for s in seconds.values()] == [2, 2]


def test_a_cold_start_is_measured_in_processes_of_its_own(monkeypatch):
    asked = []

    def process(cache):
        asked.append(cache)
        first = len(asked) == 1
        return {"import": 0.4, "train": 9.0 if first else 1.0, "all": 10.0 if first else 2.0}

    monkeypatch.setattr(cold, "_process", process)
    found = {x.method: x for x in cold.measure()}
    assert len(set(asked)) == 1 and len(asked) == 1 + cold.WARM_REPEATS
    assert found["first train, empty cache"].own == 9.0
    assert found["first train, kernels in the cache"].own == 1.0
    assert found["import fullhess"].met


def test_the_program_of_a_cold_start_runs():
    """With the cache of the tests, which keeps it short."""
    found = cold._process(os.environ.get("NUMBA_CACHE_DIR", ""))
    assert set(found) == {"import", "train", "all"}
    assert 0 < found["import"] + found["train"] <= found["all"]
