"""The decoder of a `tokenizer.json`: tokens to text as the `tokenizers` library decodes them.

Text and bytes are equal where the bytes are UTF-8. For others each decoder of the library has its
own number of U+FFFD, while the bytes stay what they are: between the steps, a byte that is part
of no character is a lone surrogate, as in Python's `surrogateescape`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

import orjson

from modtok_cli.base.state import Lasting
from modtok_cli.tokenizer.adopted.restrict import is_byte_level
from modtok_cli.tokenizer.encoding.external import in_library, library_tokenizer
from modtok_cli.tokenizer.vocabulary import spell

Part = Mapping[str, Any]
Mode = Literal["text", "bytes", "each"]
"""A text, with U+FFFD for invalid bytes; its bytes; or each token in the middle of a text."""

_CLEANUP = (
    *((f" {mark}", mark) for mark in ".?!,"),
    (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"), (" do not", " don't"),
    (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


_HEX = "0123456789abcdefABCDEF"


def _escaped(byte: int) -> str:
    return chr(byte if byte < 0x80 else 0xDC00 + byte)


# As the library reads them: Gemma's "<0x0A>", but also "<0x0a>" and "<0x+a>".
_OF_NAME = {f"<0x{a}{b}>": _escaped(int(a + b, 16)) for a in _HEX + "+" for b in _HEX}
_OF_SPELLING = {ord(spell(bytes([byte]))): _escaped(byte) for byte in range(256)}
_SPELLINGS = frozenset(map(chr, _OF_SPELLING))


class Decoder(Lasting):
    """Decodes tokens, given by their names in the file.

    Attributes:
        is_local: whether the bytes of every text are its tokens' bytes, one after the other.
    """

    def __init__(self, document: Mapping[str, Any], where: str) -> None:
        self._where = where
        self._part: Part | None = document.get("decoder")
        # The text that tokens stand for, if the file has no decoder: the library joins by spaces.
        default = "ByteLevel" if is_byte_level(document) else "Metaspace"
        part = self._part or {"type": default, "replacement": "▁", "prepend_scheme": "never"}
        self._steps = list(_flat(part))
        self._is_known = all(map(_is_known, self._steps))
        self.is_local = self._part is not None and self._is_known and _is_local(self._steps)

    def text(self, names: Sequence[str]) -> str:
        """Text of tokens, equal to the library's."""
        if not self._is_known:
            with in_library("cannot decode", self._where):
                return str(self._library.decode(list(names)))
        return self._decoded(names, "text")

    def data(self, names: Sequence[str]) -> bytes:
        """Bytes of tokens; they may end within a character."""
        if not self._is_known:
            return self.text(names).encode()
        return _as_bytes(self._decoded(names, "bytes"))

    def each(self, names: Sequence[str]) -> list[bytes]:
        """Bytes of each token in the middle of a text."""
        if not self._is_known:
            return [self.data([name]) for name in names]
        texts, fused = list(names), False
        for part in self._steps:
            if not (fused and part["type"] == "Strip"):  # it is for the ends of the text
                texts = _STEPS[part["type"]](part, texts, "each")
            fused |= part["type"] in ("Fuse", "ByteLevel")
        return list(map(_as_bytes, texts))

    def _decoded(self, names: Sequence[str], mode: Mode) -> str:
        if self._part is None:
            return " ".join(names)
        texts = list(names)
        for part in self._steps:
            texts = _STEPS[part["type"]](part, texts, mode)
        return "".join(texts)

    @cached_property
    def _library(self) -> Any:
        """The library's, for what is not known here, such as regular expressions."""
        model: dict[str, Any] = {"type": "BPE", "vocab": {}, "merges": []}
        document = {"version": "1.0", "added_tokens": (), "model": model, "decoder": self._part}
        return library_tokenizer(orjson.dumps(document), self._where).decoder


def _flat(part: Part) -> Iterator[Part]:
    """The steps of a decoder."""
    parts = part.get("decoders") if isinstance(part, Mapping) else None
    if isinstance(parts, list) and part.get("type") == "Sequence":
        for one in parts:
            yield from _flat(one)
    else:
        yield part


def _is_known(part: Part) -> bool:
    """Whether a step is one of `_STEPS`, with valid fields."""
    fields = _FIELDS.get(part.get("type", "")) if isinstance(part, Mapping) else None
    if fields is None or not all(isinstance(part.get(name), kind) for name, kind in fields.items()):
        return False
    return part["type"] != "Replace" or bool(part["pattern"].get("String"))


