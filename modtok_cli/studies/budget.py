"""`modtok study budget`: NSL and |T| as functions of the tokens per language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.learn.merges import check_budget
from modtok_cli.modular.segmenters.merges import Merges
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.studies.bench import Bench, load_bench
from modtok_cli.studies.orders import learn_order
from modtok_cli.studies.rows import Row, StudyFile
from modtok_cli.text.reading import Reading

BUDGETS = (8000, 16000, 24000, 32000)


def study_budget(
    texts: Sequence[Path | str],
    languages: Sequence[str] | None = None,
    *,
    data: Path = Path("data"),
    output: Path = Path("studies/budget.jsonl"),
    budgets: Sequence[int] = BUDGETS,
    k: int = 24000,
    reading: Reading = Reading(),
    threads: int | None = None,
    force: bool = False,
    command: str = "modtok study budget",
    progress: Progress = SILENT,
) -> list[Row]:
    """Learn sequential BPE with several budgets; NSL is relative to references of `k` tokens.

    Returns:
        One row per budget, tokenizer ("T", "extracted", and "monolingual" up to `k`) and language:
        size, tokens, NSL.

    Raises:
        ModtokError, UsageError: texts, settings or output are invalid.
    """
    wanted = sorted(set(budgets))
    if not wanted:
        raise UsageError("no budgets", where="--budgets", remedy="use --budgets 8000,16000")
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
            tokens = bench.tokens(used, language)
            rows.append(
                {
                    "k": bench.k,
                    "reference_k": reference_k,
                    "tokenizer": name,
                    "language": language,
                    "size": used.size,
                    "tokens": tokens,
                    "reference_tokens": bench.reference_tokens[language],
                    "nsl": bench.nsl(language, tokens),
                }
            )
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
