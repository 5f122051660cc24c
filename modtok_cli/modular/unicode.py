"""UTF-8 of Python strings, which may contain lone surrogates."""

from __future__ import annotations

from modtok_cli.base.errors import ModtokError


def utf8(text: str) -> bytes:
    """UTF-8 of a text.

    Raises:
        ModtokError: the text contains a lone surrogate.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ModtokError(
            f"the text is not valid Unicode: lone surrogate at character {error.start}"
        ) from error
