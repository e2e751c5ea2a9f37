"""The paper's experiments, convergence, and the notebooks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from comparisons import convergence, data, paper, paper_intercepts, paper_split, splits
from comparisons.__main__ import main
from comparisons.data import Dataset
from comparisons.paper_intercepts import COUNTS, FREE, REFERENCE, all_paths
from comparisons.paper_regression import example

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "comparisons" / "notebooks").glob("*.py"))


@pytest.fixture(scope="module")
def paths():
    return {(path.rule, path.variant): path for path in all_paths(COUNTS, 1000)}


def test_iterations_are_those_of_the_paper(paths):
    for variant in (FREE, REFERENCE):
        assert paths["true Hessian", variant].iterations() == 4
    bound = paths["2p(1−p)", REFERENCE]
    assert (bound.iterations(), bound.iterations(binary=True)) == (403, 404)
    assert paths["2p(1−p)", FREE].iterations() == 15


def test_losses_at_the_optimum_are_those_of_paper_and_notebook():
    multinomial, binary = paper_intercepts._losses(COUNTS / COUNTS.sum(), COUNTS.astype(float))
    assert round(multinomial, 2) == 9143.99 and round(binary, 2) == 13678.95


def test_steps_that_never_arrive_are_shown_as_more_than_the_limit():
    """Half the curvature of two classes doubles the step, which then jumps to and fro."""
    table = paper_intercepts.summary(all_paths(np.array([1, 5000]), 50), 50)
    by_rule = {row[0]: dict(zip(table[0][1:], row[1:], strict=True)) for row in table[1:]}
    assert by_rule["p(1−p)"][f"{FREE}, multinomial"] == "> 50"
    assert by_rule["p(1−p)"][f"{REFERENCE}, multinomial"] == "10"


def test_criterion_is_the_one_of_two_separate_leaves():
    column = paper.first_column(None, fetch=False)
    assert not column.real and "stand-in" in column.origin
    split = paper_split.compare(column)
    share = COUNTS / COUNTS.sum()
    H = (np.diag(share) - np.outer(share, share))[:-1, :-1]
    for i in (0, len(split.thresholds) // 2):
        slow = 0.0
        for side in (column.x < split.thresholds[i], column.x > split.thresholds[i]):
            b = (np.bincount(column.y[side], minlength=7) - side.sum() * share)[:-1]
            slow += 0.5 * b @ np.linalg.solve(side.sum() * H, b)
        assert split.decrease["true Hessian"][i] == pytest.approx(slow, rel=1e-9)


def test_better_leaves_lower_the_loss_after_the_same_split():
    split = paper_split.compare(paper.first_column(None, fetch=False))
    losses = [loss for *_, loss in split.models]
    assert losses[0] == pytest.approx(9143.99, abs=0.01)
    assert losses == sorted(losses, reverse=True)
    own = [threshold for name, threshold, _, _ in split.models if name.startswith("fullhess")]
    assert own == pytest.approx([split.chosen["true Hessian"]] * 2)


def test_rows_that_are_not_the_papers_are_refused(tmp_path):
    np.savez(tmp_path / "covertype.npz", X=np.ones((6000, 2)), y=np.arange(6000) % 7)
    with pytest.raises(ValueError, match="first 5000 rows"):
        paper.first_column(str(tmp_path), fetch=False)


def test_a_leaf_is_a_linear_regression():
    found = example()
    np.testing.assert_allclose(found.leaf, found.coefficients, rtol=1e-10)
    assert found.rss == pytest.approx(found.twice_q + found.constant, rel=1e-10)
    for _, q, rss in found.by_split:
        assert rss - 2.0 * q == pytest.approx(found.constant, rel=1e-10)


def test_paper_command_writes_report_tables_and_figures(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.delenv(data.VARIABLE, raising=False)
    assert main(["paper", "--quick", "--output", str(tmp_path)]) == 0
    report = (tmp_path / "paper.md").read_text(encoding="utf-8")
    assert "not the paper's rows" in report and "> 100" in report
    names = {path.name for path in tmp_path.iterdir()}
    assert {"paper_intercepts.png", "paper_split.svg", "paper_losses.csv"} <= names


def test_trees_by_the_same_curvature_are_the_same():
    generator = np.random.default_rng(1)
    y = np.arange(400).astype(np.int32) % 4
    X = (y[:, None] % 3 + generator.normal(size=(400, 5))).astype(np.float32)
    parts = data.split(Dataset("made", "test", X, y), 0, 1000)
    trees = splits.compare_trees(parts, rounds=(0, 2))
    assert len(trees) == 2 * len(splits.RULES)
    for tree in trees:
        assert -1.0 <= tree.rand <= 1.0
        if tree.rule == "full":
            assert tree.same_root and tree.rand == 1.0
    table = splits.summary([{k: str(v) for k, v in vars(tree).items()} for tree in trees])
    assert len(table) == 1 + 2 * (len(splits.RULES) - 1)


def test_convergence_counts_rounds_that_raise_the_loss():
    def row(method, i, loss):
        return {
            "data": "x", "method": method, "reg_lambda": "1", "learning_rate": "0.3",
            "round": str(i), "train_loss": str(loss),
        }  # fmt: skip

    rows = [row("a", i, v) for i, v in enumerate([1.0, 0.5, 2.0, 1.0])]
    rows += [row("b", i, v) for i, v in enumerate([1.0, 0.5, 0.5, 0.1])]
    table = convergence.reversal_table(rows)
    assert table[1:] == [["a", "1 (×4)"], ["b", "0"]]


def test_quick_convergence_has_no_rise_of_ours(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(convergence, "RATES", (1.0,))
    monkeypatch.setattr(convergence, "METHODS", convergence.METHODS[:2])
    command = ["convergence", "--quick", "--output", str(tmp_path)]
    assert main(command) == 0
    lines = (tmp_path / "convergence_quick.md").read_text(encoding="utf-8").splitlines()
    for method in ("full splits", "ridge"):
        found = next(line for line in lines if line.startswith(f"| fullhess {method}"))
        assert [cell.strip() for cell in found.split("|")[2:-1]] == ["0"] * 2
    before = (tmp_path / "convergence_quick.csv").read_bytes()
    assert main(command) == 0
    assert (tmp_path / "convergence_quick.csv").read_bytes() == before


def test_rare_digits_are_rare_but_there():
    problem = convergence.rare_digits()
    counts = np.bincount(problem.y_train, minlength=10)
    assert (counts[7:] >= 3).all() and (counts[7:] <= 5).all() and (counts[:7] > 100).all()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook):
    host = notebook.stem.partition("_")[0]
    if host in ("xgboost", "lightgbm"):
        pytest.importorskip(host)
    done = subprocess.run(
        [sys.executable, str(notebook)], capture_output=True, encoding="utf-8", timeout=300,
        env={**os.environ, "NOTEBOOK_ROUNDS": "5", "PYTHONIOENCODING": "utf-8"}, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout and "False" not in done.stdout
