"""Tokenizers and texts small enough to compute by hand."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from modtok_cli.learn.merges import GlobalMerges, byte_order
from modtok_cli.text.pretokenizer import BPE as PRETOKENIZER
from modtok_cli.tokenizer.segmenters.merges import Merges
from modtok_cli.tokenizer.vocabulary import Vocabulary

Merge = tuple[bytes, bytes]


def global_merges(merges: Sequence[Merge], specials: Sequence[str] = ()) -> GlobalMerges:
    """A tokenizer of these merges, in order."""
    tokens = [bytes([byte]) for byte in byte_order()]
    for left, right in merges:
        if left + right not in tokens:
            tokens.append(left + right)
    vocabulary = Vocabulary.from_tokens(specials, tokens)
    rows = [
        [vocabulary.find(left), vocabulary.find(right), vocabulary.find(left + right)]
        for left, right in merges
    ]
    array = np.array(rows, dtype=np.int32).reshape(-1, 3)
    return GlobalMerges(tuple(specials), vocabulary.data, vocabulary.offsets, array)


def write_plain(path: Path, merges: Sequence[Merge], specials: Sequence[str] = ()) -> str:
    """The same as a `tokenizer.json`; gives its name as an argument."""
    made = global_merges(merges, specials)
    vocabulary = Vocabulary(made.specials, made.token_data, made.token_offsets)
    path.write_bytes(Merges(vocabulary, PRETOKENIZER, made.merges).to_json({}))
    return str(path)


def write_ranks(path: Path, tokens: Sequence[bytes]) -> str:
    """A tiktoken rank file: the 256 bytes, then these tokens."""
    every = [bytes([byte]) for byte in range(256)] + list(tokens)
    lines = [f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(every)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_tekken(
    path: Path, tokens: Sequence[bytes], pattern: str, specials: int, more: Sequence[bytes] = ()
) -> str:
    """Mistral's JSON of these tokens, ranked after so many special ones; `more` are not used."""
    rows = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode()}
        for rank, token in enumerate([*tokens, *more])
    ]
    size = {"default_vocab_size": specials + len(tokens), "default_num_special_tokens": specials}
    path.write_text(json.dumps({"config": {"pattern": pattern, **size}, "vocab": rows}))
    return str(path)


def write_text(directory: Path, **texts: Sequence[str]) -> list[Path]:
    """A file per language, a document a line."""
    directory.mkdir(exist_ok=True)
    paths = []
    for language, lines in texts.items():
        path = directory / f"{language}.txt"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        paths.append(path)
    return paths
