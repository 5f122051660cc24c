"""Text from HTML: the main content of a page, a paragraph per line."""

from __future__ import annotations

from modtok_cli.corpus.charset import clean, decode


def page_text(data: bytes, is_html: bool, charset: str | None) -> str:
    """The text of a page, paragraphs as lines.

    From HTML what resiliparse takes for the main content: no menus, footers, forms,
    scripts, comments of readers; block elements, line breaks, list items and rows of
    tables are lines. Plain text is only cleaned.
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
