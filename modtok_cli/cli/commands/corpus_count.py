"""`modtok corpus count`: text → one table of word counts per language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.corpus_options import ExecutorKind, ExecutorOptions, Workers, split_options
from modtok_cli.cli.options import (
    Data,
    Force,
    Json,
    Langs,
    Output,
    Threads,
)
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading

COLUMNS = (
    Column("language", "language"),
    Column("documents", "documents", "int"),
    Column("bytes", "text", "bytes"),
    Column("words", "words", "int"),
    Column("unique", "unique", "int"),
    Column("path", "counts"),
)

Executor = Annotated[
    ExecutorKind | None,
    typer.Option(
        "--executor",
        help="Count in tasks that share the files: locally, on Slurm or on Ray.",
    ),
]
CountTasks = Annotated[
    int | None,
    typer.Option(
        "--count-tasks",
        metavar="N",
        min=1,
        help="Number of tasks that share the files; by default one per file, at most 1,000.",
    ),
]

Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory limit of word tables, such as 4GB; larger tables are sorted on disk. With "
        "--executor: per task.",
    ),
]


@command(
    "corpus count",
    examples="""
    # all languages in data/, into counts/
    modtok corpus count
    # two languages; invalid UTF-8 is replaced
    modtok corpus count --langs fi,fr --errors replace
    # hundreds of gigabytes on a cluster, by 200 tasks
    modtok corpus count --executor slurm --count-tasks 200 \\
        --executor-option partition=cpu --executor-option time=4:00:00
    # hundreds of gigabytes on this machine
    modtok corpus count --memory 8GB
    # learn from the counts instead of the text
    modtok bpe-seq --data counts --langs fi,fr -k 24000
    """,
)
def corpus_count(
    session: Session,
    langs: Langs = None,
    data: Data = Path("data"),
    output: Output = Path("counts"),
    reading: Reading = Reading(),
    threads: Threads = None,
    executor: Executor = None,
    executor_option: ExecutorOptions = None,
    count_tasks: CountTasks = None,
    workers: Workers = None,
    memory: Memory = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Count the words of each language.

    Learning and most measurements need only word counts. Commands accept count tables in
    place of text, and count tables can be merged.

    With --executor (requires the extra [corpus]), tasks count their share of the files and
    others merge the tables. An interrupted count resumes when the command is repeated. The
    tables are identical.
    """
    languages = optional_languages(langs)
    from modtok_cli.text.corpus import checked_memory

    most = checked_memory(memory)
    if executor is not None:
        _count_shards(
            session,
            languages,
            data=data,
            output=output,
            reading=reading,
            executor=executor,
            executor_option=executor_option,
            tasks=count_tasks,
            workers=workers,
            memory=most,
            force=force,
            json=json,
        )
        return
    if executor_option or workers or count_tasks:
        raise UsageError("--count-tasks, --workers and --executor-option require --executor")
    from modtok_cli.text.corpus import write_counts

    rows = write_counts(
        languages,
        data=data,
        output=output or Path("counts"),
        reading=reading,
        threads=threads,
        memory=most,
        force=force,
        progress=session.progress,
    )
    emit_rows(rows, COLUMNS, title="Word counts", json=json)


def _count_shards(
    session: Session,
    languages: list[str] | None,
    *,
    data: Path,
    output: Path | None,
    reading: Reading,
    executor: str,
    executor_option: list[str] | None,
    tasks: int | None,
    workers: int | None,
    memory: int | None,
    force: bool,
    json: bool,
) -> None:
    from modtok_cli.base.extras import require

    require("modtok corpus count --executor", corpus=("datatrove",))
    from modtok_cli.corpus.count import count_shards

    rows = count_shards(
        languages,
        data=data,
        output=output or Path("counts"),
        reading=reading,
        executor=executor,
        executor_options=split_options(executor_option),
        tasks=tasks,
        workers=workers,
        memory=memory,
        force=force,
        progress=session.progress,
    )
    if rows is not None:
        emit_rows(rows, COLUMNS, title="Word counts", json=json)
