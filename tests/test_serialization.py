"""Model files: exact round trips, and no defect that loads or crashes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import random_ensemble, random_rows, same_bits, stump

from fullhess.ensemble import Ensemble
from fullhess.features import FeatureSpace
from fullhess.serialization import FORMAT_VERSION, ModelFormatError, dumps, load, loads, save
from fullhess.tree import Tree

PREFIX = struct.Struct("<8sIIQQ")
ENSEMBLE, BINNING = random_ensemble(4, n_trees=3, n_leaves=5)
DATA = dumps(ENSEMBLE)


def assert_same(a: Ensemble, b: Ensemble) -> None:
    """Equal in every bit of every array and every setting."""
    assert same_bits(a.base_score, b.base_score)
    assert (a.link, a.best_iteration) == (b.link, b.best_iteration)
    assert repr(a.metadata) == repr(b.metadata) or dict(a.metadata) == dict(b.metadata)
    assert (a.features.names, a.features.comparison) == (b.features.names, b.features.comparison)
    assert a.features.absent == b.features.absent
    assert same_bits(a.features.missing, b.features.missing)
    assert same_bits(a.features.categorical, b.features.categorical)
    assert len(a) == len(b)
    assert same_bits(a.iteration_indptr, b.iteration_indptr)
    for one, other in zip(a.trees, b.trees, strict=True):
        for part in dataclasses.fields(Tree):
            assert same_bits(getattr(one, part.name), getattr(other, part.name)), part.name


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    comparison=st.sampled_from(["<", "<="]),
    dtype=st.sampled_from([np.float32, np.float64]),
    n_trees=st.integers(0, 4),
    n_outputs=st.integers(1, 4),
    absent=st.sampled_from(["zero", "missing"]),
)
def test_round_trip_is_bit_exact(n_trees: int, absent: str, **options: Any) -> None:
    ensemble, binning = random_ensemble(n_trees=n_trees, absent=absent, **options)
    copy = loads(dumps(ensemble))
    assert_same(copy, ensemble)
    X = random_rows(np.random.default_rng(0), binning, 20)
    assert same_bits(copy.predict_raw(X), ensemble.predict_raw(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_odd_numbers_survive(dtype: Any) -> None:
    odd = np.array([[-0.0], [np.finfo(dtype).smallest_subnormal]], dtype)
    trees = tuple(
        stump(t, values=odd) for t in (-0.0, 5e-324, np.inf, -np.inf, np.finfo(dtype).max)
    )
    base = np.array([-0.0], dtype)
    ensemble = Ensemble(trees, base, FeatureSpace.of(1, "<="), "identity")
    assert_same(loads(dumps(ensemble)), ensemble)


def test_rounds_of_several_trees_survive() -> None:
    grouped = ENSEMBLE.with_trees(ENSEMBLE.trees, iteration_indptr=[0, 2, 2, 3], best_iteration=1)
    copy = loads(dumps(grouped))
    assert_same(copy, grouped)
    assert not copy.iteration_indptr.flags.writeable
    X = random_rows(np.random.default_rng(0), BINNING, 20)
    assert same_bits(copy.predict_raw(X), ENSEMBLE[:2].predict_raw(X))


def test_metadata_and_names_survive() -> None:
    metadata: dict[str, Any] = {
        "text": 'quotes " and \\ and \n ü \ud800 \x00',
        "": "empty key",
        "float": 0.1,
        "minus zero": -0.0,
        "nan": math.nan,
        "infinite": -math.inf,
        "large": 2**64 - 1,
        "small": -(2**63),
        "yes": True,
        "nothing": None,
    }
    features = FeatureSpace.of(3, "<", names=["ü", "a b", "\ud800"])
    ensemble = Ensemble((stump(1.0),), np.zeros(1), features, "softmax", metadata, 0)
    copy = loads(dumps(ensemble))
    assert {key: repr(value) for key, value in copy.metadata.items()} == {
        key: repr(value) for key, value in metadata.items()
    }
    assert copy.features.names == features.names
    assert copy.best_iteration == 0


def test_equal_models_give_equal_bytes() -> None:
    again = Ensemble(
        ENSEMBLE.trees,
        ENSEMBLE.base_score,
        ENSEMBLE.features,
        ENSEMBLE.link,
        dict(reversed(list(ENSEMBLE.metadata.items()))),
    )
    assert dumps(again) == DATA
    assert dumps(loads(DATA)) == DATA


@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_holds_what_was_saved(tmp_path: Path, kind: Any) -> None:
    path = kind(tmp_path / "model.fullhess")
    save(ENSEMBLE, path)
    assert_same(load(path), ENSEMBLE)
    ENSEMBLE[:1].save(path)
    assert_same(load(path), ENSEMBLE[:1])
    assert os.listdir(tmp_path) == ["model.fullhess"]


def test_saving_keeps_links_and_permissions(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    save(ENSEMBLE, link)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert_same(load(target), ENSEMBLE)


@pytest.mark.parametrize("broken", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_a_failing_save_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, error: BaseException
) -> None:
    def fail(*_: Any) -> None:
        raise error

    path = tmp_path / "model"
    save(ENSEMBLE, path)
    with monkeypatch.context() as patch:
        patch.setattr(os, broken, fail)
        with pytest.raises(type(error)):
            save(ENSEMBLE[:1], path)
    assert path.read_bytes() == DATA
    assert os.listdir(tmp_path) == ["model"]


def test_a_save_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        save(ENSEMBLE, tmp_path / "absent" / "model")
    with pytest.raises(OSError, match="irectory"):
        save(ENSEMBLE, tmp_path)
    assert os.listdir(tmp_path) == []


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "wrong.bin"
    for content, message in ((b"", "not a fullhess model"), (DATA[:-1], "truncated")):
        path.write_bytes(content)
        with pytest.raises(ModelFormatError, match=rf"wrong\.bin: .*{message}"):
            load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_not_a_file_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(ModelFormatError, match="directory or device"):
            load(path)


def refuse(data: bytes | bytearray, message: str | None = None) -> None:
    with pytest.raises(ModelFormatError, match=message):
        loads(data)


def test_every_flipped_bit_is_noticed() -> None:
    for position in range(len(DATA)):
        for bit in range(8):
            damaged = bytearray(DATA)
            damaged[position] ^= 1 << bit
            refuse(damaged)


def test_every_truncation_and_extension_is_noticed() -> None:
    for length in range(len(DATA)):
        refuse(DATA[:length])
    for tail in (b"\x00", b"\xff" * 64, DATA):
        refuse(DATA + tail, "truncated or extended")


@settings(max_examples=300, deadline=None)
@given(start=st.integers(0, len(DATA)), length=st.integers(0, 200), insert=st.binary(max_size=200))
def test_every_replaced_stretch_is_noticed(start: int, length: int, insert: bytes) -> None:
    changed = DATA[:start] + insert + DATA[start + length :]
    if changed != DATA:
        refuse(changed)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 31, 32, 63, 64, 1000])
def test_random_bytes_are_no_model(size: int) -> None:
    noise = np.random.default_rng(size).bytes(size)
    refuse(noise, "not a fullhess model")
    refuse((b"FULLHESS" + noise)[: max(size, 1)])


def test_a_newer_version_asks_for_an_upgrade() -> None:
    newer = bytearray(DATA)
    newer[8:12] = struct.pack("<I", FORMAT_VERSION + 6)
    refuse(newer, "version 7 is newer than 1.*upgrade fullhess")


# From here on files are forged: damaged on purpose, then sealed with a sound checksum.


def seal(header: bytes, payload: bytes, **prefix: int) -> bytes:
    head = header + bytes(-(PREFIX.size + len(header)) % 64)
    length = PREFIX.size + len(head) + len(payload) + 32
    fields = {"version": FORMAT_VERSION, "zero": 0, "n_header": len(header), "length": length}
    data = PREFIX.pack(b"FULLHESS", *{**fields, **prefix}.values()) + head + payload
    return data + hashlib.sha256(data).digest()


def parts(data: bytes = DATA) -> tuple[dict[str, Any], bytearray]:
    length = PREFIX.unpack_from(data)[3]
    start = PREFIX.size + length
    return json.loads(data[PREFIX.size : start]), bytearray(data[start + -start % 64 : -32])


def forged(change: Callable[[dict[str, Any]], Any], data: bytes = DATA) -> bytes:
    """The file with another header."""
    header, payload = parts(data)
    change(header)
    return seal(json.dumps(header).encode(), bytes(payload))


def forged_array(name: str, index: Any, value: Any, data: bytes = DATA) -> bytes:
    """The file with other entries of an array."""
    header, payload = parts(data)
    entry = next(entry for entry in header["arrays"] if entry["name"] == name)
    dtype = entry["dtype"].replace("b1", "u1")
    count = math.prod(entry["shape"])
    array = np.frombuffer(payload, dtype, count, entry["offset"]).reshape(entry["shape"])
    array[index] = value
    return seal(json.dumps(header).encode(), bytes(payload))


def entry_of(header: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in header["arrays"] if entry["name"] == name)


def forged_entry(name: str, **changes: Any) -> bytes:
    """The file with another entry in the table of arrays."""
    return forged(lambda header: entry_of(header, name).update(changes))


def test_forging_itself_keeps_a_sound_file_sound() -> None:
    assert_same(loads(forged(lambda header: None)), ENSEMBLE)


@pytest.mark.parametrize(
    "prefix",
    [
        {"version": 0},
        {"zero": 1},
        {"n_header": 2**64 - 1},
        {"n_header": 0},
        {"n_header": 9},
        {"length": 0},
        {"length": 2**64 - 1},
    ],
)
def test_a_forged_prefix_is_refused(prefix: dict[str, int]) -> None:
    header, payload = parts()
    refuse(seal(json.dumps(header).encode(), bytes(payload), **prefix))


@pytest.mark.parametrize("key", ["offset", "nbytes"])
@pytest.mark.parametrize("value", [-64, 64, 2**62, 2**80, 1.0, "0", None, True, [0]])
def test_forged_offsets_and_sizes_are_refused(key: str, value: Any) -> None:
    for name in ("base_score", "feature", "values"):
        refuse(forged_entry(name, **{key: value}))


SIZES = [[], [-1], [2**62], [2**80], [0], [2**40, 2**40], [0, 2**62], [2**62, 0], [2**32, 2**32]]
NO_SIZES = [[1.5], ["3"], [True], None, {}, 3, [3, 1, 1], [[3]], [-1, -3]]


@pytest.mark.parametrize("shape", [*SIZES, *NO_SIZES])
def test_forged_shapes_are_refused_at_once(shape: Any) -> None:
    started = time.perf_counter()
    for name in [entry["name"] for entry in parts()[0]["arrays"]]:
        refuse(forged_entry(name, shape=shape))
        if shape in SIZES:  # with a number of bytes that agrees
            itemsize = np.dtype(entry_of(parts()[0], name)["dtype"]).itemsize
            refuse(forged_entry(name, shape=shape, nbytes=math.prod(shape) * itemsize))
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("key", ["offset", "nbytes"])
def test_a_right_number_of_the_wrong_type_is_refused(key: str) -> None:
    value = entry_of(parts()[0], "values")[key]
    refuse(forged_entry("values", **{key: float(value)}), "another size or offset")


def test_an_array_longer_than_the_file_is_refused() -> None:
    n_leaves, n_outputs = entry_of(parts()[0], "values")["shape"]
    shape = [n_leaves + 20, n_outputs]
    refuse(forged_entry("values", shape=shape, nbytes=math.prod(shape) * 8), "does not fit")


@pytest.mark.parametrize("dtype", ["<i2", ">i4", "<u4", "<f2", "|O", "object", "<M8[s]", 4, None])
def test_forged_dtypes_are_refused(dtype: Any) -> None:
    for name in ("base_score", "feature", "threshold", "default_left", "values"):
        refuse(forged_entry(name, dtype=dtype))


def test_margins_and_values_of_different_dtype_are_refused() -> None:
    n_leaves, n_outputs = entry_of(parts()[0], "values")["shape"]
    refuse(forged_entry("values", dtype="<f4", shape=[2 * n_leaves, n_outputs]))


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("base_score", 0, np.nan, "base_score must be finite"),
        ("iteration_indptr", 0, 1, "iteration_indptr must ascend from 0"),
        ("iteration_indptr", 1, 2**62, "iteration_indptr must ascend"),
        ("iteration_indptr", 1, -1, "iteration_indptr must ascend"),
        ("iteration_indptr", -1, 2**31, "iteration_indptr must ascend"),
        ("missing", 0, 3, "missing kinds"),
        ("categorical", 0, 2, "zeros and ones"),
        ("default_left", 0, 255, "zeros and ones"),
        ("node_offsets", 0, 1, "node_offsets must ascend from 0"),
        ("node_offsets", -1, 2**62, "node_offsets must ascend"),
        ("node_offsets", 1, -1, "node_offsets must ascend"),
        ("node_offsets", 1, 2**62, "node_offsets must ascend"),
        ("node_offsets", 1, 0, "odd number of nodes"),
        ("set_offsets", 1, -(2**62), "set_offsets must ascend"),
        ("set_offsets", 1, 0, "category_offsets must span"),
        ("feature", 0, 6, "beyond the model's 6"),
        ("feature", 0, 2**31 - 1, "beyond the model's 6"),
        ("feature", 0, -2, "-1 at a leaf"),
        ("left", 0, 0, "after its parent"),
        ("left", 0, -5, "after its parent"),
        ("right", 0, 2**31 - 1, "inside the tree"),
        ("leaf", 0, 0, "leaf index -1"),
        ("leaf", slice(None), 0, "leaf"),
        ("gain", 0, np.inf, "gain and cover must be finite"),
        ("cover", 0, -1.0, "must not be negative"),
        ("count", 0, -1, "must not be negative"),
        ("category_offsets", 0, 1, "category_offsets"),
        ("category_offsets", slice(None), 2**31 - 1, "category_offsets"),
        ("category_values", slice(None), -1, "must not be negative"),
        ("category_values", slice(None), 3, "must ascend"),
        ("values", (0, 0), np.nan, "values must be finite"),
        ("values", (-1, -1), -np.inf, "values must be finite"),
    ],
)
def test_a_forged_array_is_refused_and_named(
    name: str, index: Any, value: Any, message: str
) -> None:
    refuse(forged_array(name, index, value), message)


def test_a_numeric_split_without_threshold_is_refused() -> None:
    data = dumps(Ensemble((stump(1.0),), np.zeros(1), FeatureSpace.of(1, "<="), "identity"))
    refuse(forged_array("threshold", 0, np.nan, data), "tree 0: a numeric split")


def test_a_cycle_of_children_is_refused() -> None:
    tree = max(range(3), key=lambda t: ENSEMBLE.trees[t].n_nodes)
    first = sum(ENSEMBLE.trees[t].n_nodes for t in range(tree))
    inner = np.flatnonzero(ENSEMBLE.trees[tree].feature >= 0)[-1]
    refuse(forged_array("left", first + inner, 0), f"tree {tree}: a child must stand after")


SOUND_JSON = json.dumps(parts()[0])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        '{"a":' * 100_000,
        SOUND_JSON.replace('"rate": 0.1', '"rate": NaN'),
        SOUND_JSON.replace('"rate": 0.1', '"rate": -Infinity'),
        SOUND_JSON.replace('"rate": 0.1', '"rate": 1e999'),
        SOUND_JSON.replace('"rate": 0.1', '"rate": ' + "9" * 4000),
        SOUND_JSON.replace('"rate": 0.1', '"rate": ' + "9" * 5000),
        SOUND_JSON.replace('"rate": 0.1', '"rate": 1, "rate": 2'),
        SOUND_JSON.replace('"rate": 0.1', '"rate": [1]'),
        SOUND_JSON.replace('"rate": 0.1', '"rate": {"float": "1.0"}'),
        SOUND_JSON.replace('"rate": 0.1', '"rate": {"float": ["nan"]}'),
        SOUND_JSON.replace('"rate": 0.1', '"rate": ' + "[" * 100_000 + "]" * 100_000),
        SOUND_JSON.replace('"rate"', '"rät"').encode().decode("latin-1"),
        SOUND_JSON + "x",
    ],
)
def test_unsound_json_is_refused(text: str) -> None:
    assert text != SOUND_JSON
    refuse(seal(text.encode("latin-1"), bytes(parts()[1])))


HEADERS: list[Callable[[dict[str, Any]], Any]] = [
    lambda header: header.pop("link"),
    lambda header: header.update(more=1),
    lambda header: header.update(link="logit"),
    lambda header: header.update(link=["softmax"]),
    lambda header: header.update(best_iteration=3),
    lambda header: header.update(best_iteration=10**30),
    lambda header: header.update(best_iteration=1.0),
    lambda header: header.update(best_iteration=False),
    lambda header: header.update(metadata=[]),
    lambda header: header.update(arrays={}),
    lambda header: header["arrays"].pop(),
    lambda header: header["arrays"].reverse(),
    lambda header: header["arrays"].append(header["arrays"][0]),
    lambda header: header["arrays"].__setitem__(0, None),
    lambda header: header["arrays"][0].update(name="values"),
    lambda header: header["arrays"][0].pop("name"),
    lambda header: header.update(features=None),
    lambda header: header["features"].update(comparison=">"),
    lambda header: header["features"].update(comparison="<"),
    lambda header: header["features"].update(absent=None),
    lambda header: header["features"].update(names="abcdef"),
    lambda header: header["features"].update(names=list("abcde")),
    lambda header: header["features"].update(names=list("abcdee")),
    lambda header: header["features"].update(names=[1, 2, 3, 4, 5, 6]),
    lambda header: header["features"].update(names=[]),
]


@pytest.mark.parametrize("change", HEADERS)
def test_a_header_that_says_something_else_is_refused(change: Any) -> None:
    refuse(forged(change))


def test_bytes_between_and_after_arrays_must_be_nothing() -> None:
    header, payload = parts()
    text = json.dumps(header).encode()
    refuse(seal(text, bytes(payload) + bytes(64)), "64 bytes belong to no array")
    payload[ENSEMBLE.base_score.nbytes] = 1
    refuse(seal(text, bytes(payload)), "padding after array 'base_score'")
    data = bytearray(forged(lambda header: header.update(metadata={"fill": 13 * "x"})))
    start = PREFIX.size + PREFIX.unpack_from(data)[3]
    assert start % 64 != 0
    data[start] = 1
    data[-32:] = hashlib.sha256(data[:-32]).digest()
    refuse(data, "padding after the header")


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_no_forged_byte_can_crash_the_reader_or_the_model(data: st.DataObject) -> None:
    """Such a file is refused, or it is another sound model that predicts."""
    header, payload = parts()
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(payload) - 1))
        payload[position] = data.draw(st.integers(0, 255))
    try:
        model = loads(seal(json.dumps(header).encode(), bytes(payload)))
    except ModelFormatError:
        return
    raw = model.predict_raw(random_rows(np.random.default_rng(0), BINNING, 8), n_jobs=1)
    assert raw.shape == (8, 3)


ODD_JSON: list[Any] = [
    None,
    True,
    -1,
    0,
    2**80,
    1.5,
    math.nan,
    "",
    "x",
    [],
    [[]],
    {},
    {"float": "inf"},
]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_no_forged_header_value_can_crash_the_reader(data: st.DataObject) -> None:
    header, payload = parts()
    place: Any = header
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(keys))
        if not place[key] or not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(st.sampled_from(ODD_JSON))
    try:
        loads(seal(json.dumps(header).encode(), bytes(payload)))
    except ModelFormatError:
        return
    assert header["arrays"] == parts()[0]["arrays"]  # only what is free to choose may differ


def test_a_big_model_loads_in_about_a_second() -> None:
    ensemble, _ = random_ensemble(0, n_trees=20, n_leaves=1000)
    big = ensemble.with_trees(ensemble.trees * 25)
    data = dumps(big)
    started = time.perf_counter()
    assert len(loads(data)) == 500
    assert time.perf_counter() - started < 5  # a loop over nodes would take a minute


def test_loaded_models_cannot_be_written_to() -> None:
    copy = loads(bytearray(DATA))
    with pytest.raises(ValueError, match="read-only"):
        copy.trees[0].values[0, 0] = 1.0
