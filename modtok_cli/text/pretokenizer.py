"""Pre-tokenizers: how text is split into words before a segmenter splits words into tokens.

Each is one C file of `modtok_cli/core/src/pretokenizers/`, which is found there by itself; nothing
else names a pattern. Another package adds one by its pattern alone: an entry point of the group
`modtok.pretokenizers` with the name of the pre-tokenizer, which refers to the pattern. It
runs through the package `regex`, slower.
"""

import ctypes
import json
import re
import sys
import threading
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any

import numpy as np

from modtok_cli.base.arrays import UInt8Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.extras import require
from modtok_cli.base.option import Option
from modtok_cli.base.plugins import Plugins
from modtok_cli.core.binding import WORD_END, Splitter
from modtok_cli.core.text import native_pretokenizers

SPLIT, BYTE_LEVEL, DIGITS_BYTE_LEVEL = range(3)
"""Forms in a `tokenizer.json`: a step with the pattern; the library's `ByteLevel` with its own
pattern; that after a step that sets digits apart."""


class PreTokenizer:
    r"""A pattern and what splits text by it; compared by identity, pickled by name.

    Attributes:
        name: name in files and on the command line.
        pattern: regular expression of the `tokenizers` library (Oniguruma). Every match is a
            word, and the matches cover the text without gaps.
        splitter: its functions in the core.
        llama_cpp: name of the pre-tokenizer in llama.cpp (`tokenizer.ggml.pre`) that splits
            every text in the same way; None if it has none.
        json_form: `SPLIT`, `BYTE_LEVEL` or `DIGITS_BYTE_LEVEL`.
        rewrite: what changes a document in UTF-8 before it is split; see `REWRITES`.
        is_whole: which documents are one word, and neither changed nor split.

    >>> find_pretokenizer("bpe").pattern
    ' ?[\\p{L}\\p{M}]+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+'
    """

    rewrite: Callable[[bytes], bytes] | None = None
    is_whole: Callable[[bytes], bool] | None = None

    def __init__(
        self,
        name: str,
        pattern: str,
        splitter: Splitter,
        llama_cpp: str | None = None,
        json_form: int = SPLIT,
    ) -> None:
        self.name = name
        self.pattern = pattern
        self.splitter = splitter
        self.llama_cpp = llama_cpp
        self.json_form = json_form

    def __repr__(self) -> str:
        return f"PreTokenizer({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return find_pretokenizer, (self.name,)

    def to_json(self, *, byte_level: bool) -> dict[str, Any]:
        """Return the `pre_tokenizer` of a `tokenizer.json`.

        `byte_level`: whether tokens spell bytes by visible characters, as BPE's do.
        """
        split = split_json(self.pattern)
        if not byte_level:
            return split
        level = {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": self.json_form != SPLIT,
        }
        if self.json_form == BYTE_LEVEL:
            return level
        digits = {"type": "Digits", "individual_digits": True}
        first = digits if self.json_form == DIGITS_BYTE_LEVEL else split
        return {"type": "Sequence", "pretokenizers": [first, level]}

    def is_json(self, node: Any, *, byte_level: bool) -> bool:
        """Return whether the `pre_tokenizer` of a `tokenizer.json` splits as this one does."""
        expected = self.to_json(byte_level=byte_level)
        if not byte_level:
            return _is_split(node, expected)
        if self.json_form == BYTE_LEVEL and _is_level(node, use_regex=True):
            return True
        try:
            first, level = node["pretokenizers"]
        except (KeyError, TypeError, ValueError):
            return False
        if node.get("type") != "Sequence":
            return False
        if self.json_form == DIGITS_BYTE_LEVEL:
            return bool(first == expected["pretokenizers"][0]) and _is_level(level, use_regex=True)
        same = _is_split(first, self.to_json(byte_level=False))
        return same and _is_level(level, use_regex=False)


def split_json(pattern: str) -> dict[str, Any]:
    """Return the step of a `tokenizer.json` that splits by a pattern."""
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


