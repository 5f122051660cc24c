"""Plan of a build: settings, inputs grouped into shards, and paths.

The plan depends on file names and sizes only and is saved before any work starts. Every task can
therefore run anywhere, be repeated, and be run by a later process with the same result.
"""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.read_file import read_bounded
from modtok_cli.corpus.sandbox import SECONDS, Extractor

VERSION = 5
FILTERS = {
    "url": "URLFilter",
    "gopher-repetition": "GopherRepetitionFilter",
    "gopher-quality": "GopherQualityFilter",
    "c4": "C4QualityFilter",
    "pii": "PIIFormatter",
}
"""Filters that can be switched on, in the order of their work, and datatrove's class of each."""
STAGES = ("1-pages", "2-hashes", "3-repeated", "4-corpus", "5-publish")
"""Pipelines of a build; also the directories of their logs."""
MIN_CHARACTERS = 200
"""Minimum number of characters of a page."""
SHARD_BYTES = 32 << 20
"""Smaller files are grouped into shards of about this size; a larger file is a shard."""
PLAN = "plan.json"
"""Name of the file in the work directory."""
JOBS = "jobs.json"
"""Name of the record of jobs on Slurm, in the directory of logs."""
RANGES = 16
"""Number of ranges of hash values in deduplication, one task each."""


@dataclass(frozen=True)
class BuildStage:
    """One pipeline: its blocks and number of tasks. Stages run one after another."""

    name: str
    blocks: Sequence[Any]
    tasks: int


@dataclass(frozen=True)
class BuildSettings:
    """Settings that decide which text is kept.

    `languages`: None for all. `language_threshold`: None for the model's. `page_seconds`:
    processor time for the main text of one page. `quality_top`: fraction of the pages to keep by
    quality in each language. `extractor`: one of `sandbox.EXTRACTORS`. `filters`: names of
    `FILTERS`.
    """

    languages: tuple[str, ...] | None = None
    language_model: str | None = None
    language_threshold: float | None = None
    page_seconds: float = SECONDS
    min_characters: int = MIN_CHARACTERS
    quality_model: str | None = None
    quality_threshold: float | None = None
    quality_top: float | None = None
    extractor: Extractor = "trafilatura"
    filters: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildPlan:
    """A build. `shards` are lists of files; the index of a shard is the rank of its task.

    Files are named as the user named them, relative to `directory`; `output` is absolute. `stamps`
    are sizes and modification times (ns) of the files and models.
    """

    settings: BuildSettings
    shards: tuple[tuple[str, ...], ...]
    stamps: dict[str, tuple[int, int]]
    output: str
    directory: str

    @property
    def work(self) -> Path:
        """Directory of intermediate files."""
        return work_of(Path(self.output))

    @property
    def content(self) -> Any:
        """The plan as in JSON; a moved or copied build would write to its original location."""
        return orjson.loads(orjson.dumps({"version": VERSION} | asdict(self)))

    @property
    def key(self) -> Any:
        """Fields that must be equal for a finished build to be the same one."""
        content = self.content
        return {name: content[name] for name in ("version", "settings", "shards", "stamps")}


@dataclass(frozen=True)
class Job:
    """One count or merge: input files and output table. `last`: the final table of a language."""

    language: str
    inputs: tuple[str, ...]
    output: str
    last: bool


def work_of(output: Path) -> Path:
    """Hidden work directory of a build in the output directory."""
    return output / ".corpus-build"


def make_plan(
    files: Sequence[Path],
    settings: BuildSettings,
    output: Path,
    shard_bytes: int = SHARD_BYTES,
) -> BuildPlan:
    """Group sorted files into shards and record the stamps of files and models.

    Raises:
        UsageError: a name is not UTF-8.
    """
    models = [Path(name) for name in (settings.language_model, settings.quality_model) if name]
    for path in (*files, *models, output):
        check_name(path)
    stamps = {str(file): _stamp(file) for file in files}
    shards: list[list[str]] = []
    filled = 0
    for name, (size, _) in stamps.items():
        if not shards or filled + size > shard_bytes:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += size
    # A model retrained under the same name gives another corpus.
    stamps |= {str(model): _stamp(model) for model in models if model.is_file()}
    # Tasks may run in another directory or on another node: paths are absolute, file names are not.
    here = Path.cwd()
    return BuildPlan(settings, tuple(map(tuple, shards)), stamps, str(here / output), str(here))


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def check_name(path: Path) -> None:
    """Check that a name is UTF-8: names go into the plan and into records, which are JSON."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "the name is not UTF-8",
            where=str(path).encode(errors="replace").decode(),
            remedy="rename it",
        ) from error


def is_begun(work: Path, plan: Any) -> bool:
    """Whether a directory has this plan, as in JSON."""
    try:
        return (work / PLAN).is_file() and bool(read_json(work / PLAN) == plan)
    except ModtokError:  # damaged
        return False


def is_unfinished(work: Path) -> bool:
    """Whether a build in `work` is unfinished, or was finished by jobs on Slurm unseen."""
    is_done = (work / "logs" / STAGES[-1] / "completions" / "00000").exists()
    return (work / PLAN).is_file() and (not is_done or (work / "logs" / JOBS).exists())


def begin(work: Path, plan: Any) -> None:
    """Create a work directory, replacing any other."""
    discard(work)
    write_bytes(work / PLAN, orjson.dumps(plan))


def discard(work: Path, *, ignore_errors: bool = False) -> None:
    """Remove a work directory. If that is stopped, what is left is not taken for an unfinished one.

    Its plan would resume after tasks whose files are gone, and read nothing in their place.
    """
    if work.exists():
        (work / PLAN).unlink(missing_ok=True)
        shutil.rmtree(work, ignore_errors=ignore_errors)


def read_json(path: Path) -> Any:
    """Read a JSON file of a build.

    Raises:
        ModtokError: it is missing or damaged.
    """
    try:
        return orjson.loads(read_bounded(path))
    except (OSError, ValueError) as error:
        raise ModtokError(
            f"cannot be read ({error})", where=path, remedy="build with --force"
        ) from error
