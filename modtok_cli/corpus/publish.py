"""The last stage of a build: move the finished languages to the output and write the report.

A build replaces only directories that hold nothing but what a build wrote.
"""

import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import fsync_directory, write_bytes
from modtok_cli.corpus.blocks import FileStep
from modtok_cli.corpus.build_report import REPORT, SECONDS, collect, load_report
from modtok_cli.corpus.language import NAME
from modtok_cli.corpus.parts import is_part, read_part
from modtok_cli.corpus.plan import BuildPlan, load_plan, read_json
from modtok_cli.text.streams import Broken

_FIELDS = {"text", "lang", "lang_score", "source"}
_STALE = "stale.json"
# Statistics and bad records of the tasks stay: a build killed at its very end reports them again.
_BETWEEN = ("pages", "scores", "hashes", "repeated", "out")


class Publish(FileStep):
    """Datatrove block that runs `publish`, in one task."""

    name = "publish"

    def __init__(self, work: Path) -> None:
        super().__init__()
        self.work = str(work)

    def _do(self, rank: int, world_size: int) -> None:
        publish(load_plan(self.work))


def publish(plan: BuildPlan) -> None:
    """Move the languages to the output directory, then write the report.

    Raises:
        UsageError: a language's directory exists, and the build may not replace it.
    """
    output, out = Path(plan.output), plan.work / "out"
    fresh = sorted(entry for entry in out.iterdir() if entry.is_dir()) if out.is_dir() else []
    places = [output / entry.name for entry in fresh]
    check_places(places, force=plan.force)
    report = collect(plan.work, output)
    noted = plan.work / _STALE  # exists if an earlier attempt was killed
    if not noted.is_file():
        stale = replaced_folders(output) if plan.force else []
        names = [entry.name for entry in fresh]
        write_bytes(noted, orjson.dumps({"stale": stale, "written": names}))
    folders = read_json(noted)
    (output / REPORT).unlink(missing_ok=True)  # no longer valid
    for entry, place in zip(fresh, places, strict=True):
        if place.exists():
            _remove(place)
        entry.replace(place)
    for name in folders["stale"]:
        if name not in folders["written"]:
            _remove(output / name)
    fsync_directory(output)
    content = {"format": "modtok corpus", "build": plan.key} | asdict(report)
    # The report of the same build is always the same; what varies is stored beside the logs.
    seconds = content.pop("seconds")
    del content["output"]
    write_bytes(plan.work / SECONDS, orjson.dumps(seconds))
    write_bytes(output / REPORT, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
    for name in _BETWEEN:
        shutil.rmtree(plan.work / name, ignore_errors=True)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def check_places(places: Iterable[Path], *, force: bool) -> None:
    """Check that no directory exists; with `force`, that none has files that no build wrote.

    Raises:
        UsageError: one does; names it.
    """
    for place in filter(Path.exists, places):
        if not force:
            remedy = "choose another -o, or pass --force"
            raise UsageError("already exists", where=place, remedy=remedy)
        if not _is_of_build(place):
            raise UsageError(
                "holds files that modtok did not write",
                where=place,
                remedy="move it away and repeat the command, or choose another -o",
            )


def replaced_folders(output: Path) -> list[str]:
    """Directories of the existing corpus that may be removed, by its report.

    Whatever the report says, only directories directly in `output` that contain nothing but parts
    of a build qualify. Without a report, and if it is damaged, there are none.
    """
    if not (output / REPORT).is_file():
        return []
    try:
        report = load_report(output)
    except ModtokError:  # damaged, and about to be replaced
        return []
    return [
        name
        for name in (row.get("language") for row in report.languages)
        if isinstance(name, str)
        and NAME.fullmatch(name)
        and (output / name).is_dir()
        and not (output / name).is_symlink()
        and _is_of_build(output / name)
    ]


def _is_of_build(place: Path) -> bool:
    """Whether this is a directory that has nothing but parts, with the fields of a build."""
    if not place.is_dir():
        return False
    files = [entry for entry in place.rglob("*") if not entry.is_dir()]
    return all(is_part(file, place.parent) and _is_record(file) for file in files)


def _is_record(part: Path) -> bool:
    """Whether the first record of a part is one of a build; an empty part is."""
    try:
        record: Any = next(read_part(part), None)
    except (ModtokError, Broken, ValueError):
        return False
    return record is None or (isinstance(record, dict) and record.keys() >= _FIELDS)
