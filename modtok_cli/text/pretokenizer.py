"""Pre-tokenizers: how text is split into words before a segmenter splits words into tokens.

Each is one C file of `modtok_cli/core/src/pretokenizers/`, which is found there by itself; nothing
else names a pattern. Another package adds one by its pattern alone: an entry point of the group
`modtok.pretokenizers` whose name is that of the pre-tokenizer, and which refers to the pattern. It
runs through the package `regex`, slower.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any

from modtok_cli.base.errors import UsageError
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
        rewrite: what changes a document in UTF-8 before it is split; see `text.rewriting`.
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
        """The `pre_tokenizer` of a `tokenizer.json`.

        `byte_level`: whether tokens spell bytes by visible characters, as BPE's do.
        """
        split = {
            "type": "Split",
            "pattern": {"Regex": self.pattern},
            "behavior": "Isolated",
            "invert": False,
        }
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
        """Whether the `pre_tokenizer` of a `tokenizer.json` splits as this one does."""
        expected = self.to_json(byte_level=byte_level)
        if not byte_level:
            return bool(node == expected)
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
        return bool(first == self.to_json(byte_level=False)) and _is_level(level, use_regex=False)


def _is_level(node: Any, *, use_regex: bool) -> bool:
    """Whether a step is a `ByteLevel` that does nothing else; the library's default is a regex."""
    return (
        isinstance(node, dict)
        and node.get("type") == "ByteLevel"
        and node.get("add_prefix_space") is False
        and node.get("use_regex", True) is use_regex
    )


class PatternPreTokenizer(PreTokenizer):
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
        self._rest = threading.local()  # of the document in progress, one for each thread
        self._word_end = WORD_END(self._end_of)  # kept: the core has its address
        place = ctypes.cast(self._word_end, ctypes.c_void_p).value
        super().__init__(name, pattern, Splitter(place, None, 0, None, 0))

    def _end_of(self, splitter: int, data: int, start: int, stop: int) -> int:
        """End of the word at `start`; at its first word, the whole rest of a document is split."""
        rest = self._rest
        if getattr(rest, "next", None) != (data, start, stop):
            raw = ctypes.string_at(data + start, stop - start)
            text = raw.decode("utf-8", "surrogateescape")
            ends, at, begin = [], start, 0
            for match in self._compiled.finditer(text):
                if match.group():
                    at += len(text[begin : match.end()].encode("utf-8", "surrogateescape"))
                    begin = match.end()
                    ends.append(at)
            if not ends or ends[-1] != stop:
                ends.append(stop)  # what the pattern does not match belongs to what follows
            rest.ends = iter(ends)
        end: int = next(rest.ends)
        rest.next = (data, end, stop) if end < stop else None
        return end


@cache
def _native() -> Mapping[str, PreTokenizer]:
    """Those of the core."""
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


OTHERS = Plugins("modtok.pretokenizers")


@cache
def pretokenizers() -> Mapping[str, PreTokenizer]:
    """All pre-tokenizers by name, those of other packages too."""
    others = {name: PatternPreTokenizer(name, OTHERS.load(name)) for name in OTHERS.names()}
    return {**others, **_native()}


def known_pretokenizer(name: str) -> PreTokenizer | None:
    """The pre-tokenizer of that name; None if there is none."""
    # Looking for entry points takes tens of milliseconds.
    return _native().get(name) or pretokenizers().get(name)


def find_pretokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer of that name."""
    pretokenizer = known_pretokenizer(name)
    if pretokenizer is None:
        raise UsageError(
            f"unknown pre-tokenizer '{name}'",
            remedy=f"choose from: {', '.join(sorted(pretokenizers()))}",
        )
    return pretokenizer


def pretokenizer_of_json(node: Any, *, byte_level: bool) -> PreTokenizer | None:
    """The pre-tokenizer that the `pre_tokenizer` of a `tokenizer.json` is; None if unknown."""
    for known in (_native, pretokenizers):
        for each in known().values():
            if each.is_json(node, byte_level=byte_level):
                return each
    return None


BPE, GEMMA, NONE, PHRASES, UNIGRAM = (
    find_pretokenizer(name) for name in ("bpe", "gemma", "none", "phrases", "unigram")
)


PretokenizerName = Annotated[
    str | None,
    Option(
        f"How text is split into words: {', '.join(_native())}.",
        flags="--pretokenizer",
        metavar="NAME",
        complete="pretokenizers",
        default=BPE.name,
    ),
]
"""The parameter of learners; other packages may add names."""
