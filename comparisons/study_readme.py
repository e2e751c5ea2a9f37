"""The two tables of the README about the study, from its findings."""

from __future__ import annotations

from collections.abc import Sequence

from .report import markdown_table
from .study_report import Findings
from .study_stats import Contrast

__all__ = ["parts_table", "peers_table"]


def parts_table(main: Findings, small: Findings) -> str:
    """What each part adds, in the study and in the smaller one before it."""
    before = {question.text: c for question, c in small.questions}
    table = [["what changes", "ratio", "95 %", "median", "won–lost", "up to 1200 rows: ratio",
              "95 %", "median", "won–lost"]]  # fmt: skip
    for question, c in main.questions:
        earlier = before.get(question.text)
        table.append([question.text, *_cells(c), *(_cells(earlier) if earlier else ["–"] * 4)])
    return markdown_table(table)


def _cells(c: Contrast) -> list[str]:
    interval, score = f"{c.low:.3f}–{c.high:.3f}", f"{c.wins}–{c.losses}"
    return [_marked(c), interval, f"{c.median:.3f}", score]


def _marked(c: Contrast) -> str:
    """Bold where the interval is below 1, italic where it is above."""
    mark = "**" if c.high < 1.0 else "*" if c.low > 1.0 else ""
    return f"{mark}{c.ratio:.3f}{mark}"


def peers_table(main: Findings, small: Findings) -> str:
    """Our default beside every peer: by equal rounds, by equal time, and before."""
    table = [["beside", "equal rounds", "won–lost", "equal time", "won–lost",
              "up to 1200 rows, equal rounds", "won–lost"]]  # fmt: skip
    columns = [_by_peer(main.duels), _by_peer(main.timed_duels), _by_peer(small.duels)]
    for peer in columns[0]:
        row = [peer]
        for column in columns:
            c = column.get(peer)
            row += [_marked(c), f"{c.wins}–{c.losses}"] if c else ["–"] * 2
        table.append(row)
    return markdown_table(table)


def _by_peer(duels: Sequence[Contrast]) -> dict[str, Contrast]:
    return {c.second: c for c in duels if c.first == "fullhess default"}
