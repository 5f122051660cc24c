"""Small modular tokenizers of random proper merges, and the slow, obvious encoder."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from tokenizers import Regex, pre_tokenizers

from modtok_cli.base.membership import Membership
from modtok_cli.learn.merges import byte_order
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.pretokenizer import BPE as PRETOKENIZER
from modtok_cli.tokenizer.manifest import Corpus
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.segmenters.merges import ModularMerges
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.vocabulary import Vocabulary

LANGUAGES = ("en", "fi", "fr", "el")
# Pieces of UTF-8 sequences, so that merges join parts of characters too.
ALPHABET = " abcde1é\u0301क\u093fए😀▁".encode()

NASTY = [
    "",
    " ",
    "  a  b ",
    "\t\n\r\n  \n",
    "\r",
    "\0a\0",
    "▁▁ab ▁",
    "e\u0301e\u0301 \u0301a",
    "किताब नमस्ते",
    "👩‍👩‍👧‍👦 🇫🇷🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "a\u200db\u0085c\u001cd\ufeff",
    "\u0378\U000e0fff\ufffd\uffff",
    "<s>abc</s>",
    "12a3 ½Ⅷ٣",
    "abcdeabcde" * 20,
]


def toy(
    seed: int = 0,
    merges_each: int = 40,
    languages: tuple[str, ...] = LANGUAGES,
    specials: tuple[str, ...] = ("<s>", "</s>"),
) -> ModularTokenizer:
    """Each language adopts some of what is there, with its ancestors, and adds merges."""
    rng = random.Random(seed)
    base = len(specials) + 256
    tokens = [text.encode() for text in specials] + [bytes([byte]) for byte in byte_order()]
    ids = {token: i for i, token in enumerate(tokens) if i >= len(specials)}
    start = sorted({ids[bytes([byte])] for byte in ALPHABET})
    merges: list[tuple[int, int, int]] = []
    first_maker: dict[int, int] = {}
    has_tokens: list[set[int]] = []
    has_merges: list[set[int]] = []
    for _ in languages:
        mine, ranks = set(range(base)), set()

        def adopt(rank: int, mine: set[int] = mine, ranks: set[int] = ranks) -> None:
            ranks.add(rank)
            left, right, result = merges[rank]
            mine.add(result)
            for part in (left, right):
                if part >= base and first_maker[part] not in ranks:
                    adopt(first_maker[part])

        for _ in range(merges_each):
            if merges and rng.random() < 0.3:
                adopt(rng.randrange(len(merges)))
                continue
            pool = start + sorted(token for token in mine if token >= base) * 2
            left, right = rng.choice(pool), rng.choice(pool)
            known = [rank for rank, row in enumerate(merges) if row[:2] == (left, right)]
            if known:
                adopt(known[0])
                continue
            text = tokens[left] + tokens[right]
            if text not in ids:
                ids[text] = len(tokens)
                tokens.append(text)
            merges.append((left, right, ids[text]))
            first_maker.setdefault(ids[text], len(merges) - 1)
            adopt(len(merges) - 1)
        has_tokens.append(mine)
        has_merges.append(ranks)
    return ModularTokenizer(
        algorithm="bpe-seq",
        languages=languages,
        k=base + merges_each,
        segmenter=ModularMerges(
            Vocabulary.from_tokens(specials, tokens[len(specials) :]),
            PRETOKENIZER,
            np.array(merges, dtype=np.int32).reshape(-1, 3),
            Membership.of_columns(len(merges), map(_ids, has_merges), len(languages)),
        ),
        token_membership=Membership.of_columns(len(tokens), map(_ids, has_tokens), len(languages)),
        settings={"order": "given", "passes": 1},
        corpora={
            language: Corpus(f"{i:012x}", 10 + i, 100 + i, 200 + i)
            for i, language in enumerate(languages)
        },
    )


def _ids(members: set[int]) -> np.ndarray:
    return np.array(sorted(members), dtype=int)


def rebuilt(tokenizer: ModularTokenizer, **changes: Any) -> ModularTokenizer:
    """The same tokenizer by merges with other arrays or languages, validated as all are."""
    for name in {"token_membership", "merge_membership"} & changes.keys():
        changes[name] = Membership.of(changes[name])
    rules = {
        name: changes.pop(name, getattr(tokenizer, name))
        for name in ("vocabulary", "pretokenizer", "merges", "merge_membership")
    }
    return replace(tokenizer, segmenter=ModularMerges(**rules), where="here", **changes)


def slow_word(ids: list[int], merges: list[list[int]]) -> list[int]:
    """BPE as it is defined: the lowest-rank pair, the leftmost of it, until none is left."""
    table = {(left, right): (rank, result) for rank, (left, right, result) in enumerate(merges)}
    while True:
        found = [(*table[pair], at) for at, pair in enumerate(pairwise(ids)) if pair in table]
        if not found:
            return ids
        _, result, at = min(found, key=lambda entry: (entry[0], entry[2]))
        ids = [*ids[:at], result, *ids[at + 2 :]]


_SPLIT = pre_tokenizers.Split(Regex(BPE.pattern), "isolated")


def slow_words(text: str) -> list[bytes]:
    """The matches of the pattern, as the library's regular expressions find them."""
    return [word.encode() for word, _ in _SPLIT.pre_tokenize_str(text)]


def slow_encode(subset: Subtokenizer, text: str) -> list[int]:
    merges = subset.merges.tolist()
    find = {token: i for i, token in enumerate(subset.vocabulary.tokens())}
    return [
        token
        for word in slow_words(text)
        for token in slow_word([find[bytes([byte])] for byte in word], merges)
    ]
