"""How the tokens of one vocabulary are spelled with the tokens of another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.vocabulary import Vocabulary


@dataclass(frozen=True)
class Spelling:
    """For each token of a new vocabulary, the ids of the old tokens that spell it.

    Token i is spelled by `ids[offsets[i]:offsets[i + 1]]`. A token that both vocabularies hold
    is spelled by itself. A new special token has no spelling.

    Shapes: ids (N,) int32, old ids; offsets (V + 1,) int64.
    """

    ids: Int32Array
    offsets: Int64Array

    @property
    def lengths(self) -> Int64Array:
        """Number of old tokens that spell each new token; shape (V,) int64."""
        return np.diff(self.offsets)


def spell(vocabulary: Vocabulary, old: Subtokenizer, *, encode: bool = True) -> Spelling:
    """Spell every token of `vocabulary` with the tokens of `old`.

    Tokens are compared by their spelling in a file, so that in a Unigram vocabulary the byte
    token `<0x61>` and the piece "a" are different tokens. A token that `old` lacks is encoded
    by `old` as one word; without `encode` it has no spelling.

    Example: if `old` holds " mai" and "son", the new token " maison" is spelled by these two.
    """
    known = {name: index for index, name in enumerate(old.vocabulary.spellings())}
    names = vocabulary.spellings()
    first = len(vocabulary.specials)
    same = np.fromiter((known.get(name, -1) for name in names), dtype=np.int32, count=len(names))
    unknown = np.flatnonzero(same < 0)
    unknown = unknown[unknown >= first] if encode else unknown[:0]
    starts, stops = vocabulary.offsets[unknown], vocabulary.offsets[unknown + 1]
    ids, ends = old.encoder.words_flat(vocabulary.data, starts, stops)

    lengths = (same >= 0).astype(np.int64)
    lengths[unknown] = np.diff(ends)
    offsets = np.zeros(len(names) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    flat = np.empty(int(offsets[-1]), dtype=np.int32)
    kept = np.flatnonzero(same >= 0)
    flat[offsets[kept]] = same[kept]
    is_spelled = np.ones(len(flat), dtype=np.bool_)
    is_spelled[offsets[kept]] = False
    flat[is_spelled] = ids
    return Spelling(flat, offsets)
