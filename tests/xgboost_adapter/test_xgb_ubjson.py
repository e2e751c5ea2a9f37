"""XGBoost's UBJSON: what it writes is read, and what is written it reads."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

xgboost = pytest.importorskip("xgboost")

from fullhess_xgboost.ubjson import Encoded, decode, encode, encode_items  # noqa: E402

DTYPES = ["int8", "uint8", "int16", "int32", "int64", "float32", "float64"]
arrays = st.builds(
    lambda dtype, raw: np.frombuffer(raw[: len(raw) // 8 * 8], dtype),
    st.sampled_from(DTYPES),
    st.binary(max_size=64),
)
leaves = st.text() | st.integers(-(2**63), 2**63 - 1) | arrays
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner)
)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b and type(a) is type(b))


@given(values)
def test_what_is_written_is_read(value: Any) -> None:
    assert same(value, decode(encode(value)))


@given(st.dictionaries(st.text(), values))
def test_an_object_may_be_put_together_from_parts(mapping: dict[str, Any]) -> None:
    parts = b"".join(encode_items({key: value}) for key, value in mapping.items())
    assert encode([Encoded(b"{" + parts + b"}")]) == encode([mapping])


@given(values, st.data())
def test_no_part_of_a_value_is_a_value(value: Any, data: Any) -> None:
    raw = encode({"value": value})
    cut = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(ValueError):
        decode(raw[:cut])
    with pytest.raises(ValueError, match="expected the end"):
        decode(raw + b"N")


def test_other_types_are_refused() -> None:
    for value in (1.5, None, True, b"raw", np.zeros((2, 2)), np.zeros(2, complex), {1, 2}):
        with pytest.raises(TypeError, match="expected a"):
            encode(value)


def test_the_open_forms_of_the_standard_are_read() -> None:
    assert decode(b"[i\x01SU\x02ab{i\x01kT}ZF]") == [1, "ab", {"k": True}, None, False]
    for broken in (b"x", b"[$x#i\x01a", b"[$i@", b"SZ", b"S\x69\xff", b"[i\x01", b"{i\x01k"):
        with pytest.raises(ValueError):
            decode(broken)


def native_booster() -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[:, 0] = rng.integers(0, 7, 200)
    data = xgboost.DMatrix(
        X,
        rng.integers(0, 3, 200),
        feature_types=["c", "q", "q"],
        feature_names=["é", "b", "c"],
        enable_categorical=True,
    )
    return xgboost.train({"objective": "multi:softprob", "num_class": 3}, data, 3)


def plain(value: Any) -> Any:
    """Lists in place of arrays; float32 as the shortest decimals, like XGBoost's JSON."""
    if isinstance(value, np.ndarray):
        if value.dtype == np.float32:
            return [float(str(number)) for number in value]
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value


def test_a_model_reads_the_same_in_both_of_its_formats() -> None:
    booster = native_booster()
    assert plain(decode(booster.save_raw("ubj"))) == json.loads(booster.save_raw("json"))


def test_xgboost_reads_what_is_written() -> None:
    raw = native_booster().save_raw("ubj")
    again = xgboost.Booster(model_file=bytearray(encode(decode(raw))))
    assert again.save_raw("ubj") == raw
