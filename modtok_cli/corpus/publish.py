"""The last stage of a build: move the finished languages to the output and write the report."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import fsync_directory, write_bytes
from modtok_cli.corpus.blocks import Documents, Step
from modtok_cli.corpus.parts import NAME, SUFFIX
from modtok_cli.corpus.plan import Plan, read_json, require_free
from modtok_cli.corpus.report import REPORT, SECONDS, collect, load_report

_STALE = "stale.json"
# Statistics and bad records of the tasks stay: a build killed at its very end reports them again.
_BETWEEN = ("parts", "scores", "near", "hashes", "repeated", "out", "progress")


class Publish(Step):
    """Datatrove block that runs `publish`, in one task."""

    name = "publish"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Publish; yields no documents."""
        publish(self.plan)
        yield from ()


def publish(plan: Plan) -> None:
    """Move the languages to the output directory, then write the report.

    Raises:
        UsageError: a language's directory exists and is not that of a build to be replaced.
    """
    output, out = Path(plan.output), plan.work / "out"
    fresh = sorted(entry for entry in out.iterdir() if entry.is_dir()) if out.is_dir() else []
    if not plan.force:
        for entry in fresh:
            require_free(output / entry.name)
    report = collect(plan.work, output)
    noted = plan.work / _STALE  # exists if an earlier attempt was killed
    if not noted.is_file():
        replaces = plan.force and (output / REPORT).is_file()
        write_bytes(noted, orjson.dumps(replaced_languages(output) if replaces else []))
    stale: list[str] = read_json(noted)
    (output / REPORT).unlink(missing_ok=True)  # no longer valid
    for entry in fresh:
        place = output / entry.name
        if place.exists():
            _remove(place)
        entry.replace(place)
    written = {row["language"] for row in report.languages}
    for language in stale:
        if language not in written:
            _remove(output / language)
    fsync_directory(output)
    content = {"format": "modtok corpus", "build": plan.key} | asdict(report)
    # The report of the same build is always the same; what varies is stored beside the logs.
    seconds = content.pop("seconds")
    del content["output"]
    write_bytes(plan.work / SECONDS, orjson.dumps(seconds))
    write_bytes(output / REPORT, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
    for name in _BETWEEN:
        shutil.rmtree(plan.work / name, ignore_errors=True)


def replaced_languages(output: Path) -> list[str]:
    """Languages of the existing corpus that may be removed, by its report.

    Whatever the report says, only directories directly in `output` that contain nothing but parts
    qualify. A damaged report lists none.
    """
    try:
        rows = load_report(output).languages
    except ModtokError:  # damaged, and about to be replaced
        return []
    names = [row.get("language") for row in rows]
    return [
        name
        for name in names
        if isinstance(name, str)
        and NAME.fullmatch(name)
        and (output / name).is_dir()
        and not (output / name).is_symlink()
        and all(entry.name.endswith(SUFFIX) for entry in (output / name).iterdir())
    ]


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
