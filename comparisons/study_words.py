"""The study's conclusions in words, whatever they are; generated from its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .contenders import BASELINE, Protocol
from .study_stats import Contrast, nemenyi_distance

if TYPE_CHECKING:
    from .study_report import Findings, Question

__all__ = ["answer", "protocol_words", "verdict"]


def verdict(c: Contrast) -> str:
    """What an interval says, in a few words."""
    change = 100.0 * abs(c.ratio - 1.0)
    size = (
        f"{change:.1f} % (ratio {c.low:.3f}–{c.high:.3f}, median {c.median:.3f}, {c.wins} data "
        f"sets won, {c.losses} lost, p {c.p:.2f})"
    )
    if c.high < 1.0:
        return f"lowers the loss by {size}"
    if c.low > 1.0:
        return f"raises the loss by {size}"
    direction = "lower" if c.ratio < 1.0 else "higher"
    return f"makes no clear difference: {direction} by {size}"


def answer(found: Findings) -> list[str]:
    """The paper's question, the parts, and where we stand among the peers."""
    about_splits = [(q, c) for q, c in found.questions if q.splits]
    others = [(q, c) for q, c in found.questions if not q.splits]
    parts = [
        "## The paper's question",
        'The paper leaves open "whether the splits would show large differences" between the '
        "true Hessian and a diagonal bound.",
        *_single_trees(found),
    ]
    if about_splits:
        parts += [
            "In full boosting, with the leaves kept the same, using the full Hessian in the "
            "split search:",
            _listed(about_splits),
            _in_short([c for _, c in about_splits]),
        ]
    if others:
        parts += [
            "The other parts:",
            _listed(others),
            "An interval speaks of one question alone; p is adjusted for all of them (Wilcoxon, "
            "Holm), and is the stricter judge. A median nearer to 1 than the mean says that a few "
            "data sets, mostly of very small losses, make much of the difference.",
        ]
    return [*parts, *_yardstick(found), *_standing(found)]


def _yardstick(found: Findings) -> list[str]:
    """How far apart two implementations of one method come out: the noise of the study."""
    twins = [c for c in found.to_baseline
             if (c.first, c.second) == ("fullhess 2p(1−p)", BASELINE)]  # fmt: skip
    return [
        f"A yardstick: {c.first} and {c.second} are the same method but for their bins, intercepts "
        f"and random draws. Their ratio is {c.ratio:.3f} ({c.low:.3f}–{c.high:.3f}, {c.wins} won, "
        f"{c.losses} lost); differences within that interval may be noise."
        for c in twins
    ]


def _in_short(contrasts: Sequence[Contrast]) -> str:
    lower = sum(c.high < 1.0 for c in contrasts)
    higher = sum(c.low > 1.0 for c in contrasts)
    sure = sum(c.p < 0.05 for c in contrasts)
    asked = f"{len(contrasts)} such comparison{'s' * (len(contrasts) > 1)}"
    return (
        f"In short: of {asked}, full-Hessian splits are clearly better "
        f"in {lower} and clearly worse in {higher} by the interval, and {sure} remain at 5 % after "
        "the adjustment for several questions."
    )


def _listed(questions: Sequence[tuple[Question, Contrast]]) -> str:
    return "\n".join(f"* {question.text}: {verdict(c)};" for question, c in questions)


def _single_trees(found: Findings) -> list[str]:
    rows = [row for row in found.trees if row["rule"] == "upper_bound"]
    if not rows:
        return []
    full = {(r["data"], r["rounds"]): r for r in found.trees if r["rule"] == "full"}
    sentences = []
    for rounds in sorted({row["rounds"] for row in rows}, key=int):
        here = [row for row in rows if row["rounds"] == rounds]
        same = np.mean([row["same_root"] == "True" for row in here])
        logs = [
            np.log(float(r["valid_loss"]) / float(full[r["data"], rounds]["valid_loss"]))
            for r in here
        ]
        sentences.append(
            f"after {rounds} rounds {100 * same:.0f} % of the roots are the same, and a tree by "
            f"2p(1−p) has {np.exp(np.mean(logs)):.3f} times the validation loss of one by the "
            "true Hessian"
        )
    n = len({row["data"] for row in rows})
    return [f"Single trees from the same scores, on {n} data sets: " + "; ".join(sentences) + "."]


def _standing(found: Findings) -> list[str]:
    """Wins and losses against all peers, both named."""
    out = ["## Where fullhess stands"]
    for own in dict.fromkeys(c.first for c in found.duels):
        duels = [c for c in found.duels if c.first == own]
        groups = {
            "clearly lower than": [c for c in duels if c.high < 1.0],
            "clearly higher than": [c for c in duels if c.low > 1.0],
            "not clearly different from": [c for c in duels if c.low <= 1.0 <= c.high],
        }
        lines = [
            f"  * {words}: " + (", ".join(f"{c.second} ({c.ratio:.3f})" for c in group) or "none")
            for words, group in groups.items()
        ]
        out.append(f"* {own}, test log-loss beside the peers (ratio):\n" + "\n".join(lines))
    order = np.argsort(found.ranks)
    best = [f"{found.loss.methods[i]} ({found.ranks[i]:.1f})" for i in order[:5]]
    distance = nemenyi_distance(len(order), len(found.loss.sets))
    apart = int((found.ranks - found.ranks.min() > distance).sum())
    out.append(
        f"Lowest mean ranks of all {len(order)} methods: {', '.join(best)}. Nemenyi's test (5 %) "
        f"tells {apart or 'none'} of the others from the first."
    )
    return out


def protocol_words(found: Findings, protocol: Protocol) -> str:
    """How it was done."""
    loss = found.loss
    per_set = np.isfinite(loss.values[0]).sum(axis=1)
    count = " to ".join(str(n) for n in sorted({int(per_set.min()), int(per_set.max())}))
    splits = f"{count} random stratified split{'s' * (count != '1')}"
    other = ", ".join(
        f"{n} for {name}" for name, n in protocol.other_rows.items() if name in loss.sets
    )
    low, high = protocol.learning_rate
    spread = ", spread evenly over these ranges," if protocol.even else ","
    return f"""## How it was done

{len(loss.methods)} methods, {len(loss.sets)} data sets, {splits} of each into
rows to train (at most {protocol.max_train}{"; " + other if other else ""}), to validate and to
test. On every split each method is given the same {protocol.n_draws} draws of learning rate
({low:g} to {high:g}), λ (0.1 to 10), minimum child weight (0.01 to 3){spread} depth (3 to 6), share
of rows and share of columns (0.7 or 1), translated to its own names; at most {protocol.rounds}
rounds, stopped after {protocol.patience} without improvement; {protocol.max_bin} bins, one thread.
The draw with the lowest validation loss is tested. Categories are given as numbers to all methods.
Classes of fewer than three training rows are left out. Times are processor seconds, not those of
the clock.

What is not equal: scikit-learn samples no rows and draws columns by split; CatBoost's symmetric
trees have no minimum child weight, its other trees and scikit-learn's bound the rows instead, as
many as hold that weight while all classes are equally probable; ChimeraBoost scales the temperature
of its probabilities on the validation rows and, from 2000 rows on, tries products and differences
of columns, which is what makes it so much better on poker (the method called plain, where it takes
part, does not); the same minimum child weight binds the true Hessian twice as hard as 2p(1−p)."""
