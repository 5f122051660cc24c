"""Load models of fastText, of language or quality; damaged ones are errors."""

import mmap
import struct
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, missing


def load_fasttext(path: Path) -> "FastText":
    """Load a fastText model.

    Raises:
        ModtokError: the file does not exist, or is not a complete model.
    """
    import fasttext

    check_model(path)
    try:
        return FastText(fasttext.load_model(str(path)), path)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ModtokError(f"not a fastText model ({error})", where=path) from error


class FastText:
    """A model whose weights may be damaged, which the library detects at prediction."""

    def __init__(self, model: Any, path: Path) -> None:
        self._model = model
        self._path = path

    def predict(self, text: str, **options: Any) -> Any:
        """Labels and scores.

        Raises:
            ModtokError: the model is damaged.
        """
        try:
            return self._model.predict(text, **options)
        except (ValueError, RuntimeError, MemoryError) as error:
            raise ModtokError(
                f"damaged fastText model ({error})",
                where=self._path,
                remedy="download or train it again",
            ) from error


MAGIC, VERSION = 793712314, 12
_HEADER = 64  # magic, version, twelve integers and a double


def check_model(path: Path) -> None:
    """Walk the layout of a model file to its end.

    Raises:
        ModtokError: the file does not exist, is not a fastText model, or is truncated.
    """
    if not path.is_file():
        raise missing(path)
    if path.stat().st_size < _HEADER + 28:
        raise ModtokError("not a fastText model (too short)", where=path)
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            end = _end(data)
        except (struct.error, ValueError, IndexError) as error:
            raise ModtokError(
                f"incomplete fastText model ({error})", where=path, remedy="download it again"
            ) from error
        if end != len(data):
            raise ModtokError(
                f"incomplete fastText model: {len(data):,} of {end:,} bytes",
                where=path,
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
