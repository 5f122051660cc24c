"""Tokens by a pattern, and how words are built: the merges that segmentation applies, one by one.

The steps are those of figure 2 of the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from modtok_cli.base.errors import UsageError
from modtok_cli.core.binding import PADDING
from modtok_cli.core.text import split
from modtok_cli.tokenizer.comparison import text_of
from modtok_cli.tokenizer.encoding.encoder import utf8
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

_NO_PAIR = (1 << 62, -1)


def trace(tokenizer: Subtokenizer, text: str) -> Iterator[dict[str, Any]]:
    """A row for each step of each word, in the order in which segmentation takes them.

    The first row of a word has its bytes as `pieces`. Each other row has a merge, `left` and
    `right`, its `rank` (in T, for a subset), and the pieces after it. `word` is the number of the
    word, from 1.

    Raises:
        UsageError: the tokenizer does not segment by merges.
    """
    if tokenizer.segmentation != "merges":
        raise UsageError(
            f"{tokenizer.segmentation} applies no merges",
            where=tokenizer.name,
            remedy="bpe-seq makes a tokenizer that does",
        )
    tokens = [text_of(token) for token in tokenizer.vocabulary.tokens()]
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for number, (left, right, result) in enumerate(tokenizer.merges.tolist()):
        pairs.setdefault((left, right), (number, result))
    data = np.frombuffer(utf8(text) + bytes(PADDING), dtype=np.uint8)
    ends = split(data, tokenizer.pretokenizer.splitter).tolist()
    for word, (start, stop) in enumerate(pairwise([0, *ends]), 1):
        ids = tokenizer.vocabulary.byte_ids[data[start:stop]].tolist()
        yield {"word": word, "pieces": [tokens[each] for each in ids]}
        while True:
            found = [pairs.get(pair, _NO_PAIR) for pair in pairwise(ids)]
            number, result = min(found, default=_NO_PAIR)
            if result < 0:
                break
            at = found.index((number, result))
            row = {"left": tokens[ids[at]], "right": tokens[ids[at + 1]]}
            ids[at : at + 2] = [result]
            rank = int(tokenizer.merge_ranks[number])
            yield {"word": word, "rank": rank, **row, "pieces": [tokens[each] for each in ids]}


def token_owners(tokenizer: ModularTokenizer | Tokenizer, pattern: str) -> Iterator[dict[str, Any]]:
    """Tokens that match a regular expression, by id: rows with `id`, `token` and `languages`.

    `token_owners(t, "^ the")` gives " the", " they", … with their languages, of a modular
    tokenizer. Invalid UTF-8 is matched as U+FFFD.
    """
    try:
        expression = re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise UsageError(f"'{pattern}' is not a regular expression: {error}") from error
    modular = tokenizer if isinstance(tokenizer, ModularTokenizer) else None
    bytes_of = modular.vocabulary.token_bytes if modular else tokenizer.token_bytes
    for index in range(tokenizer.size):
        token = bytes_of(index)
        if not token or not expression.search(token.decode("utf-8", "replace")):
            continue  # a gap between ids has no bytes
        row: dict[str, Any] = {"id": index, "token": text_of(token)}
        if modular:
            members = np.flatnonzero(modular.token_membership[index])
            row["languages"] = tuple(modular.languages[i] for i in members)
        yield row
