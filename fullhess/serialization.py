"""Models in files: one file, no pickle, nothing trusted.

Layout, all numbers little-endian:

    "FULLHESS" | version u32 | zero u32 | header bytes u64 | file bytes u64
    header: JSON in ASCII
    zeros up to a multiple of 64
    arrays, each followed by zeros up to a multiple of 64
    SHA-256 of everything before it

The header names the link, the features, the metadata and the arrays with their
dtype, shape, offset (from the first array) and size. The arrays hold the trees
end to end. There is one way to write a model, so everything a file declares is
known beforehand or bounded by its true length; a reader allocates nothing that
the file does not contain.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import stat
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from .ensemble import Ensemble, Scalar
from .features import FeatureSpace
from .tree import Tree

__all__ = ["FORMAT_VERSION", "ModelFormatError", "dumps", "load", "loads", "save"]

FORMAT_VERSION = 1

_MAGIC = b"FULLHESS"
_PREFIX = struct.Struct("<8sIIQQ")
_ALIGNMENT = 64
_DIGEST_SIZE = hashlib.sha256().digest_size
_FLOATS = ("<f4", "<f8")
_HEADER_KEYS = {"arrays", "best_iteration", "features", "link", "metadata"}
_FEATURE_KEYS = {"absent", "comparison", "names"}
_ARRAY_KEYS = {"dtype", "name", "nbytes", "offset", "shape"}

# Every array of a model, in the order of the file. None: the dtype of the margins.
_DTYPES: dict[str, str | None] = {
    "base_score": None,
    "iteration_indptr": "<i8",
    "missing": "|u1",
    "categorical": "|b1",
    "node_offsets": "<i8",
    "set_offsets": "<i8",
    "feature": "<i4",
    "threshold": "<f8",
    "default_left": "|b1",
    "left": "<i4",
    "right": "<i4",
    "leaf": "<i4",
    "gain": "<f8",
    "cover": "<f8",
    "count": "<i8",
    "category_offsets": "<i4",
    "category_values": "<i4",
    "values": None,
}
_PER_NODE = (
    "feature",
    "threshold",
    "default_left",
    "left",
    "right",
    "leaf",
    "gain",
    "cover",
    "count",
)


class ModelFormatError(ValueError):
    """A file or byte string is not a model this version can read."""


def save(ensemble: Ensemble, path: str | os.PathLike[str]) -> None:
    """Write a model; an existing file is replaced as a whole or not at all."""
    data = dumps(ensemble)
    target = os.path.realpath(os.fspath(path))  # a link stays one
    directory, name = os.path.split(target)
    temporary = os.path.join(directory, f".{name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):  # no such file, or not ours
            os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(directory)


def _sync_directory(directory: str) -> None:
    """Let the new name survive a power failure, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def load(path: str | os.PathLike[str]) -> Ensemble:
    """Read a model; ``ModelFormatError`` if the file is not a sound one."""
    path = os.fspath(path)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ModelFormatError(f"{path}: expected a file with a model, got a directory or device")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            _check_prefix(file.read(_PREFIX.size), size)
            file.seek(0)
            return _decode(file.read(size))
        except ModelFormatError as error:
            raise ModelFormatError(f"{path}: {error}") from error


def loads(data: bytes | bytearray | memoryview) -> Ensemble:
    """Read a model from what ``dumps`` returned."""
    data = bytes(data)  # nobody else may change it later
    _check_prefix(data[: _PREFIX.size], len(data))
    return _decode(data)


def dumps(ensemble: Ensemble) -> bytes:
    """A model as bytes, the content of a file."""
    arrays = _arrays_of(ensemble)
    features = ensemble.features
    header = {
        "arrays": _table(arrays),
        "best_iteration": ensemble.best_iteration,
        "features": {
            "absent": features.absent,
            "comparison": features.comparison,
            "names": list(features.names),
        },
        "link": ensemble.link,
        "metadata": {key: _packed(value) for key, value in ensemble.metadata.items()},
    }
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    parts = [b"", text, bytes(_padding(_PREFIX.size + len(text)))]
    for array in arrays.values():
        parts += [array.tobytes(), bytes(_padding(array.nbytes))]
    length = _PREFIX.size + sum(len(part) for part in parts) + _DIGEST_SIZE
    parts[0] = _PREFIX.pack(_MAGIC, FORMAT_VERSION, 0, len(text), length)
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


def _padding(size: int) -> int:
    return -size % _ALIGNMENT


