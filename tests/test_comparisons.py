from __future__ import annotations

import builtins
import contextlib
import csv
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fullhess
from comparisons import libraries, quickstart
from comparisons.__main__ import _COMMANDS, main
from comparisons.libraries import Method, Run, fullhess_
from comparisons.problems import digits, generated

ROOT = Path(__file__).resolve().parent.parent


def hide(monkeypatch, *names):
    """Make imports of these libraries fail, as if they were not installed."""
    real = builtins.__import__

    def fake(name, *args, **kwargs):
        if name.partition(".")[0] in names:
            raise ImportError(f"No module named {name!r}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fake)
    for module in libraries.MODULES.values():
        monkeypatch.delitem(sys.modules, f"comparisons.libraries.{module}", raising=False)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Files and printed text of a quickstart of three rounds."""
    folder = tmp_path_factory.mktemp("quickstart")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["quickstart", "--rounds", "3", "--output", str(folder)]) == 0
    return folder, printed.getvalue()


def test_help_lists_the_commands():
    done = subprocess.run(
        [sys.executable, "-m", "comparisons", "--help"],
        cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120, check=True,
    )  # fmt: skip
    for command in _COMMANDS:
        assert command in done.stdout


def test_quickstart_writes_figure_curves_and_model(quick):
    folder, _ = quick
    assert (folder / "quickstart.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "quickstart.svg").read_text(encoding="utf-8")
    with (folder / "quickstart.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    own = [row for row in rows if row["library"] == "fullhess"]
    assert len(own) == 3 * len(fullhess_.METHODS)
    assert all(0 < float(row["loss"]) < 5 for row in rows)


def test_quickstart_table_names_every_method_and_its_curvature(quick):
    modules, notes = libraries.find()
    lines = quick[1].splitlines()
    for module in modules:
        for method in module.METHODS:
            start = f" {method.name} "
            found = [line for line in lines if line.startswith(start) and method.curvature in line]
            assert found, method
    assert len(modules) + len(notes) == len(libraries.MODULES)


def test_quickstart_model_predicts_again_what_its_curve_says(quick):
    folder, _ = quick
    problem = digits()
    model = fullhess.load(folder / "digits.fullhess")
    probability = model.predict(problem.X_valid)
    loss = -np.log(probability[np.arange(len(problem.y_valid)), problem.y_valid]).mean()
    with (folder / "quickstart.csv").open(encoding="utf-8") as file:
        curve = [row for row in csv.DictReader(file) if row["method"] == fullhess_.DEFAULT.name]
    assert loss == pytest.approx(float(curve[-1]["loss"]), rel=1e-6)


def test_saved_model_that_predicts_otherwise_is_reported(tmp_path, monkeypatch):
    binned, _ = fullhess_.bin_data(digits())
    label = digits().y_train
    one, two = (fullhess.train({"max_depth": 2}, binned, label, num_boost_round=n) for n in (1, 2))
    monkeypatch.setattr(fullhess, "load", lambda path: two)
    with pytest.raises(RuntimeError, match="predicts otherwise"):
        quickstart.save_model(one, digits().X_valid, tmp_path / "model.fullhess")


def test_missing_library_is_named_and_left_out(monkeypatch):
    hide(monkeypatch, "xgboost", "lightgbm")
    modules, notes = libraries.find()
    assert [module.LIBRARY for module in modules] == ["fullhess"]
    assert [note.partition(",")[0] for note in notes] == ["XGBoost", "LightGBM"]
    assert all("[compare]" in note for note in notes)


@pytest.mark.parametrize(("typed", "hint"), [("quikstart", "'quickstart'"), ("xyz", "speed")])
def test_unknown_command_gets_a_hint(typed, hint, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([typed])
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert repr(typed) in message and hint in message


@pytest.mark.parametrize(
    "options", [["--rounds", "0"], ["--rounds", "x"], ["--learning-rate", "2"], ["--jobs", "-1"]]
)
def test_bad_option_is_refused_before_any_work(options, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["quickstart", *options])
    assert stopped.value.code == 2
    assert "expected" in capsys.readouterr().err


def test_rises_count_rounds_that_raise_the_training_loss():
    train_loss = np.array([1.0, 0.5, 0.6, 0.6, 0.4, 0.41])
    run = Run("x", "1", Method("m", "c"), *[train_loss] * 5, None)
    assert run.rises == 2
    assert run.best == 4


def test_table_marks_the_lowest_loss_of_each_round():
    def run(name, loss):
        loss = np.array(loss)
        return Run("x", "1", Method(name, "c"), *[loss] * 5, None)

    table = quickstart.loss_table([run("one", [1.0, 0.5]), run("two", [0.9, 0.7])])
    one, two = (next(r for r in table.splitlines() if f" {n} " in r) for n in ("one", "two"))
    assert "1.0000 " in one and "0.5000*" in one
    assert "0.9000*" in two and "0.7000*" not in two


def test_labels_are_moved_apart_in_their_order():
    spread = pytest.importorskip("comparisons.figure", exc_type=ImportError).spread
    places = np.array([0.5, 0.1, 0.52, 0.9, 0.51])
    moved = spread(places, 0.05)
    assert (np.argsort(moved) == np.argsort(places)).all()
    assert np.diff(np.sort(moved)).min() >= 0.05 - 1e-12
    assert moved[1] == 0.1 and moved[3] == 0.9
    assert moved[[0, 2, 4]].mean() == pytest.approx(0.51)


def test_generated_data_are_the_same_every_time_and_hold_all_classes():
    X, label = generated(2000, 7)
    again, label_again = generated(2000, 7)
    assert X.dtype == np.float32 and X.shape == (2000, 54)
    assert (again == X).all() and (label == label_again).all()
    assert set(label) == set(range(7))
