"""Pre-tokenizers of adopted tokenizers that look at a document before they split it.

The name says how: `qwen2+nfc` composes characters and splits as `qwen2`, and
`qwen2+nfc+["<think>"]` leaves documents that contain "<think>" whole, as one word each. Learning
does not use them, and no `tokenizer.json` is written from them: an adopted tokenizer keeps its own
file.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from modtok_cli.base.arrays import UInt8Array
from modtok_cli.base.errors import UsageError
from modtok_cli.text.pretokenizer import PreTokenizer, find_pretokenizer

_MARK = "+"
_SPACES = (b" ", "▁".encode())


class Rewriting(PreTokenizer):
    """A pre-tokenizer after a change of the document.

    Attributes:
        rewrite: document in UTF-8 → changed document; the same object if nothing changes.
        is_whole: whether a document is one word, unchanged.
    """

    def __init__(self, base: PreTokenizer, how: str, whole: tuple[str, ...]) -> None:
        parts = [base.name, *filter(None, [how])]
        if whole:
            parts.append(json.dumps(whole, ensure_ascii=False, separators=(",", ":")))
        super().__init__(_MARK.join(parts), base.pattern, base.splitter, base.llama_cpp)
        self._found = re.compile(b"|".join(re.escape(text.encode()) for text in whole))
        if how:
            self.rewrite = REWRITES[how]
        if whole:
            self.is_whole = self._contains

    def _contains(self, document: bytes) -> bool:
        if self._found.search(document) is not None:
            return True
        changed = self.rewrite(document) if self.rewrite else document
        return changed is not document and self._found.search(changed) is not None

    def __reduce__(self) -> tuple[Callable[[str], PreTokenizer], tuple[str]]:
        return restore_pretokenizer, (self.name,)


def rewriting(base: PreTokenizer, how: str = "", whole: tuple[str, ...] = ()) -> PreTokenizer:
    """`base` after a change of the document, a key of `REWRITES`; one object for equal arguments.

    Documents that contain one of the texts `whole`, before or after the change, are one word.

    >>> from modtok_cli.text.pretokenizer import find_pretokenizer
    >>> rewriting(find_pretokenizer("qwen2"), "nfc", ("<think>",)).name
    'qwen2+nfc+["<think>"]'
    """
    return _rewriting(base, how, whole) if how or whole else base


@cache
def _rewriting(base: PreTokenizer, how: str, whole: tuple[str, ...]) -> PreTokenizer:
    return Rewriting(base, how, whole)


def restore_pretokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer of that name, one that looks at documents too."""
    base, mark, rest = name.partition(_MARK)
    how, _, texts = ("", "", rest) if rest.startswith("[") else rest.partition(_MARK)
    try:
        whole = tuple(json.loads(texts)) if texts else ()
        known = all(isinstance(text, str) and text for text in whole) and how in ("", *REWRITES)
    except (ValueError, TypeError):
        known = False
    if not known or bool(mark) != bool(how or whole):
        raise UsageError(f"unknown pre-tokenizer '{name}'")
    return rewriting(find_pretokenizer(base), how, whole)


def prefixed(document: bytes) -> bytes:
    """A space before every document that is not empty (`Prepend` of the library)."""
    return b" " + document if document else document


def spaced(document: bytes) -> bytes:
    """A space before a document that begins with none (`Metaspace` of the library)."""
    return document if document.startswith(_SPACES) else prefixed(document)


def composed(document: bytes) -> bytes:
    """Normalization form C, as the `tokenizers` library has it.

    The form of assigned code points never changes between versions of Unicode. Code points that
    this Python does not know are left to the library.
    """
    if document.isascii():
        return document
    text = document.decode()
    kinds = _kinds()[np.frombuffer(text.encode("utf-32-le"), dtype="<u4")]
    most = int(kinds.max())
    if most == 0:
        return document
    if most == 2:
        from tokenizers.normalizers import NFC

        changed = str(NFC().normalize_str(text))
    else:
        changed = unicodedata.normalize("NFC", text)
    return document if changed == text else changed.encode()


@cache
def _kinds() -> UInt8Array:
    """What a code point means for form C: 0 nothing, 1 it may change something, 2 unknown.

    1 are those that change alone, that combine, or that compose with the one before. All from the
    fourth plane on count as unknown.
    """
    kinds = np.zeros(sys.maxunicode + 1, dtype=np.uint8)
    kinds[0x1161:0x1176] = kinds[0x11A8:0x11C3] = 1  # Hangul is composed by a rule
    for point in range(0x300, 0x30000):
        character = chr(point)
        parts = unicodedata.decomposition(character)
        if parts and not parts.startswith("<"):
            kinds[int(parts.split()[-1], 16)] = 1
        if unicodedata.combining(character) or unicodedata.normalize("NFC", character) != character:
            kinds[point] = 1
        elif unicodedata.category(character) == "Cn":
            kinds[point] = 2
    kinds[0x30000:] = 2
    return kinds


REWRITES: Mapping[str, Callable[[bytes], bytes]] = {
    "nfc": composed,
    "prefix": prefixed,
    "space": spaced,
}
"""Changes by name."""
