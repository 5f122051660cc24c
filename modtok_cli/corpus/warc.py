"""Read pages from WARC and WET files, tolerating damaged records.

The framing of records and their header are read here, because reading must continue after damage
and writers differ in line ends, case and folded lines. fastwarc parses the HTTP message.
"""

import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from modtok_cli.corpus.members import Advance, Member, members
from modtok_cli.text.streams import Broken

MAX_BYTES = 8 << 20
"""Maximum size of a page in bytes; Common Crawl itself truncates at 1 to 5 MiB."""


_START = b"WARC/1."
_MAX_HEADER = 1 << 16
_END_OF_HEADER = re.compile(rb"\r?\n\r?\n")
_FOLD = re.compile(r"\r?\n[ \t]+")
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
_LOOKS_HTML = re.compile(rb"<\s*(?:!doctype\s+html|html|head|body|title|p|div)\b", re.I)
_SLICE = 1 << 11  # limits what zstd can expand to at once, see text.streams


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    `data` is HTML or plain text, `charset` the one that the server declared. `offset` is the start
    of its record: in bytes of the stored file for WARC (as for `dd` or an index), of the
    decompressed text for lines, 0 for a file with one page. `record` is the WARC record's id.
    """

    data: bytes
    is_html: bool
    offset: int
    charset: str | None = None
    url: str | None = None
    date: str | None = None
    record: str | None = None


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


def read_warc(
    path: Path, advance: Advance | None = None, limit: int = MAX_BYTES
) -> Iterator[Record]:
    """Yield for every record of a WARC or WET file its page, or why it has none, or its error.

    Records are gzip members, zstd frames (also with a dictionary) or plain. `limit` is the maximum
    size of a page. Memory is a small multiple of `limit`.

    Raises:
        ModtokError: the file cannot be read.
    """
    for member in members(path, _START, advance):
        try:
            while member.peek(1):
                _skip_blank(member)
                if member.peek(1):
                    yield _next_record(member, limit)
        except Broken as error:
            yield Bad(member.place, "damaged", str(error))


def _skip_blank(member: Member) -> None:
    """Skip the empty lines between records."""
    while (piece := member.peek(64)) and not (rest := piece.lstrip(b"\r\n")):
        member.read(len(piece))
    if piece:
        member.read(len(piece) - len(rest))


def _next_record(member: Member, limit: int) -> Record:
    place = member.place
    start = member.peek(_MAX_HEADER)
    end = _END_OF_HEADER.search(start)
    fields = _fields(start[: end.start()]) if end else {}
    length = fields.get("content-length", "")
    if not (start.startswith(_START) and end and re.fullmatch("[0-9]{1,15}", length)):
        member.read(1)
        member.skip_to(_START)
        return Bad(place, "no WARC header")
    member.read(end.end())
    size = int(length)
    name = fields.get("warc-type", "unknown").lower()
    if name not in _WITH_PAGES:
        member.skip(size)
        return Skipped(f"WARC {name}")
    if size > limit:
        if size > _ABANDON:
            member.abandon()
        else:
            member.skip(size)
        return Bad(place, "too large", f"{size:,} bytes")
    content = member.read(size)
    behind = member.peek(64)
    ends = behind.startswith(b"\r\n\r\n") or behind.lstrip(b"\r\n")[:7] in (b"", _START)
    if len(content) < size or not ends:
        # The declared length is wrong: the next record may start within it.
        member.unread(content)
        member.skip_to(_START)
        return Bad(place, "wrong length")
    try:
        return _parse(fields, content, name, place, limit)
    except OSError as error:  # fastwarc raises it for any invalid content
        return Bad(place, "damaged", str(error))


def _fields(head: bytes) -> dict[str, str]:
    """Fields of the header of a record by names in small letters (ISO 28500, 4), the first of each.

    A line that begins with white space continues the one before.
    """
    lines = _FOLD.sub(" ", head.decode(errors="replace")).split("\n")[1:]
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    return fields


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
        record.parse_http(auto_decode="none", quirks_mode=True, strict_mode=False)
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
    return Page(
        data,
        is_html,
        place,
        charset,
        fields["warc-target-uri"].strip("<>") if "warc-target-uri" in fields else None,
        fields.get("warc-date"),
        fields.get("warc-record-id"),
    )


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
