"""The study's report, tables and figures, generated from the rows of its ledger."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fullhess.auto import FULL_SPLIT_MAX_OUTPUTS

from . import splits
from .contenders import BASELINE, FULL, MAX_FULL, OWN, PEERS, PLANS, Plan, full_name
from .report import markdown_table
from .study_stats import (
    Contrast,
    Table,
    complete,
    contrast,
    holm,
    mean_ranks,
    steady_sets,
    tabulate,
)
from .study_time import DEFAULT, equal_time, time_curves, time_words, timed_duels
from .study_words import answer, protocol_words

__all__ = ["QUESTIONS", "Findings", "belongs", "find", "report_text", "write_report"]

Rows = Sequence[Mapping[str, str]]
MEASURES = (
    "test_loss", "test_error", "rounds", "leaves", "model_bytes", "train_cpu", "predict_cpu",
    "rises", "search_rises", "equal_time_loss",
)  # fmt: skip
CURVATURE = {full_name(library, method): method.curvature for library, method in (*PEERS, *OWN)}
FULL_SPLITS, DIAGONAL_SPLITS = "fullhess full splits", "fullhess p(1−p) splits"
CURVATURE[DEFAULT] = (
    f"splits {FULL} up to {FULL_SPLIT_MAX_OUTPUTS} classes, p(1−p) beyond, leaves exact"
)


@dataclass(frozen=True)
class Question:
    """Two methods of ours that differ in one thing.

    ``splits`` marks questions about splits. They are asked of data sets of at most MAX_FULL
    classes, since all methods split by the diagonal beyond.
    """

    text: str
    first: str
    second: str
    splits: bool = False


QUESTIONS = (
    Question("full-Hessian instead of 2p(1−p) splits, exact leaves, path prior",
             "quadratic gain", "2p(1−p) splits", True),
    Question("full-Hessian instead of p(1−p) splits, exact leaves, path prior",
             "full splits", "p(1−p) splits", True),
    Question("full-Hessian instead of 2p(1−p) splits, exact leaves, ridge",
             "ridge, quadratic gain", "2p(1−p) splits, ridge", True),
    Question("full-Hessian instead of p(1−p) splits, exact leaves, ridge",
             "ridge", "p(1−p) splits, ridge", True),
    Question("full-Hessian instead of 2p(1−p) splits, leaves by one full step, ridge",
             "Newton step, ridge", "2p(1−p) splits, Newton step, ridge", True),
    Question("full-Hessian instead of 2p(1−p) splits, leaves by one 2p(1−p) step, ridge",
             "full splits, 2p(1−p) leaves", "2p(1−p)", True),
    Question("leaves by one full instead of one 2p(1−p) step, 2p(1−p) splits, ridge",
             "2p(1−p) splits, Newton step, ridge", "2p(1−p)"),
    Question("exact leaves instead of one full step, ridge",
             "ridge, quadratic gain", "Newton step, ridge"),
    Question("exact leaves instead of one damped step, path prior", "full splits", "damped step"),
    Question("exact leaves instead of one 2p(1−p) step, 2p(1−p) splits, ridge",
             "2p(1−p) splits, ridge", "2p(1−p)"),
    Question("guaranteed instead of quadratic gain, path prior", "full splits", "quadratic gain"),
    Question("guaranteed instead of quadratic gain, ridge", "ridge", "ridge, quadratic gain"),
    Question("path prior instead of ridge, guaranteed gain", "full splits", "ridge"),
    Question("path prior instead of ridge, quadratic gain",
             "quadratic gain", "ridge, quadratic gain"),
    Question("path prior instead of ridge, p(1−p) splits",
             "p(1−p) splits", "p(1−p) splits, ridge"),
    Question("path prior instead of ridge, 2p(1−p)", "2p(1−p), path prior", "2p(1−p)"),
    Question("path prior instead of ridge, |p−y|", "|p−y|, path prior", "|p−y|"),
    Question("the default instead of |p−y| with the path prior", "default", "|p−y|, path prior"),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Findings:
    """All that the report and the figures show.

    Attributes
    ----------
    tables : measure to its table.
    ranks : (n_methods,) mean ranks by test loss.
    to_baseline : every method against the baseline.
    questions : the questions that could be asked, with their answers; p adjusted by Holm.
    duels : our default and our ridge against every peer.
    equal_time : every method against the baseline in the baseline's processor time.
    timed_duels : our default against every peer in that time.
    time_curves : test losses within budgets of processor time (``study_time.time_curves``).
    trees : rows of the comparison of single trees.
    """

    tables: dict[str, Table]
    ranks: np.ndarray
    to_baseline: list[Contrast]
    questions: list[tuple[Question, Contrast]]
    duels: list[Contrast]
    equal_time: list[Contrast]
    timed_duels: list[Contrast]
    time_curves: dict[str, np.ndarray]
    trees: list[dict[str, str]]

    @property
    def loss(self) -> Table:
        return self.tables["test_loss"]

    @property
    def steady(self) -> np.ndarray:
        """(n_sets,) whether a data set is not among those on which the methods differ most."""
        return steady_sets(self.loss)

    @property
    def unsteady(self) -> list[str]:
        return [name for name, keep in zip(self.loss.sets, self.steady, strict=True) if not keep]


def find(rows: Rows, trees: Sequence[Mapping[str, str]], plan: Plan) -> Findings:
    """Compare the methods of a plan, on those splits that all of them have finished."""
    kept = with_default(complete([row for row in rows if belongs(row, plan)]))
    tables = {measure: tabulate(kept, measure) for measure in MEASURES}
    loss = tables["test_loss"]
    everything = np.ones(len(loss.sets), bool)
    baseline = BASELINE if BASELINE in loss.methods else loss.methods[0]
    to_baseline = [contrast(loss, name, baseline, everything) for name in loss.methods]
    asked = [q for q in QUESTIONS if {f"fullhess {q.first}", f"fullhess {q.second}"}
             <= set(loss.methods)]  # fmt: skip
    answers = [
        contrast(loss, f"fullhess {q.first}", f"fullhess {q.second}",
                 loss.n_classes <= MAX_FULL if q.splits else everything)
        for q in asked
    ]  # fmt: skip
    ours = [name for name in (DEFAULT, "fullhess ridge") if name in loss.methods]
    peers = [name for name in loss.methods if not name.startswith("fullhess")]
    duels = [contrast(loss, own, peer, everything) for own in ours for peer in peers]
    return Findings(
        tables, mean_ranks(loss), to_baseline,
        list(zip(asked, _adjusted(answers), strict=True)), _adjusted(duels),
        equal_time(kept, baseline), timed_duels(kept, peers), time_curves(kept, loss, baseline),
        [dict(row) for row in trees if row["data"] in loss.sets],
    )  # fmt: skip


def with_default(rows: Rows) -> Rows:
    """The rows, and those of ``split_hessian="auto"``: either kind by the number of classes."""
    if not {FULL_SPLITS, DIAGONAL_SPLITS} <= {row["method"] for row in rows}:
        return rows
    default = [
        {**row, "method": DEFAULT}
        for row in rows
        if row["method"]
        == (FULL_SPLITS if int(row["n_classes"]) <= FULL_SPLIT_MAX_OUTPUTS else DIAGONAL_SPLITS)
    ]
    return [*default, *rows]


def belongs(row: Mapping[str, str], plan: Plan) -> bool:
    """Whether a row of a ledger is a result of this plan."""
    return row["protocol"] == plan.protocol.key and row["method"] in plan.methods


def _adjusted(contrasts: Sequence[Contrast]) -> list[Contrast]:
    p_values = holm([c.p for c in contrasts])
    return [Contrast(**{**vars(c), "p": p}) for c, p in zip(contrasts, p_values, strict=True)]


def write_report(
    rows: Rows,
    trees: Sequence[Mapping[str, str]],
    plan: Plan,
    directory: Path,
    facts: Sequence[tuple[str, str]],
) -> list[Path]:
    """Report, table by data set and figures; the paths."""
    name = plan.name
    if not complete([row for row in rows if belongs(row, plan)]):
        raise SystemExit(f"no split is finished by all methods in {directory / name}.csv")
    found = find(rows, trees, plan)
    report, by_set = directory / f"{name}.md", directory / f"{name}_by_set.csv"
    report.write_text(report_text(found, rows, plan, facts), encoding="utf-8")
    with by_set.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(_by_set_rows(found))
    written = [report, by_set]
    try:
        from .study_figures import draw
    except ImportError:
        print("figures are left out: pip install matplotlib")
        return written
    return written + draw(found, directory, name)


def report_text(found: Findings, rows: Rows, plan: Plan, facts: Sequence[tuple[str, str]]) -> str:
    """The report in Markdown."""
    name = plan.name
    versions = {row["method"]: row["version"] for row in with_default(rows)}
    trees = splits.summary(found.trees) if found.trees else []
    sections = [
        "# Full gradient boosting on real data",
        f"{plan.words} Written by `python -m comparisons study{_option(plan)}` from the tables "
        "beside this file.",
        *answer(found),
        protocol_words(found, plan.protocol),
        "\n".join(f"* {title}: {text}" for title, text in facts),
        "## All methods",
        markdown_table(_overall(found, versions)),
        f"Ratios are geometric means over the data sets of the test log-loss beside {BASELINE}, "
        "with 95 % intervals of a bootstrap over data sets, and medians; below 1 is better. Won "
        "and lost count data sets (means over the splits). CPU is the processor time of the "
        "chosen training as a ratio in the same way; rounds, leaves and "
        "kB are medians. Rises: rounds that raised the "
        "training loss, in all trainings of the searches that take all rows.",
        f"![Ratios]({name}_ratios.svg)\n\n![Ranks]({name}_ranks.svg)",
        *_time_sections(found, name),
        "## Our default and our ridge against every peer",
        markdown_table(_contrast_rows(found.duels)),
        "p is of Wilcoxon's signed-rank test over data sets, adjusted by Holm's method.",
        "## What each part adds",
        markdown_table(_question_rows(found)),
        "Steady sets are those without the fifth of the data sets on which the methods differ most "
        f"({', '.join(found.unsteady) or 'none'}): ratios of tiny losses are large.",
        f"![What each part adds]({name}_parts.svg)",
        "## Single trees: are the splits different?",
        "One tree of depth 4 from the same scores, with exact leaves, by each curvature in the "
        "split search; beside the tree of the true Hessian (loss ratios above 1 speak for it). "
        "The Rand index is 1 for the same leaves and 0 for chance.",
        markdown_table(trees) if trees else "Not run.",
        "## Test log-loss by data set",
        *(markdown_table(part) for part in _set_tables(found, "test_loss", "{:.4f}")),
        f"![By data set]({name}_sets.svg)",
        "## Test error by data set, in per cent",
        *(markdown_table(part) for part in _set_tables(found, "test_error", "{:.1f}", 100.0)),
        "Rounds, leaves, model size, processor seconds and rises by data set are in "
        f"`{name}_by_set.csv`.",
    ]
    return "\n\n".join(sections) + "\n"


def _option(plan: Plan) -> str:
    """What to add to the command to get this plan."""
    key = next(key for key, known in PLANS.items() if known.name == plan.name)
    return {"main": "", "quick": " --quick"}.get(key, f" --plan {key}")


def _time_sections(found: Findings, name: str) -> list[str]:
    if not found.equal_time:
        return []
    order = sorted(found.equal_time, key=lambda c: c.ratio)
    table = [["method", "log-loss, ratio", "95 %", "median", "won–lost"]]
    table += [[c.first, *_numbers(c)] for c in order]
    return [
        "## After equal processor time",
        time_words(found.equal_time),
        markdown_table(table),
        "Our default against every peer in that time:",
        markdown_table(_contrast_rows(found.timed_duels)),
        f"Each training is cut where it has used the processor time of the chosen training of "
        f"{BASELINE} on the same split; the draw and the round of the lowest validation loss by "
        "then are tested. Binning and the evaluation of two sets each round count for all. The "
        "machine was busy, and on small data the fixed cost of a round counts for much, so this is "
        "rough; scikit-learn and ChimeraBoost do not tell the time of a round, which is "
        "taken to be the same for all.",
        f"![Losses by processor time]({name}_time.svg)",
    ]


def _overall(found: Findings, versions: Mapping[str, str]) -> list[list[str]]:
    table = [["method", "version", "curvature", "mean rank", "log-loss, ratio", "95 %", "median",
              "won–lost", "CPU, ratio", "rounds", "leaves", "kB", "rises"]]  # fmt: skip
    cpu = found.tables["train_cpu"]
    base = cpu.methods.index(found.to_baseline[0].second)
    order = np.argsort([c.ratio for c in found.to_baseline])
    for i in order:
        c = found.to_baseline[i]
        seconds = np.exp(np.nanmean(np.log(cpu.values[i] / cpu.values[base])))
        middle = {m: np.nanmedian(found.tables[m].values[i]) for m in ("rounds", "leaves")}
        size = np.nanmedian(found.tables["model_bytes"].values[i]) / 1000.0
        rises = found.tables["search_rises"].values[i]
        told = "not told" if np.isnan(rises).all() else f"{np.nansum(rises):.0f}"
        table.append([
            c.first, versions[c.first], CURVATURE[c.first], f"{found.ranks[i]:.1f}",
            *_numbers(c),
            f"{seconds:.2f}", f"{middle['rounds']:.0f}", f"{middle['leaves']:.0f}", f"{size:.0f}",
            told,
        ])  # fmt: skip
    return table


def _numbers(c: Contrast) -> list[str]:
    """Ratio, interval, median, and data sets won and lost."""
    interval, score = f"{c.low:.3f}–{c.high:.3f}", f"{c.wins}–{c.losses}"
    return [f"{c.ratio:.3f}", interval, f"{c.median:.3f}", score]


def _contrast_rows(contrasts: Sequence[Contrast]) -> list[list[str]]:
    heading = ["ours", "peer", "log-loss, ratio", "95 %", "median", "won–lost", "p"]
    return [heading, *([c.first, c.second, *_numbers(c), f"{c.p:.3f}"] for c in contrasts)]


def _question_rows(found: Findings) -> list[list[str]]:
    table = [["what changes", "first", "second", "log-loss, ratio", "95 %", "median", "won–lost",
              "p", "steady sets, ratio", "95 %"]]  # fmt: skip
    for question, c in found.questions:
        keep = found.loss.n_classes <= MAX_FULL if question.splits else np.ones_like(found.steady)
        steady = contrast(found.loss, c.first, c.second, found.steady & keep)
        table.append([
            question.text, question.first, question.second, *_numbers(c), f"{c.p:.3f}",
            f"{steady.ratio:.3f}", f"{steady.low:.3f}–{steady.high:.3f}",
        ])  # fmt: skip
    return table


def _set_tables(
    found: Findings, measure: str, form: str, factor: float = 1.0
) -> list[list[list[str]]]:
    """Data sets by methods, peers and ours apart; the lowest of all is bold."""
    table = found.tables[measure]
    values = factor * table.by_set()
    lowest = values.min(axis=0)
    parts = []
    for own in (False, True):
        chosen = [i for i, m in enumerate(table.methods) if m.startswith("fullhess") == own]
        if not chosen:
            continue
        part = [["data (classes)", *(table.methods[i].removeprefix("fullhess ") for i in chosen)]]
        for j, name in enumerate(table.sets):
            cells = [form.format(values[i, j]) for i in chosen]
            cells = [f"**{text}**" if values[i, j] == lowest[j] else text
                     for i, text in zip(chosen, cells, strict=True)]  # fmt: skip
            part.append([f"{name} ({table.n_classes[j]})", *cells])
        parts.append(part)
    return parts


def _by_set_rows(found: Findings) -> list[list[str]]:
    """Means over the splits of all measures."""
    table = [["data", "method", "splits", *MEASURES]]
    loss = found.loss
    for j, name in enumerate(loss.sets):
        n_splits = int(np.isfinite(loss.values[0, j]).sum())
        for i, method in enumerate(loss.methods):
            kept = np.isfinite(loss.values[i, j])
            means = [found.tables[m].values[i, j][kept].mean() for m in MEASURES]
            table.append([name, method, str(n_splits), *(f"{v:.6g}" for v in means)])
    return table
