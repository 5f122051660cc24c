"""What cutting long words of scripts without spaces saves, and what it costs in tokens.

    python -m benchmarks word_cuts WORKSPACE LABEL [-k 16000]

Words of WORKSPACE/data/<label>* are cut where kanji, hiragana and katakana meet, or after a number
of characters; BPE learns from the pieces and encodes those of WORKSPACE/test/<label>.jsonl. A row
per rule: unique pieces, the sum of their bytes, and the number of tokens divided by that without
cuts. Nothing of modtok cuts words: this is why.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks.common import emit
from modtok_cli.learn.sequential import learn_bpe
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.corpus import count_languages
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.workspace import language_files

Cut = Callable[[str], list[str]]


def _kind(character: str) -> str:
    code = ord(character)
    for name, first, stop in (("h", 0x3040, 0x30A0), ("k", 0x30A0, 0x3100), ("z", 0x3400, 0xA000)):
        if first <= code < stop:
            return name
    return "other"


def at_scripts(word: str) -> list[str]:
    """Pieces of one script; a space stays with what follows it."""
    found = [word[:1]]
    for character in word[1:]:
        if found[-1] == " " or _kind(found[-1][-1]) == _kind(character):
            found[-1] += character
        else:
            found.append(character)
    return found


def after(most: int) -> Cut:
    """Pieces of `most` characters, besides a space at the beginning; ASCII stays whole."""

    def cut(word: str) -> list[str]:
        if word.isascii():
            return [word]
        first = most + word.startswith(" ")
        return [word[:first], *(word[i : i + most] for i in range(first, len(word), most))]

    return cut


RULES: dict[str, Cut] = {
    "none": lambda word: [word],
    "script change": at_scripts,
    "16 characters": after(16),
    "8 characters": after(8),
    "4 characters": after(4),
}


def pieces(counts: WordCounts, cut: Cut) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for word, count in counts.pairs():
        for piece in cut(word.decode()):
            found[piece.encode()] += count
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workspace", type=Path)
    parser.add_argument("label")
    parser.add_argument("-k", type=int, default=16000)
    options = parser.parse_args()
    label = options.label
    train, test = (
        count_languages(language_files(options.workspace / part, [label]))[label]
        for part in ("data", "test")
    )
    whole = 0
    for name, cut in RULES.items():
        found = pieces(train, cut)
        table = WordCounts.from_pairs(found.items(), train.pretokenizer)
        learned = learn_bpe(table, options.k, ("<|endoftext|>", "<|pad|>"), languages=(label,))
        tokenizer = ModularTokenizer.from_learned(learned, algorithm="bpe", k=options.k).subset(
            [label]
        )
        words = pieces(test, cut)
        ids = tokenizer.encode_utf8(list(words), 1)
        tokens = sum(len(own) * count for own, count in zip(ids, words.values(), strict=True))
        whole = whole or tokens
        emit(
            {
                "what": "cut",
                "label": label,
                "cut": name,
                "unique": len(found),
                "unique_bytes": sum(map(len, found)),
                "ratio": round(tokens / whole, 4),
            }
        )


if __name__ == "__main__":
    main()
