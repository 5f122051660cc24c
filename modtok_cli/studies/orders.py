"""`modtok study orders`: influence of the language order on sequential BPE."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Data, Force, Langs, OutputFile, Texts, Threads
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.learn.sequential import SequentialLearner, learn_bpe
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.studies.bench import Bench, Command, K, Orders, Seed, language_orders, load_bench
from modtok_cli.studies.rows import Row, StudyFile
from modtok_cli.text.counts import merge_counts
from modtok_cli.text.reading import Reading


@public
def study_orders(
    texts: Texts,
    languages: Langs = None,
    *,
    k: K = 24000,
    orders: Orders = 5,
    joint: Annotated[
        bool, Option("Skip the joint BPE baseline of the size of T.", flags="--no-joint")
    ] = True,
    seed: Seed = 0,
    data: Data = "data",
    output: OutputFile = "studies/orders.jsonl",
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    command: Command = "modtok study orders",
    progress: Progress = SILENT,
) -> list[Row]:
    """Compare language orders for sequential BPE.

    T is learned under several language orders; the first is alphabetical. Rows are written to
    studies/orders.jsonl: T and the subtokenizers of every order, and a joint BPE of the same size.
    The table shows minimum and maximum NSL.

    Returns:
        One row per order, tokenizer ("T", "extracted", "joint") and language: size, tokens and NSL.
        `output` contains the same rows after a header line.

    Examples:
        >>> rows = modtok.study_orders("parallel", "en,fi", k=600, orders=2)
        >>> sorted({row["tokenizer"] for row in rows})
        ['T', 'extracted', 'joint']

    Raises:
        ModtokError, UsageError: texts, settings or output are invalid.
    """
    bench = load_bench(
        languages, texts, data=data, k=k, output=output, reading=reading, threads=threads,
        progress=progress,
    )  # fmt: skip
    chosen = language_orders(bench.languages, orders, seed)
    settings = {"k": k, "orders": chosen, "joint": joint, "text": bench.fingerprints()}
    file = StudyFile(output, "orders", settings, command)

    def one(index: int, order: Sequence[str]) -> list[Row]:
        return _measure(bench, learn_order(bench, order, progress), index, order)

    def shared() -> list[Row]:
        sizes = [file.rows_of(f"order {index}")[0]["size"] for index in range(len(chosen))]
        return _joint(bench, round(sum(sizes) / len(sizes)), progress)

    units: dict[str, Callable[[], list[Row]]] = {
        f"order {index}": partial(one, index, order) for index, order in enumerate(chosen)
    }
    if joint:
        units["joint"] = shared
    return file.run(units, force, progress, "orders", "tokenizers")


def learn_order(bench: Bench, order: Sequence[str], progress: Progress) -> ModularTokenizer:
    """Sequential BPE over the languages in this order."""
    learner = SequentialLearner(bench.k, bench.specials)
    with progress.task("sequential BPE", total=len(order), unit="languages") as task:
        for language in order:
            learner.add(language, bench.counts[language])
            task.advance(1)
    return ModularTokenizer.from_learned(learner.result(), algorithm="bpe-seq", k=bench.k)


def _measure(
    bench: Bench, tokenizer: ModularTokenizer, index: int, order: Sequence[str]
) -> list[Row]:
    rows = []
    full = tokenizer.full()
    for name, of in (("T", None), ("extracted", tokenizer)):
        for language in bench.languages:
            used = full if of is None else of.subset([language])
            rows.append({"tokenizer": name, **bench.row(used, language)})
    return [{"order": index, "languages": list(order), **row} for row in rows]


def _joint(bench: Bench, size: int, progress: Progress) -> list[Row]:
    words = merge_counts([bench.counts[language] for language in bench.languages])
    learned = learn_bpe(words, size, bench.specials, languages=bench.languages, progress=progress)
    tokenizer = ModularTokenizer.from_learned(learned, algorithm="bpe", k=size).full()
    return [
        {"order": None, "tokenizer": "joint", **bench.row(tokenizer, language)}
        for language in bench.languages
    ]
