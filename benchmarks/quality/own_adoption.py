"""NSL when a language adopts only tokens of T that it would learn alone.

python -m benchmarks own_adoption CORPUS TEXTS [TEXTS …] [-k 24000] [--widths 1 2 4 12]
    [--morphemes GOLD]

CORPUS has <lang>.jsonl.zst, each TEXTS <lang>.txt. For a width w, a token of T may be adopted if
it and all that it is made of are in a BPE of the language alone of w·k tokens. A merge of T that
may not be adopted does not exist for the language, which can learn the same pair again at a later
rank; in a union, a pair has its lowest rank. Width 0 is the paper's rule: all of T. One JSON line
per width and text: NSL of single languages, pairs with English, eight sets of four, and T. With the
files GOLD of `python -m benchmarks morphemes`, one more per width: MorphScore of each language.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from statistics import mean

import numpy as np

from benchmarks.common import LANGUAGES, describe, emit, parser_of
from modtok_cli.base.arrays import BoolArray, Int32Array, Int64Array
from modtok_cli.core.segment import Pairs, SegmenterHandle, Symbols
from modtok_cli.learn.merges import GlobalMerges, empty_merges, grow
from modtok_cli.learn.sequential import learn_plain, segment
from modtok_cli.measure.morphology import Morphemes, align
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.tokenizer.segmenters.merges import Merges
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.vocabulary import Vocabulary

SPECIALS = ("<|endoftext|>", "<|pad|>", "<|bos|>", "<|eos|>")


def usable(whole: GlobalMerges, own: set[bytes]) -> BoolArray:
    """Merges of T (M,) whose result and all that it is made of are in `own`."""
    allowed = [token in own for token in whole.strings()]
    derived = [index < whole.base for index in range(whole.tokens)]
    usable = []
    for left, right, result in whole.merges.tolist():
        usable.append(allowed[result] and derived[left] and derived[right])
        derived[result] |= usable[-1]
    return np.array(usable, dtype=np.bool_)


class Learned:
    """T, and the places of each language's merges in it; a pair may have several."""

    def __init__(self, k: int, width: float) -> None:
        self.k, self.width = k, width
        self.whole = empty_merges(SPECIALS)
        self.places: dict[str, Int64Array] = {}

    def add(self, language: str, counts: WordCounts) -> None:
        before = self.whole
        mask = np.ones(len(before.merges), dtype=np.bool_)
        if self.width:
            own = learn_plain(counts, int(self.k * self.width), SPECIALS).merges
            mask = usable(before, set(own.strings()))
        some = GlobalMerges(SPECIALS, before.token_data, before.token_offsets, before.merges[mask])
        grown = grow(some, *segment(some, counts), counts, self.k)
        new = grown.merges.merges[mask.sum() :]
        joined = np.concatenate([before.merges, new])
        self.whole = GlobalMerges(
            SPECIALS, grown.merges.token_data, grown.merges.token_offsets, joined
        )
        where = np.concatenate([np.flatnonzero(mask), np.arange(len(before.merges), len(joined))])
        self.places[language] = where[grown.merge_member]

    def union(self, languages: Iterable[str]) -> Int32Array:
        """Merges of at least one language, each pair at its lowest rank."""
        places = np.unique(np.concatenate([self.places[name] for name in languages]))
        merges = self.whole.merges[places]
        first = np.unique(merges[:, :2], axis=0, return_index=True)[1]
        return merges[np.sort(first)]


def size(merges: Int32Array, byte_ids: Int32Array, counts: WordCounts) -> int:
    """Tokens of a text."""
    segmenter = SegmenterHandle.by_merges(Pairs(merges), Symbols(byte_ids))
    _, offsets = segmenter.segment(counts.data, counts.offsets[:-1], counts.offsets[1:])
    return int((np.diff(offsets) * counts.counts).sum())


def morph_score(learned: Learned, language: str, gold: Morphemes) -> float | None:
    """MorphScore of the tokenizer of one language; None without words."""
    words, whole = gold.of(language), learned.whole
    vocabulary = Vocabulary(whole.specials, whole.token_data, whole.token_offsets)
    tokenizer = Subtokenizer(Merges(vocabulary, BPE, learned.union([language])))
    return align(tokenizer, words, language)["morph_score"] if words else None


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("texts", type=Path, nargs="*")
    parser.add_argument("-k", type=int, default=24_000)
    parser.add_argument("--widths", type=float, nargs="+", default=[0, 1, 2, 4, 12])
    parser.add_argument("--morphemes", type=Path)
    options = parser.parse_args()
    gold = Morphemes(options.morphemes) if options.morphemes else None
    chance = random.Random(1)
    sets = {
        "single": [[name] for name in LANGUAGES],
        "pairs": [["en", name] for name in LANGUAGES if name != "en"],
        "fours": [sorted(chance.sample(LANGUAGES, 4)) for _ in range(8)],
        "T": [list(LANGUAGES)],
    }
    corpus = {name: count_corpus([options.corpus / f"{name}.jsonl.zst"]) for name in LANGUAGES}
    alone = {name: learn_plain(corpus[name], options.k, SPECIALS).merges for name in LANGUAGES}
    for width in options.widths:
        learned = Learned(options.k, width)
        for name, counts in corpus.items():
            learned.add(name, counts)
        if gold:
            scores = {name: morph_score(learned, name, gold) for name in LANGUAGES}
            emit({"machine": describe(), "width": width, "morph_score": scores})
        for texts in options.texts:
            test = {name: count_corpus([texts / f"{name}.txt"]) for name in LANGUAGES}
            base = {
                name: size(own.merges, own.byte_ids(), test[name]) for name, own in alone.items()
            }
            row: dict[str, float] = {}
            for kind, unions in sets.items():
                values = [
                    size(learned.union(languages), learned.whole.byte_ids(), test[name])
                    / base[name]
                    for languages in unions
                    for name in (languages[1:] if kind == "pairs" else languages)
                ]
                row[kind], row[f"{kind}, worst"] = round(mean(values), 4), round(max(values), 4)
            sizes = {"tokens": learned.whole.tokens, "merges": len(learned.whole.merges)}
            emit({"machine": describe(), "width": width, "text": texts.name, **sizes, **row})
