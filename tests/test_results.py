"""The committed reports say what the tables beside them say."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from comparisons import combinations, combinations_report
from comparisons.contenders import PLANS
from comparisons.convergence import reversal_table
from comparisons.literature import report_text as literature_text
from comparisons.published import AUTHORS_RUNS
from comparisons.report import markdown_table
from comparisons.study_readme import parts_table, peers_table
from comparisons.study_report import belongs, find, report_text

# Methods of ours whose steps come with a proof of descent.
PROMISED = (
    "full splits", "ridge", "quadratic gain", "ridge, quadratic gain", "p(1−p) splits",
    "p(1−p) splits, ridge", "2p(1−p) splits", "2p(1−p) splits, ridge", "damped step",
    "damped step, path prior",
)  # fmt: skip
RESULTS = Path(__file__).resolve().parent.parent / "comparisons" / "results"


def table(name):
    with (RESULTS / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def text(name):
    return (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def findings(key):
    plan = PLANS[key]
    return find(table(plan.name), table(f"{plan.name}_trees"), plan)


def test_the_readme_has_the_tables_of_the_study():
    readme = (RESULTS.parent.parent / "README.md").read_text(encoding="utf-8")
    main, small = findings("main"), findings("small")
    assert parts_table(main, small) in readme
    assert peers_table(main, small) in readme


def test_the_combinations_report_their_table():
    rows = table("combinations")
    assert {row["protocol"] for row in rows} == {combinations.FULL_PROTOCOL.key}
    expected = combinations_report.report_text(
        rows, combinations.FULL_PROTOCOL, "combinations", []
    )  # fmt: skip
    facts = ("* Machine:", "* Left out:")
    kept = [line for line in text("combinations").splitlines() if not line.startswith(facts)]
    assert [x for x in kept if x] == [x for x in expected.splitlines() if x]


@pytest.mark.parametrize("key", ["main", "small", "large", "pace"])
def test_the_study_reports_its_table(key):
    """``python -m comparisons study --report-only --output comparisons/results`` makes it so."""
    plan = PLANS[key]
    rows = table(plan.name)
    assert all(belongs(row, plan) for row in rows)
    expected = report_text(find(rows, table(f"{plan.name}_trees"), plan), rows, plan, [])
    facts = ("* Machine:", "* Left out:")
    kept = [line for line in text(plan.name).splitlines() if not line.startswith(facts)]
    assert [x for x in kept if x] == [x for x in expected.splitlines() if x]


def test_the_study_has_enough_real_sets_and_splits():
    rows = table("study")
    seeds = {}
    for row in rows:
        seeds.setdefault((row["data"], row["method"]), set()).add(row["seed"])
    assert len({data for data, _ in seeds} - {"wine", "digits", "poker"}) >= 12
    assert min(len(found) for found in seeds.values()) >= 3


def test_our_steps_with_a_proof_never_raised_the_training_loss():
    promised = {f"fullhess {name}" for name in PROMISED}
    rows = [row for row in table("study") if row["method"] in promised]
    assert rows and all(float(row["search_rises"]) == 0.0 for row in rows)


def test_convergence_reports_its_table_and_none_of_our_exact_leaves_rises():
    rows = table("convergence")
    reversals = reversal_table(rows)
    assert markdown_table(reversals) in text("convergence")
    by_method = {row[0]: row[1:] for row in reversals[1:]}
    for method in ("fullhess full splits", "fullhess ridge"):
        assert set(by_method[method]) == {"0"}
    assert any(cell != "0" for row in reversals[1:] for cell in row[1:])


def test_literature_reports_its_table():
    """``python -m comparisons literature --output comparisons/results`` makes it so."""
    expected = literature_text(table("literature"), AUTHORS_RUNS).splitlines()
    kept = text("literature").splitlines()
    assert [x for x in kept if x[:10] != "Written by"] == [
        x for x in expected if x[:10] != "Written by"
    ]


def test_paper_reports_its_losses():
    losses = [float(row["multinomial loss"]) for row in table("paper_losses")
              if row["multinomial loss"]]  # fmt: skip
    assert losses == sorted(losses, reverse=True)
    assert all(f"{loss:.2f}" in text("paper") for loss in losses)
    thresholds = table("paper_thresholds")
    for name in ("decrease, true Hessian", "decrease, 2p(1−p)"):
        best = np.argmax([float(row[name]) for row in thresholds])
        assert float(thresholds[best]["threshold"]) == pytest.approx(2480.5)
