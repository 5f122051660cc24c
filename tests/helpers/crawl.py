"""Crawls for the tests: real WARC files around pages made of the sample text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import zstandard

from helpers.sample import SAMPLE

DATA = SAMPLE / "data"
LANGUAGES = ("el", "en", "fi", "fr", "ne", "sw")


def paragraphs(language: str) -> list[str]:
    """The seventeen paragraphs of the sample text, each in one line."""
    lines = (DATA / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()
    return [" ".join(json.loads(line)["text"].split()) for line in lines]


def page(body: list[str], *, extra: str = "", charset: str = "utf-8") -> bytes:
    """An HTML page as sites have them: menu, banner and footer around its paragraphs."""
    items = "".join(f'<li><a href="/{n}">Menu {n}</a></li>' for n in range(6))
    main = "\n".join(f"<p>{text}</p>" for text in body)
    html = f"""<!DOCTYPE html><html><head><meta charset="{charset}"><title>A title</title>
<style>p {{ color: red }}</style><script>var a = "<p>not text</p>";</script></head><body>
<header><nav class="menu"><ul>{items}</ul></nav></header>
<div class="cookie-banner" id="cookie-consent">We use cookies. <button>Accept</button></div>
<main><article>{main}{extra}</article></main>
<aside class="sidebar"><ul>{items}</ul></aside>
<footer><p>Copyright 2026. All rights reserved.</p></footer></body></html>"""
    return html.encode(charset)


def http(body: bytes, headers: str = "Content-Type: text/html; charset=utf-8", status: int = 200):
    """An HTTP response."""
    return f"HTTP/1.1 {status} X\r\n{headers}\r\n\r\n".encode() + body


def record(
    block: bytes,
    url: str = "http://example.org/",
    kind: str = "response",
    content_type: str = "application/http; msgtype=response",
    length: object = None,
    extra: str = "",
) -> bytes:
    """A WARC record; `length` for one that lies about it."""
    head = (
        "WARC/1.0\r\n"
        f"WARC-Type: {kind}\r\n"
        f"WARC-Target-URI: {url}\r\n"
        "WARC-Date: 2026-01-02T03:04:05Z\r\n"
        "WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000000>\r\n"
        f"Content-Type: {content_type}\r\n{extra}"
        f"Content-Length: {len(block) if length is None else length}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def compressed(raw: bytes, how: str) -> bytes:
    """A record as a member of an archive."""
    if how == "gz":
        return gzip.compress(raw, mtime=0)
    return zstandard.compress(raw) if how == "zst" else raw


def around() -> list[bytes]:
    """Records that every crawl has and that hold no page."""
    return [
        record(b"software: test\r\n", kind="warcinfo", content_type="application/warc-fields"),
        record(b"GET / HTTP/1.1\r\n\r\n", kind="request"),
        record(b"fetchTimeMs: 7\r\n", kind="metadata", content_type="application/warc-fields"),
        record(http(b"\x89PNG....", "Content-Type: image/png")),
        record(http(b"<p>gone</p>", status=404)),
    ]


def records_of(path: Path) -> list[dict]:
    """The records of a corpus file, or of all files in a directory, in order."""
    files = sorted(path.glob("*.jsonl.zst")) if path.is_dir() else [path]
    found = []
    for file in files:
        with open(file, "rb") as handle:
            data = zstandard.ZstdDecompressor().stream_reader(handle).read()
        found += [json.loads(line) for line in data.decode().splitlines()]
    return found
