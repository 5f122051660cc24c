"""fastText's model files: whole or not, before the library reads them.

The library trusts a file: at the end of a truncated one it goes on reading words out of
nothing until the memory is full. So the layout is followed first, without reading the weights.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from modtok_cli.base.errors import ModtokError

MAGIC, VERSION = 793712314, 12
_HEADER = 64  # magic, version, twelve integers and a float of settings
# Where floret's files tell two integers more than fastText's: its mode and number of hashes.
_EXTRA = slice(52, 60)


def check_model(path: Path) -> None:
    """Follow the layout of a model to its end.

    Raises:
        ModtokError: no such file, no fastText model, or one that was cut off.
    """
    if not path.is_file():
        raise ModtokError("no such model", where=str(path))
    if path.stat().st_size < _HEADER + 28:
        raise ModtokError("not a fastText model (too short)", where=str(path))
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            end = _end(data)
        except (struct.error, ValueError, IndexError) as error:
            raise ModtokError(
                f"not a whole fastText model ({error})", where=str(path), remedy="fetch it again"
            ) from error
        if end != len(data):
            raise ModtokError(
                f"not a whole fastText model: {len(data):,} bytes of {end:,}",
                where=str(path),
                remedy="fetch it again",
            )


def _end(data: mmap.mmap) -> int:
    """Where the file should end, by what it says of itself."""
    magic, version = struct.unpack_from("<2i", data)
    if magic != MAGIC or version > VERSION:
        raise ValueError("no such magic number or version")
    words, _, _, _, pruned = struct.unpack_from("<3i2q", data, _HEADER)
    at = _HEADER + 28
    for _ in range(words):
        stop = data.find(b"\0", at, at + 65536)
        if stop < 0:
            raise ValueError("the list of words is cut off")
        at = stop + 10  # the word's zero, its count and its kind
    at += 8 * max(0, pruned)
    quantized = data[at] != 0
    at = _quantized_end(data, at + 1) if quantized else _dense_end(data, at + 1)
    out_quantized = data[at] != 0 and quantized
    return _quantized_end(data, at + 1) if out_quantized else _dense_end(data, at + 1)


def _dense_end(data: mmap.mmap, at: int) -> int:
    rows, columns = struct.unpack_from("<2q", data, at)
    if rows < 0 or columns < 0:
        raise ValueError("a matrix of negative size")
    return int(at + 16 + 4 * rows * columns)


def _quantized_end(data: mmap.mmap, at: int) -> int:
    norms, rows, _, codes = struct.unpack_from("<?2qi", data, at)
    if rows < 0 or codes < 0:
        raise ValueError("a matrix of negative size")
    at = _product_end(data, at + 21 + codes)
    return _product_end(data, at + rows) if norms else at


def _product_end(data: mmap.mmap, at: int) -> int:
    (dimension,) = struct.unpack_from("<i", data, at)
    return int(at + 16 + 4 * 256 * dimension)


def as_fasttext(data: bytes) -> bytes:
    """A classifier as floret saves it, in the format of fastText.

    The two differ by two integers in the header, the mode and the number of hashes.

    Raises:
        ModtokError: not such a file, or in floret's own mode.
    """
    if len(data) < _HEADER or struct.unpack_from("<2i", data) != (MAGIC, VERSION):
        raise ModtokError(
            "floret wrote a file of a form not known", remedy="pip install floret==0.10.5"
        )
    if struct.unpack("<2i", data[_EXTRA]) != (1, 1):
        raise ModtokError("a model with floret's hashing has no form in fastText")
    return data[: _EXTRA.start] + data[_EXTRA.stop :]
