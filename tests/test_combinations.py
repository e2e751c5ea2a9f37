"""``python -m comparisons combinations``: the effects it finds, and what it writes."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest

from comparisons import combinations
from comparisons.__main__ import main
from comparisons.combinations import COMBINATIONS, DEFAULT, FACTORS, levels_of
from comparisons.combinations_report import effect, losses_beside_default
from comparisons.study_stats import Table
from fullhess.params import Params

# What each level multiplies a made-up loss by.
FACTOR = {
    "full": 1.0, "upper_bound": 1.1, "absolute_residual": 0.9, "diagonal": 1.2,
    "scaled_diagonal": 1.3, "newton": 1.0, "damped": 1.05, "exact": 0.8, "ridge": 1.0,
    "path": 0.7, "quadratic": 1.0, "guaranteed": 1.01,
}  # fmt: skip


def made_up_table(n_sets: int = 4) -> Table:
    names = [f"fullhess {method.name}" for method in COMBINATIONS]
    losses = np.array([np.prod([FACTOR[level] for level in levels_of(name)]) for name in names])
    sets = [f"d{i}" for i in range(n_sets)]
    values = losses[:, None, None] * np.arange(1.0, n_sets + 1)[None, :, None]
    return Table(names, sets, values, np.full(n_sets, 3))


def test_every_combination_takes_part_once_and_is_allowed():
    expected = itertools.product(*FACTORS.values())
    assert [levels_of(f"fullhess {method.name}") for method in COMBINATIONS] == list(expected)
    assert DEFAULT in {method.name for method in COMBINATIONS}
    for method in COMBINATIONS:
        params = Params(**method.params, num_class=3)
        assert params.split_hessian == params.hessian


def test_effects_are_those_of_one_factor_alone():
    table = made_up_table()
    for factor, levels in FACTORS.items():
        for first, second in itertools.permutations(levels, 2):
            found = effect(table, factor, first, second)
            assert found.ratio == pytest.approx(FACTOR[first] / FACTOR[second])
            assert found.low == pytest.approx(found.high)
            assert found.pairs == 60 // len(levels)
            assert (found.wins, found.losses) == ((4, 0) if found.ratio < 1 else (0, 4))
    within = effect(table, "leaf_prior", "path", "ridge", {"hessian": "full"})
    assert within.ratio == pytest.approx(0.7) and within.pairs == 6 and within.marked == "**0.700**"


def test_losses_beside_the_default():
    table = made_up_table()
    ratios = dict(zip(table.methods, losses_beside_default(table), strict=True))
    assert ratios[f"fullhess {DEFAULT}"] == 1.0
    worse = "fullhess diagonal · newton · ridge · guaranteed"
    assert ratios[worse] == pytest.approx(1.2 / (0.8 * 0.7))


def test_quick_combinations_write_a_report_and_resume(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    command = ["combinations", "--quick", "--output", str(tmp_path)]
    assert main(command) == 0
    with (tmp_path / "combinations_quick.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60 and len({row["method"] for row in rows}) == 60
    rises = sum(
        float(row["search_rises"]) for row in rows if levels_of(row["method"])[1] != "newton"
    )
    assert rises == 0, "exact and damped leaves never raise the training loss"
    report = (tmp_path / "combinations_quick.md").read_text(encoding="utf-8")
    assert "60 combinations" in report and "| leaf_prior: path | ridge |" in report
    assert (tmp_path / "combinations_quick.png").read_bytes().startswith(b"\x89PNG")
    assert "leaf_prior: path" in capsys.readouterr().out
    monkeypatch.setattr(combinations, "search", None)  # nothing is left to do
    assert main(command) == 0


def test_combinations_without_data_say_so(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("FULLHESS_DATA", raising=False)
    assert main(["combinations", "--sets", "letter", "--output", str(tmp_path)]) == 1
    assert "no data set" in capsys.readouterr().err
