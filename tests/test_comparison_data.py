"""Data sets by name and their splits; the ledger of finished work."""

from __future__ import annotations

import numpy as np
import pytest

from comparisons import data
from comparisons.data import Dataset
from comparisons.ledger import Ledger


def made(counts, seed=0):
    """Rows that carry their own number, with these counts of the classes."""
    y = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    y = np.random.default_rng(seed).permutation(y)
    return Dataset("made", "test", np.arange(len(y), dtype=np.float32)[:, None], y)


def test_parts_do_not_overlap_and_use_all_rows_of_a_small_set():
    parts = data.split(made([60, 40]), seed=0, max_train=1000)
    rows = np.concatenate([parts.problem.X_train, parts.problem.X_valid, parts.X_test])
    assert sorted(rows.ravel()) == list(range(100))
    sizes = [len(parts.problem.y_train), len(parts.problem.y_valid), len(parts.y_test)]
    assert sizes == [50, 20, 30]


def test_parts_are_stratified():
    parts = data.split(made([500, 400, 100]), seed=1, max_train=1000)
    for y in (parts.problem.y_train, parts.problem.y_valid, parts.y_test):
        share = np.bincount(y, minlength=3) / len(y)
        assert share == pytest.approx([0.5, 0.4, 0.1], abs=0.015)


def test_large_sets_are_capped():
    parts = data.split(made([3000, 3000]), seed=0, max_train=100)
    assert [len(p) for p in (parts.problem.y_train, parts.problem.y_valid, parts.y_test)] == [
        100, 50, 100,
    ]  # fmt: skip


def test_rare_classes_are_left_out_of_all_parts_and_the_others_renumbered():
    whole = made([100, 2, 100])
    parts = data.split(whole, seed=0, max_train=1000)
    assert parts.problem.n_classes == 2
    for X, y in (
        (parts.problem.X_train, parts.problem.y_train),
        (parts.problem.X_valid, parts.problem.y_valid),
        (parts.X_test, parts.y_test),
    ):
        assert ((whole.y[X[:, 0].astype(int)] == 2) == (y == 1)).all()
        assert set(y) == {0, 1}


def test_a_seed_gives_the_same_split_and_another_one_another():
    one, again, other = (data.split(made([50, 50]), s, 1000).X_test for s in (0, 0, 1))
    assert (one == again).all() and not (one == other).all()


def test_a_set_comes_from_a_file_of_the_directory(tmp_path):
    np.savez(tmp_path / "glass.npz", X=np.ones((4, 2)), y=np.array([7, 3, 7, 5]), test_start=3)
    loaded = data.load("glass", str(tmp_path))
    assert loaded.y.tolist() == [2, 0, 2, 1] and loaded.n_classes == 3
    assert loaded.X.dtype == np.float32 and loaded.test_start == 3


def test_the_speaker_is_no_feature_of_vowel(tmp_path):
    np.savez(tmp_path / "vowel.npz", X=np.arange(30.0).reshape(3, 10), y=np.arange(3))
    assert data.load("vowel", str(tmp_path)).X[0].tolist() == list(range(1, 10))


@pytest.mark.parametrize("directory", [None, "nowhere"])
def test_a_missing_set_says_how_it_can_be_had(directory):
    with pytest.raises(data.Unavailable, match=r"glass.*--fetch"):
        data.load("glass", directory)


def test_a_file_without_labels_is_refused(tmp_path):
    np.savez(tmp_path / "glass.npz", X=np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"arrays X and y.*\['X'\]"):
        data.load("glass", str(tmp_path))


@pytest.mark.parametrize("name", data.EMBEDDED)
def test_embedded_sets_need_nothing(name):
    loaded = data.load(name)
    assert len(loaded.X) == len(loaded.y)
    assert set(loaded.y) == set(range(loaded.n_classes))


