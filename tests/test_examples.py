"""Scripts for XGBoost and LightGBM run with one import line changed, and without."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted((ROOT / "comparisons" / "examples").glob("[xl]*_*.py"))
IMPORT = re.compile(r"^import fullhess\.(\w+) as (\w+)$", re.MULTILINE)


def words_of(source, folder):
    """What a script prints, without its numbers."""
    script = folder / "script.py"
    script.write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("fullhess: compil")]
    return [re.sub(r"\d+(\.\d+)?", "#", line) for line in lines if not line.startswith("[")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_one_import_line_is_all_that_changes(script, tmp_path):
    source = script.read_text(encoding="utf-8")
    found = IMPORT.findall(source)
    assert len(found) == 1
    host = found[0][0]
    pytest.importorskip(host)
    if "pandas" in source:
        pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
    original = IMPORT.sub(r"import \1 as \2", source)
    ours, theirs = (words_of(text, tmp_path) for text in (source, original))
    assert ours == theirs
    assert not any("False" in line for line in ours)
