"""The contents of a workspace for a report: tokenizers, training runs, saved result rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError, missing
from modtok_cli.base.progress import Progress
from modtok_cli.base.read_file import read_bounded
from modtok_cli.reports.charts import is_empty
from modtok_cli.reports.kinds import kind_of, kinds
from modtok_cli.reports.plot.terminal import to_text
from modtok_cli.reports.runs import INVALID, TrainingRun, collect_runs
from modtok_cli.reports.tables import Row
from modtok_cli.tokenizer.modular_directory import is_modular
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer


@dataclass(frozen=True)
class ResultFile:
    """Saved rows of one kind (a key of `kinds()`), and their files."""

    kind: str
    paths: Sequence[Path]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Contents:
    """Tokenizers by directory name, training runs, and results in the order of the report."""

    tokenizers: Mapping[str, ModularTokenizer]
    runs: Sequence[TrainingRun]
    results: Sequence[ResultFile]


def collect(workspace: Path, progress: Progress) -> Contents:
    """Search a workspace.

    Raises:
        ModtokError: the directory does not exist or holds nothing to report.
    """
    if not workspace.is_dir():
        raise missing(workspace)
    tokenizers = {
        path.name: ModularTokenizer.load(path)
        for path in sorted(workspace.iterdir())
        if path.is_dir() and not path.name.startswith(".") and is_modular(path)
    }
    files = [
        path
        for folder in (workspace, workspace / "results")
        for path in sorted(folder.glob("*.jsonl"))
        if not path.name.startswith(".")
    ]
    results = together(list(filter(None, (read_result(path, progress) for path in files))))
    runs = collect_runs(workspace / "runs", progress)
    if not tokenizers and not results and not runs:
        raise ModtokError(
            "nothing to report: found no tokenizer, no run, and no rows in results/",
            where=workspace,
            remedy="measure in it: modtok nsl fr.txt keeps its rows in results/; files of other "
            "rows, as of benchmarks/, are not read",
        )
    return Contents(tokenizers, runs, results)


def together(results: Sequence[ResultFile]) -> list[ResultFile]:
    """Results in the order of the report; where a kind has a key, files that compare are one.

    Of rows about the same, the rows of the newest file count.
    """
    found: list[ResultFile] = []
    for name, kind in kinds().items():
        those = [result for result in results if result.kind == name]
        if kind.key:
            those.sort(key=lambda each: (each.paths[0].stat().st_mtime_ns, str(each.paths[0])))
            those = [_merged(group, kind.key) for group in _comparable(those)]
        found += sorted(those, key=lambda result: str(result.paths[0]))
    return found


def _comparable(results: Sequence[ResultFile]) -> list[list[ResultFile]]:
    """Groups of results that measure a language and text on the same content, by one reference.

    NSL by another reference is another measure: it neither replaces nor ranks the first.
    """
    groups: list[tuple[dict[tuple[str, str], frozenset[str]], list[ResultFile]]] = []
    for result in results:
        by: dict[tuple[str, str], frozenset[str]] = {}
        for row in result.rows:
            about = str(row.get("language")), str(row.get("text"))
            parts = str(row.get("signature", "")).split("|")
            its = {part for part in parts if part.startswith(("ref:", "text:"))}
            by[about] = by.get(about, frozenset()) | its
        for known, group in groups:
            if all(known.get(about, its) == its for about, its in by.items()):
                known |= by
                group.append(result)
                break
        else:
            groups.append((by, [result]))
    return [group for _, group in groups]


def _merged(results: Sequence[ResultFile], key: Sequence[str]) -> ResultFile:
    """One result of several, the newest last."""
    rows: dict[tuple[str, ...], Row] = {}
    for result in results:
        rows |= {tuple(str(row.get(name)) for name in key): row for row in result.rows}
    paths = sorted(path for result in results for path in result.paths)
    return ResultFile(results[0].kind, paths, list(rows.values()))


def read_result(path: Path, progress: Progress) -> ResultFile | None:
    """Read saved rows; None, with a warning unless they are objects of another kind."""
    try:
        lines = read_bounded(path).splitlines()
    except OSError as error:
        progress.warn(f"{path}: cannot read: {error.strerror}; the file is skipped")
        return None
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:  # NaN is no JSON either
            row = None
        if not isinstance(row, dict):
            progress.warn(f"{path}:{number}: not a JSON object; the file is skipped")
            return None
        rows.append(row)
        if number == 1 and kind_of(row) is None:
            return None
    if not rows or (name := kind_of(rows[0])) is None:
        return None
    kind = kinds()[name]
    if not all(kind.is_complete(row) for row in rows):
        progress.warn(f"{path}: rows of {name} lack fields; the file is skipped")
        return None
    try:
        # Rows can be edited by hand. An invalid value shows where they are laid out: charts as
        # text, which is fast.
        for chart in kind.charts(rows):
            if not is_empty(chart):
                to_text(chart)
        _ = kind.tables(rows), kind.finding(rows)
    except INVALID as error:
        what = f"{type(error).__name__}: {error}"
        progress.warn(f"{path}: not in the format that modtok writes ({what}); skipped")
        return None
    return ResultFile(name, [path], rows)
