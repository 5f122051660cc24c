"""`modtok bpe`: ordinary BPE tokenizers, one per language or one for all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.files import atomic_directory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.signature import digest
from modtok_cli.construct.cancellable import CancellableProgress
from modtok_cli.construct.corpora import corpus_of, count_in_background
from modtok_cli.construct.existing_output import check_files
from modtok_cli.construct.references import reference_json
from modtok_cli.construct.report import DEFAULT_SPECIALS, BuildReport, warn_of_small
from modtok_cli.construct.specials import check_specials
from modtok_cli.learn.bpe import learn_bpe
from modtok_cli.learn.state import check_budget
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.counts import WordCounts, merge_counts
from modtok_cli.text.workspace import language_files


def bpe(
    languages: Sequence[str] | None = None,
    *,
    data: Path = Path("data"),
    output: Path | None = None,
    k: int = 24000,
    joint: bool = False,
    specials: Sequence[str] = (),
    errors: str = "strict",
    threads: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> BuildReport:
    """Learn plain BPE tokenizers of `k` tokens.

    Without `joint`, `output` (default `bpe/`) holds a `<lang>.json` per language. With it,
    `output` (default `bpe-joint/`) is a tokenizer directory with one vocabulary over the
    text of all languages together, every token of it belonging to each: the ordinary
    multilingual baseline.

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    specials = tuple(specials) or DEFAULT_SPECIALS
    check_budget(k, specials)
    check_specials(specials)
    files = language_files(data, languages)
    output = output or Path("bpe-joint" if joint else "bpe")
    check_files(output, joint, (".json",), force)
    stoppable = CancellableProgress(progress)
    pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)
    try:
        counted = count_in_background(pool, files, list(files), errors, stoppable)
        if joint:
            tables = {language: future.result() for language, future in counted.items()}
            report = _joint(tables, output, k, specials, stoppable)
        else:

            def learn(language: str) -> bytes:
                return reference_json(
                    language, counted[language].result(), k, specials, progress=stoppable
                )

            # The pool runs first what came first, so every count is under way before.
            made = {language: pool.submit(learn, language) for language in files}
            results = {language: future.result() for language, future in made.items()}
            report = _separate(results, output)
    except BaseException:
        stoppable.stop()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()
    warn_of_small(report.lines, k, progress)
    return report


def _joint(
    tables: dict[str, WordCounts],
    output: Path,
    k: int,
    specials: Sequence[str],
    progress: CancellableProgress,
) -> BuildReport:
    languages = sorted(tables)
    everything = merge_counts([tables[language] for language in languages])
    learned = learn_bpe(everything, k, specials, languages=languages, progress=progress)
    tokenizer = ModularTokenizer.from_learned(
        learned,
        algorithm="bpe",
        k=k,
        settings={"joint": True},
        corpora={language: corpus_of(tables[language]) for language in languages},
    )
    tokenizer.save(output)
    lines: list[dict[str, Any]] = [{"language": ",".join(languages), "tokens": tokenizer.size}]
    return BuildReport(output, tokenizer.signature, lines)


def _separate(results: dict[str, bytes], output: Path) -> BuildReport:
    with atomic_directory(output) as beside:
        for language, data in results.items():
            (beside / f"{language}.json").write_bytes(data)
    lines = [
        {"language": language, "tokens": len(orjson.loads(data)["model"]["vocab"])}
        for language, data in results.items()
    ]
    return BuildReport(output, digest(*results.values()), lines)
