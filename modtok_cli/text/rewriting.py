"""Pre-tokenizers of adopted tokenizers that change a document before they split it.

The name says both: `qwen2+nfc` composes characters and splits as `qwen2`. Words are then those of
the changed text. Learning does not use them, and no `tokenizer.json` is written from them: an
adopted tokenizer keeps its own file.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache

from modtok_cli.base.errors import UsageError
from modtok_cli.text.pretokenizer import PreTokenizer, Splitter, find_pretokenizer

_MARK = "+"
_SPACES = (b" ", "▁".encode())


class Rewriting(PreTokenizer):
    """A pre-tokenizer after a change of the document.

    Attributes:
        rewrite: document in UTF-8 → changed document; the same object if nothing changes.
    """

    def __init__(self, base: PreTokenizer, how: str) -> None:
        super().__init__(
            f"{base.name}{_MARK}{how}",
            base.pattern,
            word_end=_not_its_own,
            table=lambda: base.splitter.table,
            llama_cpp=base.llama_cpp,
        )
        self._base = base
        self.rewrite: Callable[[bytes], bytes] = REWRITES[how]

    def __reduce__(self) -> tuple[Callable[[str], PreTokenizer], tuple[str]]:
        return restore_pretokenizer, (self.name,)

    @property
    def splitter(self) -> Splitter:
        """That of the pre-tokenizer it splits as."""
        return self._base.splitter


def _not_its_own(*arguments: object) -> int:
    raise NotImplementedError


@cache
def rewriting(base: PreTokenizer, how: str) -> PreTokenizer:
    """`base` after a change of the document, a key of `REWRITES`; one object for equal arguments.

    >>> from modtok_cli.text.pretokenizer import find_pretokenizer
    >>> rewriting(find_pretokenizer("qwen2"), "nfc").name
    'qwen2+nfc'
    """
    return Rewriting(base, how)


def restore_pretokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer of that name, one that changes documents too.

    Raises:
        UsageError: there is none.
    """
    base, mark, how = name.partition(_MARK)
    if mark and how not in REWRITES:
        raise UsageError(f"unknown pre-tokenizer '{name}'")
    return rewriting(find_pretokenizer(base), how) if mark else find_pretokenizer(base)


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
    if _unassigned().search(text):
        from tokenizers.normalizers import NFC

        changed = str(NFC().normalize_str(text))
    else:
        changed = unicodedata.normalize("NFC", text)
    return document if changed == text else changed.encode()


@cache
def _unassigned() -> re.Pattern[str]:
    """One code point without a category in this version of Unicode; private ones are not."""
    runs: list[list[int]] = []
    for point in range(sys.maxunicode + 1):
        if unicodedata.category(chr(point)) == "Cn":
            if runs and runs[-1][1] == point - 1:
                runs[-1][1] = point
            else:
                runs.append([point, point])
    return re.compile("[" + "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in runs) + "]")


REWRITES: Mapping[str, Callable[[bytes], bytes]] = {
    "nfc": composed,
    "prefix": prefixed,
    "space": spaced,
}
"""Changes by name."""
