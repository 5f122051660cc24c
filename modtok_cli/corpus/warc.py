"""Read pages from WARC and WET files by fastwarc, and go on after damage.

fastwarc stops at the first damaged byte. Here the file is then searched for the next record, and
read from there.
"""

import io
import re
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.remote import path_of

MAX_BYTES = 8 << 20
"""Maximum size of a page in bytes; Common Crawl itself truncates at 1 to 5 MiB."""

_HTTP_HEAD = (
    b"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http\r\nContent-Length: "
)
_CHUNK = re.compile(rb"\s*0*([0-9a-f]{1,12})[ \t]*(?:;[^\r\n]*)?(?:\r?\n|\r)", re.I)
_LINE_END = re.compile(rb"\r?\n?")
_HTML = ("text/html", "application/xhtml+xml")
# Record types with pages; others (request, metadata, …) are skipped.
_WITH_PAGES = ("response", "resource", "conversion")
# A record that claims more is not decompressed to find its end; the next one is searched.
_ABANDON = 1 << 30
_MAX_HEADER = 1 << 16
_LOOKS_HTML = re.compile(rb"<\s*(?:!doctype\s+html|html|head|body|title|p|div)\b", re.I)
_SLICE = 1 << 11  # limits what zstd can expand to at once, see text.streams
# The begin of a record in a file of each kind; a zstd file may begin with its dictionary.
_GZIP, _ZSTD, _DICTIONARY, _PLAIN = (
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"\x5d\x2a\x4d\x18",
    b"WARC/",
)
_MAX_DICTIONARY = 1 << 26


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    `data` is HTML or plain text, `charset` the one that the server declared. `offset` is the start
    of its record: in bytes of the stored file for WARC (as for `dd` or an index), of the
    decompressed text for lines, 0 for a file with one page.
    """

    data: bytes
    is_html: bool
    offset: int
    charset: str | None = None
    url: str | None = None
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A valid record that is not a page (a request, an image, an error 404), and the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that cannot be read, and the reason."""

    offset: int
    reason: str
    detail: str = ""


Record = Page | Skipped | Bad


def read_warc(path: Path, limit: int = MAX_BYTES) -> Iterator[Record]:
    """Yield for every record of a WARC or WET file its page, or why it has none, or its error.

    Records are gzip members, zstd frames (also with a dictionary) or plain. `limit` is the maximum
    size of a page. Memory is a small multiple of `limit`.

    Raises:
        ModtokError: the file cannot be read.
    """
    try:
        with path_of(path).open("rb") as handle:
            archive = _Archive(handle, limit)
            start: int | None = 0
            while start is not None:
                start = yield from archive.records(start)
            if archive.is_silent:
                yield Bad(0, "no WARC record")
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror or error}", where=path) from error


