"""Error counts that others report, each with where it was read.

Only counts that were read in their source are listed. Sun, Reid and Zhou keep runs of their
programs in a repository (removed from its head, still in its history); their arrays ``it`` and
``err_it`` hold the wrong rows of the test part after every round. What the papers themselves
print could not be read when this was written, so none of it is repeated: a file of the
reader's (``--published``) adds it.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from pathlib import Path

__all__ = ["AUTHORS_RUNS", "PAPERS", "Published", "read"]

REPOSITORY = "https://github.com/pengsun/MultiClassLogitBoost"
# Where counts on such splits are printed.
PAPERS = (
    "P. Li (2009), *ABC-Boost: adaptive base class boost for multi-class classification*, ICML",
    "P. Li (2010), *Robust LogitBoost and adaptive base class (ABC) LogitBoost*, UAI, "
    "arXiv 1203.3491",
    "P. Li (2010), *An empirical evaluation of four algorithms for multi-class classification: "
    "Mart, ABC-Mart, Robust LogitBoost, and ABC-LogitBoost*, arXiv 1001.1020",
    "P. Li (2010), *Fast ABC-Boost for multi-class classification*, arXiv 1006.5051",
    "P. Li and W. Zhao (2022), *Package for Fast ABC-Boost*, arXiv 2207.08770",
    "P. Sun, M. D. Reid and J. Zhou (2012), *AOSO-LogitBoost: adaptive one-vs-one LogitBoost for "
    "multi-class problem*, ICML, arXiv 1110.3907",
    "P. Sun, M. D. Reid and J. Zhou (2014), *An improved multiclass LogitBoost using "
    "adaptive-one-vs-one*, Machine Learning 97(3)",
)


@dataclass(frozen=True)
class Published:
    """Wrong rows of a test part, as somebody reports them.

    Attributes
    ----------
    data : name of the set here.
    method, rounds : what was trained, and for how many rounds.
    errors, n_test : wrong rows, and all rows of the test part.
    source : where this was read.
    """

    data: str
    method: str
    rounds: int
    errors: int
    n_test: int
    source: str

    def scaled_to(self, n_test: int) -> int:
        """Wrong rows to expect of a test part of another size."""
        return round(self.errors * n_test / self.n_test)


def _run(
    data: str, method: str, n_test: int, where: str, **errors_after: int
) -> tuple[Published, ...]:
    """A run at shrinkage 0.1 with 20 leaves; ``errors_after`` maps ``r200`` to a count."""
    commit, _, path = where.partition(":")
    source = f"{REPOSITORY}/blob/{commit}/matlab/rst/{path}"
    return tuple(
        Published(data, method, int(after[1:]), errors, n_test, source)
        for after, errors in errors_after.items()
    )


# VTLogitBoost: one tree a round with vector leaves, splits and values by the diagonal p(1−p), no
# penalty, values within ±5. AOSO-LogitBoost updates two classes in each leaf. "Features" are
# those drawn for each node, "rows" those that hold so much of the weight.
AUTHORS_RUNS = (
    *_run("pendigits", "VTLogitBoost", 3498,
          "a97d566:VTLogitBoost/pendigits/T700_v1.0e-001_J20_ns1.mat", r200=85, r600=75, r692=74),
    *_run("pendigits", "AOSO-LogitBoost, 95 % rows, 40 % features", 3498,
          "4c626f9:pAOSOLogitBoostV2/pendigits/"
          "T5000_v1.0e-001_J20_ns1_wrs9.50e-001_rs1.10e+000_rf4.00e-001.mat",
          r200=109, r600=93, r1124=83),
    *_run("optdigits", "VTLogitBoost", 1797,
          "a97d566:VTLogitBoost/optdigits/T700_v1.0e-001_J20_ns1.mat", r200=50, r600=45, r631=44),
    *_run("optdigits", "AOSO-LogitBoost, 95 % rows, 20 % features", 1797,
          "4c626f9:pAOSOLogitBoostV2/optdigits/"
          "T5000_v1.0e-001_J20_ns1_wrs9.50e-001_rs1.10e+000_rf2.00e-001.mat",
          r200=55, r600=46, r1104=41),
    *_run("letter", "VTLogitBoost, 20 % features", 4000,
          "059d5f2:pVbExtSamp14VTLogitBoost/letter/T5000_v1.0e-01_J20_ns1_"
          "wrs1.10e+00_rs1.10e+00_rf2.00e-01_wrc1.10e+00_rc1.10e+00.mat",
          r200=153, r600=104, r2371=93),
)  # fmt: skip


def read(path: str | None) -> list[Published]:
    """Counts from a CSV file with the fields of ``Published`` as columns."""
    if path is None:
        return []
    names = [field.name for field in fields(Published)]
    with Path(path).open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if sorted(reader.fieldnames or ()) != sorted(names):
            raise SystemExit(
                f"{path} must have the columns {', '.join(names)}, it has {reader.fieldnames}"
            )
        return [_from_row(row, f"{path}, line {reader.line_num}") for row in reader]


def _from_row(row: dict[str, str], place: str) -> Published:
    try:
        rounds, errors, n_test = (int(row[name]) for name in ("rounds", "errors", "n_test"))
    except (TypeError, ValueError):
        raise SystemExit(f"{place}: rounds, errors and n_test must be whole numbers") from None
    if not 0 <= errors <= n_test or n_test == 0:
        raise SystemExit(f"{place}: {errors} errors among {n_test} test rows cannot be")
    return Published(row["data"], row["method"], rounds, errors, n_test, row["source"])
