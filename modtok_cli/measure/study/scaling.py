"""`modtok study scaling`: size of T as languages are added."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.construct.request import DEFAULT_SPECIALS
from modtok_cli.learn.sequential import SequentialLearner
from modtok_cli.measure.study.bench import language_orders, load_counts
from modtok_cli.measure.study.families import read_families
from modtok_cli.measure.study.rows import Row, StudyFile
from modtok_cli.text.reading import Reading


def study_scaling(
    languages: Sequence[str] | None = None,
    *,
    data: Path = Path("data"),
    output: Path = Path("studies/scaling.jsonl"),
    k: int = 24000,
    orders: int = 3,
    seed: int = 0,
    families: Path | None = None,
    reading: Reading = Reading(),
    threads: int | None = None,
    force: bool = False,
    command: str = "modtok study scaling",
    progress: Progress = SILENT,
) -> list[Row]:
    """Learn T language by language in several orders, and record its size after each.

    With `families` (`families.read_families`), a T of its own for each family.

    Returns:
        One row per order and language: `n` languages so far, `total` tokens of T, and how many of
        the language's tokens were `adopted` or `new`; `family` if there are several T.

    Raises:
        ModtokError, UsageError: texts, settings or output are invalid.
    """
    counts = load_counts(languages, data, reading, threads, progress)
    groups = {} if families is None else read_families(families, list(counts), progress)
    chosen = {
        name: language_orders(group, orders, seed)
        for name, group in (groups or {"": list(counts)}).items()
    }
    settings = {
        "k": k,
        "orders": chosen if groups else chosen[""],
        "text": {language: table.fingerprint() for language, table in counts.items()},
    }
    file = StudyFile(output, "scaling", settings, command)
    rows = file.finished(force, progress)
    if rows is not None:
        return rows
    file.resume(force, progress)
    units = {
        f"{family}: order {index}" if family else f"order {index}": (family, index)
        for family, those in chosen.items()
        for index in range(len(those))
    }
    with progress.task("orders", total=len(units), unit="orders") as task:
        for unit, (family, index) in units.items():
            if not file.has(unit):
                learner = SequentialLearner(k, DEFAULT_SPECIALS)
                for language in chosen[family][index]:
                    learner.add(language, counts[language], progress=progress)
                file.add(
                    unit,
                    [
                        ({"family": family} if family else {})
                        | {
                            "order": index,
                            "n": n,
                            "language": report.language,
                            "total": report.total,
                            "tokens": report.tokens,
                            "adopted": report.adopted,
                            "new": report.new_tokens,
                        }
                        for n, report in enumerate(learner.reports, 1)
                    ],
                )
            task.advance(1)
    return file.finish(list(units))
