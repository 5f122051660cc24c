"""Read lists of tokens in the files of other programs, see `formats`."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.extras import require
from modtok_cli.base.files import is_there
from modtok_cli.base.read_file import read_file
from modtok_cli.model.architecture.stored_tensors import StoredTensor, read_header

_DTYPES = {"I64": "<i8", "I32": "<i4"}
_REMEDY = "write a JSON list, or an id per line"


def read_list(path: Path, size: int) -> Int64Array:
    """Return the ids of a list in a format of `modtok tokens`, in the order of the file.

    Args:
        path: a file, or a directory of speculators or TensorRT-Edge-LLM.
        size: tokens of the vocabulary.

    Raises:
        ModtokError: it is something else, empty, or names a token twice.
        UsageError: it is of another vocabulary, or a pickled file.
    """
    if not is_there(path):
        raise missing(path)
    if path.is_dir():
        path = _file_of(path)
    if path.suffix in (".pt", ".pth"):
        raise UsageError(
            "modtok reads no pickled file", where=path, remedy="write the list with --format ids"
        )
    read = {".safetensors": _safetensors, ".npy": _npy, ".gguf": _gguf}.get(path.suffix, _text)
    ids = read(path, size)
    if not len(ids):
        raise ModtokError("names no token", where=path)
    named, counts = np.unique(ids, return_counts=True)
    if counts.max() > 1:
        raise ModtokError(
            f"names token {named[counts.argmax()]} twice",
            where=path,
            remedy="write each id once",
        )
    if named[0] < 0 or named[-1] >= size:
        outside = named[0] if named[0] < 0 else named[-1]
        raise UsageError(
            f"is of another vocabulary, which has a token {outside}; this one has {size:,} tokens",
            where=path,
            remedy="make the list from this model, or from the target of this draft",
        )
    return ids


def targets_of(tensors: Mapping[str, StoredTensor], size: int, where: Path) -> Int64Array:
    """Return the target ids (n,) of a d2t of EAGLE-3, into a vocabulary of `size` tokens.

    Raises:
        ModtokError: it is something else, or t2d, the mask by id, names other tokens.
        UsageError: t2d is of another vocabulary.
    """
    t2d = tensors.get("t2d")
    return _mapped(
        _integers(tensors["d2t"], where), None if t2d is None else t2d.data(), size, where
    )


def map_of(tensor: StoredTensor, size: int, where: Path) -> Int64Array:
    """Return the target ids (n,) of a map that holds them, into a vocabulary of `size` tokens.

    Raises:
        ModtokError: it is something else.
    """
    ids = _integers(tensor, where)
    return _mapped(ids - np.arange(len(ids)), None, size, where, tensor.name)


def _mapped(d2t: Int64Array, t2d: Any, size: int, where: Path, name: str = "d2t") -> Int64Array:
    """Of differences d2t (n,), and of the mask t2d (rows,) if there is one."""
    targets: Int64Array = d2t + np.arange(len(d2t))
    if t2d is not None:
        if t2d.shape != (size,):
            raise UsageError(
                f"is of a vocabulary of {t2d.size:,} tokens, the model has {size:,}",
                where=where,
                remedy="make the list from this model, or from the target of this draft",
            )
        named = np.flatnonzero(t2d)
        if not np.array_equal(np.sort(targets), named):
            common = len(np.intersect1d(targets, named))
            raise ModtokError(
                f"tensors 'd2t' and 't2d' name other tokens: {len(targets):,} and {len(named):,}, "
                f"{common:,} of them the same",
                where=where,
                remedy="store in d2t each token's id less its place, as in modtok tokens --format "
                "eagle3",
            )
    if len(np.unique(targets)) < len(targets) or not np.isin(targets, np.arange(size)).all():
        raise ModtokError(f"tensor '{name}' is not a map into the vocabulary", where=where)
    return targets


def _integers(tensor: StoredTensor, where: Path) -> Int64Array:
    kind = _DTYPES.get(tensor.dtype)
    if kind is None or len(tensor.shape) != 1:
        raise ModtokError(f"tensor '{tensor.name}' is {tensor.dtype} {tensor.shape}", where=where)
    return np.frombuffer(tensor.data().tobytes(), dtype=kind).astype(np.int64)


def _file_of(path: Path) -> Path:
    """The file of a directory that holds the list; of speculators, d2t."""
    found = sorted([*path.glob("vocab_map.safetensors"), *path.glob("d2t-*.npy")])
    if len(found) != 1:
        raise UsageError(
            f"has {len(found) or 'no'} files vocab_map.safetensors or d2t-N.npy",
            where=path,
            remedy="give the file of the list",
        )
    return found[0]


def _safetensors(path: Path, size: int) -> Int64Array:
    tensors = {tensor.name: tensor for tensor in read_header(path)[0]}
    if "vocab_map" in tensors:
        return _integers(tensors["vocab_map"], path)
    if "d2t" not in tensors:
        raise ModtokError("has no d2t and no vocab_map", where=path)
    return targets_of(tensors, size, path)


def _npy(path: Path, size: int) -> Int64Array:
    array = _array(path)
    if array.dtype == np.bool_:
        return _mapped(np.flatnonzero(array) - np.arange(array.sum()), array, size, path)
    mask = path.with_name(path.name.replace("d2t", "t2d"))
    beside = _array(mask) if mask != path and mask.is_file() else None
    return _mapped(array.astype(np.int64), beside, size, path)


def _array(path: Path) -> Any:
    try:
        array = np.load(BytesIO(read_file(path)), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ModtokError("is no array of NumPy", where=path) from error
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "bi":
        raise ModtokError("is no vector of integers or booleans", where=path)
    return array


def _gguf(path: Path, size: int) -> Int64Array:
    require("a list in GGUF", lm=("gguf",))
    import gguf

    try:
        found = [each for each in gguf.GGUFReader(path).tensors if each.name == "d2t"]
    except (ValueError, IndexError, OSError) as error:
        raise ModtokError("is no GGUF file", where=path) from error
    if len(found) != 1 or found[0].data.ndim != 1 or found[0].data.dtype.kind != "i":
        raise ModtokError("has no integers 'd2t'", where=path)
    return np.array(found[0].data, dtype=np.int64)


def _text(path: Path, size: int) -> Int64Array:
    text = read_file(path)
    if text.lstrip()[:1] != b"{":
        return _numbers(text, path)
    try:
        found = _of_object(orjson.loads(text), size)
    except (KeyError, TypeError, ValueError) as error:
        raise ModtokError("is not a list of token ids", where=path, remedy=_REMEDY) from error
    return _numbers(orjson.dumps(found), path)


def _numbers(text: bytes, path: Path) -> Int64Array:
    """A JSON list of numbers, or a number per line."""
    try:
        ids = orjson.loads(text) if text.lstrip()[:1] == b"[" else [*map(int, text.split())]
        if not ids or not all(type(index) is int and 0 <= index < 1 << 31 for index in ids):
            raise ValueError
    except ValueError as error:
        raise ModtokError("is not a list of token ids", where=path, remedy=_REMEDY) from error
    return np.array(ids, dtype=np.int64)


def _of_object(content: Any, size: int) -> list[Any]:
    """Ids of fields of a request, or of a map from row to id.

    Raises:
        KeyError, TypeError, ValueError: it is another object.
    """
    if "allowed_token_ids" in content:
        return list(content["allowed_token_ids"])
    if "logit_bias" in content:
        bias = content["logit_bias"]
        pairs = bias.items() if isinstance(bias, dict) else bias
        without = {int(index) for index, value in pairs if value is False or value == -100}
        if len(without) < len(bias):  # a bias that only makes a token less likely
            raise ValueError
        return [index for index in range(size) if index not in without]
    rows = {int(row): index for row, index in content.items()}
    return [rows[row] for row in range(len(rows))]