def _is_split(node: Any, split: Mapping[str, Any]) -> bool:
    """Whether a step splits as `split`, whose matches leave nothing out that it would remove."""
    return node in (split, {**split, "behavior": "Removed", "invert": True})


def _is_level(node: Any, *, use_regex: bool) -> bool:
    """Whether a step is a `ByteLevel` that does nothing else; the library's default is a regex."""
    return (
        isinstance(node, dict)
        and node.get("type") == "ByteLevel"
        and node.get("add_prefix_space") is False
        and node.get("use_regex", True) is use_regex
    )


class CalledPreTokenizer(PreTokenizer, ABC):
    """A pre-tokenizer that Python code splits by; what that leaves out belongs to what follows."""

    def __init__(self, name: str, pattern: str) -> None:
        self._rest = threading.local()  # of the document in progress, one for each thread
        self._word_end = WORD_END(self._end_of)  # kept: the core has its address
        place = ctypes.cast(self._word_end, ctypes.c_void_p).value
        super().__init__(name, pattern, Splitter(place, None, 0, None, 0))

    @abstractmethod
    def ends(self, text: str) -> Iterator[int]:
        """Return where the words of a text end, ascending."""

    def _end_of(self, splitter: int, data: int, start: int, stop: int) -> int:
        """End of the word at `start`; at its first word, the whole rest of a document is split."""
        rest = self._rest
        if getattr(rest, "next", None) != (data, start, stop):
            raw = ctypes.string_at(data + start, stop - start)
            text = raw.decode("utf-8", "surrogateescape")
            ends, at, begin = [], start, 0
            for place in self.ends(text):
                at += len(text[begin:place].encode("utf-8", "surrogateescape"))
                begin = place
                ends.append(at)
            if not ends or ends[-1] != stop:
                ends.append(stop)  # what the pattern does not match belongs to what follows
            rest.ends = iter(ends)
        end: int = next(rest.ends)
        rest.next = (data, end, stop) if end < stop else None
        return end


class PatternPreTokenizer(CalledPreTokenizer):
    """A pre-tokenizer that is given by its pattern alone.

    Raises:
        UsageError: the package `regex` is missing, or the pattern is none.
    """

    def __init__(self, name: str, pattern: str) -> None:
        try:
            import regex
        except ImportError:
            raise UsageError(
                f"pre-tokenizer '{name}' needs the package regex", remedy="pip install regex"
            ) from None
        try:
            self._compiled = regex.compile(pattern)
        except regex.error as error:
            raise UsageError(f"pre-tokenizer '{name}': {pattern}: {error}") from None
        super().__init__(name, pattern)

    def ends(self, text: str) -> Iterator[int]:
        """Return ends of the matches."""
        return (match.end() for match in self._compiled.finditer(text) if match.group())


@cache
def _native() -> Mapping[str, PreTokenizer]:
    """Return the pre-tokenizers of the core."""
    return {
        each.name.decode(): PreTokenizer(
            each.name.decode(),
            each.pattern.decode(),
            each.splitter,
            each.llama_cpp.decode() if each.llama_cpp else None,
            each.json_form,
        )
        for each in native_pretokenizers()
    }


OTHERS = Plugins("modtok.pretokenizers", PatternPreTokenizer)


@cache
def pretokenizers() -> Mapping[str, PreTokenizer]:
    """Return all pre-tokenizers by name, also of other packages."""
    return {**OTHERS.all(), **_native()}


def offered_pretokenizers() -> list[str]:
    """Return names that make sense for learning BPE, ascending, also of other packages."""
    return sorted({*_native(), *OTHERS.names()} - _SPECIAL)


def find_pretokenizer(name: str) -> PreTokenizer:
    """Return the pre-tokenizer of that name."""
    # Looking for entry points takes tens of milliseconds.
    pretokenizer = _native().get(name) or pretokenizers().get(name)
    if pretokenizer is None:
        raise UsageError(
            f"unknown pre-tokenizer '{name}'",
            remedy=f"choose from: {', '.join(offered_pretokenizers())}",
        )
    return pretokenizer


