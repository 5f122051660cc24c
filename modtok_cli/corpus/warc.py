"""Read pages from WARC and WET files, tolerating damaged records.

The framing of records is implemented here because it must continue after damage. The content of a
record, its headers and the HTTP message, is parsed by fastwarc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from modtok_cli.corpus.http import looks_html, payload
from modtok_cli.corpus.members import Advance, Archive, Member
from modtok_cli.corpus.pages import MAX_BYTES, Bad, Found, Page, Skipped
from modtok_cli.text.streams import Broken

_START = b"WARC/1."
_MAX_HEADER = 1 << 16
_END_OF_HEADER = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,15})[ \t]*\r?$", re.I | re.M)
_TYPE = re.compile(rb"^warc-type:[ \t]*([a-z]+)", re.I | re.M)
_HTML = ("text/html", "application/xhtml+xml")
# Record types with pages; others (request, metadata, …) are skipped.
_WITH_PAGES = (b"response", b"resource", b"conversion")
# A record that claims more is not decompressed to find its end; the next one is searched.
_ABANDON = 1 << 30


def read_warc(
    path: Path, advance: Advance | None = None, limit: int = MAX_BYTES
) -> Iterator[Found]:
    """Yield for every record of a WARC or WET file its page, or why it has none, or its error.

    Records are gzip members, zstd frames (also with a dictionary) or plain. `limit` is the maximum
    size of a page. Memory is a small multiple of `limit`.

    Raises:
        ModtokError: the file cannot be read.
    """
    for member in Archive(path, _START, advance):
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


def _next_record(member: Member, limit: int) -> Found:
    place = member.place
    start = member.peek(_MAX_HEADER)
    end = _END_OF_HEADER.search(start)
    length = _LENGTH.search(start, 0, end.end()) if end else None
    if not (start.startswith(_START) and end and length):
        member.read(1)
        member.skip_to(_START)
        return Bad(place, "no WARC header")
    head = member.read(end.end())
    size = int(length[1])
    kind = _TYPE.search(head)
    name = kind[1].lower() if kind else b"unknown"
    if name not in _WITH_PAGES:
        member.skip(size)
        return Skipped(f"WARC {name.decode()}")
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
        return _parse(head + content, name, place, limit)
    except OSError as error:  # fastwarc raises it for any invalid content
        return Bad(place, "damaged", str(error))


def _parse(raw: bytes, name: bytes, place: int, limit: int) -> Found:
    from fastwarc.warc import WarcRecord

    record = WarcRecord.from_bytes(raw)
    headers = record.headers
    kind = (headers.get("WARC-Identified-Payload-Type") or "").lower()
    data: bytes | None = None
    charset = None
    if name == b"response":
        if not record.is_http:
            return Skipped("not HTTP")
        # quirks mode: servers use various line ends
        record.parse_http(auto_decode="none", quirks_mode=True, strict_mode=False)
        status = record.http_headers.status_code
        if status is not None and not 200 <= status < 300:
            return Skipped(f"HTTP {status // 100}xx")
        kind = kind or (record.http_content_type or "").lower()
        charset = record.http_charset
        data = payload(record, limit)
    elif name == b"resource":
        kind = kind or (headers.get("Content-Type") or "").split(";")[0].strip().lower()
    if name != b"conversion" and kind and kind not in _HTML and not kind.startswith("text/plain"):
        return Skipped("not HTML")
    if data is None:
        data = record.reader.read(limit + 1)
    if len(data) > limit:
        return Bad(place, "too large", "when decompressed")
    is_html = name != b"conversion" and (kind in _HTML or looks_html(data))
    if not (kind or is_html or name == b"conversion"):
        return Skipped("not HTML")
    return Page(
        data,
        is_html,
        place,
        charset,
        headers.get("WARC-Target-URI"),
        headers.get("WARC-Date"),
        headers.get("WARC-Record-ID"),
    )
