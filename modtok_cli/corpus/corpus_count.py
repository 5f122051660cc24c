"""`modtok corpus count`: text → one table of word counts per language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.extras import require
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Data, Force, Langs, OutputFile, Threads
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.corpus.executors import Executor, ExecutorOptions, Workers
from modtok_cli.text.corpus import checked_memory
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading


@public
def corpus_count(
    languages: Langs = None,
    *,
    data: Data = "data",
    output: OutputFile = "counts",
    reading: Reading = Reading(),
    threads: Threads = None,
    executor: Annotated[
        Executor | None,
        Option("Count in tasks that share the files: locally, on Slurm or on Ray."),
    ] = None,
    executor_options: ExecutorOptions = None,
    tasks: Annotated[
        int | None,
        Option(
            "Number of tasks that share the files; by default one per file, at most 1,000.",
            flags="--count-tasks",
            metavar="N",
            low=1,
        ),
    ] = None,
    workers: Workers = None,
    memory: Annotated[
        str | int | None,
        Option(
            "Memory limit of word tables, such as 4GB; larger tables are sorted on disk. With "
            "--executor: per task.",
            kind=str,
            metavar="SIZE",
            accepts=(lambda value: isinstance(value, str | int), "a size such as 4GB"),
        ),
    ] = None,
    force: Force = False,
    progress: Progress = SILENT,
) -> list[dict[str, Any]] | None:
    """Count the words of each language.

    Learning and most measurements need only word counts. Commands accept count tables in
    place of text, and count tables can be merged.

    With `executor` (requires the extra [corpus]), tasks count their share of the files and
    others merge the tables. An interrupted count resumes when the command is repeated. The
    tables are identical.

    Returns:
        One row per language; None if the tasks were submitted to a cluster and still run. The
        same call gets the rows later.

    Examples:
        >>> rows = modtok.corpus_count("en,fi", output="counts")
        >>> [row["language"] for row in rows]
        ['en', 'fi']
        >>> report = modtok.bpe_seq("en,fi", data="counts", output="from-counts", k=600)

    Raises:
        ModtokError, UsageError: the text or the output are not usable, options of tasks are there
            without an executor, or the extra `[corpus]` is missing for one.
    """
    from modtok_cli.text.corpus import write_counts

    shared: dict[str, Any] = {
        "languages": optional_languages(languages),
        "data": Path(data),
        "output": Path(output),
        "reading": reading,
        "memory": checked_memory(memory),
        "force": force,
        "progress": progress,
    }
    if executor is None:
        if executor_options or tasks or workers:
            raise UsageError("--count-tasks, --workers and --executor-option require --executor")
        return write_counts(**shared, threads=threads)
    require("modtok corpus count --executor", corpus=("datatrove",))
    from modtok_cli.corpus.count import count_shards

    return count_shards(
        **shared,
        executor=executor,
        executor_options=executor_options,
        tasks=tasks,
        workers=workers,
    )
