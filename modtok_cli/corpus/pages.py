"""What passes from the readers on: a page, or a record that could not be read."""

from __future__ import annotations

from dataclasses import dataclass

MAX_BYTES = 8 << 20
"""A record of more bytes is no page to learn from; Common Crawl itself cuts at 1 to 5 MiB."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page as it was stored.

    `data` are its bytes, HTML or plain text, `charset` what the server said of them.
    `offset` is where its record begins in the file: bytes of the file as it lies on the
    disk for WARC (what `dd` or an index needs), of the text for lines, 0 for a whole file.
    """

    data: bytes
    is_html: bool
    offset: int
    charset: str | None = None
    url: str | None = None
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Passed:
    """A sound record that is not a page (a request, an image, an error 404), and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that could not be read, and why."""

    offset: int
    reason: str
    detail: str = ""


Found = Page | Passed | Bad
