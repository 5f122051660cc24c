"""`modtok study budget`: NSL and |T| as functions of the tokens per language."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

import numpy as np

from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Data, Force, Langs, OutputFile, Texts, Threads
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.learn.merges import check_budget
from modtok_cli.modular.segmenters.merges import Merges
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.studies.bench import Bench, Command, K, load_bench
from modtok_cli.studies.orders import learn_order
from modtok_cli.studies.rows import Row, StudyFile
from modtok_cli.text.reading import Reading


def budget_list(value: str | Sequence[int]) -> list[int]:
    """Distinct budgets, ascending, of a list or of text with commas.

    >>> budget_list("16000,8000")
    [8000, 16000]

    Raises:
        ValueError: an entry is not a positive integer, or there is none.
    """
    budgets = set()
    for part in value.split(",") if isinstance(value, str) else value:
        text = str(part).strip()
        if not text.isdecimal() or int(text) == 0:
            raise ValueError(f"'{text}' is not a positive integer, as in 8000,16000")
        budgets.add(int(text))
    if not budgets:
        raise ValueError("no budgets")
    return sorted(budgets)


@public
def study_budget(
    texts: Texts,
    languages: Langs = None,
    *,
    budgets: Annotated[
        str | Sequence[int],
        Option(
            "Vocabulary sizes per language to compare.",
            metavar="N,...",
            kind=str,
            parse=budget_list,
        ),
    ] = "8000,16000,24000,32000",
    k: K = 24000,
    data: Data = "data",
    output: OutputFile = "studies/budget.jsonl",
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    command: Command = "modtok study budget",
    progress: Progress = SILENT,
) -> list[Row]:
    """Compare vocabulary sizes per language for sequential BPE.

    NSL is relative to monolingual references of `k` tokens for all budgets, which makes budgets
    comparable. Rows are written to studies/budget.jsonl.

    Returns:
        One row per budget, tokenizer ("T", "extracted", and "monolingual" up to `k`) and language:
        size, tokens, NSL.

    Examples:
        >>> rows = modtok.study_budget("parallel", "en,fi", budgets=[400, 600], k=600)
        >>> sorted({row["k"] for row in rows})
        [400, 600]

    Raises:
        ModtokError, UsageError: texts, settings or output are invalid.
    """
    wanted = budget_list(budgets)
    bench = load_bench(
        languages, texts, data=data, k=k, output=output, reading=reading, threads=threads,
        progress=progress,
    )  # fmt: skip
    for budget in wanted:
        check_budget(budget, bench.specials)
    settings = {"k": k, "budgets": wanted, "text": bench.fingerprints()}
    file = StudyFile(output, "budget", settings, command)
    units = {
        f"budget {budget}": partial(_measure, replace(bench, k=budget), k, progress)
        for budget in wanted
    }
    return file.run(units, force, progress, "budgets", "budgets")


def _measure(bench: Bench, reference_k: int, progress: Progress) -> list[Row]:
    tokenizer = learn_order(bench, bench.languages, progress)
    full = tokenizer.full()
    rows = []
    for language in bench.languages:
        measured = {"T": full, "extracted": tokenizer.subset([language])}
        if bench.k <= reference_k:
            measured["monolingual"] = first_tokens(bench.references[language], bench.k)
        for name, used in measured.items():
            facts = {"k": bench.k, "reference_k": reference_k, "tokenizer": name}
            rows.append({**facts, **bench.row(used, language)})
    return rows


def first_tokens(tokenizer: Subtokenizer, size: int) -> Subtokenizer:
    """Plain BPE tokenizer of a smaller size: BPE of k tokens contains all smaller ones.

    Merges are in training order, so those of the first `size` tokens are a prefix.
    """
    vocabulary, merges = tokenizer.vocabulary, tokenizer.merges
    first = np.ascontiguousarray(merges[: int((merges[:, 2] < size).sum())])
    ids = np.arange(min(size, tokenizer.size))
    segmenter = Merges(vocabulary.take(ids), tokenizer.pretokenizer, first)
    return Subtokenizer(segmenter, languages=tokenizer.languages)
