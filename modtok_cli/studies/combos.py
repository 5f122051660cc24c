"""`modtok study combos`: unions of languages, extracted from sequential BPE or concatenated.

For sets of 1 to 4 languages and each language of a set, the number of tokens of its text: with the
union extracted from sequential tokenizers of several language orders, and with concatenated
monolingual tokenizers in every order of the set.
"""

import random
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import combinations, permutations
from math import comb
from typing import Annotated

import numpy as np

from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Data, Force, Langs, OutputFile, Texts, Threads
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.construct.bpe_concat import merges_of
from modtok_cli.learn.concatenation import MergePool
from modtok_cli.modular.segmenters.merges import Merges
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.studies.bench import Bench, Command, K, Orders, Seed, language_orders, load_bench
from modtok_cli.studies.orders import learn_order
from modtok_cli.studies.rows import Row, StudyFile
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.reading import Reading

SIZES = (1, 2, 3, 4)


@public
def study_combos(
    texts: Texts,
    languages: Langs = None,
    *,
    k: K = 24000,
    orders: Orders = 4,
    sets: Annotated[
        int, Option("Number of sets of each size; all if there are fewer.", metavar="N", low=1)
    ] = 60,
    seed: Seed = 0,
    data: Data = "data",
    output: OutputFile = "studies/combos.jsonl",
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    command: Command = "modtok study combos",
    progress: Progress = SILENT,
) -> list[Row]:
    """Compare unions of 1 to 4 languages, extracted and concatenated.

    Subsets extracted from sequential BPE under several language orders are compared with naive
    concatenation of monolingual BPE in every order of the set. Rows are written to
    studies/combos.jsonl.

    Returns:
        One row per set, method ("sequential", "concatenated"), order and language: size, tokens
        and NSL. `order` is the index of the sequential tokenizer, or the languages in
        concatenation order.

    Examples:
        >>> rows = modtok.study_combos("parallel", "en,fi", k=600, orders=1)
        >>> max(row["n"] for row in rows)
        2

    Raises:
        ModtokError, UsageError: texts, settings or output are invalid.
    """
    bench = load_bench(
        languages, texts, data=data, k=k, output=output, reading=reading, threads=threads,
        progress=progress,
    )  # fmt: skip
    chosen = language_orders(bench.languages, orders, seed)
    chosen_sets = {
        size: sample_sets(bench.languages, size, sets, seed)
        for size in SIZES
        if size <= len(bench.languages)
    }
    settings = {"k": k, "orders": chosen, "sets": list(chosen_sets.values())}
    settings["text"] = bench.fingerprints()
    file = StudyFile(output, "combos", settings, command)
    every = [members for group in chosen_sets.values() for members in group]
    concatenator = cache(partial(_Concatenator, bench))

    def concatenated(members: Sequence[str]) -> list[Row]:
        return concatenator().rows(members)

    units: dict[str, Callable[[], list[Row]]] = {
        f"sequential {i}": partial(_sequential, bench, i, order, every, progress)
        for i, order in enumerate(chosen)
    }
    units |= {f"concatenated {','.join(m)}": partial(concatenated, m) for m in every}
    return file.run(units, force, progress, "unions", "units")


def sample_sets(
    languages: Sequence[str], size: int, number: int, seed: int
) -> list[tuple[str, ...]]:
    """`number` different sets of `size` languages, ascending; all sets if there are fewer.

    Sets are taken from shuffled rounds over all languages, so that languages occur about equally
    often.
    """
    if comb(len(languages), size) <= number:
        return list(combinations(sorted(languages), size))
    shuffler = random.Random(f"{seed} {size}")
    sets: set[tuple[str, ...]] = set()
    while len(sets) < number:
        pack = sorted(languages)
        shuffler.shuffle(pack)
        for start in range(0, len(pack) - size + 1, size):
            if len(sets) < number:
                sets.add(tuple(sorted(pack[start : start + size])))
    return sorted(sets)


def _sequential(
    bench: Bench,
    index: int,
    order: Sequence[str],
    sets: Sequence[tuple[str, ...]],
    progress: Progress,
) -> list[Row]:
    tokenizer = learn_order(bench, order, progress)
    rows = []
    with progress.task("extracting unions", total=len(sets), unit="sets") as task:
        for members in sets:
            union = tokenizer.subset(members)
            facts = _facts(members, "sequential", index)
            rows += [{**facts, **bench.row(union, language)} for language in members]
            task.advance(1)
    return rows


class _Concatenator:
    """Monolingual tokenizers with common token ids, for concatenation in any order."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._place = {language: i for i, language in enumerate(bench.languages)}
        self._pool = MergePool([merges_of(tokenizer) for tokenizer in bench.references.values()])
        whole = self._pool.everything
        self._vocabulary = Vocabulary(whole.specials, whole.token_data, whole.token_offsets)

    def rows(self, members: Sequence[str]) -> list[Row]:
        """All orders of a set, each measured on every language of the set."""
        size = self._pool.size([self._place[language] for language in members])
        rows = []
        for order in permutations(members):
            merges = self._pool.merges([self._place[language] for language in order])
            tokenizer = Subtokenizer(Merges(self._vocabulary, BPE, np.asarray(merges)))
            facts = _facts(members, "concatenated", list(order))
            rows += [{**facts, **self._bench.row(tokenizer, each, size)} for each in members]
        return rows


def _facts(members: Sequence[str], method: str, order: object) -> Row:
    return {"n": len(members), "languages": list(members), "method": method, "order": order}
