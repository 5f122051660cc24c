"""Extract the main text of an HTML page, one paragraph per line."""

from __future__ import annotations

from modtok_cli.corpus.charset import clean, decode


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
