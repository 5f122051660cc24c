"""Ids of texts by the slow definitions in `modtok_cli.reference`."""

from __future__ import annotations

from functools import cache

from modtok_cli.reference.encoding import merge, pairs_of, search
from modtok_cli.reference.splitting import split
from modtok_cli.tokenizer.segmenters.scored import Scored
from modtok_cli.tokenizer.subtokenizer import Subtokenizer


def plain_ids(subset: Subtokenizer, texts: list[str]) -> list[list[int]]:
    """Ids of each text, split by the pattern and segmented as the segmentation is defined."""
    segmenter, vocabulary = subset.segmenter, subset.vocabulary
    byte_ids = vocabulary.byte_ids.tolist()
    words = [split(subset.pretokenizer.pattern, text.encode()) for text in texts]
    if isinstance(segmenter, Scored):
        rules = segmenter._search()
        scores = rules.scores[segmenter.selection.global_ids]
        first = vocabulary.first
        tokens = vocabulary.tokens()
        pieces = {tokens[i]: (i, float(scores[i])) for i in range(first, len(tokens))}

        @cache
        def encode(word: bytes) -> list[int]:
            return search(
                word,
                pieces,
                each=rules.each,
                byte_ids=byte_ids,
                unknown=rules.unknown,
                fallback=rules.fallback,
            )

    else:
        pairs = pairs_of(segmenter.merges.tolist())

        @cache
        def encode(word: bytes) -> list[int]:
            return merge([byte_ids[byte] for byte in word], pairs)

    return [[token for word in each for token in encode(word)] for each in words]
