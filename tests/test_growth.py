"""``python -m comparisons growth`` and ``time_to_quality``: what they compute, not how fast."""

from __future__ import annotations

import csv
import importlib
from dataclasses import replace

import numpy as np
import pytest

from comparisons import growth, time_to_quality
from comparisons.__main__ import main
from comparisons.contenders import Protocol, full_name
from comparisons.growth import Axis, Point, draw_binned, fit
from comparisons.libraries import Settings
from comparisons.problems import digits
from comparisons.time_to_quality_report import (
    Training,
    grouped,
    levels_table,
    peer_table,
    ratio_to_peer,
)
from comparisons.timed_training import Curve, log_loss_of_scores, train

ROWS = Axis("rows", (10, 100, 1000, 10_000), {"features": 2, "classes": 3}, 100, 1.0)
DIGITS = digits()
METHODS = [*time_to_quality.PEERS, *time_to_quality.OWN]


def power_law(axis, exponent, factor=1e-9, splits="full"):
    """Points of a law in the upper part; below it the time does not grow."""
    points = []
    for value in axis.values:
        grown = factor * float(max(value, axis.from_value)) ** exponent
        points.append(Point(axis.name, **axis.sizes(value), splits=splits, leaves=4, seconds=grown))
    return points


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.7])
def test_exponent_of_a_power_law_is_found_in_the_upper_part(exponent):
    found = fit(power_law(ROWS, exponent), ROWS, "full")
    assert found.exponent == pytest.approx(exponent)
    assert (found.first, found.last) == (100, 10_000)
    assert found.within == (exponent <= 1.0)


def test_constant_is_the_last_round_divided_by_its_work():
    found = fit(power_law(ROWS, 1.0, factor=6e-9), ROWS, "full")
    assert found.nanoseconds == pytest.approx(6.0 / 2) and found.unit == ""
    classes = Axis("classes", (2, 4, 8), {"rows": 10, "features": 5}, 2, 2.0)
    for splits, power, unit in (("full", 2, "·class²"), ("diagonal", 1, "·class")):
        found = fit(power_law(classes, power, splits=splits), classes, splits)
        assert found.nanoseconds == pytest.approx(1.0 / 50) and found.unit == unit


def test_axes_reach_the_sizes_that_are_promised():
    ends = {axis.name: (axis.values[0], axis.values[-1]) for axis in growth.AXES}
    assert ends == {"rows": (10_000, 2_000_000), "features": (10, 1000), "classes": (2, 100)}
    for axis in (*growth.AXES, *growth.QUICK_AXES):
        assert list(axis.values) == sorted(axis.values)
        full = [v for v in axis.values if axis.sizes(v)["classes"] <= growth._FULL_MAX_CLASSES]
        assert len([v for v in full if v >= axis.from_value]) >= 3


def test_drawn_codes_are_small_repeatable_and_hold_all_classes():
    binned, label = draw_binned(3000, 4, 5)
    again, label_again = draw_binned(3000, 4, 5)
    assert binned.codes.dtype == np.uint8 and binned.codes.shape == (3000, 4)
    assert set(label) == set(range(5))
    assert (binned.codes == again.codes).all() and (label == label_again).all()
    assert (binned.binning.n_bins == growth.N_BINS).all()
    few_codes = binned.binning.encode(binned.codes.astype(float)).codes
    assert (few_codes == binned.codes).all(), "a code is the bin of its own number"


