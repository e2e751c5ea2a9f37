"""Official splits: parts, counts, resuming, and what others report."""

from __future__ import annotations

import csv
from dataclasses import fields

import numpy as np
import pytest

from comparisons import data, literature, literature_methods, poker, published
from comparisons.__main__ import main
from comparisons.literature_methods import METHODS, Official, Plan
from comparisons.published import AUTHORS_RUNS, Published

HEADING = ",".join(field.name for field in fields(Published))


def ledger_rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def row(name, method, rounds, errors, n_test="10", rate="0.1"):
    return {"data": name, "method": method, "rounds": rounds, "errors": errors, "n_test": n_test,
            "n_train": "20", "learning_rate": rate, "max_leaves": "20"}  # fmt: skip


@pytest.fixture(scope="module")
def easy():
    """Three classes that a tree tells apart, but for one test row with a wrong label."""
    X = np.repeat(np.arange(60, dtype=np.float32), 5)[:, None]
    y = (X[:, 0] // 20).astype(np.int32)
    wrong = y.copy()
    wrong[0] = 2
    return Official("satimage", X, y, X, wrong)


@pytest.mark.parametrize("method", METHODS)
def test_the_one_wrong_row_is_counted_after_each_number_of_rounds(easy, method):
    pytest.importorskip(METHODS[method].module)
    _, counts = literature_methods.wrong_rows(easy, method, Plan(0.5, 4, (3, 8)))
    assert counts == [1, 1]


@pytest.mark.parametrize("method", METHODS)
def test_a_class_without_training_rows_is_allowed(easy, method):
    pytest.importorskip(METHODS[method].module)
    few = easy.y_train < 2
    parts = Official("satimage", easy.X_train[few], easy.y_train[few], easy.X_test, easy.y_test)
    _, counts = literature_methods.wrong_rows(parts, method, Plan(0.5, 4, (5,)))
    assert counts == [(easy.y_test == 2).sum()]


@pytest.mark.parametrize("method", [name for name in METHODS if name != "LightGBM"])
def test_no_more_leaves_are_grown_than_the_plan_says(easy, method):
    """One tree of two leaves cannot tell three classes apart, one of three leaves can."""
    pytest.importorskip(METHODS[method].module)
    (two,) = literature_methods.wrong_rows(easy, method, Plan(1.0, 2, (1,)))[1]
    (three,) = literature_methods.wrong_rows(easy, method, Plan(1.0, 3, (1,)))[1]
    assert two >= 99 and three == 1


def test_a_missing_library_is_left_out(monkeypatch):
    monkeypatch.setattr(literature_methods, "find_spec", lambda name: name == "fullhess" or None)
    there, missing = literature_methods.available()
    assert missing == ["XGBoost", "LightGBM"] and set(there) | set(missing) == set(METHODS)


def test_official_parts_are_those_of_the_file(tmp_path):
    np.savez(tmp_path / "letter.npz", X=np.arange(10.0)[:, None], y=np.arange(10) % 2, test_start=7)
    official = literature.load_official("letter", str(tmp_path))
    assert official.X_train.ravel().tolist() == list(range(7)) and len(official.y_test) == 3
    np.savez(tmp_path / "letter.npz", X=np.arange(10.0)[:, None], y=np.arange(10) % 2)
    with pytest.raises(data.Unavailable, match="test_start"):
        literature.load_official("letter", str(tmp_path))


def test_halves_of_covertype_are_random_equal_and_always_the_same(tmp_path):
    np.savez(tmp_path / "covertype.npz", X=np.arange(100.0)[:, None], y=np.arange(100) % 7)
    first, again = (literature.load_official("covertype", str(tmp_path)) for _ in range(2))
    train, test = first.X_train.ravel(), first.X_test.ravel()
    assert len(train) == len(test) == 50
    assert sorted([*train, *test]) == list(range(100))
    assert 10 < (train < 50).sum() < 40
    np.testing.assert_array_equal(again.X_train, first.X_train)
    np.testing.assert_array_equal(first.y_test, test % 7)


def test_hands_to_test_are_others_than_those_to_train(monkeypatch):
    monkeypatch.setattr(literature, "POKER_TEST", 50)
    official = literature.load_official("poker", None)
    assert len(official.y_train) == 25_010 and len(official.y_test) == 50
    np.testing.assert_array_equal(poker.label(official.X_test.astype(np.int8)), official.y_test)
    assert not np.array_equal(official.X_train[:50], official.X_test)


def test_the_command_resumes_without_training_again(tmp_path, capsys, monkeypatch):
    command = ["literature", "--quick", "--output", str(tmp_path)]
    monkeypatch.setattr(literature, "available", lambda: (["full splits", "ridge"], ["LightGBM"]))
    assert main(command) == 0
    assert "LightGBM: not installed" in capsys.readouterr().out
    path = tmp_path / "literature_quick.csv"
    whole = path.read_bytes()
    rows = ledger_rows(path)
    assert [(r["method"], r["rounds"]) for r in rows] == [
        ("full splits", "2"), ("full splits", "5"), ("ridge", "2"), ("ridge", "5"),
    ]  # fmt: skip
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))  # stopped before the last
    trained = []

    def noted(official, method, plan):
        trained.append(method)
        return literature_methods.wrong_rows(official, method, plan)

    monkeypatch.setattr(literature, "wrong_rows", noted)
    assert main(command) == 0
    assert trained == ["ridge"] and path.read_bytes() == whole
    assert main(command) == 0
    assert trained == ["ridge"]