def _packed(value: Scalar) -> Any:
    """JSON knows no infinities and no NaN; they become an object."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(float(value))}
    return value


def _arrays_of(ensemble: Ensemble) -> dict[str, NDArray[Any]]:
    """The arrays of a model in the order and with the dtypes of the file."""
    trees = ensemble.trees

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(tree, name) for tree in trees]) if trees else np.empty(0)

    n_outputs = ensemble.n_outputs
    found: dict[str, NDArray[Any]] = {
        "base_score": ensemble.base_score,
        "iteration_indptr": ensemble.iteration_indptr,
        "missing": ensemble.features.missing,
        "categorical": ensemble.features.categorical,
        "node_offsets": np.cumsum([0, *(tree.n_nodes for tree in trees)]),
        "set_offsets": np.cumsum([0, *(len(tree.category_values) for tree in trees)]),
        "category_offsets": joined("category_offsets"),
        "category_values": joined("category_values"),
        "values": joined("values").reshape(-1, n_outputs),
        **{name: joined(name) for name in _PER_NODE},
    }
    margin = ensemble.dtype.newbyteorder("<").str
    return {
        name: np.ascontiguousarray(found[name], dtype=np.dtype(dtype or margin))
        for name, dtype in _DTYPES.items()
    }


def _table(arrays: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    table = []
    offset = 0
    for name, array in arrays.items():
        table.append(
            {
                "name": name,
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "offset": offset,
                "nbytes": array.nbytes,
            }
        )
        offset += array.nbytes + _padding(array.nbytes)
    return table


def _fail(what: str) -> NoReturn:
    raise ModelFormatError(what)


def _check_prefix(prefix: bytes, size: int) -> None:
    """Check what comes first against the true size, before anything is read."""
    if prefix[: len(_MAGIC)] != _MAGIC[: len(prefix)] or not prefix:
        _fail("not a fullhess model (it does not begin with FULLHESS)")
    if len(prefix) < _PREFIX.size or size < _PREFIX.size + _DIGEST_SIZE:
        _fail(f"truncated: {size} bytes cannot hold a model")
    _, version, zero, header_length, length = _PREFIX.unpack(prefix)
    if version > FORMAT_VERSION:
        _fail(
            f"format version {version} is newer than {FORMAT_VERSION}, the newest this "
            "version of fullhess reads; upgrade fullhess"
        )
    if version < 1 or zero != 0:
        _fail("damaged: there is no such format version")
    if length != size:
        _fail(f"truncated or extended: it should have {length} bytes and has {size}")
    if header_length > size - _PREFIX.size - _DIGEST_SIZE:
        _fail(f"damaged: a header of {header_length} bytes does not fit in {size}")


def _decode(data: bytes) -> Ensemble:
    """The model in ``data``, whose prefix has been checked."""
    _, _, _, header_length, length = _PREFIX.unpack_from(data)
    end = len(data) - _DIGEST_SIZE
    if len(data) != length or hashlib.sha256(memoryview(data)[:end]).digest() != data[end:]:
        _fail("damaged: its content does not match its checksum")
    start = _PREFIX.size + header_length
    header = _parse_header(data[_PREFIX.size : start])
    payload = start + _padding(start)
    if any(data[start:payload]):
        _fail("the padding after the header is not zero")
    arrays = _read_arrays(data, payload, end, header["arrays"])
    try:
        return Ensemble(
            trees=_read_trees(arrays),
            base_score=arrays["base_score"],
            features=_read_features(header["features"], arrays),
            link=header["link"],
            metadata=_read_metadata(header["metadata"]),
            best_iteration=header["best_iteration"],
            iteration_indptr=arrays["iteration_indptr"],
        )
    except ModelFormatError:
        raise
    except (TypeError, ValueError) as error:  # what the classes themselves refuse
        raise ModelFormatError(str(error)) from error


def _parse_header(text: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        _fail(f"the header holds {constant}")

    def finite(number: str) -> float:
        value = float(number)
        return value if math.isfinite(value) else refuse(number[:50])

    def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            _fail("the header holds a key twice")
        return found

    try:
        header = json.loads(
            text.decode("ascii"),
            object_pairs_hook=unique,
            parse_constant=refuse,
            parse_float=finite,
        )
    except ModelFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"the header is not sound JSON: {error}") from error
    _check_keys(header, _HEADER_KEYS, "the header")
    return dict(header)


def _check_keys(found: Any, expected: set[str], what: str) -> None:
    if not isinstance(found, dict) or set(found) != expected:
        _fail(f"{what} must be an object with the keys {sorted(expected)}")


def _read_arrays(data: bytes, start: int, end: int, table: Any) -> dict[str, NDArray[Any]]:
    """Views of the arrays; each declared number is compared with what it must be."""
    if not isinstance(table, list) or len(table) != len(_DTYPES):
        _fail(f"expected a table of {len(_DTYPES)} arrays")
    arrays: dict[str, NDArray[Any]] = {}
    position = start
    for entry, (name, dtype) in zip(table, _DTYPES.items(), strict=True):
        _check_keys(entry, _ARRAY_KEYS, "an entry of the table of arrays")
        if entry["name"] != name:
            _fail(f"expected the array {name!r} next in the table of arrays")
        if entry["dtype"] not in ((dtype,) if dtype else _FLOATS):
            _fail(f"array {name!r} must have dtype {dtype or _FLOATS}")
        count = _element_count(name, entry["shape"], len(data))
        kind = np.dtype(entry["dtype"])
        nbytes = count * kind.itemsize  # Python integers: nothing wraps around
        stop = position + nbytes
        if not _is_int(entry["nbytes"], nbytes) or not _is_int(entry["offset"], position - start):
            _fail(f"array {name!r} has another size or offset than its shape demands")
        if stop + _padding(nbytes) > end:
            _fail(f"array {name!r} does not fit in the file")
        if any(data[stop : stop + _padding(nbytes)]):
            _fail(f"the padding after array {name!r} is not zero")
        arrays[name] = _view(data, kind, count, position, name).reshape(entry["shape"])
        position = stop + _padding(nbytes)
    if position != end:
        _fail(f"{end - position} bytes belong to no array")
    return arrays


def _is_int(found: Any, expected: int) -> bool:
    return type(found) is int and found == expected


def _element_count(name: str, shape: Any, limit: int) -> int:
    n_axes = 2 if name == "values" else 1
    if (
        not isinstance(shape, list)
        or len(shape) != n_axes
        or not all(type(size) is int and 0 <= size <= limit for size in shape)
    ):
        _fail(f"array {name!r} must have a shape of {n_axes} sizes")
    return math.prod(shape)


def _view(data: bytes, kind: np.dtype[Any], count: int, position: int, name: str) -> NDArray[Any]:
    array = np.frombuffer(data, kind, count, position) if count else np.empty(0, kind)
    if kind == np.bool_ and (array.view(np.uint8) > 1).any():
        _fail(f"array {name!r} must hold zeros and ones")
    return array.astype(kind.newbyteorder("="), copy=False)


def _read_trees(arrays: Mapping[str, NDArray[Any]]) -> tuple[Tree, ...]:
    """Trees as views of the arrays. Their content is for ``Tree.check``."""
    nodes, sets = arrays["node_offsets"], arrays["set_offsets"]
    n_trees, n_nodes = len(nodes) - 1, len(arrays["feature"])
    n_outputs = len(arrays["base_score"])
    if len(nodes) != len(sets) or n_trees < 0:
        _fail("node_offsets and set_offsets must have one entry more than there are trees")
    _check_offsets("node_offsets", nodes, n_nodes)
    _check_offsets("set_offsets", sets, len(arrays["category_values"]))
    if (np.diff(nodes) % 2 == 0).any():
        _fail("every tree must have an odd number of nodes")
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(_PER_NODE, (n_nodes,))
    shapes["category_offsets"] = (n_nodes + n_trees,)
    shapes["values"] = ((n_nodes + n_trees) // 2, n_outputs)
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            _fail(f"array {name!r} must have shape {shape}, got {arrays[name].shape}")
    if arrays["values"].dtype != arrays["base_score"].dtype:
        _fail("values and base_score must have the same dtype")
    bounds = zip(nodes.tolist(), nodes[1:].tolist(), sets.tolist(), sets[1:].tolist(), strict=False)
    return tuple(_read_tree(arrays, t, *bound) for t, bound in enumerate(bounds))


def _check_offsets(name: str, offsets: NDArray[Any], total: int) -> None:
    if offsets[0] != 0 or offsets[-1] != total or (offsets[1:] < offsets[:-1]).any():
        _fail(f"{name} must ascend from 0 to {total}")


def _read_tree(
    arrays: Mapping[str, NDArray[Any]],
    t: int,
    node: int,
    last_node: int,
    category: int,
    last_category: int,
) -> Tree:
    """Tree t; n nodes have (n + 1) / 2 leaves and n + 1 category offsets."""
    return Tree(
        **{name: arrays[name][node:last_node] for name in _PER_NODE},
        category_offsets=arrays["category_offsets"][node + t : last_node + t + 1],
        category_values=arrays["category_values"][category:last_category],
        values=arrays["values"][(node + t) // 2 : (last_node + t + 1) // 2],
    )


def _read_features(found: Any, arrays: Mapping[str, NDArray[Any]]) -> FeatureSpace:
    _check_keys(found, _FEATURE_KEYS, "features")
    names = found["names"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        _fail("the names of features must be a list of strings")
    return FeatureSpace(
        names=tuple(names),
        comparison=found["comparison"],
        missing=arrays["missing"],
        categorical=arrays["categorical"],
        absent=found["absent"],
    )


def _read_metadata(found: Any) -> dict[str, Scalar]:
    if not isinstance(found, dict):
        _fail("metadata must be an object")
    metadata: dict[str, Scalar] = {}
    for key, value in found.items():
        if isinstance(value, dict):
            if set(value) != {"float"} or value["float"] not in ("nan", "inf", "-inf"):
                _fail(f"metadata {key!r} must be a string, number, bool or null")
            value = float(value["float"])
        metadata[key] = value
    return metadata