def pretokenizer_of_json(node: Any, *, byte_level: bool) -> PreTokenizer | None:
    """Return the pre-tokenizer of the `pre_tokenizer` of a `tokenizer.json`; None if unknown."""
    for known in (_native, pretokenizers):
        for each in known().values():
            if each.is_json(node, byte_level=byte_level):
                return each
    return None


BPE, GEMMA, NONE, PHRASES, UNIGRAM = (
    find_pretokenizer(name) for name in ("bpe", "gemma", "none", "phrases", "unigram")
)


# Made for superwords, Unigram and adopted tokenizers: accepted, but not offered for learning.
_SPECIAL = frozenset({"gemma", "none", "phrases", "unigram"})
PretokenizerName = Annotated[
    str | None,
    Option(
        f"Split of text into words: {', '.join(sorted(_native().keys() - _SPECIAL))}. With "
        f"{', '.join(each.name for each in _native().values() if each.llama_cpp)}, llama.cpp runs "
        "the tokenizer exactly.",
        flags="--pretokenizer",
        metavar="NAME",
        default=BPE.name,
    ),
]
"""The parameter of learners; other packages may add names."""


_MARK = "+"
_SPACES = (b" ", "▁".encode())


class Rewriting(PreTokenizer):
    """A pre-tokenizer of an adopted tokenizer, which looks at a document before it splits it.

    The name says how: `qwen2+nfc` composes characters and splits as `qwen2`, and
    `qwen2+nfc+["<think>"]` leaves documents that contain "<think>" whole, as one word each.
    Learning does not use them, and no `tokenizer.json` is written from them: an adopted tokenizer
    keeps its own file.

    Attributes:
        rewrite: document in UTF-8 → changed document; the same object if nothing changes.
        is_whole: whether a document is one word, unchanged.
    """

    def __init__(self, base: PreTokenizer, how: str, whole: tuple[str, ...]) -> None:
        parts = [base.name, *filter(None, [how])]
        if whole:
            parts.append(json.dumps(whole, ensure_ascii=False, separators=(",", ":")))
        super().__init__(_MARK.join(parts), base.pattern, base.splitter, base.llama_cpp)
        self._whole = re.compile(b"|".join(re.escape(text.encode()) for text in whole))
        self.rewrite = REWRITES[how] if how else base.rewrite
        if whole:
            self.is_whole = self._contains

    def _contains(self, document: bytes) -> bool:
        if self._whole.search(document) is not None:
            return True
        changed = self.rewrite(document) if self.rewrite else document
        return changed is not document and self._whole.search(changed) is not None

    def __reduce__(self) -> tuple[Callable[[str], PreTokenizer], tuple[str]]:
        return restore_pretokenizer, (self.name,)


@cache
def rewriting(base: PreTokenizer, how: str, whole: tuple[str, ...]) -> PreTokenizer:
    """Return `base` after a change of documents, a key of `REWRITES`; the same for equal arguments.

    Documents that contain one of the texts `whole`, before or after the change, are one word.

    >>> rewriting(find_pretokenizer("qwen2"), "nfc", ("<think>",)).name
    'qwen2+nfc+["<think>"]'
    """
    return Rewriting(base, how, whole) if how or whole else base


def restore_pretokenizer(name: str) -> PreTokenizer:
    """Return the pre-tokenizer of that name, one that looks at documents too."""
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
    """Put a space before every document that is not empty (`Prepend` of the library)."""
    return b" " + document if document else document


def spaced(document: bytes) -> bytes:
    """Put a space before a document that begins with none (`Metaspace` of the library)."""
    return document if document.startswith(_SPACES) else prefixed(document)


def composed(document: bytes) -> bytes:
    """Apply normalization form C, as the `tokenizers` library has it.

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
        require("text with characters that this Python does not know", published=["tokenizers"])
        from tokenizers.normalizers import NFC

        changed = str(NFC().normalize_str(text))
    else:
        changed = unicodedata.normalize("NFC", text)
    return document if changed == text else changed.encode()


@cache
def _kinds() -> UInt8Array:
    """Return the role of a code point in form C: 0 none, 1 it may change something, 2 unknown.

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
