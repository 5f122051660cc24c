"""A Unigram tokenizer as files: `tokenizer.json` and SentencePiece's `.model`.

Both are spelled with spaces as spaces and change nothing in the text, so that a literal
"▁" stays what it is: no piece holds it, bytes spell it. (SentencePiece's usual way, "▁"
for a space, cannot tell the two apart when it decodes.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.memory import no_collection
from modtok_cli.learn.pieces import UNKNOWN
from modtok_cli.modular.piece_vocabulary import PieceVocabulary
from modtok_cli.modular.sentencepiece_file import (
    BYTE,
    CONTROL,
    NORMAL,
    SentencePieceFile,
    write_model,
)
from modtok_cli.modular.sentencepiece_file import (
    UNKNOWN as UNKNOWN_KIND,
)
from modtok_cli.modular.serialize import PROVENANCE, library_json, scored_rows
from modtok_cli.text.pretokenizer import UNIGRAM, pretokenizer

Floats = npt.NDArray[np.float64]

DECODER = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}


def unigram_json(
    vocabulary: PieceVocabulary, scores: Floats, provenance: Mapping[str, Any]
) -> bytes:
    """The `tokenizer.json` of a Unigram tokenizer; scores (V,)."""
    with no_collection():
        model = {
            "type": "Unigram",
            "unk_id": 0,
            "byte_fallback": True,
            PROVENANCE: dict(provenance),
            "vocab": list(zip(vocabulary.spellings(), scores.tolist(), strict=True)),
        }
        return library_json(vocabulary.specials, _pre_tokenizer(), DECODER, model)


def unigram_model(vocabulary: PieceVocabulary, scores: Floats) -> bytes:
    """The SentencePiece `.model` of a Unigram tokenizer; scores (V,)."""
    specials = len(vocabulary.specials)
    kinds = [UNKNOWN_KIND] + [CONTROL] * (specials - 1) + [BYTE] * 256
    kinds += [NORMAL] * (len(vocabulary) - vocabulary.first)
    return write_model(
        SentencePieceFile(tuple(vocabulary.spellings()), tuple(scores.tolist()), tuple(kinds))
    )


def _pre_tokenizer() -> dict[str, Any]:
    return pretokenizer(UNIGRAM).to_json(byte_level=False)


def misfit_unigram(document: Mapping[str, Any]) -> str | None:
    """The field in which a Unigram `tokenizer.json` is of another shape; None if it fits."""
    model = document["model"]
    if model.get("unk_id") != 0:
        return "model.unk_id"
    if model.get("byte_fallback") is not True:
        return "model.byte_fallback"
    for name, expected in (
        ("normalizer", None),
        ("pre_tokenizer", _pre_tokenizer()),
        ("post_processor", None),
        ("decoder", DECODER),
    ):
        if document.get(name) != expected:
            return name
    added = document.get("added_tokens")
    if not isinstance(added, list) or not added or not isinstance(added[0], dict):
        return "added_tokens"
    return None if added[0].get("content") == UNKNOWN else "added_tokens"


def own_model(model: SentencePieceFile, where: str) -> tuple[PieceVocabulary, Floats] | None:
    """Vocabulary and scores (V,) of a `.model` that `unigram_model` wrote; None of another.

    Raises:
        ModtokError: it is ours, but its bytes are out of place.
    """
    specials = 0
    while specials < len(model.kinds) and model.kinds[specials] in (UNKNOWN_KIND, CONTROL):
        specials += 1
    expected = [UNKNOWN_KIND] + [CONTROL] * (specials - 1) + [BYTE] * 256
    expected += [NORMAL] * (len(model.kinds) - specials - 256)
    plain = SentencePieceFile((), (), ())
    ours = (
        specials > 0
        and model.pieces[0] == UNKNOWN
        and list(model.kinds) == expected
        and replace(model, pieces=(), scores=(), kinds=()) == plain
    )
    if not ours:
        return None
    vocabulary = PieceVocabulary.from_spellings(model.pieces[:specials], model.pieces, where)
    return vocabulary, np.array(model.scores, dtype=np.float64)


def parse_unigram(document: Mapping[str, Any], where: str) -> tuple[PieceVocabulary, Floats]:
    """Vocabulary and scores (V,) of a document without misfit.

    Raises:
        ModtokError: an entry that is no text and number, or bytes out of place; names the field.
    """
    specials, names, scores = scored_rows(document, where)
    return PieceVocabulary.from_spellings(specials, names, where), scores