def test_growth_writes_points_exponents_and_figure(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    axes = [replace(axis, fixed={k: min(v, 300) for k, v in axis.fixed.items()})
            for axis in growth.QUICK_AXES]  # fmt: skip
    axes[0] = replace(axes[0], values=(200, 400), from_value=200)
    monkeypatch.setattr(growth, "QUICK_AXES", axes)
    assert main(["growth", "--quick", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    with (tmp_path / "growth_quick.csv").open(encoding="utf-8") as file:
        points = list(csv.DictReader(file))
    assert len(points) == 2 * sum(len(axis.values) for axis in axes)
    assert all(float(point["seconds"]) > 0 for point in points)
    report = (tmp_path / "growth_quick.md").read_text(encoding="utf-8")
    for axis in axes:
        assert f"| {axis.name} | full |" in printed and f"| {axis.name} | full |" in report
    assert (tmp_path / "growth_quick.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "growth_quick.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("library, method", METHODS, ids=[full_name(*m) for m in METHODS])
def test_timed_loop_trains_what_the_library_trains(library, method):
    """The loops are our own; their losses must be those of each library's own loop."""
    names = {"fullhess": "fullhess_", "XGBoost": "xgboost_", "LightGBM": "lightgbm_"}
    pytest.importorskip(library.lower(), exc_type=ImportError)
    module = importlib.import_module(f"comparisons.libraries.{names[library]}")
    settings = Settings(rounds=4, max_depth=3, subsample=0.7, colsample_bytree=0.7)
    heard = []
    curve = train(library, DIGITS, settings, method, heard.append)
    expected = module.train(DIGITS, settings, method, lambda loss: None)
    np.testing.assert_allclose(curve.losses, expected.loss, rtol=1e-5)
    assert heard == curve.losses and len(curve.seconds) == 4 and min(curve.seconds) > 0


def test_log_loss_of_scores_is_the_definition_and_survives_large_scores():
    raw = np.array([[0.0, 1.0, 2.0], [3.0, -1.0, 0.5]])
    label = np.array([2, 1])
    share = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    slow = -np.mean([np.log(share[0, 2]), np.log(share[1, 1])])
    assert log_loss_of_scores(raw, label) == pytest.approx(slow)
    assert log_loss_of_scores(raw + 1e4, label) == pytest.approx(slow)


def test_training_stops_after_rounds_without_a_lower_loss():
    curve = Curve("1", losses=[1.0, 0.5, 0.6, 0.5])
    assert curve.should_stop(2) and not curve.should_stop(3) and not curve.should_stop(None)


def training(method, losses, draw=0, pace=1.0, data="d"):
    seconds = pace * np.arange(1, len(losses) + 1)
    return Training(data, method, draw, np.array(losses), seconds)


def test_ratio_is_our_seconds_to_the_peers_best_loss():
    peer = [training("p", [1.0, 0.6, 0.5, 0.7]), training("p", [1.0, 0.9], draw=1)]
    quick = training("o", [0.5, 0.45])
    low = training("o", [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], draw=1)
    found = ratio_to_peer([quick, low], peer)
    assert found.soonest == pytest.approx(1 / 3), "the first round of the quick one"
    assert found.tuned == pytest.approx(5 / 3), "the setting of the lowest loss is there later"
    assert ratio_to_peer([training("o", [0.9])], peer).soonest == np.inf


def test_tables_name_what_is_never_reached_and_what_is_soonest():
    own = [full_name(*entry) for entry in time_to_quality.OWN]
    peers = [full_name(*entry) for entry in time_to_quality.PEERS]
    curves = {
        own[0]: [0.4, 0.3], own[1]: [1.0, 0.9],
        **{key: [1.0, 0.8, 0.6] for key in peers},
    }  # fmt: skip
    groups = {("d", name): [training(name, losses)] for name, losses in curves.items()}
    cells = peer_table(groups, peers[0], 100)[1]
    assert cells[:4] == ["d", "0.6000", "3", "3"]
    assert cells[4:] == ["0.33 (0.33)", "never (never)"]
    assert peer_table(groups, peers[0], 3)[1][2] == "3, the limit"
    last = levels_table(groups)[-1]
    assert last[:2] == ["d", "0.9000"] and last[2] == "**1** (1)" and last[4] == "2 (2)"


def test_time_to_quality_resumes_and_writes_its_report(tmp_path, monkeypatch, capsys):
    for library in ("xgboost", "lightgbm", "matplotlib"):
        pytest.importorskip(library, exc_type=ImportError)
    command = ["time_to_quality", "--quick", "--sets", "digits", "--rounds", "3", "--draws"]
    assert main([*command, "1", "--output", str(tmp_path)]) == 0
    path = tmp_path / "time_to_quality_quick.csv"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {full_name(*m) for m in METHODS}
    for training_ in (t for trainings in grouped(rows).values() for t in trainings):
        assert len(training_.losses) == 3 and (np.diff(training_.seconds) > 0).all()
    report = (tmp_path / "time_to_quality_quick.md").read_text(encoding="utf-8")
    assert "left out for all" in report and "## Beside XGBoost vector leaves" in report
    assert (tmp_path / "time_to_quality_quick.png").read_bytes().startswith(b"\x89PNG")

    trained = []
    real = time_to_quality.train
    monkeypatch.setattr(time_to_quality, "train", lambda *a: trained.append(a[0]) or real(*a))
    before = path.read_bytes()
    assert main([*command, "1", "--output", str(tmp_path)]) == 0
    assert not trained and path.read_bytes() == before
    assert main([*command, "2", "--output", str(tmp_path)]) == 0
    assert path.read_bytes().startswith(before), "a further draw continues the run"
    assert len(path.read_bytes().splitlines()) == 1 + 2 * len(METHODS)


def test_further_draws_leave_the_first_ones_as_they_are():
    few, many = (
        time_to_quality._draws(Protocol(n_draws=n, even=False)) for n in (3, 8)
    )  # fmt: skip
    assert many[:3] == few
    leaves = [settings.max_leaves for settings in many]
    assert min(leaves) >= 16 and max(leaves) <= 256 and max(leaves) > 4 * min(leaves)


@pytest.mark.parametrize("library, method", METHODS, ids=[full_name(*m) for m in METHODS])
def test_trees_have_the_leaves_that_are_asked_for(library, method):
    names = {"fullhess": "fullhess_", "XGBoost": "xgboost_", "LightGBM": "lightgbm_"}
    pytest.importorskip(library.lower(), exc_type=ImportError)
    module = importlib.import_module(f"comparisons.libraries.{names[library]}")
    settings = Settings(rounds=1, max_leaves=12, max_depth=2)
    leaves, _ = module.size(module.train(DIGITS, settings, method, lambda loss: None))
    if library == "LightGBM":  # ten trees, some of which find nothing more to split
        assert 100 < leaves <= 120
    else:
        assert leaves == 12


def test_time_to_quality_without_data_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("FULLHESS_DATA", raising=False)
    command = ["time_to_quality", "--sets", "letter", "--output", str(tmp_path)]
    assert main(command) == 1
    captured = capsys.readouterr()
    assert "letter.npz" in captured.out and "no data set" in captured.err