def test_published_counts_stand_beside_ours_scaled_to_our_test_part(tmp_path, monkeypatch):
    monkeypatch.setattr(literature, "available", lambda: (["full splits"], []))
    path = tmp_path / "published.csv"
    path.write_text(
        f"{HEADING}\npoker,Other,7,123,500,A paper (2000)\npoker,Other,9,120,500,A paper (2000)\n"
        "poker,Same size,7,301,1000,B\nletter,Other,7,1,2,C\n"
    )
    command = ["literature", "--quick", "--output", str(tmp_path), "--published", str(path)]
    assert main(command) == 0
    report = (tmp_path / "literature_quick.md").read_text(encoding="utf-8")
    scaled = "| 1000, scaled from 500 | Other | ≈246 after 7, ≈240 after 9 | A paper (2000) |"
    assert f"| poker {scaled}\n| poker | 1000 | Same size | 301 after 7 | B |" in report
    assert "letter" not in report


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data,errors\npoker,1\n", "columns data, method, rounds, errors, n_test, source"),
        (f"{HEADING}\npoker,Other,many,1,2,A\n", "line 2: rounds, errors and n_test"),
        (f"{HEADING}\npoker,Other,7,3,2,A\n", "3 errors among 2"),
        (f"{HEADING}\npoker,Other,7,0,0,A\n", "0 errors among 0"),
        (f"{HEADING}\npoker,Other\n", "line 2: rounds, errors and n_test"),
    ],
)
def test_a_file_of_published_counts_is_checked(tmp_path, text, message):
    path = tmp_path / "published.csv"
    path.write_text(text)
    with pytest.raises(SystemExit, match=message):
        published.read(str(path))


def test_the_table_keeps_rates_and_rounds_apart():
    rows = [
        row("letter", "full splits", "600", "3"),
        row("letter", "full splits", "200", "4"),
        row("satimage", "full splits", "200", "5"),
        row("letter", "LightGBM", "200", "6", rate="0.3"),
    ]
    assert literature.error_table(rows) == [
        ["data", "test rows", "rate", "rounds", "full splits", "LightGBM"],
        ["satimage", "10", "0.1", "200", "5", ""],
        ["letter", "10", "0.1", "200", "4", ""],
        ["letter", "10", "0.1", "600", "3", ""],
        ["letter", "10", "0.3", "200", "", "6"],
    ]


def test_every_published_count_names_a_set_and_the_file_it_was_read_in():
    sizes = {"pendigits": 3498, "optdigits": 1797, "letter": 4000}
    for item in AUTHORS_RUNS:
        assert item.n_test == sizes[item.data] and 0 < item.errors < item.n_test
        assert item.source.startswith("https://github.com/") and item.source.endswith(".mat")
    assert len({(item.data, item.method, item.rounds) for item in AUTHORS_RUNS}) == len(
        AUTHORS_RUNS
    )


@pytest.mark.parametrize("others", [["--quick", "--large"], ["--quick", "--sets", "letter"]])
def test_options_that_exclude_each_other_are_refused(others, capsys):
    with pytest.raises(SystemExit):
        main(["literature", *others])
    assert "not allowed with" in capsys.readouterr().err
