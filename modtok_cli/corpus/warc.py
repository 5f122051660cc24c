"""Pages out of WARC and WET files, whatever is wrong with some of their records.

The framing (where a record ends and the next begins) is ours, since it must go on behind
damage; what is in a record, its headers and the HTTP message, is parsed by fastwarc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from modtok_cli.corpus.http import looks_html, payload
from modtok_cli.corpus.members import Advance, Archive, Member
from modtok_cli.corpus.pages import MAX_BYTES, Bad, Found, Page, Passed
from modtok_cli.text.streams import Broken

_START = b"WARC/1."
_MAX_HEADER = 1 << 16
_END_OF_HEADER = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,15})[ \t]*\r?$", re.I | re.M)
_TYPE = re.compile(rb"^warc-type:[ \t]*([a-z]+)", re.I | re.M)
_HTML = ("text/html", "application/xhtml+xml")
# Records of these types hold pages; all others (request, metadata, ...) are passed over.
_WITH_PAGES = (b"response", b"resource", b"conversion")
# A record that claims more is not even decompressed to find its end, but the next one searched.
_ABANDON = 1 << 30


def read_warc(
    path: Path, advance: Advance | None = None, limit: int = MAX_BYTES
) -> Iterator[Found]:
    """Every record of a WARC or WET file: its page, why it holds none, or what is wrong with it.

    Records are gzip members, zstd frames or plain; `limit` is the most bytes of a page.
    Memory is a small multiple of `limit`, whatever the file holds.

    Raises:
        ModtokError: the file cannot be read.
    """
    for member in Archive(path, _START, advance):
        try:
            while member.peek(1):
                _pass_blank(member)
                if member.peek(1):
                    yield _next_record(member, limit)
        except Broken as error:
            yield Bad(member.place, "damaged", str(error))


def _pass_blank(member: Member) -> None:
    """Pass over the empty lines between records."""
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
        return Passed(f"WARC {name.decode()}")
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
        # The length is wrong: what follows may begin inside of what it claims.
        member.unread(content)
        member.skip_to(_START)
        return Bad(place, "wrong length")
    try:
        return _parse(head + content, name, place, limit)
    except OSError as error:  # what fastwarc raises for all that it cannot read
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
            return Passed("not HTTP")
        # quirks: servers end lines as they like
        record.parse_http(auto_decode="none", quirks_mode=True, strict_mode=False)
        status = record.http_headers.status_code
        if status is not None and not 200 <= status < 300:
            return Passed(f"HTTP {status // 100}xx")
        kind = kind or (record.http_content_type or "").lower()
        charset = record.http_charset
        data = payload(record, limit)
    elif name == b"resource":
        kind = kind or (headers.get("Content-Type") or "").split(";")[0].strip().lower()
    if name != b"conversion" and kind and kind not in _HTML and not kind.startswith("text/plain"):
        return Passed("not HTML")
    if data is None:
        data = record.reader.read(limit + 1)
    if len(data) > limit:
        return Bad(place, "too large", "when decompressed")
    is_html = name != b"conversion" and (kind in _HTML or looks_html(data))
    if not (kind or is_html or name == b"conversion"):
        return Passed("not HTML")
    return Page(
        data, is_html, place, charset, headers.get("WARC-Target-URI"), headers.get("WARC-Date")
    )
