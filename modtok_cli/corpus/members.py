"""Compressed archives member by member, so that a damaged one costs only itself.

A WARC file is a chain of gzip members (or zstd frames), a record each. Libraries that read
it as one stream stop at the first wrong byte (fastwarc 2.0.1 does: "Gzip decompression
error"); here every member is a stream of its own, and after a damaged one the file is
searched for the next beginning.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from modtok_cli.base.errors import ModtokError
from modtok_cli.text.streams import Broken

_READ = 1 << 16
_GZIP = b"\x1f\x8b\x08"
_ZSTD = b"\x28\xb5\x2f\xfd"
# A zstd block of four bytes may stand for 128 KiB: fed in slices, a bomb comes out in pieces.
_ZSTD_SLICE = 1 << 11

Advance = Callable[[int], None]
"""Hears how far into the file the reading is, in bytes."""


class Member:
    """The bytes of one member, decompressed as they are asked for.

    `read` and `peek` give less than asked for only at its end.

    Raises (all reading methods):
        Broken: the compressed data are damaged or end early; again at every further reading.
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
        """Where what is read next lies in the file: the start of its member, or itself."""
        return self._offset + (self._read if self._plain else 0)

    def abandon(self) -> None:
        """Read no further; the next member is searched for from this one's beginning on."""
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
        """The next `size` bytes, which stay to be read."""
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
        """Pass over `size` bytes without keeping them; how many there were."""
        done = 0
        while done < size and (got := len(self.read(min(size - done, 1 << 20)))):
            done += got
        return done

    def unread(self, data: bytes) -> None:
        """Put `data` back in front."""
        self._held = data + self._held[self._at :]
        self._at = 0
        self._read -= len(data)

    def skip_to(self, mark: bytes) -> None:
        """Pass over everything before `mark`, or all there is."""
        window = 1 << 16
        while True:
            piece = self.peek(window)
            found = piece.find(mark)
            if found >= 0 or len(piece) < window:
                self.read(found if found >= 0 else len(piece))
                return
            self.read(len(piece) - len(mark) + 1)


class Archive:
    """A file of members; iterate, and be done with each before the next is taken.

    A plain file is one member. What is left unread of a member is passed over; a member
    that is broken or abandoned ends where the next one begins with `mark`.

    Raises:
        ModtokError: the file cannot be read.
    """

    def __init__(self, path: Path, mark: bytes, advance: Advance | None = None) -> None:
        self._path = path
        self._mark = mark
        self._advance = advance

    def __iter__(self) -> Iterator[Member]:
        try:
            with open(self._path, "rb", buffering=0) as handle:
                yield from self._members(handle)
        except OSError as error:
            raise ModtokError(
                f"cannot read: {error.strerror or error}", where=str(self._path)
            ) from error

    def _members(self, handle: BinaryIO) -> Iterator[Member]:
        magic = handle.read(4)
        if magic.startswith(_GZIP[:2]):
            opener, first = _inflate, _GZIP
        elif magic == _ZSTD:
            opener, first = _unzstd, _ZSTD
        else:
            handle.seek(0)
            yield Member(0, self._pieces(handle), plain=True)
            return
        offset: int | None = 0
        while offset is not None:
            raw = _Raw(handle, offset, self._advance)
            if not raw.skip_padding():
                return
            offset = raw.at
            member = Member(offset, opener(raw))
            yield member
            try:
                while not member.abandoned and member.read(1 << 20):
                    pass
                offset = None if member.abandoned else raw.at
            except Broken:
                member.abandoned = True
            if member.abandoned:
                offset = self._next(handle, opener, first, member.place + 1)

    def _next(self, handle: BinaryIO, opener: _Opener, first: bytes, start: int) -> int | None:
        """Where the next member begins whose content begins with the mark."""
        found: int | None = start - 1
        while found is not None:
            found = _find(handle, first, found + 1)
            if found is not None:
                try:
                    if Member(0, opener(_Raw(handle, found, None))).peek(64).startswith(self._mark):
                        return found
                except Broken:
                    continue
        return None

    def _pieces(self, handle: BinaryIO) -> Iterator[bytes]:
        while piece := handle.read(_READ):
            if self._advance:
                self._advance(handle.tell())
            yield piece


class _Raw:
    """Compressed bytes of a file with the place of the next one that is not used up."""

    def __init__(self, handle: BinaryIO, at: int, advance: Advance | None) -> None:
        self._handle = handle
        self._advance = advance
        self.at = at

    def piece(self, size: int = _READ) -> bytes:
        """The bytes at `at`, as they are; `use` says how many were taken."""
        self._handle.seek(self.at)
        return self._handle.read(size)

    def use(self, size: int) -> None:
        self.at += size
        if self._advance:
            self._advance(self.at)

    def skip_padding(self) -> bool:
        """Pass over zeros between members; False at the end of the file."""
        while piece := self.piece(4096):
            rest = piece.lstrip(b"\0")
            self.use(len(piece) - len(rest))
            if rest:
                return True
        return False


_Opener = Callable[[_Raw], Iterator[bytes]]


def _inflate(raw: _Raw) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits=31)
    size = 1 << 12  # most records are small: no need to read far ahead for each
    while not member.eof:
        piece = raw.piece(size)
        if not piece:
            raise Broken("gzip data end in the middle of a record")
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


def _unzstd(raw: _Raw) -> Iterator[bytes]:
    frame: Any = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
    while not frame.eof:
        piece = raw.piece(_ZSTD_SLICE)
        if not piece:
            raise Broken("zstd data end in the middle of a record")
        try:
            data = frame.decompress(piece)
        except zstandard.ZstdError as error:
            raise Broken(f"damaged zstd data ({error})") from error
        raw.use(len(piece) - (len(frame.unused_data) if frame.eof else 0))
        if data:
            yield data


def _find(handle: BinaryIO, mark: bytes, start: int) -> int | None:
    """Where `mark` occurs next in the file, from `start` on."""
    handle.seek(start)
    held = b""
    while piece := handle.read(1 << 20):
        held += piece
        found = held.find(mark)
        if found >= 0:
            return start + found
        start += len(held) - len(mark) + 1
        held = held[-len(mark) + 1 :]
    return None
