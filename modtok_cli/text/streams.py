"""Read bytes of files, pipes and standard input, decompressed as a stream in bounded memory."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import standard_input

STDIN = "-"
CHUNK = 1 << 19
"""Approximate number of bytes per piece of text: its arrays stay in the heap (`base.memory`)."""

SUFFIXES = {
    ".zst": b"\x28\xb5\x2f\xfd",
    ".gz": b"\x1f\x8b",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ\0",
}
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
    """The name of an input as errors give it."""
    return "<stdin>" if str(path) == STDIN else str(path)


def read_chunks(path: str | Path, advance: Advance | None = None) -> Iterator[bytes]:
    """The content of a file (or "-": standard input) in pieces of about half a megabyte.

    Files of `SUFFIXES` are decompressed, pipes and standard input by their first bytes.
    `advance` receives the number of compressed bytes read.

    Raises:
        ModtokError: no such file, or it cannot be read.
        Broken: compressed data that is damaged or ends early. Everything before it has
            been yielded by then.
    """
    pieces = _raw(path, advance)
    first = next(pieces, b"")
    suffix = "" if is_pipe(path) else Path(path).suffix
    if not suffix:
        suffix = next((s for s, magic in SUFFIXES.items() if first.startswith(magic)), "")
    if suffix == ".zst":
        return _gather(_zstd(first, pieces))
    if suffix == ".gz":
        return _gather(_gzip(first, pieces))
    if suffix == ".bz2":
        return _gather(_limited(first, pieces, bz2.BZ2Decompressor, "bzip2"))
    if suffix == ".xz":
        return _gather(_limited(first, pieces, _xz, "xz"))
    return _gather(_chain(first, pieces))


def is_pipe(path: str | Path) -> bool:
    """Whether `path` is "-" or a pipe or device, so the name does not give the format."""
    if str(path) == STDIN:
        return True
    path = Path(path)
    return path.exists() and not path.is_file() and not path.is_dir()


def _raw(path: str | Path, advance: Advance | None) -> Iterator[bytes]:
    if str(path) == STDIN:
        yield from _pieces(standard_input(), advance)
        return
    try:
        with open(path, "rb", buffering=0) as handle:
            yield from _pieces(handle, advance)
    except FileNotFoundError as error:
        raise ModtokError(
            "no such file", where=str(path), remedy="check the name, or give - to read a pipe"
        ) from error
    except IsADirectoryError as error:
        raise ModtokError(
            "a directory, not a file", where=str(path), remedy="name a file in it"
        ) from error
    except OSError as error:
        raise ModtokError(
            f"cannot read: {error.strerror or error}",
            where=str(path),
            remedy="check its permissions",
        ) from error


def _pieces(handle: BinaryIO, advance: Advance | None) -> Iterator[bytes]:
    while piece := handle.read(_READ):
        if advance:
            advance(len(piece))
        yield piece


def _chain(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from pieces


def _gather(pieces: Iterator[bytes]) -> Iterator[bytes]:
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


def _zstd(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    frame = None  # a file may hold several frames, one after the other
    for piece in _chain(first, pieces):
        for at in range(0, len(piece), _ZSTD_SLICE):
            rest = piece[at : at + _ZSTD_SLICE]
            while rest:
                if frame is None:
                    frame = decompressor.decompressobj()
                try:
                    yield frame.decompress(rest)
                except zstandard.ZstdError as error:
                    raise Broken(f"damaged zstd data ({error})") from error
                rest = frame.unused_data if frame.eof else b""
                if frame.eof:
                    frame = None
    if frame is not None:
        raise Broken("zstd data ends in the middle of a frame: the file is truncated")


def _gzip(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    member = None
    for piece in _chain(first, pieces):
        rest = piece
        while rest:
            if member is None:
                rest = rest.lstrip(b"\0")  # padding between members is allowed
                if not rest:
                    break
                member = zlib.decompressobj(wbits=31)
            try:
                yield member.decompress(rest, CHUNK)
            except zlib.error as error:
                raise Broken(f"damaged gzip data ({error})") from error
            rest = member.unused_data if member.eof else member.unconsumed_tail
            if member.eof:
                member = None
    if member is not None:
        raise Broken("gzip data ends in the middle: the file is truncated")


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


def _limited(
    first: bytes, pieces: Iterator[bytes], new: Callable[[], Any], name: str
) -> Iterator[bytes]:
    """Streams of the standard library's decompressors, a megabyte of output at a time."""
    stream = None
    for piece in _chain(first, pieces):
        rest = piece
        while True:
            if stream is None:
                rest = rest.lstrip(b"\0")  # padding between streams is allowed
                if not rest:
                    break
                stream = new()
            try:
                yield stream.decompress(rest, CHUNK)
            except (OSError, lzma.LZMAError, ValueError) as error:
                raise Broken(f"damaged {name} data ({error})") from error
            rest = b""
            if stream.eof:
                rest, stream = stream.unused_data, None
            elif stream.needs_input:
                break
    if stream is not None:
        raise Broken(f"{name} data ends in the middle: the file is truncated")