def _is_local(steps: Sequence[Part]) -> bool:
    joined = False
    for part in steps:
        kind = part["type"]
        short = kind == "Replace" and len(part["pattern"]["String"]) == 1
        never = kind == "Metaspace" and part.get("prepend_scheme") == "never"
        to_bytes = kind in ("ByteLevel", "ByteFallback")
        if kind != "Fuse" and (joined or not (short or never or to_bytes)):
            return False
        joined |= kind == "Fuse" or to_bytes
    return True


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _valid(text: str, mode: Mode) -> str:
    """With characters in place of their bytes."""
    return _as_bytes(text).decode("utf-8", "replace" if mode == "text" else "surrogateescape")


def _byte_level(part: Part, texts: list[str], mode: Mode) -> list[str]:
    made = [t.translate(_OF_SPELLING) if _SPELLINGS.issuperset(t) else t for t in texts]
    return made if mode == "each" else [_valid("".join(made), mode)]


def _byte_fallback(part: Part, texts: list[str], mode: Mode) -> list[str]:
    if mode == "each":
        return [_OF_NAME.get(text, text) for text in texts]
    made: list[str] = []
    for is_byte, run in groupby(texts, _OF_NAME.__contains__):
        if not is_byte:
            made += run
            continue
        escaped = [_OF_NAME[name] for name in run]
        text = _valid("".join(escaped), "bytes")
        invalid = mode == "text" and any("\udc80" <= each <= "\udcff" for each in text)
        made.append("\ufffd" * len(escaped) if invalid else text)
    return made


def _replace(part: Part, texts: list[str], mode: Mode) -> list[str]:
    old, new = part["pattern"]["String"], part["content"]
    return [text.replace(old, new) for text in texts]


def _fuse(part: Part, texts: list[str], mode: Mode) -> list[str]:
    return texts if mode == "each" else ["".join(texts)]


def _strip(part: Part, texts: list[str], mode: Mode) -> list[str]:
    content, start, stop = part["content"], part["start"], part["stop"]
    made = []
    for text in texts:
        first = min(start, len(text) - len(text.lstrip(content)))
        last = min(stop, len(text) - len(text.rstrip(content)))
        made.append(text[first : max(first, len(text) - last)])
    return made


def _metaspace(part: Part, texts: list[str], mode: Mode) -> list[str]:
    mark = part["replacement"]
    made = [text.replace(mark, " ") for text in texts]
    if texts and mode != "each" and part.get("prepend_scheme") != "never":
        made[0] = texts[0].replace(mark, "")
    return made


def _cleaned(text: str) -> str:
    for old, new in _CLEANUP:
        text = text.replace(old, new)
    return text


def _word_piece(part: Part, texts: list[str], mode: Mode) -> list[str]:
    prefix, first = part["prefix"], 0 if mode == "each" else 1
    made = texts[:first]
    made += [t.removeprefix(prefix) if t.startswith(prefix) else f" {t}" for t in texts[first:]]
    return list(map(_cleaned, made)) if part["cleanup"] else made


def _ctc(part: Part, texts: list[str], mode: Mode) -> list[str]:
    each = texts if mode == "each" else [text for text, _ in groupby(texts)]
    made = [text.replace(part["pad_token"], "") for text in each]
    if part["cleanup"]:
        made = [_cleaned(text).replace(part["word_delimiter_token"], " ") for text in made]
    return made if mode == "each" else list(filter(None, made))


def _bpe(part: Part, texts: list[str], mode: Mode) -> list[str]:
    made = [text.replace(part["suffix"], " ") for text in texts]
    if texts and mode != "each":
        made[-1] = texts[-1].replace(part["suffix"], "")
    return made


_STEPS: dict[str, Callable[[Part, list[str], Mode], list[str]]] = {
    "ByteLevel": _byte_level,
    "ByteFallback": _byte_fallback,
    "Replace": _replace,
    "Fuse": _fuse,
    "Strip": _strip,
    "Metaspace": _metaspace,
    "WordPiece": _word_piece,
    "CTC": _ctc,
    "BPEDecoder": _bpe,
}
_FIELDS: dict[str, dict[str, type]] = {
    "ByteLevel": {},
    "ByteFallback": {},
    "Replace": {"pattern": dict, "content": str},
    "Fuse": {},
    "Strip": {"content": str, "start": int, "stop": int},
    "Metaspace": {"replacement": str},
    "WordPiece": {"prefix": str, "cleanup": bool},
    "CTC": {"pad_token": str, "word_delimiter_token": str, "cleanup": bool},
    "BPEDecoder": {"suffix": str},
}
