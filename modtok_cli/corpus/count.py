"""`modtok corpus count`: text → one table of word counts per language, also on an executor.

Counting hundreds of gigabytes in one process takes hours. On an executor, files are shared out over
tasks by size, and a task writes one table for each language of its share. Tables are then merged
`FAN` at a time, stage by stage, until each language has one. Tables add up exactly, so the result
equals the count of one process byte for byte. Merging takes the same memory for tables of any size;
a task that counts holds the unique words of its files in one language, or `memory` bytes of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from heapq import heappop, heappush
from pathlib import Path
from typing import Annotated, Any

import orjson

from modtok_cli.base.errors import UsageError
from modtok_cli.base.extras import require
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Data, Force, Langs, OutputDirectory, Threads
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.remote import path_of
from modtok_cli.base.unused import Unused, uses
from modtok_cli.corpus.build_plan import (
    JOBS,
    PLAN,
    BuildStage,
    Job,
    begin,
    check_name,
    discard,
    is_begun,
)
from modtok_cli.corpus.executors import (
    Executor,
    ExecutorOptions,
    Wait,
    Workers,
    check_executor,
    one_caller,
    run_stages,
)
from modtok_cli.corpus.slurm import check_no_jobs, until_done
from modtok_cli.text.corpus import (
    checked_memory,
    finished,
    recorded_reading,
    row_of,
    tables_of,
    write_counts,
)
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import SUFFIX, read_header, sources_of
from modtok_cli.text.workspace import language_files

FAN = 64
MAX_TASKS = 1000
"""Tasks by default, one per file if there are fewer; Slurm allows arrays of 1,001 by default."""


def _unused(values: Mapping[str, Any]) -> Unused:
    if not values.get("executor"):
        yield ("tasks", "workers", "wait", "executor_options"), "no tasks without --executor"


@public
@uses(_unused)
def corpus_count(
    languages: Langs = None,
    *,
    data: Data = "data",
    output: OutputDirectory = "counts",
    reading: Reading = Reading(),
    threads: Threads = None,
    executor: Annotated[
        Executor | None,
        Option("Run tasks locally, on Slurm or on Ray. The tasks share the files."),
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
            "Memory limit, such as 8GB. At least 100MB; larger tables of words are sorted on "
            "disk. With --executor: per task.",
            kind=str,
            metavar="SIZE",
            accepts=(lambda value: isinstance(value, str | int), "a size such as 4GB"),
        ),
    ] = None,
    wait: Wait = False,
    force: Force = False,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Count the words of each language.

    Learning and most measurements need only word counts. Commands accept count tables in
    place of text, and count tables can be merged.

    With `executor` (requires the extra [corpus]), tasks count shares of the files and merge
    their tables, with the same result. An interrupted count resumes when the command is repeated.

    Returns:
        One row per language.

    Examples:
        >>> rows = modtok.corpus_count("en,fi", output="counts")
        >>> [row["language"] for row in rows]
        ['en', 'fi']
        >>> report = modtok.bpe_seq("en,fi", data="counts", output="from-counts", k=600)

    Raises:
        ModtokError, UsageError: the text or the output are not usable, options of tasks are there
            without an executor, or the extra `[corpus]` is missing for one.
        Unfinished: jobs on Slurm are unfinished; says how they are. The same call continues.
    """
    names, memory, data = optional_languages(languages), checked_memory(memory), path_of(data)
    if executor is None:
        check_no_jobs(Path(output) / ".corpus-count" / "logs")
        given: dict[str, Any] = {"data": data, "output": Path(output), "reading": reading}
        given |= {"memory": memory, "force": force, "progress": progress}
        return write_counts(names, threads=threads, **given)
    require("modtok corpus count --executor", corpus=("datatrove",))
    from modtok_cli.corpus.count_blocks import CountOrMerge

    options = check_executor(executor, executor_options or {})
    reading, output = recorded_reading(reading, memory), Path(output).absolute()
    files = {
        language: [path.absolute() for path in paths]
        for language, paths in language_files(data, names, reading, progress=progress).items()
    }
    places = tables_of(files, output, data)
    for path in (output, *(path for paths in files.values() for path in paths)):
        check_name(path)
    work = output / ".corpus-count"
    sizes = {name: [path.stat().st_size for path in paths] for name, paths in files.items()}
    most = tasks or min(MAX_TASKS, sum(map(len, files.values())))
    stages = tasks_of(files, sizes, work, output, most)
    content = {
        "reading": reading.as_json(),
        "files": {name: list(map(str, paths)) for name, paths in files.items()},
        "stamps": {name: list(map(asdict, sources_of(p))) for name, p in files.items()},
        "stages": [[[asdict(job) for job in task] for task in stage] for stage in stages],
    }
    plan = orjson.loads(orjson.dumps(content))
    pipelines = [
        BuildStage(f"{n}-{'merge' if n else 'count'}", [CountOrMerge(work, n, memory)], len(shares))
        for n, shares in enumerate(stages)
    ]

    def advance(before: int | None) -> list[dict[str, object]]:
        with one_caller(output, executor):
            same = is_begun(work, plan)
            current = all(finished(places[name], paths, reading) for name, paths in files.items())
            reported = not (same and (work / "logs" / JOBS).exists())
            again = force and before is None  # otherwise this call has counted already
            if current and reported and (same or not again):
                if not same:
                    progress.warn(
                        f"{output.name}: already counted from these files; --force counts again"
                    )
            else:
                if not same:
                    _begin(work, plan, again)
                elif executor != "slurm":
                    progress.note(f"resuming the count in {output}")
                how = (executor, workers, options)
                run_stages(pipelines, work / "logs", *how, before=before, progress=progress)
                same = True
            discard(work, ignore_errors=True)
            return [row_of(read_header(place), place, not same) for place in places.values()]

    return until_done(advance, wait, progress)


