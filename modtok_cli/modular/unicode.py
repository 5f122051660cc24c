"""The one thing that is wrong with some Python strings: lone surrogates."""

from __future__ import annotations

from modtok_cli.base.errors import ModtokError


def utf8(text: str) -> bytes:
    """UTF-8 of a text.

    Raises:
        ModtokError: the text holds a lone surrogate, which is no character.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ModtokError(
            f"the text is no valid Unicode: lone surrogate at character {error.start}"
        ) from error
