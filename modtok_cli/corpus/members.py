"""Read compressed archives member by member, so that damage affects one member only.

A WARC file is a sequence of gzip members or zstd frames, one per record. Libraries that read it as
one stream stop at the first damaged byte (fastwarc 2.0.1: "Gzip decompression error"). Here every
member is a separate stream, and after a damaged one the file is searched for the next start.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.remote import path_of
from modtok_cli.text.streams import Broken

_READ = 1 << 16
_GZIP = b"\x1f\x8b\x08"
_ZSTD = b"\x28\xb5\x2f\xfd"
# Skippable zstd frames; .warc.zst files start with one that holds the dictionary.
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
_DICTIONARY = b"\x5d\x2a\x4d\x18"
_MAX_DICTIONARY = 1 << 26
# A four-byte zstd block can expand to 128 KiB: input in slices limits the output of a bomb.
_ZSTD_SLICE = 1 << 11

Advance = Callable[[int], None]
"""Called with the number of bytes of the file that were read."""


class Member:
    """Bytes of one member, decompressed on demand.

    `read` and `peek` return less than requested only at its end.

    Raises (all reading methods):
        Broken: the compressed data are damaged or truncated; raised again by every later call.
    """

    def __init__(self, offset: int, chunks: Iterator[bytes], plain: bool = False) -> None:
        self._offset = offset
        self._chunks = chunks
        self._plain = plain
        self._held = b""
        self._at = 0
        self._read = 0
        self._broken: Broken | None = None
        self.abandoned = False

    @property
    def place(self) -> int:
        """Offset in the file of the next byte (plain files) or of the start of the member."""
        return self._offset + (self._read if self._plain else 0)

    def abandon(self) -> None:
        """Stop reading; the next member is searched from this one's start."""
        self.abandoned = True
        self._chunks = iter(())
        self._held, self._at = b"", 0

    def _more(self) -> bytes | None:
        if self._broken:
            raise self._broken
        try:
            return next(self._chunks, None)
        except Broken as error:
            self._broken = error
            raise

    def peek(self, size: int) -> bytes:
        """The next `size` bytes, without consuming them."""
        while len(self._held) - self._at < size:
            chunk = self._more()
            if chunk is None:
                break
            self._held = self._held[self._at :] + chunk
            self._at = 0
        return self._held[self._at : self._at + size]

    def read(self, size: int) -> bytes:
        """The next `size` bytes."""
        have = len(self._held) - self._at
        if have < size:
            pieces = [self._held[self._at :]]
            self._held, self._at = b"", 0
            while have < size and (chunk := self._more()) is not None:
                pieces.append(chunk)
                have += len(chunk)
            self._held = b"".join(pieces)
        data = self._held[self._at : self._at + size]
        self._at += len(data)
        self._read += len(data)
        return data

    def skip(self, size: int) -> int:
        """Skip `size` bytes; returns the number skipped."""
        done = 0
        while done < size and (got := len(self.read(min(size - done, 1 << 20)))):
            done += got
        return done

    def unread(self, data: bytes) -> None:
        """Push `data` back."""
        self._held = data + self._held[self._at :]
        self._at = 0
        self._read -= len(data)

    def skip_to(self, mark: bytes) -> None:
        """Skip everything before `mark`, or to the end."""
        window = 1 << 16
        while True:
            piece = self.peek(window)
            place = piece.find(mark)
            if place >= 0 or len(piece) < window:
                self.read(place if place >= 0 else len(piece))
                return
            self.read(len(piece) - len(mark) + 1)


def members(path: Path, mark: bytes, advance: Advance | None = None) -> Iterator[Member]:
    """The members of a file, each to be finished before the next.

    A plain file is one member. The rest of a member that was not read is skipped. A damaged or
    abandoned member ends where the next one starts with `mark`.

    Raises:
        ModtokError: the file cannot be read.
    """
    try:
        with path_of(path).open("rb", buffering=0) as handle:
            yield from _members(handle, mark, advance)
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror or error}", where=path) from error


