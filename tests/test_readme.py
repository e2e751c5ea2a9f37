from __future__ import annotations

import re
from pathlib import Path

from fullhess.params import parameter_table

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_parameter_table_is_the_one_params_make():
    pattern = r"<!-- parameters: [^\n]* -->\n(.*?)<!-- end of parameters -->"
    found = re.search(pattern, README, re.DOTALL)
    assert found is not None
    assert found[1] == parameter_table()


def test_test_command_is_the_one_continuous_integration_runs():
    commands = re.findall(r"```bash\n(.*?)\n```", README, re.DOTALL)
    test_command = next(command for command in commands if "pytest" in command)
    assert test_command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
