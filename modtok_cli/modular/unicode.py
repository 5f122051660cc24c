"""UTF-8 of Python strings, which may contain lone surrogates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from modtok_cli.base.errors import ModtokError, UsageError

T = TypeVar("T")


def utf8(text: str) -> bytes:
    """UTF-8 of a text.

    Raises:
        UsageError: it is no string.
        ModtokError: the text contains a lone surrogate.
    """
    if not isinstance(text, str):
        raise UsageError(f"expected a string, got {type(text).__name__}", where="text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ModtokError(
            f"the text is not valid Unicode: lone surrogate at character {error.start}"
        ) from error


def strings(texts: Sequence[str]) -> list[bytes]:
    """UTF-8 of several texts.

    Raises:
        UsageError: one text, or something else.
        ModtokError: a text contains a lone surrogate.
    """
    return [utf8(text) for text in _several(texts)]


def in_utf8(texts: Sequence[str | bytes]) -> Sequence[bytes]:
    """Several texts, strings or UTF-8, as UTF-8; `texts` itself where all are bytes.

    Raises:
        UsageError: one text, or something else.
        ModtokError: a string contains a lone surrogate.
    """
    if set(map(type, _several(texts))) <= {bytes}:
        return texts  # type: ignore[return-value]
    return [text if isinstance(text, bytes) else utf8(text) for text in texts]


def _several(texts: Sequence[T]) -> Sequence[T]:
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise UsageError(
            f"expected several texts, got {type(texts).__name__}",
            where="texts",
            remedy="encode takes one",
        )
    return texts
