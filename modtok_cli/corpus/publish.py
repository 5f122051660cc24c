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
from modtok_cli.corpus.blocks import FileBlock
from modtok_cli.corpus.build_plan import BuildPlan
from modtok_cli.corpus.build_report import REPORT, collect, read_report
from modtok_cli.corpus.language import NAME
from modtok_cli.corpus.parts import is_part, read_part
from modtok_cli.text.streams import Broken

_FIELDS = {"text", "lang", "lang_score", "source"}
_REPLACED = "replaced.json"
# Statistics and bad records of the tasks stay: a build killed at its very end reports them again.
_BETWEEN = ("pages", "scores", "hashes", "repeated", "out")


class Publish(FileBlock):
    """Datatrove block that moves the languages to the output, then writes the report; one task."""

    name = "publish"

    def __init__(self, plan: BuildPlan, force: bool = False) -> None:
        super().__init__()
        self.plan, self.force = plan, force

    def _do(self, rank: int, world_size: int) -> None:
        """Do it, also if an earlier attempt was killed.

        Raises:
            UsageError: a language's directory exists, and the build may not replace it.
        """
        work, output = self.plan.work, Path(self.plan.output)
        out, before = work / "out", work / _REPLACED
        fresh = sorted(entry for entry in out.iterdir() if entry.is_dir()) if out.is_dir() else []
        check_places([output / entry.name for entry in fresh], force=self.force)
        report = collect(work, output)
        if (output / REPORT).exists():  # no longer valid
            (output / REPORT).replace(before)
        for entry in fresh:
            _remove(output / entry.name)
            entry.replace(output / entry.name)
        for name in replaced_folders(before, output):
            if name not in {row["language"] for row in report.languages}:
                _remove(output / name)
        fsync_directory(output)
        # The report of the same build is always the same; what varies is in the logs.
        content = {"format": "modtok corpus", "build": self.plan.key} | asdict(report)
        del content["output"], content["seconds"]
        write_bytes(output / REPORT, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
        for name in _BETWEEN:
            shutil.rmtree(work / name, ignore_errors=True)


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


def replaced_folders(report: Path, output: Path) -> list[str]:
    """Directories of an earlier corpus that may be removed, by its report.

    Whatever the report says, only directories directly in `output` that contain nothing but parts
    of a build qualify. Without a report, and if it is damaged, there are none.
    """
    try:
        rows = read_report(report)["languages"]
    except ModtokError:
        return []
    return [
        name
        for name in (row.get("language") for row in rows)
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
