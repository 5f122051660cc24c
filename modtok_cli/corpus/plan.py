"""What one build is: its settings, its inputs dealt into shards, and where its files lie.

Everything is decided before any work begins, from names and sizes alone, and written down;
so a task can be run anywhere, again, and by a later process, and does the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.records import from_json

VERSION = 1
STAGES = ("1-pages", "2-hashes", "3-repeated", "4-corpus", "5-publish")
"""The pipelines of a build, and the directories of their logs."""
SHARD_BYTES = 32 << 20
"""Smaller files are put together to shards of about this size; a larger one is a shard."""
_FILE = "plan.json"
RANGES = 16
"""Into so many parts the hashes are split for finding duplicates: the tasks of that step."""


@dataclass(frozen=True)
class Settings:
    """What decides which text is kept.

    `languages` None: all; `page_seconds`: processor time for the text of one page; `top`:
    share of the pages to keep by quality, in each language.
    """

    languages: tuple[str, ...] | None
    language_model: str | None
    language_threshold: float
    page_seconds: float
    min_characters: int
    quality_model: str | None
    quality_threshold: float | None
    quality_top: float | None


@dataclass(frozen=True)
class Plan:
    """A build: `shards` are lists of files, in order; the number of a shard is its task.

    Files are named as the user named them, from `directory` on; `output` is absolute.
    `stamps` are sizes and times (ns) of the files, and of the models.
    """

    settings: Settings
    shards: tuple[tuple[str, ...], ...]
    stamps: dict[str, tuple[int, int]]
    output: str
    directory: str
    force: bool

    @property
    def work(self) -> Path:
        """Where the files in between are."""
        return work_of(Path(self.output))

    @property
    def key(self) -> dict[str, Any]:
        """What must be equal for a finished or interrupted build to be this one."""
        content = asdict(self)
        key: dict[str, Any] = orjson.loads(
            orjson.dumps(
                {"version": VERSION}
                | {name: content[name] for name in ("settings", "shards", "stamps")}
            )
        )
        return key

    def sizes(self) -> list[int]:
        """Bytes of each shard."""
        return [sum(self.stamps[file][0] for file in shard) for shard in self.shards]


def work_of(output: Path) -> Path:
    """The hidden directory of a build in the output."""
    return output / ".corpus-build"


def make_plan(
    files: Sequence[Path],
    settings: Settings,
    output: Path,
    force: bool = False,
    shard_bytes: int = SHARD_BYTES,
) -> Plan:
    """Deal sorted files into shards, and note their sizes and times, and those of models.

    Raises:
        UsageError: a name that is not UTF-8.
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
    # Whoever trains a model anew under the same name wants another corpus.
    stamps |= {str(model): _stamp(model) for model in models if model.is_file()}
    # Tasks may run in another directory (a cluster's node): places are absolute, names are not.
    here = Path.cwd()
    return Plan(settings, tuple(map(tuple, shards)), stamps, str(here / output), str(here), force)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def check_name(path: Path) -> None:
    """Names go into the plan and into records, which are JSON."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "the name is not UTF-8",
            where=str(path).encode(errors="replace").decode(),
            remedy="rename it",
        ) from error


def is_unfinished(plan: Plan) -> bool:
    """Whether this very build was begun and not ended.

    Raises:
        UsageError: another one was, and `force` does not say to forget it.
    """
    if not (plan.work / _FILE).is_file() or is_done(plan.work):
        return False
    try:
        begun = load_plan(str(plan.work))
        # Not only the key: what was moved or copied would be written where it was begun.
        same = (begun.key, begun.output, begun.directory) == (
            plan.key,
            plan.output,
            plan.directory,
        )
    except ModtokError:
        same = False
    if not same and not plan.force:
        raise UsageError(
            "an unfinished build with other inputs or settings is there",
            where=str(plan.work),
            remedy="call it as before to go on, or --force to begin anew",
        )
    return same


def is_done(work: Path) -> bool:
    """Whether the last step of the build in `work` is done."""
    return (work / "logs" / STAGES[-1] / "completions" / "00000").exists()


def begin(plan: Plan) -> None:
    """Make the work directory of `plan`, in place of any other."""
    if plan.work.exists():
        shutil.rmtree(plan.work)
    plan.work.mkdir(parents=True)
    _save(plan)


def resume(plan: Plan) -> Plan:
    """The build that was begun like `plan`; it may have been begun without `force`."""
    begun = load_plan(str(plan.work))
    if plan.force and not begun.force:
        begun = replace(begun, force=True)
        _save(begun)
    return begun


def _save(plan: Plan) -> None:
    write_bytes(plan.work / _FILE, orjson.dumps({"version": VERSION} | asdict(plan)))
    load_plan.cache_clear()


@cache
def load_plan(work: str) -> Plan:
    """The plan noted in a work directory.

    Raises:
        ModtokError: none there, or of another version.
    """
    path = Path(work) / _FILE
    content = read_json(path)
    if not isinstance(content, dict) or content.pop("version", None) != VERSION:
        raise ModtokError(
            "a build of another version of modtok", where=work, remedy="build with --force"
        )
    return from_json(Plan, content, str(path))


def read_json(path: Path) -> Any:
    """A JSON file of ours.

    Raises:
        ModtokError: missing or damaged.
    """
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ModtokError(
            f"cannot be read ({error})", where=str(path), remedy="build with --force"
        ) from error