def test_ledger_resumes_where_it_stopped(tmp_path):
    path = tmp_path / "work.csv"
    ledger = Ledger(path, ["name", "value"], ["name"])
    ledger.add({"name": "a, b", "value": 1 / 3})
    assert Ledger(path, ["name", "value"], ["name"]).done() == {("a, b",)}
    with path.open("a") as file:
        file.write("interrup")  # the process was killed in the middle of a line
    again = Ledger(path, ["name", "value"], ["name"])
    assert again.done() == {("a, b",)}
    again.add({"name": "c", "value": 2})
    assert path.read_text().splitlines() == ["name,value", '"a, b",0.333333', "c,2"]


def test_ledger_of_other_columns_is_not_overwritten(tmp_path):
    path = tmp_path / "work.csv"
    path.write_text("other,columns\n1,2\n")
    with pytest.raises(ValueError, match="--output"):
        Ledger(path, ["name", "value"], ["name"])
    assert path.read_text() == "other,columns\n1,2\n"


def fetchers(monkeypatch, **found):
    """scikit-learn's fetchers replaced by functions that note their arguments."""
    calls = []

    def replaced(name):
        def fetch(**arguments):
            calls.append((name, arguments))
            result = found[name]
            if isinstance(result, Exception):
                raise result
            return result

        return fetch

    for name in found:
        monkeypatch.setattr(f"sklearn.datasets.{name}", replaced(name))
    return calls


def test_fetched_words_become_codes_and_classes_are_numbered(monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({
        "size": [1.5, np.nan, 2.5, 0.5],
        "color": pandas.Categorical(["red", "blue", "red", "green"]),
        "kind": ["b", "a", "b", "b"],
        "count": [4, 3, 2, 1],
    })  # fmt: skip
    classes = pandas.Series(pandas.Categorical(["no", "yes", "no", "maybe"]))
    calls = fetchers(monkeypatch, fetch_openml=(frame, classes))
    loaded = data.load("car", None, fetch=True)
    assert calls[0][1]["data_id"] == data.OPENML["car"] and len(calls) == 1
    assert loaded.X.dtype == np.float32 and loaded.origin == "fetched by scikit-learn"
    np.testing.assert_array_equal(loaded.X[:, 0], [1.5, np.nan, 2.5, 0.5])
    assert loaded.X[:, 1:].T.tolist() == [[2, 0, 2, 1], [1, 0, 1, 1], [4, 3, 2, 1]]
    assert loaded.y.tolist() == [1, 2, 1, 0]


def test_the_speaker_is_no_feature_of_fetched_vowel_either(monkeypatch):
    pandas = pytest.importorskip("pandas")
    columns = ["Train_or_Test", "Speaker_Number", "Sex", "Feature_0"]
    frame = pandas.DataFrame([["Train", "Andrew", "Male", 1.5]] * 3, columns=columns)
    fetchers(monkeypatch, fetch_openml=(frame, pandas.Series(["a", "b", "c"])))
    assert data.load("vowel", None, fetch=True).X.tolist() == [[0.0, 1.5]] * 3


def test_covertype_has_a_fetcher_of_its_own(monkeypatch):
    X, y = np.ones((4, 54)), np.array([1, 7, 1, 3])
    calls = fetchers(monkeypatch, fetch_covtype=(X, y))
    loaded = data.load("covertype", None, fetch=True)
    assert [name for name, _ in calls] == ["fetch_covtype"] and loaded.X.shape == (4, 54)
    assert loaded.y.tolist() == [0, 2, 0, 1]


def test_a_file_is_preferred_to_a_download_and_nothing_is_fetched_unasked(tmp_path, monkeypatch):
    calls = fetchers(monkeypatch, fetch_openml=AssertionError("fetched"))
    np.savez(tmp_path / "glass.npz", X=np.ones((4, 2)), y=np.arange(4))
    assert data.load("glass", str(tmp_path), fetch=True).origin == "file"
    with pytest.raises(data.Unavailable):
        data.load("car", str(tmp_path), fetch=False)
    assert not calls


def test_a_download_that_fails_says_so(monkeypatch):
    fetchers(monkeypatch, fetch_openml=OSError("no network"))
    with pytest.raises(data.Unavailable, match=r"glass: the download failed \(no network\)"):
        data.load("glass", None, fetch=True)
