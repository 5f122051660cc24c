"""Main text of pages by modtok's rules or by another library, as the same units.

The libraries decide which elements are main text; their own marked-up output is read as a page is.
"""

import re
from collections.abc import Callable

from modtok_cli.corpus.content import Found, all_text, main_text

EXTRACTORS = ("modtok", "resiliparse", "trafilatura")
_PRE = re.compile(r"(<pre>.*?</pre>)", re.DOTALL)
_ROWS = re.compile(r"(?:^[^\n]*\t[^\n]*\n?)+", re.MULTILINE)
_TAGS = {"row": "tr", "cell": "td", "item": "li", "list": "ul", "head": "h2", "quote": "blockquote"}
_TAG = re.compile(rf"<(/?)({'|'.join(_TAGS)})\b")
_CODE = re.compile(r"<code>([^<]*\n[^<]*)</code>")


def extract(html: str, extractor: str, repairs: bool) -> Found:
    """Main text of a page."""
    if extractor == EXTRACTORS[0]:
        return main_text(html, repairs)
    found, whole = all_text(_LIBRARIES[extractor](html), repairs), all_text(html).units
    lines = max(0, len(whole) - len(found.units))
    characters = sum(map(len, whole)) - sum(map(len, found.units))
    found.dropped = {extractor: [lines, characters]} if characters > 0 else {}
    return found


def _resiliparse(html: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    text = extract_plain_text(
        html,
        main_content=True,
        preserve_formatting="minimal_html",
        list_bullets=False,
        alt_texts=False,
        comments=False,
    )
    parts = _PRE.split(text)
    parts[::2] = [_ROWS.sub(_table, part).replace("\n", "<br>") for part in parts[::2]]
    return "".join(parts)


def _table(rows: re.Match[str]) -> str:
    cells = [re.split("\t+", row) for row in rows[0].strip("\n").split("\n")]
    return f"<table>{''.join('<tr><td>' + '<td>'.join(row) for row in cells)}</table>"


def _trafilatura(html: str) -> str:
    from trafilatura import extract as library

    text = library(html, output_format="xml", include_comments=False) or ""
    return _TAG.sub(lambda tag: f"<{tag[1]}{_TAGS[tag[2]]}", _CODE.sub(r"<pre>\1</pre>", text))


_LIBRARIES: dict[str, Callable[[str], str]] = {
    "resiliparse": _resiliparse,
    "trafilatura": _trafilatura,
}
