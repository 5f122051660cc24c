"""A plain `tokenizer.json`, which the `tokenizers` library and transformers load: its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.memory import no_collection
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.pretokenizer import pretokenizer

# The library refuses unknown keys at the top of the file but skips them inside "model"
# (and drops them when it saves the file anew).
PROVENANCE = "modtok"


def added_tokens(specials: Sequence[str]) -> list[dict[str, Any]]:
    """The entries of special tokens, which have the first ids."""
    return [
        {
            "id": index,
            "content": special,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, special in enumerate(specials)
    ]


def byte_level() -> dict[str, Any]:
    """The decoder: visible characters back to bytes."""
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }


def tokenizer_json(
    vocabulary: Vocabulary,
    merges: npt.NDArray[np.int32],
    scheme: str,
    provenance: Mapping[str, Any],
) -> bytes:
    """The file of a byte-level BPE, in bytes that depend on nothing but the arguments.

    merges (M, 3) int32 in rank order, written as pairs of strings: a token may hold any
    byte, so nothing is joined by spaces. `provenance` goes into `model.modtok`.
    """
    with no_collection():
        names = vocabulary.spellings()
        left = map(names.__getitem__, merges[:, 0].tolist())
        right = map(names.__getitem__, merges[:, 1].tolist())
        model = {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            PROVENANCE: dict(provenance),
            "vocab": dict(zip(names, range(len(names)), strict=True)),
            "merges": list(zip(left, right, strict=True)),
        }
        before = pretokenizer(scheme).to_json(byte_level=True)
        return library_json(vocabulary.specials, before, byte_level(), model)


def library_json(
    specials: Sequence[str],
    before: Mapping[str, Any],
    decoder: Mapping[str, Any],
    model: Mapping[str, Any],
) -> bytes:
    """A `tokenizer.json` around a model: `before` is its pre-tokenizer."""
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens(specials),
        "normalizer": None,
        "pre_tokenizer": before,
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }
    return orjson.dumps(document) + b"\n"


def scored_rows(
    document: Mapping[str, Any], where: str
) -> tuple[tuple[str, ...], list[str], npt.NDArray[np.float64]]:
    """Special tokens, names and scores (V,) of a file of type Unigram.

    Raises:
        ModtokError: an entry that is no text and number, or the special tokens are not in
            front; names `where` and the field.
    """
    rows = document["model"].get("vocab")
    if not isinstance(rows, list) or not rows:
        raise ModtokError("field 'model.vocab': not a list", where=where)
    for index, row in enumerate(rows):
        if (
            not isinstance(row, list)
            or len(row) != 2
            or not isinstance(row[0], str)
            or type(row[1]) not in (int, float)
        ):
            raise ModtokError(
                f"field 'model.vocab[{index}]': not a token and its score", where=where
            )
    names = [row[0] for row in rows]
    specials = tuple(token["content"] for token in document["added_tokens"])
    if tuple(names[: len(specials)]) != specials:
        raise ModtokError(
            "field 'added_tokens': special tokens are not the first of 'model.vocab'", where=where
        )
    return specials, names, np.array([row[1] for row in rows], dtype=np.float64)
