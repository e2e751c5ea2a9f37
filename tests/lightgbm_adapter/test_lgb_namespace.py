"""``import fullhess.lightgbm as lgb`` takes the place of ``import lightgbm as lgb``."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap

import pytest

lgb = pytest.importorskip("lightgbm")

from fullhess_lightgbm._host import check_version, rebound  # noqa: E402

import fullhess.lightgbm as ours  # noqa: E402

CHANGED = {
    "Booster", "CVBooster", "LGBMClassifier", "LGBMModel", "LGBMRanker", "LGBMRegressor", "cv",
    "train",
}  # fmt: skip


def test_every_name_of_the_host_is_there():
    for name in dir(lgb):
        if name.startswith("__"):
            continue
        same = getattr(ours, name) is getattr(lgb, name)
        assert same == (name not in CHANGED | {"sklearn"}), name
    assert set(lgb.__all__) & set(dir(lgb)) <= set(ours.__all__)
    assert {"to_binned", "to_lightgbm"} <= set(ours.__all__) <= set(dir(ours)) | CHANGED
    assert ours.__version__ == lgb.__version__
    assert ours.sklearn.LGBMClassifier is ours.LGBMClassifier
    assert ours.sklearn._EvalFunctionWrapper is lgb.sklearn._EvalFunctionWrapper
    with pytest.raises(AttributeError, match="no_such_name"):
        ours.no_such_name  # noqa: B018


def test_signatures_are_the_hosts():
    for name in ("train", "cv"):
        assert inspect.signature(getattr(ours, name)) == inspect.signature(getattr(lgb, name))
    for name in CHANGED - {"train", "cv", "Booster", "CVBooster"}:
        mine, theirs = getattr(ours, name), getattr(lgb, name)
        assert issubclass(mine, theirs)
        assert inspect.signature(mine.fit) == inspect.signature(theirs.fit)
        assert inspect.signature(mine.__init__) == inspect.signature(theirs.__init__)
    assert list(inspect.signature(ours.Booster).parameters) == [
        "params", "train_set", "model_file", "model_str",
    ]  # fmt: skip


def test_the_host_itself_is_not_changed():
    assert lgb.train.__globals__["Booster"] is lgb.Booster
    assert lgb.LGBMModel.fit.__globals__["train"] is lgb.train
    assert lgb.engine._make_n_folds.__globals__["CVBooster"] is lgb.CVBooster


@pytest.mark.parametrize("version", ["4.4.0", "3.3.2", "5.0.0", "4.8.0", "4.10.1", "unknown"])
def test_other_versions_are_refused(version):
    with pytest.raises(ImportError, match=r"4\.5 to 4\.7.*pip install"):
        check_version(version)


@pytest.mark.parametrize("version", ["4.5.0", "4.6.0", "4.7.0", "4.7.1.99"])
def test_known_versions_are_taken(version):
    check_version(version)


def test_a_host_without_the_parts_is_refused():
    with pytest.raises(ImportError, match="no_such_global"):
        rebound(lgb.train, no_such_global=1)


def run(code):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )


def test_a_missing_host_is_named():
    result = run("""
        import sys
        sys.modules["lightgbm"] = None
        import fullhess
        try:
            import fullhess.lightgbm
        except ImportError as error:
            print(error)
    """)
    assert "pip install 'lightgbm" in result.stdout, result.stderr


def test_an_unsupported_host_is_named():
    result = run("""
        import sys, types
        fake = types.ModuleType("lightgbm")
        fake.__version__ = "3.3.5"
        sys.modules["lightgbm"] = fake
        import fullhess
        try:
            import fullhess.lightgbm
        except ImportError as error:
            print(error)
    """)
    assert "found 3.3.5" in result.stdout, result.stderr


def test_the_core_does_not_import_the_host():
    result = run("import fullhess, sys; print('lightgbm' in sys.modules)")
    assert result.stdout.strip() == "False", result.stderr
