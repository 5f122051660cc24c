"""Payload of an HTTP response, decoded with a size limit."""

from __future__ import annotations

import io
import re
import zlib
from typing import Any

import zstandard

_LOOKS_HTML = re.compile(rb"<\s*(?:!doctype\s+html|html|head|body|title|p|div)\b", re.I)
_SLICE = 1 << 11  # limits what zstd can expand to at once, see text.streams


def looks_html(data: bytes) -> bool:
    """Whether HTML starts within the first 2,048 bytes."""
    return _LOOKS_HTML.search(data, 0, 2048) is not None


def payload(record: Any, limit: int) -> bytes:
    """Payload of the response `record` (of fastwarc, with HTTP headers parsed, not decoded).

    Transfer and content encodings are decoded up to `limit` + 1 bytes; fastwarc's own gzip decoder
    has no limit (200 kB became 200 MB). Crawlers often store decoded pages with the original
    headers: content that cannot be decoded but is HTML is used unchanged.

    Raises:
        OSError: the content can neither be decoded nor is it HTML.
    """
    stored: bytes = record.reader.read()  # bounded by the size of the record
    headers = record.http_headers
    names = f"{headers.get('Content-Encoding') or ''},{headers.get('Transfer-Encoding') or ''}"
    data = stored
    try:
        for name in reversed(names.lower().replace(" ", "").split(",")):
            data = _decode(data, name, limit)
    except (OSError, zlib.error, zstandard.ZstdError) as error:
        if not looks_html(stored):
            raise OSError(str(error)) from error
        return stored
    return data


def _decode(data: bytes, name: str, limit: int) -> bytes:
    if name in ("gzip", "x-gzip"):
        return zlib.decompressobj(wbits=31).decompress(data, limit + 1)
    if name == "deflate":
        try:
            return zlib.decompressobj().decompress(data, limit + 1)
        except zlib.error:  # many servers send raw deflate without the zlib header
            return zlib.decompressobj(wbits=-15).decompress(data, limit + 1)
    if name in ("br", "chunked"):
        from fastwarc.stream_io import BrotliReader, ChunkedReader

        reader = BrotliReader if name == "br" else ChunkedReader
        decoded: bytes = reader(io.BytesIO(data)).read(limit + 1)
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
