"""Unions of 1 to 4 languages: extracted from sequential BPE of several orders, and concatenated.

tab:small_bpe_puplets, fig:p_uplet_violin_sequential; fig:inefficient_bpe_merge by --word
"""

import random
from itertools import permutations
from statistics import fmean, pstdev
from typing import Any

from common import concatenated, emit, orders, parser, sequential, texts
from figures import figure

import modtok_cli as modtok


def main() -> None:
    """A row for each set, method, order and language; at the end means ± std by size."""
    arguments = parser(__doc__)
    arguments.add_argument("--sets", type=int, default=10, help="sets of each size")
    arguments.add_argument("--orders", type=int, default=3, help="of sequential BPE")
    arguments.add_argument("--word", default=" aikaisemmin", help="shown in en, fi and their union")
    options = arguments.parse_args()
    references = sequential(options) / "references"
    wholes = [(order, modtok.load(path)) for order, path, _ in orders(options, options.orders)]

    def joined(members: Any) -> Any:
        path = options.work / "concatenated.json"
        path.write_text(concatenated(references, members), "utf-8")
        return modtok.load(path)

    draw, every = random.Random(options.seed), []
    for n in range(1, min(4, len(options.langs)) + 1):
        sets = {tuple(sorted(draw.sample(options.langs, n))) for _ in range(options.sets)}
        for members in sorted(sets):
            made = [("extracted", order, whole.subset(members)) for order, whole in wholes]
            made += [("concatenated", order, joined(order)) for order in permutations(members)]
            for method, order, union in made:
                rows = modtok.nsl([union], texts(options, members), references=references)
                facts = {"n": n, "method": method, "order": order}
                every += emit(rows, "language", "size", "nsl", **facts)
    figure(options, every, {"NSL": "nsl"}, ["method"], x="n", curves=True)
    for n, method in dict.fromkeys((row["n"], row["method"]) for row in every):
        each = [row["nsl"] for row in every if (row["n"], row["method"]) == (n, method)]
        summary = {"mean": fmean(each), "std": pstdev(each), "values": len(each)}
        emit([summary], *summary, n=n, method=method)
    if {"en", "fi"} <= {*options.langs}:
        both = {"concatenated": joined(("en", "fi")), "extracted": wholes[0][1].subset("en,fi")}
        for method, union in both.items():
            pieces = [union.decode([index]) for index in union.encode(options.word)]
            emit([{"word": pieces}], "word", method=method)


if __name__ == "__main__":
    main()
