"""Check the structure of fastText model files before the library reads them.

The library does not check a file: reading a truncated one it allocates until memory is exhausted.
Therefore the layout is walked first, without reading the weights.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from modtok_cli.base.errors import ModtokError

MAGIC, VERSION = 793712314, 12
_HEADER = 64  # magic, version, twelve integers and a double
# Two further integers in floret's files: its mode and number of hashes.
_EXTRA = slice(52, 60)


def check_model(path: Path) -> None:
    """Walk the layout of a model file to its end.

    Raises:
        ModtokError: the file does not exist, is not a fastText model, or is truncated.
    """
    if not path.is_file():
        raise ModtokError("model does not exist", where=str(path))
    if path.stat().st_size < _HEADER + 28:
        raise ModtokError("not a fastText model (too short)", where=str(path))
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            end = _end(data)
        except (struct.error, ValueError, IndexError) as error:
            raise ModtokError(
                f"incomplete fastText model ({error})", where=str(path), remedy="download it again"
            ) from error
        if end != len(data):
            raise ModtokError(
                f"incomplete fastText model: {len(data):,} of {end:,} bytes",
                where=str(path),
                remedy="download it again",
            )


def _end(data: mmap.mmap) -> int:
    """Expected end of the file, computed from its headers."""
    magic, version = struct.unpack_from("<2i", data)
    if magic != MAGIC or version > VERSION:
        raise ValueError("wrong magic number or version")
    words, _, _, _, pruned = struct.unpack_from("<3i2q", data, _HEADER)
    at = _HEADER + 28
    for _ in range(words):
        stop = data.find(b"\0", at, at + 65536)
        if stop < 0:
            raise ValueError("truncated word list")
        at = stop + 10  # terminating zero, count and kind
    at += 8 * max(0, pruned)
    quantized = data[at] != 0
    at = _quantized_end(data, at + 1) if quantized else _dense_end(data, at + 1)
    out_quantized = data[at] != 0 and quantized
    return _quantized_end(data, at + 1) if out_quantized else _dense_end(data, at + 1)


def _dense_end(data: mmap.mmap, at: int) -> int:
    rows, columns = struct.unpack_from("<2q", data, at)
    if rows < 0 or columns < 0:
        raise ValueError("negative matrix size")
    return int(at + 16 + 4 * rows * columns)


def _quantized_end(data: mmap.mmap, at: int) -> int:
    norms, rows, _, codes = struct.unpack_from("<?2qi", data, at)
    if rows < 0 or codes < 0:
        raise ValueError("negative matrix size")
    at = _product_end(data, at + 21 + codes)
    return _product_end(data, at + rows) if norms else at


def _product_end(data: mmap.mmap, at: int) -> int:
    (dimension,) = struct.unpack_from("<i", data, at)
    return int(at + 16 + 4 * 256 * dimension)


def as_fasttext(data: bytes) -> bytes:
    """Convert a classifier saved by floret to the format of fastText.

    The formats differ by two integers in the header, the mode and the number of hashes.

    Raises:
        ModtokError: not a floret file, or one in floret's own mode.
    """
    if len(data) < _HEADER or struct.unpack_from("<2i", data) != (MAGIC, VERSION):
        raise ModtokError(
            "floret wrote a file in an unknown format", remedy="pip install floret==0.10.5"
        )
    if struct.unpack("<2i", data[_EXTRA]) != (1, 1):
        raise ModtokError("models with floret's hashing cannot be converted to fastText")
    return data[: _EXTRA.start] + data[_EXTRA.stop :]