class _Archive:
    """An open file; `records` reads from the start of a record to the next damage."""

    def __init__(self, handle: BinaryIO, limit: int) -> None:
        self._handle, self._limit = handle, limit
        magic = handle.read(8)
        self.is_silent = bool(magic)  # until a record or damage is found
        self._head = b""
        self._mark = _GZIP if magic.startswith(_GZIP) else _PLAIN
        if magic.startswith((_ZSTD, _DICTIONARY)):
            self._mark = _ZSTD
        size = int.from_bytes(magic[4:], "little")
        if magic.startswith(_DICTIONARY) and size <= _MAX_DICTIONARY:
            self._head = magic + handle.read(size)
        self._lost: Bad | None = None

    def records(self, start: int) -> Generator[Record, None, int | None]:
        """Records from an offset on; returns the offset to go on from, None at the end."""
        place, is_open = start, True
        try:
            for record in self._from(start):
                place, is_open, self.is_silent = record.stream_pos, True, False
                found, is_whole = _read(record, place, self._limit)
                if self._lost:
                    yield self._lost
                    self._lost = None
                yield found
                if not is_whole:
                    return self._next(place)[1]
                is_open = False
        except OSError as error:
            if error.errno is not None:  # of the file, not of its content
                raise
            self.is_silent = False
            first, after = self._next(place)
            bad = Bad(place if is_open else first, "damaged", str(error))
            # Behind a whole record the next search may find the damaged one, which is then told.
            if is_open or after is None:
                self._lost = None
                yield bad
            else:
                self._lost = bad
            return after
        return None

    def _from(self, start: int) -> Any:
        from fastwarc.warc import ArchiveIterator

        self._handle.seek(start)
        stream: Any = self._handle
        if self._head and start:
            stream = _Behind(self._head, self._handle)
        return ArchiveIterator(
            stream, parse_http=False, quirks_mode=True, max_header_len=_MAX_HEADER
        )

    def _next(self, place: int) -> tuple[int, int | None]:
        """Offset of the first mark after a record's start, and of the first that is a record's."""
        first = None
        while (at := self._find(place + 1)) is not None:
            first, place = at if first is None else first, at
            try:
                record = next(iter(self._from(at)), None)
            except OSError:
                continue
            if record and record.stream_pos == at:
                return first, at
        return place if first is None else first, None

    def _find(self, start: int) -> int | None:
        """Offset of the next mark in the file from `start` on."""
        self._handle.seek(start)
        held = b""
        while piece := self._handle.read(1 << 20):
            held += piece
            place = held.find(self._mark)
            if place >= 0:
                return start + place
            start += len(held) - len(self._mark) + 1
            held = held[-len(self._mark) + 1 :]
        return None


class _Behind(io.RawIOBase):
    """The dictionary of a zstd file, then the file from where it stands."""

    def __init__(self, head: bytes, handle: BinaryIO) -> None:
        self._head, self._handle = head, handle

    def read(self, size: int = -1) -> bytes:
        piece, self._head = self._head[:size], self._head[size:]
        return piece or self._handle.read(size)

    def tell(self) -> int:
        return self._handle.tell() - len(self._head)

    def readable(self) -> bool:
        return True


def _read(record: Any, place: int, limit: int) -> tuple[Record, bool]:
    """The content of a record, and whether it was read to its end."""
    fields = {name.lower(): value.strip() for name, value in reversed(record.headers.items())}
    if not re.fullmatch("[0-9]{1,15}", fields.get("content-length", "")):
        return Bad(place, "no WARC header"), True
    size = int(fields["content-length"])
    name = fields.get("warc-type", "unknown").lower()
    if size > _ABANDON:
        return Bad(place, "too large", f"{size:,} bytes"), False
    has_page = name in _WITH_PAGES and size <= limit
    pieces, left = [], size
    while left and (piece := record.reader.read(min(left, 1 << 20))):
        left -= len(piece)
        if has_page:
            pieces.append(piece)
    if left:
        return Bad(place, "wrong length"), False
    if name not in _WITH_PAGES:
        return Skipped(f"WARC {name}"), True
    if not has_page:
        return Bad(place, "too large", f"{size:,} bytes"), True
    try:
        return _parse(fields, b"".join(pieces), name, place, limit), True
    except OSError as error:  # fastwarc raises it for any invalid content
        return Bad(place, "damaged", str(error)), True


