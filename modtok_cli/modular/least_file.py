"""A least-token tokenizer as files: a Unigram `tokenizer.json` over bytes, and a `.model`.

The JSON is that of a byte-level BPE but for the model, which is of type Unigram with the
scores of `learn.least.file_scores`. SentencePiece knows no byte-level pre-tokenizer: its
file needs tokens of whole characters, and spells the rest by byte fallback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.memory import no_collection
from modtok_cli.learn.fewest_tokens import EACH, SHORT_EACH, likelihood_of_scores
from modtok_cli.modular.sentencepiece_file import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    SentencePieceFile,
    byte_piece,
    write_model,
)
from modtok_cli.modular.serialize import (
    PROVENANCE,
    byte_level,
    library_json,
    scored_rows,
)
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.pretokenizer import pretokenizer

Floats = npt.NDArray[np.float64]


def least_json(
    vocabulary: Vocabulary, scores: Floats, scheme: str, provenance: Mapping[str, Any]
) -> bytes:
    """The `tokenizer.json`; scores (V,) as `learn.least.file_scores` gives them."""
    with no_collection():
        model = {
            "type": "Unigram",
            "unk_id": None,
            "byte_fallback": False,
            PROVENANCE: dict(provenance),
            "vocab": list(zip(vocabulary.spellings(), scores.tolist(), strict=True)),
        }
        before = pretokenizer(scheme).to_json(byte_level=True)
        return library_json(vocabulary.specials, before, byte_level(), model)


def misfit_least(document: Mapping[str, Any]) -> str | None:
    """The field of `model` in which a byte-level Unigram file is not of this shape."""
    model = document["model"]
    if model.get("unk_id") is not None:
        return "model.unk_id"
    if model.get("byte_fallback"):
        return "model.byte_fallback"
    added, rows = document.get("added_tokens"), model.get("vocab")
    if not isinstance(added, list):
        return "added_tokens"
    try:
        scores = np.array([float(score) for _, score in rows or [()]])
    except (TypeError, ValueError):
        return None  # damaged rather than another's: `parse_least` says where
    if len(scores) < len(added) or likelihood_of_scores(scores, len(added)) is None:
        return "model.vocab"
    return None


def parse_least(document: Mapping[str, Any], where: str) -> tuple[Vocabulary, Floats]:
    """Vocabulary and scores (V,) of a document without misfit.

    Raises:
        ModtokError: an entry that is no text and number, a byte missing; names the field.
    """
    specials, names, scores = scored_rows(document, where)
    vocabulary = Vocabulary.from_spellings(specials, names, where)
    if len(set(names)) != len(names):
        raise ModtokError("field 'model.vocab': a token is there twice", where=where)
    if (vocabulary.byte_ids < 0).any():
        byte = int(np.argmax(vocabulary.byte_ids < 0))
        raise ModtokError(f"field 'model.vocab': byte 0x{byte:02x} is no token", where=where)
    return vocabulary, scores


def least_model(vocabulary: Vocabulary, scores: Floats) -> bytes:
    """The SentencePiece `.model`, with the same ids.

    A byte below 0x80 is a character, hence an ordinary piece; one above is a byte piece.
    SentencePiece insists on all 256 byte pieces and on an unknown one: those that no text
    asks for come behind.

    Raises:
        UsageError: a token cuts a character, or lacks a single character that it holds.
    """
    first = len(vocabulary.specials)
    tokens = vocabulary.tokens()
    pieces, kinds = list(vocabulary.specials), [CONTROL] * first
    missing = set(range(256))
    singles = set()
    for token in tokens[first:]:
        if len(token) == 1 and (token[0] >= 0x80 or token[0] == 0):
            pieces.append(byte_piece(token[0]))
            kinds.append(BYTE)
            missing.discard(token[0])
            continue
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise _not_whole(f"token {token!r} cuts a character") from None
        if len(text) == 1:
            singles.add(text)
        pieces.append(text)
        kinds.append(NORMAL)
    for text in pieces[first:]:
        if not singles.issuperset(text) and not text.startswith("<0x"):
            raise _not_whole(f"token {text!r} holds a character that is no token")
    pieces += [byte_piece(byte) for byte in sorted(missing)]
    kinds += [BYTE] * len(missing)
    if "<unk>" in vocabulary.specials:
        kinds[vocabulary.specials.index("<unk>")] = UNKNOWN
    else:
        pieces.append("<unk>")
        kinds.append(UNKNOWN)
    short = np.zeros(len(pieces))
    short[first : len(tokens)] = scores[first:] + (EACH - SHORT_EACH)
    return write_model(SentencePieceFile(tuple(pieces), tuple(short.tolist()), tuple(kinds)))


def _not_whole(why: str) -> UsageError:
    return UsageError(
        f"{why}, which a SentencePiece .model cannot express",
        remedy="write a .json, or learn with bpe-merge --whole-characters",
    )
