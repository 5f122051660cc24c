"""How a `tokenizer.json` of any origin treats text before merging, in terms of the core."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from modtok_cli.text.pretokenizer import GEMMA, NONE, PreTokenizer, pretokenizer_of_json, rewriting
from modtok_cli.tokenizer.adopted.restrict import BYTE_TOKENS, is_byte_level
from modtok_cli.tokenizer.vocabulary import spell

SPACE = "▁"
"""How SentencePiece writes a space."""
_SPLIT_OF_GEMMA = re.compile(f"[^ {SPACE}>][ {SPACE}]")
FRAME = "sentencepiece"
"""Field of `model`: `SentencePieceFile.frame` in base64. The `tokenizers` library ignores it."""
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
PREPEND = {"type": "Prepend", "prepend": SPACE}


@dataclass(frozen=True)
class TextForm:
    """The changes of a text before merging.

    Attributes:
        pretokenizer: of ours, with the same words; `none`, if words are whole documents.
        is_native: whether our encoder gives the ids of the library, but for texts that the
            pre-tokenizer leaves whole.
        of_characters: whether merging starts from characters, else from bytes.
    """

    pretokenizer: PreTokenizer = NONE
    is_native: bool = False
    of_characters: bool = False


def has_model(document: Mapping[str, Any]) -> bool:
    """Whether a document is a `.model`, or a part of one, or one that has grown."""
    return FRAME in document["model"]


OTHER = TextForm()
"""The library must encode it."""


def text_form(document: Mapping[str, Any], built: Iterable[str]) -> TextForm:
    """The form of a document; `built` are the names of all tokens that merges make."""
    if document["model"].get("type") == "Unigram":
        return _of_pieces(document)
    if is_byte_level(document):
        return _of_bytes(document)
    return _of_characters(document, built)


def _of_bytes(document: Mapping[str, Any]) -> TextForm:
    pretokenizer = pretokenizer_of_json(document.get("pre_tokenizer"), byte_level=True)
    whole = tuple(token["content"] for token in _ordinary_added(document))
    if pretokenizer is None or not all(map(str.isascii, whole)):
        return OTHER
    model = document["model"]
    if model.get("unk_token") and not model["vocab"].keys() >= set(spell(bytes(range(256)))):
        return OTHER  # of bytes without a token, which are left out if there is no such token
    normalizer = document.get("normalizer")
    if normalizer not in (None, {"type": "NFC"}):
        return OTHER
    return TextForm(rewriting(pretokenizer, "nfc" if normalizer else "", whole), is_native=True)


def _of_characters(document: Mapping[str, Any], built: Iterable[str]) -> TextForm:
    """SentencePiece BPE with byte fallback."""
    model = document["model"]
    if not (model.get("byte_fallback") and model["vocab"].keys() >= {SPACE, *BYTE_TOKENS}):
        return OTHER
    change = _change(document)
    added = _ordinary_added(document)
    odd = ("single_word", "lstrip", "rstrip", "normalized")
    if change is None or any(token.get(name) for token in added for name in odd):
        return OTHER
    if has_model(document) and any(SPACE in token["content"] for token in added):
        return OTHER  # SentencePiece finds them after spaces have become "▁"
    # The prefix depends on where they are.
    whole = tuple(token["content"] for token in added) if change else ()
    # Special tokens in a text are text, but the library looks for no others within them.
    contents = [token["content"] for token in document.get("added_tokens") or ()] if added else []
    crossed = any(map(_SPLIT_OF_GEMMA.search, [*built, *contents]))
    base = NONE if crossed else GEMMA
    return TextForm(rewriting(base, change, whole), is_native=True, of_characters=True)


def _of_pieces(document: Mapping[str, Any]) -> TextForm:
    """Unigram: the library searches, a word at a time where it splits text at each space."""
    splits = document.get("pre_tokenizer")
    known = (
        isinstance(splits, Mapping)
        and splits.get("type") == "Metaspace"
        and splits.get("replacement") == SPACE
        and splits.get("split", True) is True
    )
    if not known or document.get("normalizer") is not None or _ordinary_added(document):
        return OTHER
    return TextForm(GEMMA)


def _change(document: Mapping[str, Any]) -> str | None:
    """The change of a document beside spaces that become "▁": its name, or ""; None: unknown."""
    normalizer, splits = document.get("normalizer"), document.get("pre_tokenizer")
    if normalizer is None:
        if not isinstance(splits, Mapping) or splits.get("type") != "Metaspace":
            return None
        if splits.get("replacement") != SPACE or splits.get("split", True) is not False:
            return None
        return {"never": "", "first": "space", "always": "space"}.get(
            str(splits.get("prepend_scheme"))
        )
    if splits is not None and not _never_splits(splits):
        return None
    if normalizer == REPLACE:
        return ""
    if normalizer == {"type": "Sequence", "normalizers": [PREPEND, REPLACE]}:
        return "prefix"
    return None


def _never_splits(splits: Any) -> bool:
    """Whether it splits at spaces only, of which the normalizer has left none."""
    fields = {"type": "Split", "pattern": {"String": " "}, "invert": False}
    return isinstance(splits, Mapping) and {**splits, **fields} == dict(splits)


def _ordinary_added(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Added tokens that are not special: the library finds them in a text."""
    added = document.get("added_tokens") or ()
    return [token for token in added if not token.get("special")]
