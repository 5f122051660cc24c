"""Words that fewest tokens and merges segment differently.

    python -m benchmarks segmentations MERGES LEAST PARALLEL [--languages en,fi] [--words 12]

MERGES and LEAST are the modular directories of `bpe-seq` with one vocabulary and both
segmentations, PARALLEL holds <lang>.txt. For each language alone: the share of words of the
text (repeated ones counted) that are cut differently, into fewer or into as many tokens, and
the most frequent such words of each kind. Prints JSON lines.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.common import emit
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import BPE


def cuts(subset: Subtokenizer, counts: WordCounts) -> list[str]:
    """Each unique word with its cuts, as "un|likely"."""
    tokens = [token.decode("utf-8", "backslashreplace") for token in subset.vocabulary.tokens()]
    ids, ends = subset.encoder.words(counts)
    rows = ids.tolist()
    return [
        "|".join(tokens[i] for i in rows[start:stop]) for start, stop in pairwise(ends.tolist())
    ]


def differences(
    merges: Subtokenizer, least: Subtokenizer, counts: WordCounts, words: int
) -> dict[str, Any]:
    total = split = fewer = as_many = 0
    examples: dict[str, list[tuple[int, str, str]]] = {"fewer": [], "as_many": []}
    both = zip(cuts(merges, counts), cuts(least, counts), counts.counts.tolist(), strict=True)
    for by_merges, by_least, count in both:
        total += count
        split += count * ("|" in by_merges)
        if by_merges == by_least:
            continue
        kind = "fewer" if by_least.count("|") < by_merges.count("|") else "as_many"
        fewer += count * (kind == "fewer")
        as_many += count * (kind == "as_many")
        examples[kind].append((count, by_merges, by_least))
    return {
        "words": total,
        "of_several_tokens": round(split / total, 4),
        "different": round((fewer + as_many) / total, 4),
        "different_of_several": round((fewer + as_many) / split, 4),
        "fewer": round(fewer / total, 4),
        "as_many": round(as_many / total, 4),
        **{
            kind: [f"{a.strip()} → {b.strip()}" for _, a, b in sorted(rows, reverse=True)[:words]]
            for kind, rows in (
                ("examples_fewer", examples["fewer"]),
                ("examples_as_many", examples["as_many"]),
            )
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("merges", type=Path)
    parser.add_argument("least", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("--languages")
    parser.add_argument("--words", type=int, default=12)
    given = parser.parse_args()
    merges, least = ModularTokenizer.load(given.merges), ModularTokenizer.load(given.least)
    for name in given.languages.split(",") if given.languages else merges.languages:
        counts = count_corpus([given.parallel / f"{name}.txt"], pretokenizer=BPE)
        found = differences(merges.subset([name]), least.subset([name]), counts, given.words)
        emit({"language": name, **found})


if __name__ == "__main__":
    main()
