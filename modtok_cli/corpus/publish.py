"""The last stage of a build: move the finished languages to the output and write the report."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.files import fsync_directory, write_bytes
from modtok_cli.corpus.blocks import Documents, Step
from modtok_cli.corpus.ownership import replaced_folders, require_replaceable
from modtok_cli.corpus.plan import FINEWEB, Plan, read_json, require_free
from modtok_cli.corpus.report import REPORT, SECONDS, collect

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
        UsageError: a language's directory exists, and the build may not replace it.
    """
    output, out = Path(plan.output), plan.work / "out"
    fresh = sorted(entry for entry in out.iterdir() if entry.is_dir()) if out.is_dir() else []
    places = [output / entry.name for entry in fresh]
    if plan.force:
        require_replaceable(places)
    else:
        for place in places:
            require_free(place)
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
    if plan.settings.layout == FINEWEB:
        report.folders = folders["written"]
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
