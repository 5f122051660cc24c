"""`modtok eval fetch`: what evaluation reads, from the hub to local files.

    DIR/mcq/<task>/<lang>.jsonl, <lang>.train.jsonl      the suites' own datasets
    DIR/mt/dev/<code>.dev, DIR/mt/devtest/<code>.devtest FLORES-200
    DIR/sum/<lang>.jsonl, <lang>.train.jsonl             WikiLingua

Each directory of a task appears whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate import documents, hub, mcq, parallel
from modtok_cli.evaluate.hub_text import (
    ARTICLES,
    FLORES,
    GEM,
    WIKILINGUA,
    Hub,
    RemoteHub,
    articles,
    flores_codes,
    flores_plus,
    flores_wide,
    gem,
)
from modtok_cli.evaluate.suites import suites

Row = Mapping[str, Any]

TASKS = ("mcq", "mt", "sum")
LAYOUTS = {"mcq": mcq.LAYOUT, "mt": parallel.LAYOUTS, "sum": documents.LAYOUT}


@dataclass
class Fetched:
    """What a call wrote.

    Attributes:
        rows: task, language, examples, shots, source and path of each set.
        skipped: sets that the hub has, or should have, and that did not come.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def require_complete(self) -> None:
        """Say what did not come.

        Raises:
            ModtokError: something.
        """
        if self.skipped:
            raise ModtokError(f"incomplete: {'; '.join(self.skipped)}")


def fetch(
    tasks: Sequence[str],
    languages: Sequence[str],
    output: Path,
    *,
    force: bool = False,
    source: Hub | None = None,
    progress: Progress = SILENT,
) -> Fetched:
    """Write the data of `tasks` ("mcq", "mt", "sum") in `languages` below `output`.

    `source` is the hub, unless another is given.

    Raises:
        UsageError: an unknown task, or something that is there already.
        ModtokError: the hub cannot be reached; says how to lay the files out by hand.
    """
    for task in tasks:
        if task not in TASKS:
            raise UsageError(f"no task {task!r}", remedy=f"there are: {', '.join(TASKS)}")
    if source is None:
        if not hub.reachable():
            told = "; ".join(LAYOUTS[task].split("; modtok eval fetch")[0] for task in tasks)
            raise ModtokError("the hub cannot be reached", remedy=f"by hand, {told}")
        source = RemoteHub()
    # All is looked at before anything is fetched.
    for task in tasks:
        for place in _places(task, output):
            if place.exists() and not force:
                raise UsageError(
                    "is there already",
                    where=str(place),
                    remedy="--force replaces it, with all its languages; or choose another -o",
                )
    fetched = Fetched()
    for task in tasks:
        _FETCHERS[task](source, languages, output, fetched, progress)
    return fetched


def _places(task: str, output: Path) -> list[Path]:
    if task == "mcq":
        return [output / "mcq" / name for name in suites()]
    return [output / task]


def _lines(rows: Iterable[Row]) -> bytes:
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _fetch_mcq(
    source: Hub, languages: Sequence[str], output: Path, fetched: Fetched, progress: Progress
) -> None:
    for name, suite in suites().items():
        files: dict[str, bytes] = {}
        rows = []
        for language in languages:
            place = suite.source(language)
            if place is None:
                continue
            try:
                asked, shown = hub.fetch(place, language, progress=progress)
            except ModtokError as error:
                fetched.skipped.append(f"{name} {language}: {error}")
                continue
            files[f"{language}.jsonl"] = _lines(question.as_row() for question in asked)
            if shown:
                files[f"{language}.train.jsonl"] = _lines(q.as_row() for q in shown)
            rows.append(_row(name, language, len(asked), len(shown), place.dataset, output / "mcq"))
        _write(output / "mcq" / name, files)
        fetched.rows += rows


def _fetch_mt(
    source: Hub, languages: Sequence[str], output: Path, fetched: Fetched, progress: Progress
) -> None:
    codes = flores_codes()
    known = [language for language in languages if language in codes]
    _note_unknown("FLORES", languages, known, progress)
    errors = []
    for dataset, read in zip(FLORES, (flores_wide, flores_plus), strict=True):
        try:
            parts = {part: read(source, dataset, part, known) for part in ("dev", "devtest")}
        except ModtokError as error:
            errors.append(str(error))
            continue
        files: dict[str, bytes] = {}
        for language in known:
            sizes = {}
            for part, columns in parts.items():
                lines = columns.get(language)
                if lines is None:
                    fetched.skipped.append(f"{dataset} has no {part} in {language}")
                    continue
                text = "".join(f"{line}\n" for line in lines)
                files[f"{part}/{codes[language]}.{part}"] = text.encode()
                sizes[part] = len(lines)
            if len(sizes) == len(parts):
                fetched.rows.append(
                    _row("mt", language, sizes["devtest"], sizes["dev"], dataset, output)
                )
        _write(output / "mt", files)
        return
    fetched.skipped.append(f"mt: {'; '.join(errors)}")


def _fetch_sum(
    source: Hub, languages: Sequence[str], output: Path, fetched: Fetched, progress: Progress
) -> None:
    known = [language for language in languages if language in WIKILINGUA]
    _note_unknown("WikiLingua", languages, known, progress)
    files: dict[str, bytes] = {}
    for language in known:
        errors = []
        for dataset, read in ((GEM, gem), (ARTICLES, articles)):
            try:
                asked, shown = read(source, language, progress)
            except ModtokError as error:
                errors.append(str(error))
                continue
            files[f"{language}.jsonl"] = _lines(asked)
            files[f"{language}.train.jsonl"] = _lines(shown)
            fetched.rows.append(_row("sum", language, len(asked), len(shown), dataset, output))
            break
        else:
            fetched.skipped.append(f"sum {language}: {'; '.join(errors)}")
    _write(output / "sum", files)


def _write(directory: Path, files: Mapping[str, bytes]) -> None:
    """The files of one directory, whole; nothing where there are none."""
    if not files:
        return
    with atomic_directory(directory) as beside:
        for name, data in files.items():
            (beside / name).parent.mkdir(parents=True, exist_ok=True)
            (beside / name).write_bytes(data)


def _row(
    task: str, language: str, examples: int, shots: int, dataset: str, place: Path
) -> dict[str, Any]:
    return {
        "task": task,
        "language": language,
        "examples": examples,
        "shots": shots,
        "source": dataset,
        "path": str(place / task),
    }


def _note_unknown(
    name: str, languages: Sequence[str], known: Sequence[str], progress: Progress
) -> None:
    unknown = [language for language in languages if language not in known]
    if unknown:
        progress.note(f"{name} has no {', '.join(unknown)}")


_FETCHERS: dict[str, Callable[[Hub, Sequence[str], Path, Fetched, Progress], None]] = {
    "mcq": _fetch_mcq,
    "mt": _fetch_mt,
    "sum": _fetch_sum,
}
