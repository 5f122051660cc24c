"""`modtok corpus count` on an executor: tasks count their share of the files, tables are merged.

Counting hundreds of gigabytes in one process takes hours. Here the files are shared out over tasks
by size, and a task writes one table for each language of its share. Tables are then merged `FAN`
at a time, stage by stage, until each language has one. Tables add up exactly, so the result equals
that of one process byte for byte. Merging takes the same memory whatever the tables have; a task
that counts holds the unique words of its files in one language, or `memory` bytes of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import orjson
from datatrove.pipeline.base import PipelineStep

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.corpus.executors import Stage, check_executor, clear_sockets, run_stages
from modtok_cli.corpus.plan import check_name, read_json
from modtok_cli.text.corpus import count_into
from modtok_cli.text.counts import WordCounter
from modtok_cli.text.pretokenizer import BPE, PreTokenizer
from modtok_cli.text.reading import Reading
from modtok_cli.text.rewriting import restore_pretokenizer
from modtok_cli.text.table_files import (
    SUFFIX,
    Source,
    read_header,
    save_counts,
    sources_of,
)
from modtok_cli.text.table_merging import merge_files
from modtok_cli.text.workspace import language_files

FAN = 64
MAX_TASKS = 1000
"""Tasks by default, one per file if there are fewer; Slurm allows arrays of 1,001 by default."""
_PLAN = "plan.json"


@dataclass(frozen=True)
class Job:
    """One count or merge: input files and output table. `last`: the final table of a language."""

    language: str
    inputs: tuple[str, ...]
    output: str
    last: bool


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

    >>> files = {"fi": [Path(f"{n}.txt") for n in range(70)]}
    >>> stages = tasks_of(files, {"fi": [1] * 70}, Path("w"), Path("o"), 100)
    >>> [len(stage) for stage in stages]
    [70, 2, 1]
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


class CountOrMerge(PipelineStep):
    """Do the jobs of the task of a stage whose index is the rank."""

    type = "modtok"
    name = "count"

    def __init__(self, work: Path, stage: int, memory: int | None = None) -> None:
        super().__init__()
        self.work = str(work)
        self.stage = stage
        self.memory = memory

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Any:
        """Write the tables; yields no documents."""
        plan = read_json(Path(self.work) / _PLAN)
        with self.track_time():
            for content in plan["stages"][self.stage][rank]:
                job = Job(**content)
                # Of a task that was stopped; a final table may be one of an earlier count.
                if job.last or not Path(job.output).exists():
                    self._do(job, plan)
        yield from ()

    def _do(self, job: Job, plan: Any) -> None:
        # State at the start: a file that changes meanwhile will be counted again.
        sources = [Source(**source) for source in plan["stamps"][job.language] if job.last]
        reading = Reading(**plan["reading"])
        inputs, output = [Path(path) for path in job.inputs], Path(job.output)
        if self.stage == 0:
            words = self._count(job, inputs, output, plan, sources, reading)
        else:
            scratch = Path(self.work) / "scratch" / job.language
            header = merge_files(inputs, output, job.language, scratch, sources, reading)
            words = header.unique
        if job.last and not words:
            output.unlink(missing_ok=True)
            raise ModtokError(
                f"no text in language '{job.language}'",
                where=", ".join(plan["files"][job.language]),
                remedy="provide text, or remove the language",
            )

    def _count(
        self,
        job: Job,
        inputs: Sequence[Path],
        output: Path,
        plan: Any,
        sources: Sequence[Source],
        reading: Reading,
    ) -> int:
        """Write the table of some files; gives its number of words."""
        pretokenizer = restore_pretokenizer(plan["pretokenizer"])
        header = count_into(
            output,
            job.language,
            inputs,
            pretokenizer,
            reading.of(job.language),
            sources,
            SILENT,
            None,
            memory=self.memory,
            recorded=reading,
            may_be_empty=not job.last or len(inputs) > 1,
        )
        if header is None and not job.last:  # the merge expects a table of every task
            save_counts(WordCounter(pretokenizer).result(), output, job.language, sources, reading)
        return header.unique if header else 0


def count_shards(
    languages: Sequence[str] | None = None,
    *,
    data: Path = Path("data"),
    output: Path = Path("counts"),
    pretokenizer: PreTokenizer = BPE,
    reading: Reading = Reading(),
    executor: str = "local",
    executor_options: Mapping[str, str] | None = None,
    tasks: int | None = None,
    workers: int | None = None,
    memory: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> list[dict[str, object]] | None:
    """`text.corpus.write_counts` on an executor, in `tasks`; the tables are the same.

    `tasks` share the files out by size; by default one per file, at most `MAX_TASKS`. `memory`:
    bytes of the tables of words of each task. The same call resumes after an interruption. Returns
    None if the tasks were submitted to a cluster and are still running.

    Raises:
        UsageError: another count is unfinished, a table would overwrite its own input, or a name is
            not UTF-8.
        ModtokError: a file is missing or damaged, or a task failed.
    """
    options = check_executor(executor, executor_options or {})
    files = {
        language: [path.absolute() for path in paths]
        for language, paths in language_files(data, languages, reading, progress=progress).items()
    }
    output = output.absolute()
    _check_places(files, output)
    work = output / ".corpus-count"
    sizes = {name: [path.stat().st_size for path in paths] for name, paths in files.items()}
    number = tasks or min(MAX_TASKS, sum(map(len, files.values())))
    stages = tasks_of(files, sizes, work, output, number)
    plan = orjson.loads(
        orjson.dumps(
            {
                "pretokenizer": pretokenizer.name,
                "reading": reading.as_json(),
                "files": {name: list(map(str, paths)) for name, paths in files.items()},
                "stamps": {name: list(map(asdict, sources_of(p))) for name, p in files.items()},
                "stages": [[[asdict(job) for job in task] for task in stage] for stage in stages],
            }
        )
    )
    places = {language: output / f"{language}{SUFFIX}" for language in files}
    same = (work / _PLAN).is_file() and read_json(work / _PLAN) == plan
    current = all(_is_current(places[name], files[name], pretokenizer, reading) for name in files)
    if current and (same or not force):
        clear_sockets(work / "logs")
        shutil.rmtree(work, ignore_errors=True)
        if not same:  # otherwise a cluster has just finished it
            progress.warn(f"{output.name}: already counted from these files; --force counts again")
        return [_row(name, place, unchanged=not same) for name, place in places.items()]
    if same:
        progress.note(f"resuming the count in {output}")
    elif work.exists():
        if not force:
            raise UsageError(
                "contains an unfinished count of other files",
                where=str(work),
                remedy="repeat the earlier call to resume it, or pass --force to restart",
            )
        shutil.rmtree(work)
    write_bytes(work / _PLAN, orjson.dumps(plan))
    pipelines = [
        Stage(
            f"{number}-{'merge' if number else 'count'}",
            [CountOrMerge(work, number, memory)],
            len(shares),
        )
        for number, shares in enumerate(stages)
    ]
    with progress.task("counting words", None, "files"):
        if not run_stages(pipelines, work / "logs", executor, workers, options):
            progress.note("submitted; repeat the call to get the result once the jobs are done")
            return None
    shutil.rmtree(work)
    return [_row(name, place, unchanged=False) for name, place in places.items()]


def _check_places(files: Mapping[str, Sequence[Path]], output: Path) -> None:
    for language, paths in files.items():
        place = output / f"{language}{SUFFIX}"
        if any(path.resolve() == place.resolve() for path in paths):
            raise UsageError(
                "would overwrite its own input", where=str(place), remedy="pass --output"
            )
        for path in (output, *paths):
            check_name(path)


def _is_current(
    place: Path, paths: Sequence[Path], pretokenizer: PreTokenizer, reading: Reading
) -> bool:
    if not place.exists():
        return False
    try:
        header = read_header(place)
    except ModtokError:
        return False
    return (header.pretokenizer, header.reading, header.sources) == (
        pretokenizer.name,
        reading,
        sources_of(paths),
    )


def _row(language: str, place: Path, unchanged: bool) -> dict[str, object]:
    header = read_header(place)
    return {
        "language": language,
        "documents": header.size.documents,
        "characters": header.size.characters,
        "bytes": header.size.bytes,
        "words": header.words,
        "unique": header.unique,
        "path": str(place),
        "unchanged": unchanged,
    }
