"""Signatures, with which a reported number can be traced to its inputs.

As in sacreBLEU: `key:value` pairs joined by `|`, short enough to quote.
"""

import hashlib
from collections.abc import Iterable

from modtok_cli.base.version import __version__


def digest(*parts: bytes | memoryview, length: int = 12) -> str:
    """Hexadecimal SHA-256 over length-prefixed `parts`, of bytes, cut to `length` digits."""
    return digest_chunks([(len(part), [part]) for part in parts], length)


def digest_chunks(
    parts: Iterable[tuple[int, Iterable[bytes | memoryview]]], length: int = 12
) -> str:
    """`digest` of parts that come in pieces, each with its length in bytes.

    >>> digest_chunks([(4, [b"wo", b"rd"])]) == digest(b"word")
    True
    """
    hasher = hashlib.sha256()
    for size, chunks in parts:
        hasher.update(size.to_bytes(8, "little"))
        for chunk in chunks:
            hasher.update(chunk)
    return hasher.hexdigest()[:length]


def signature(metric: str, /, **fields: object) -> str:
    """`metric|key:value|…|modtok:VERSION`; values must not contain `|`.

    >>> signature("nsl", tok="ab12")[:11]
    'nsl|tok:ab1'
    """
    body = "|".join(f"{key}:{value}" for key, value in fields.items())
    return f"{metric}|{body}|modtok:{__version__}"
