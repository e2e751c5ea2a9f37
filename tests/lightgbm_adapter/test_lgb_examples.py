"""Scripts for LightGBM run with only their import line changed."""

from __future__ import annotations

from pathlib import Path

import pytest

lgb = pytest.importorskip("lightgbm")

EXAMPLES = Path(__file__).resolve().parents[2] / "comparisons" / "examples"
OURS = "import fullhess.lightgbm as lgb"
NAMES = [path.name for path in sorted(EXAMPLES.glob("lightgbm_*.py"))]

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # eval_set, from 4.7 on


def test_there_are_examples():
    assert len(NAMES) >= 4


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("line", [OURS, "import lightgbm as lgb"])
def test_example(name, line, capsys):
    source = (EXAMPLES / name).read_text()
    if "plots" in name:
        pytest.importorskip("matplotlib")
    assert source.count(OURS) == 1 and source.count("fullhess") == 1
    space = {"__name__": "example"}
    exec(compile(source.replace(OURS, line), name, "exec"), space)
    assert capsys.readouterr().out
    booster = space.get("booster") or space.get("second") or space["model"].booster_
    assert isinstance(booster, space["lgb"].Booster)
    assert hasattr(booster, "native") == (line == OURS)