Task = list[Job]
"""Jobs that are done one after the other."""


def tasks_of(
    files: Mapping[str, Sequence[Path]],
    sizes: Mapping[str, Sequence[int]],
    work: Path,
    output: Path,
    tasks: int,
) -> list[list[Task]]:
    """Tasks of each stage: counting, then merging by `FAN` until each language has one table.

    `sizes` are the bytes of the files. The largest files are given out first, each to the task
    with the fewest bytes.

    >>> def stages(sizes, tasks):
    ...     files = {"fi": [Path(f"{n}.txt") for n in range(len(sizes))]}
    ...     return tasks_of(files, {"fi": sizes}, Path("w"), Path("o"), tasks)
    >>> [len(stage) for stage in stages([1] * 70, 100)]
    [70, 2, 1]
    >>> [job.inputs for task in stages([1, 5, 3], 2)[0] for job in task]
    [('1.txt',), ('0.txt', '2.txt')]
    """
    units = [
        (-size, language, str(path))
        for language, paths in files.items()
        for size, path in zip(sizes[language], paths, strict=True)
    ]
    shares: list[dict[str, list[str]]] = [{} for _ in range(min(tasks, len(units)))]
    loads = [(0, number) for number in range(len(shares))]
    for size, language, name in sorted(units):
        load, number = heappop(loads)
        shares[number].setdefault(language, []).append(name)
        heappush(loads, (load - size, number))
    level: dict[str, list[tuple[str, ...]]] = {language: [] for language in files}
    owners: dict[str, list[int]] = {language: [] for language in files}
    for number, share in enumerate(shares):
        for language, names in sorted(share.items()):
            level[language].append(tuple(sorted(names)))
            owners[language].append(number)
    stages: list[list[Task]] = []
    while any(level.values()):
        jobs: list[Task] = [[] for _ in shares]
        further: dict[str, list[str]] = {}
        jobs_so_far = 0
        for language, groups in level.items():
            made = []
            for number, group in enumerate(groups):
                last = len(groups) == 1
                place = work / language / f"{len(stages)}-{number:05d}{SUFFIX}"
                final = output / f"{language}{SUFFIX}"
                made.append(str(final if last else place))
                owner = jobs_so_far % len(jobs) if stages else owners[language][number]
                jobs[owner].append(Job(language, group, made[-1], last))
                jobs_so_far += 1
            further[language] = made
        stages.append([task for task in jobs if task])
        level = {
            language: [tuple(made[at : at + FAN]) for at in range(0, len(made), FAN)]
            for language, made in further.items()
            if len(made) > 1
        }
    return stages


def _begin(work: Path, plan: Any, force: bool) -> None:
    """Save the plan of a count that is not there yet.

    Raises:
        UsageError: another count is unfinished, or jobs on Slurm write to it.
    """
    if (work / PLAN).is_file() and not force:
        raise UsageError(
            "contains an unfinished count of other files",
            where=work,
            remedy="repeat the earlier call to resume it, or pass --force to restart",
        )
    check_no_jobs(work / "logs")
    begin(work, plan)
