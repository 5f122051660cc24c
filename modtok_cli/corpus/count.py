"""`modtok corpus count` on an executor: one count table per file, merged in a tree.

Counting hundreds of gigabytes in one process takes hours. Here every file is a task that writes a
table. Tables are then merged `FAN` at a time, stage by stage, until each language has one. Tables
add up exactly, so the result equals that of one process byte for byte. A task holds `FAN` tables;
the last one holds all unique words of a language.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from datatrove.pipeline.base import PipelineStep

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.corpus.executors import Stage, check_executor, clear_sockets, run_stages
from modtok_cli.corpus.plan import check_name, read_json
from modtok_cli.text.counts import merge_counts
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.text.pretokenizers.bpe import PRETOKENIZER as BPE
from modtok_cli.text.reading import Reading
from modtok_cli.text.rewriting import restore_pretokenizer
from modtok_cli.text.table_files import (
    SUFFIX,
    Source,
    load_counts,
    read_header,
    save_counts,
    sources_of,
)
from modtok_cli.text.workspace import language_files

FAN = 8
_PLAN = "plan.json"


@dataclass(frozen=True)
class Job:
    """One count or merge: input files and output table. `last`: the final table of a language."""

    language: str
    inputs: tuple[str, ...]
    output: str
    last: bool


def jobs_of(files: Mapping[str, Sequence[Path]], work: Path, output: Path) -> list[list[Job]]:
    """Jobs of each stage: counting, then merging by `FAN` until one table is left.

    >>> files = {"fi": [Path(f"{n}.txt") for n in range(9)]}
    >>> [len(stage) for stage in jobs_of(files, Path("w"), Path("o"))]
    [9, 2, 1]
    """
    stages: list[list[Job]] = []
    level = {language: [str(path) for path in paths] for language, paths in files.items()}
    while not stages or any(level.values()):
        jobs: list[Job] = []
        further: dict[str, list[str]] = {}
        fan = 1 if not stages else FAN
        for language, names in level.items():
            groups = [tuple(names[at : at + fan]) for at in range(0, len(names), fan)]
            for number, group in enumerate(groups):
                last = len(groups) == 1
                place = work / language / f"{len(stages)}-{number:05d}{SUFFIX}"
                final = output / f"{language}{SUFFIX}"
                jobs.append(Job(language, group, str(final if last else place), last))
            further[language] = [job.output for job in jobs if job.language == language]
        stages.append(jobs)
        level = {language: names for language, names in further.items() if len(names) > 1}
    return stages


class CountOrMerge(PipelineStep):
    """Run the job of a stage whose index is the rank of the task."""

    type = "modtok"
    name = "count"

    def __init__(self, work: Path, stage: int) -> None:
        super().__init__()
        self.work = str(work)
        self.stage = stage

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Any:
        """Write the table; yields no documents."""
        from modtok_cli.text.corpus import count_files

        plan = read_json(Path(self.work) / _PLAN)
        job = Job(**plan["stages"][self.stage][rank])
        with self.track_time():
            if self.stage == 0:
                table = count_files(
                    [Path(path) for path in job.inputs],
                    restore_pretokenizer(plan["pretokenizer"]),
                    Reading(**plan["reading"]).of(job.language),
                    SILENT,
                    None,
                    may_be_empty=not job.last,
                )
            else:
                table = merge_counts([load_counts(Path(path)) for path in job.inputs])
            if job.last and not len(table):
                raise ModtokError(
                    f"no text in language '{job.language}'",
                    where=", ".join(plan["files"][job.language]),
                    remedy="provide text, or remove the language",
                )
            # State at the start: a file that changes meanwhile will be counted again.
            sources = [Source(**source) for source in plan["stamps"][job.language]]
            save_counts(
                table,
                Path(job.output),
                job.language,
                sources if job.last else (),
                Reading(**plan["reading"]),
            )
        yield from ()


def count_shards(
    languages: Sequence[str] | None = None,
    *,
    data: Path = Path("data"),
    output: Path = Path("counts"),
    pretokenizer: PreTokenizer = BPE,
    reading: Reading = Reading(),
    executor: str = "local",
    executor_options: Mapping[str, str] | None = None,
    workers: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> list[dict[str, object]] | None:
    """`text.corpus.write_counts` on an executor, one task per file; the tables are the same.

    The same call resumes after an interruption. Returns None if the tasks were submitted to a
    cluster and are still running.

    Raises:
        UsageError: another count is unfinished, a table would overwrite its own input, or a name is
            not UTF-8.
        ModtokError: a file is missing or damaged, or a task failed.
    """
    options = check_executor(executor, executor_options or {})
    files = {
        language: [path.absolute() for path in paths]
        for language, paths in language_files(data, languages, reading).items()
    }
    output = output.absolute()
    for language, paths in files.items():
        place = output / f"{language}{SUFFIX}"
        if any(path.resolve() == place.resolve() for path in paths):
            raise UsageError(
                "would overwrite its own input", where=str(place), remedy="pass --output"
            )
        for path in (output, *paths):
            check_name(path)
    work = output / ".corpus-count"
    stages = jobs_of(files, work, output)
    plan = orjson.loads(
        orjson.dumps(
            {
                "pretokenizer": pretokenizer.name,
                "reading": reading.as_json(),
                "files": {name: list(map(str, paths)) for name, paths in files.items()},
                "stamps": {name: list(map(asdict, sources_of(p))) for name, p in files.items()},
                "stages": [[asdict(job) for job in stage] for stage in stages],
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
        Stage(f"{number}-{'merge' if number else 'count'}", [CountOrMerge(work, number)], len(jobs))
        for number, jobs in enumerate(stages)
    ]
    with progress.task("counting words", None, "files"):
        if not run_stages(pipelines, work / "logs", executor, workers, options):
            progress.note("submitted; repeat the call to get the result once the jobs are done")
            return None
    shutil.rmtree(work)
    return [_row(name, place, unchanged=False) for name, place in places.items()]


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
