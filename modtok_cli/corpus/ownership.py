"""Which directories a build may replace: those that hold nothing but what a build wrote."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.corpus.fineweb import is_folder, is_table
from modtok_cli.corpus.parts import NAME, is_part, read_part
from modtok_cli.corpus.report import REPORT, load_report
from modtok_cli.text.streams import Broken

_FIELDS = {"text", "lang", "lang_score", "source"}


def require_replaceable(places: Iterable[Path]) -> None:
    """Check that none of the directories holds files that no build wrote.

    Raises:
        UsageError: one does; names it.
    """
    for place in places:
        if place.exists() and not _is_of_build(place):
            raise UsageError(
                "holds files that modtok did not write",
                where=str(place),
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
    names: list[object] = [*report.folders] or [row.get("language") for row in report.languages]
    return [
        name
        for name in names
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
    if all(is_part(file, place.parent) for file in files):
        return all(_is_record(file) for file in files)
    return is_folder(place) and all(is_table(file) for file in files)


def _is_record(part: Path) -> bool:
    """Whether the first record of a part is one of a build; an empty part is."""
    try:
        record: Any = next(read_part(part), None)
    except (ModtokError, Broken, ValueError):
        return False
    return record is None or (isinstance(record, dict) and record.keys() >= _FIELDS)
