"""Read bytes of files, pipes and standard input, decompressed as a stream in bounded memory."""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from modtok_cli.base.errors import ModtokError, missing
from modtok_cli.base.files import standard_input
from modtok_cli.base.remote import is_remote, path_of

STDIN = "-"
CHUNK = 1 << 19
"""Approximate number of bytes per piece of text: its arrays stay in the heap (`base.memory`)."""

SUFFIXES = {".zst": b"\x28\xb5\x2f\xfd", ".gz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ\0"}
"""Suffixes of compressed files, and how their content begins."""

_READ = 1 << 18
# A zstd block of four bytes may stand for 128 KiB; with slices this small, a
# hostile file expands to 64 MiB at most, and a normal one loses no speed.
_ZSTD_SLICE = 1 << 11
_ZSTD_WINDOW = 1 << 31  # `zstd --long=31` files open too
_XZ_MEMORY = 1 << 28  # `xz -9` needs 64 MiB

Advance = Callable[[float], None]


class Broken(Exception):
    """Compressed data that ends early or is damaged; the reader adds the line."""


def display(path: str | Path) -> str:
    """Return the name of an input as errors give it."""
    return "<stdin>" if str(path) == STDIN else str(path)


def read_chunks(path: str | Path, advance: Advance | None = None) -> Iterator[bytes]:
    """Return the content of a file (or "-": standard input) in pieces of about half a megabyte.

    Files of `SUFFIXES` are decompressed, pipes and standard input by their first bytes.
    `advance` receives the number of compressed bytes read.
    """
    pieces = _raw(path, advance)
    first = next(pieces, b"")
    suffix = "" if is_pipe(path) else Path(path).suffix
    if not suffix:
        suffix = next((s for s, magic in SUFFIXES.items() if first.startswith(magic)), "")
    pieces = chain([first], pieces)
    return _gather(_decompressed(pieces, _CODECS[suffix]) if suffix in _CODECS else pieces)


def is_pipe(path: str | Path) -> bool:
    """Return whether `path` is "-" or a pipe or device, so the name does not give the format."""
    if str(path) == STDIN:
        return True
    if is_remote(path):
        return False
    path = Path(path)
    return path.exists() and not path.is_file() and not path.is_dir()


def _raw(path: str | Path, advance: Advance | None) -> Iterator[bytes]:
    if str(path) == STDIN:
        yield from _pieces(standard_input(), advance)
        return
    try:
        with path_of(path).open("rb", buffering=0) as handle:
            yield from _pieces(handle, advance)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise missing(path, "check the name, or give - to read a pipe") from error
        what, remedy = f"cannot read: {error.strerror or error}", "check its permissions"
        if isinstance(error, IsADirectoryError):
            what, remedy = "a directory, not a file", "name a file in it"
        raise ModtokError(what, where=path, remedy=remedy) from error


def _pieces(handle: BinaryIO, advance: Advance | None) -> Iterator[bytes]:
    while piece := handle.read(_READ):
        if advance:
            advance(len(piece))
        yield piece


def _gather(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces to chunks; on damage yield what precedes it before the error."""
    held: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            held.append(piece)
            size += len(piece)
            if size >= CHUNK:
                yield b"".join(held)
                held, size = [], 0
    except Broken:
        if size:
            yield b"".join(held)
        raise
    if size:
        yield b"".join(held)


@dataclass(frozen=True)
class _Codec:
    """A compressed format: its decompressors, which give at most `CHUNK` bytes if `limited`."""

    name: str
    new: Callable[[], Any]
    errors: tuple[type[Exception], ...]
    limited: bool = True
    padding: bytes = b"\0"
    """Allowed between frames."""
    slice: int = _READ


_CODECS = {
    ".zst": _Codec(
        "zstd",
        # All streams of one ZstdDecompressor share its state, so each file has its own.
        lambda: zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj(),
        (zstandard.ZstdError,),
        limited=False,
        padding=b"",
        slice=_ZSTD_SLICE,
    ),
    ".gz": _Codec("gzip", lambda: zlib.decompressobj(wbits=31), (zlib.error,)),
    ".bz2": _Codec("bzip2", bz2.BZ2Decompressor, (OSError, ValueError)),
    ".xz": _Codec(
        "xz",
        lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
        (lzma.LZMAError, ValueError),
    ),
}


def _decompressed(pieces: Iterable[bytes], codec: _Codec) -> Iterator[bytes]:
    """Yield the content of a file, which may hold several frames, one after the other."""
    frame = None
    slices = (
        piece[at : at + codec.slice] for piece in pieces for at in range(0, len(piece), codec.slice)
    )
    for rest in slices:
        while rest or (frame is not None and not getattr(frame, "needs_input", True)):
            if frame is None:
                rest = rest.lstrip(codec.padding)
                if not rest:
                    break
                frame = codec.new()
            try:
                yield frame.decompress(rest, CHUNK) if codec.limited else frame.decompress(rest)
            except codec.errors as error:
                raise Broken(f"damaged {codec.name} data ({error})") from error
            if frame.eof:
                rest, frame = frame.unused_data, None
            else:
                rest = getattr(frame, "unconsumed_tail", b"")
    if frame is not None:
        raise Broken(f"{codec.name} data ends in the middle: the file is truncated")
