"""Unions of 1 to 4 languages: extracted from sequential BPE, and naively concatenated.

tab:small_bpe_puplets, fig:p_uplet_violin_sequential; fig:inefficient_bpe_merge by --word
"""

import random
from itertools import permutations
from statistics import fmean, pstdev
from typing import Any

from common import concatenated, emit, parser, sequential, texts

import modtok_cli as modtok


def main() -> None:
    """A row for each set, method, order and language; at the end means ± std by size."""
    arguments = parser(__doc__)
    arguments.add_argument("--sets", type=int, default=10, help="sets of each size")
    arguments.add_argument("--word", default=" aikaisemmin", help="shown in en, fi and their union")
    options = arguments.parse_args()
    whole = sequential(options)
    references, tokenizer = whole / "references", modtok.load(whole)
    draw = random.Random(options.seed)
    values: dict[tuple[int, str], list[float]] = {}
    for size in range(1, min(4, len(options.langs)) + 1):
        for members in {
            tuple(sorted(draw.sample(options.langs, size))) for _ in range(options.sets)
        }:
            unions: dict[Any, Any] = {("extracted", members): tokenizer.subset(members)}
            for order in permutations(members) if size > 1 else ():
                path = options.work / "concatenated.json"
                path.write_text(concatenated(references, order), "utf-8")
                unions["concatenated", order] = modtok.load(path)
            for (method, order), union in unions.items():
                rows = modtok.nsl([union], texts(options, members), references=references)
                emit(rows, "language", "size", "nsl", n=size, method=method, order=order)
                values.setdefault((size, method), []).extend(row["nsl"] for row in rows)
    for (size, method), each in values.items():
        summary = {"mean": fmean(each), "std": pstdev(each), "values": len(each)}
        emit([summary], *summary, n=size, method=method)
    if {"en", "fi"} <= {*options.langs}:
        path = options.work / "concatenated.json"
        path.write_text(concatenated(references, ("en", "fi")), "utf-8")
        joined = modtok.load(path)
        for name, both in (("concatenated", joined), ("extracted", tokenizer.subset("en,fi"))):
            pieces = [both.decode([index]) for index in both.encode(options.word)]
            emit([{"word": pieces}], "word", method=name)


if __name__ == "__main__":
    main()
