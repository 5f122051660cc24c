"""Write a plain `tokenizer.json`: what the `tokenizers` library and transformers load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.pretokens import PATTERNS

# The library refuses unknown keys at the top of the file but skips them inside "model"
# (and drops them when it saves the file anew).
PROVENANCE = "modtok"


def pre_tokenizer(pattern: str) -> dict[str, Any]:
    """Cut by `pattern`, then spell bytes visibly; no space is put before the text."""
    return {
        "type": "Sequence",
        "pretokenizers": [
            {
                "type": "Split",
                "pattern": {"Regex": pattern},
                "behavior": "Isolated",
                "invert": False,
            },
            {
                "type": "ByteLevel",
                "add_prefix_space": False,
                "trim_offsets": True,
                "use_regex": False,
            },
        ],
    }


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
    names = vocabulary.spellings()
    left = map(names.__getitem__, merges[:, 0].tolist())
    right = map(names.__getitem__, merges[:, 1].tolist())
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens(vocabulary.specials),
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer(PATTERNS[scheme]),
        "post_processor": None,
        "decoder": byte_level(),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            PROVENANCE: dict(provenance),
            "vocab": {name: index for index, name in enumerate(names)},
            "merges": list(zip(left, right, strict=True)),
        },
    }
    return orjson.dumps(document) + b"\n"
