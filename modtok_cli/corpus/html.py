"""Text of a page: its bytes decoded, and the main text of HTML, one paragraph per line.

The charset that servers declare is often wrong.
"""

from __future__ import annotations

import re

_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]{2,40})", re.I)
_HEAD = 2048
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
# Declared by default. Not believed if the bytes look like another script.
_DEFAULTS = frozenset({"windows-1252", "cp1252", "iso-8859-1", "latin-1", "us-ascii", "utf-8"})
# Control characters except newline and tab; NEL counts as a newline.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f]")


def decode(data: bytes, declared: str | None, is_html: bool) -> str:
    """Decode `data`; bytes that fit no encoding become U+FFFD.

    In this order: a byte order mark; UTF-8, if the bytes are valid; the charset declared by server
    or page, if the bytes are valid and it is not a default Latin-1 over what looks like another
    script; the detected charset.

    >>> decode("ääni".encode("latin-1"), "utf-8", False), decode(b"\\xef\\xbb\\xbfa", None, False)
    ('ääni', 'a')
    """
    from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

    for mark, name in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, errors="replace")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and len(data) - error.start < 4:
            return data[: error.start].decode()  # truncated by the crawler within a character
    meta = _META.search(data, 0, _HEAD) if is_html else None
    declarations = [declared, meta[1].decode("ascii") if meta else None]
    known = [map_encoding_to_html5(name, fallback_utf8=False) for name in declarations if name]
    guessed = detect_encoding(data)
    candidates = [name for name in known if name and name.lower() not in _DEFAULTS]
    if guessed:
        candidates.append(guessed)
    candidates += [name for name in known if name]
    for name in candidates:
        try:
            text = data.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
        return text
    return data.decode(errors="replace")


def clean(text: str) -> str:
    """Remove control characters, blank lines and white space at the ends of lines.

    >>> clean("one\\x00\\r\\n\\n  two \\u00a0\\n")
    'one\\ntwo'
    """
    text = _CONTROL.sub("", text.replace("\r", "\n").replace("\x85", "\n"))
    return "\n".join(line for line in map(str.strip, text.split("\n")) if line)


def page_text(data: bytes, is_html: bool, charset: str | None) -> str:
    """Text of a page with paragraphs as lines.

    From HTML the main content as resiliparse finds it: without menus, footers, forms, scripts and
    reader comments. Block elements, line breaks, list items and table rows become lines. Plain text
    is only cleaned.
    """
    text = decode(data, charset, is_html)
    if is_html:
        from resiliparse.extract.html2text import extract_plain_text

        text = extract_plain_text(
            text,
            main_content=True,
            preserve_formatting=True,
            list_bullets=False,
            alt_texts=False,
            comments=False,
        )
    return clean(text)