def _parse(fields: dict[str, str], content: bytes, name: str, place: int, limit: int) -> Record:
    kind = fields.get("warc-identified-payload-type", "").lower()
    data, charset = content, None
    if name == "response":
        is_http = fields.get("content-type", "").lower().startswith("application/http")
        if not (is_http or content.startswith(b"HTTP/")):
            return Skipped("not HTTP")
        from fastwarc.warc import WarcRecord

        record = WarcRecord.from_bytes(_HTTP_HEAD + b"%d\r\n\r\n" % len(content) + content)
        # quirks mode: servers use various line ends
        record.parse_http(auto_decode="none", quirks_mode=True)
        status = record.http_headers.status_code
        if status is not None and not 200 <= status < 300:
            return Skipped(f"HTTP {status // 100}xx")
        kind = kind or (record.http_content_type or "").lower()
        charset = record.http_charset
        data = _payload(record, limit)
    elif name == "resource":
        kind = kind or fields.get("content-type", "").split(";")[0].strip().lower()
    if name != "conversion" and kind and kind not in _HTML and not kind.startswith("text/plain"):
        return Skipped("not HTML")
    if len(data) > limit:
        return Bad(place, "too large", "when decompressed")
    is_html = name != "conversion" and (kind in _HTML or _looks_html(data))
    if not (kind or is_html or name == "conversion"):
        return Skipped("not HTML")
    url = fields["warc-target-uri"].strip("<>") if "warc-target-uri" in fields else None
    return Page(data, is_html, place, charset, url, fields.get("warc-date"))


def _looks_html(data: bytes) -> bool:
    """Whether HTML starts within the first 2,048 bytes."""
    return _LOOKS_HTML.search(data, 0, 2048) is not None


def _payload(record: Any, limit: int) -> bytes:
    """Payload of the response `record` (of fastwarc, with HTTP headers parsed, not decoded).

    Transfer and content encodings are decoded up to `limit` + 1 bytes; fastwarc's own gzip decoder
    has no limit (200 kB became 200 MB). Crawlers often store decoded pages with the original
    headers: content that cannot be decoded but is HTML is used unchanged.

    Raises:
        OSError: the content can neither be decoded nor is it HTML.
    """
    stored: bytes = record.reader.read()  # bounded by the size of the record
    headers = record.http_headers
    of = ("Content-Encoding", "Transfer-Encoding")  # in the order of encoding, each maybe repeated
    names = ",".join(value for name in of for value in headers.get_multiple(name))
    data = stored
    try:
        for name in reversed(re.sub(r"\s", "", names).lower().split(",")):
            data = _decode(data, name, limit)
    except (OSError, zlib.error, zstandard.ZstdError) as error:
        if not _looks_html(stored):
            raise OSError(str(error)) from error
        return stored
    return data


def _decode(data: bytes, name: str, limit: int) -> bytes:
    if name in ("gzip", "x-gzip"):
        out = b""
        while data.startswith(b"\x1f\x8b") or not out:  # several members, one after the other
            member = zlib.decompressobj(wbits=31)
            out += member.decompress(data, limit + 1 - len(out))
            data = member.unused_data
            if not data or len(out) > limit:
                break
        return out
    if name == "deflate":
        try:
            return zlib.decompressobj().decompress(data, limit + 1)
        except zlib.error:  # many servers send raw deflate without the zlib header
            return zlib.decompressobj(wbits=-15).decompress(data, limit + 1)
    if name == "chunked":
        return _dechunked(data, limit)
    if name == "br":
        from fastwarc.stream_io import BrotliReader

        decoded: bytes = BrotliReader(io.BytesIO(data)).read(limit + 1)
        return decoded
    if name == "zstd":
        frame = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
        out = b""
        for at in range(0, len(data), _SLICE):
            out += frame.decompress(data[at : at + _SLICE])
            if len(out) > limit or frame.eof:
                break
        return out
    return data  # "", "identity" or an unknown encoding


def _dechunked(data: bytes, limit: int) -> bytes:
    """Content of chunks with or without extensions (RFC 9112, 7.1), up to damage.

    Raises:
        OSError: there are no chunks.
    """
    parts: list[bytes] = []
    at = size = 0
    while at < len(data) and size <= limit:
        line = _CHUNK.match(data, at)
        if line is None:
            if parts:
                break
            raise OSError("no chunk begins the content")
        length = int(line[1], 16)
        if not length:
            break
        parts.append(data[line.end() : line.end() + length])
        size += length
        at = line.end() + length
        at += len(_LINE_END.match(data, at)[0])  # type: ignore[index]
    return b"".join(parts)