def _members(handle: BinaryIO, mark: bytes, advance: Advance | None) -> Iterator[Member]:
    magic = handle.read(4)
    if magic.startswith(_GZIP[:2]):
        opener, first = _inflate, _GZIP
    elif magic == _ZSTD or _SKIPPABLE.match(magic):
        opener, first = partial(_unzstd, dictionary=_dictionary(handle, magic)), _ZSTD
    else:
        handle.seek(0)
        yield Member(0, _pieces(handle, advance), plain=True)
        return
    offset: int | None = 0
    while offset is not None:
        raw = _Raw(handle, offset, advance)
        if not raw.skip_padding():
            return
        if first == _ZSTD and _SKIPPABLE.match(head := raw.piece(8)) and len(head) == 8:
            offset = raw.at + 8 + int.from_bytes(head[4:], "little")
            continue
        member = Member(raw.at, opener(raw))
        yield member
        try:
            while not member.abandoned and member.read(1 << 20):
                pass
            offset = raw.at
        except Broken:
            member.abandoned = True
        if member.abandoned:
            offset = _next(handle, opener, first, member.place, mark)


def _next(
    handle: BinaryIO, opener: _Opener, first: bytes, place: int | None, mark: bytes
) -> int | None:
    """Offset of the next member after `place` whose content starts with the mark."""
    while place is not None:
        place = _find(handle, first, place + 1)
        if place is not None:
            try:
                if Member(0, opener(_Raw(handle, place, None))).peek(64).startswith(mark):
                    return place
            except Broken:
                continue
    return None


def _pieces(handle: BinaryIO, advance: Advance | None) -> Iterator[bytes]:
    while piece := handle.read(_READ):
        if advance:
            advance(handle.tell())
        yield piece


class _Raw:
    """Compressed bytes of a file, with the offset of the first byte that was not consumed."""

    def __init__(self, handle: BinaryIO, at: int, advance: Advance | None) -> None:
        self._handle = handle
        self._advance = advance
        self.at = at

    def piece(self, size: int = _READ) -> bytes:
        """The bytes at `at`; `use` reports how many were consumed."""
        self._handle.seek(self.at)
        return self._handle.read(size)

    def use(self, size: int) -> None:
        self.at += size
        if self._advance:
            self._advance(self.at)

    def skip_padding(self) -> bool:
        """Skip zeros between members; False at the end of the file."""
        while piece := self.piece(4096):
            rest = piece.lstrip(b"\0")
            self.use(len(piece) - len(rest))
            if rest:
                return True
        return False


_Opener = Callable[["_Raw"], Iterator[bytes]]


def _inflate(raw: _Raw) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits=31)
    size = 1 << 12  # most records are small
    while not member.eof:
        piece = raw.piece(size)
        if not piece:
            raise Broken("gzip data ends in the middle of a record")
        size = _READ
        rest = piece
        while rest and not member.eof:
            try:
                data = member.decompress(rest, 1 << 20)
            except zlib.error as error:
                raise Broken(f"damaged gzip data ({error})") from error
            rest = member.unconsumed_tail
            if member.eof:
                raw.use(len(piece) - len(member.unused_data))
            if data:
                yield data
        if not member.eof:
            raw.use(len(piece))


def _dictionary(handle: BinaryIO, magic: bytes) -> Any:
    """Dictionary in the first, skippable frame of a .warc.zst file; None if there is none.

    It may itself be compressed with zstd.
    """
    if magic != _DICTIONARY:
        return None
    handle.seek(len(magic))
    size = int.from_bytes(handle.read(4), "little")
    data = handle.read(min(size, _MAX_DICTIONARY))
    if len(data) < size:
        return None
    try:
        if data.startswith(_ZSTD):
            frame = zstandard.ZstdDecompressor(max_window_size=1 << 27)
            data = frame.decompress(data, max_output_size=_MAX_DICTIONARY)
        return zstandard.ZstdCompressionDict(data)
    except zstandard.ZstdError:
        return None


def _unzstd(raw: _Raw, dictionary: Any = None) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=1 << 27)
    frame: Any = decompressor.decompressobj()
    while not frame.eof:
        piece = raw.piece(_ZSTD_SLICE)
        if not piece:
            raise Broken("zstd data ends in the middle of a record")
        try:
            data = frame.decompress(piece)
        except zstandard.ZstdError as error:
            if dictionary is None and "ictionary" in str(error):
                raise Broken("zstd dictionary required, but the file contains none") from error
            raise Broken(f"damaged zstd data ({error})") from error
        raw.use(len(piece) - (len(frame.unused_data) if frame.eof else 0))
        if data:
            yield data


def _find(handle: BinaryIO, mark: bytes, start: int) -> int | None:
    """Offset of the next `mark` in the file from `start` on."""
    handle.seek(start)
    held = b""
    while piece := handle.read(1 << 20):
        held += piece
        place = held.find(mark)
        if place >= 0:
            return start + place
        start += len(held) - len(mark) + 1
        held = held[-len(mark) + 1 :]
    return None
