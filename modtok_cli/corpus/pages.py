"""Items that readers yield: a page, a skipped record, or a bad record."""

from __future__ import annotations

from dataclasses import dataclass

MAX_BYTES = 8 << 20
"""Maximum size of a page in bytes; Common Crawl itself truncates at 1 to 5 MiB."""


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


Found = Page | Skipped | Bad
