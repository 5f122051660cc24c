"""What a workspace holds that a report can show: tokenizers, studies, saved measurements."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.measure.pictures import CHARTS
from modtok_cli.measure.report.runs import TrainingRun, collect_runs
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.tokenizer import ModularTokenizer

Row = Mapping[str, Any]

FOLDERS = ("", "results", "studies")
"""Where in a workspace saved rows are looked for."""

# What wrong and missing values in rows end in: of another type, out of range, not there.
AMISS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


@dataclass(frozen=True)
class Result:
    """Saved rows of one kind (a key of `pictures.CHARTS`), and the command behind them."""

    kind: str
    path: Path
    rows: Sequence[Row]
    command: str


@dataclass(frozen=True)
class Found:
    """Tokenizers by directory name, training runs, results in the order of the report."""

    tokenizers: Mapping[str, ModularTokenizer]
    runs: Sequence[TrainingRun]
    results: Sequence[Result]


def collect(workspace: Path, progress: Progress) -> Found:
    """Look through a workspace.

    Raises:
        ModtokError: there is no such directory, or nothing in it to report.
    """
    if not workspace.is_dir():
        raise ModtokError("no such directory", where=str(workspace), remedy="name a workspace")
    tokenizers = {
        path.name: ModularTokenizer.load(path)
        for path in sorted(workspace.iterdir())
        if path.is_dir() and not path.name.startswith(".") and is_modular(path)
    }
    files = [
        path
        for folder in FOLDERS
        for path in sorted((workspace / folder).glob("*.jsonl"))
        if not path.name.startswith(".")
    ]
    results = [found for path in files if (found := read_result(path, progress))]
    results.sort(key=lambda result: (list(CHARTS).index(result.kind), str(result.path)))
    runs = collect_runs(workspace / "runs", progress)
    if not tokenizers and not results and not runs:
        raise ModtokError(
            "nothing to report: no tokenizer, no run, and no rows in results/ or studies/",
            where=str(workspace),
            remedy="run a study there, or save rows: modtok nsl … > results/nsl.jsonl",
        )
    return Found(tokenizers, runs, results)


def read_result(path: Path, progress: Progress) -> Result | None:
    """Saved rows; None for a file that is none of ours, with a word if it looked like one.

    Raises:
        ModtokError: the file cannot be read.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror}", where=str(path)) from error
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = None
        if not isinstance(row, dict):
            if rows:
                progress.warn(f"{path}:{number}: not a JSON object; the file is left out")
            return None
        rows.append(row)
        if number == 1 and _kind(row) is None:
            return None
    if not rows:
        return None
    kind = _kind(rows[0])
    assert kind is not None
    if "study" in rows[0]:
        head, *rows = rows
        return Result(kind, path, rows, str(head.get("command", ""))) if rows else None
    if not all(_complete(kind, row) for row in rows):
        progress.warn(f"{path}: rows of {kind} with fields missing; the file is left out")
        return None
    try:
        command = command_of(kind, rows)
    except AMISS as error:
        progress.warn(f"{path}: not as modtok writes it ({error}); the file is left out")
        return None
    return Result(kind, path, rows, command)


_FIELDS = {
    "nsl": ("tokenizer", "language", "text", "nsl", "tokens_per_character"),
    "fairness": ("kind", "tokenizer"),
    "origin": ("tokenizer", "language", "text", "outside", "several", "exclusive"),
    "cost": ("tokenizer", "language", "text", "scale", "cost", "size"),
    "evaluation": ("task", "language", "metric", "value", "infer", "n", "shots"),
    "sampling": ("sampling", "inference", "language", "bits_per_byte", "vocabulary"),
    "generation": ("prompt", "text", "langs", "prompt_tokens", "reason"),
}
# Rows whose first field of the signature is not their kind: the task of an evaluation is its
# own, and a generated text has none. They are known by the fields they must have.
_BY_FIELDS = ("evaluation", "sampling", "generation")


def _complete(kind: str, row: Row) -> bool:
    return all(name in row for name in _FIELDS[kind])


def _kind(first: Row) -> str | None:
    """The kind of rows, by the first of them."""
    if (study := str(first.get("study"))) in CHARTS:
        return study
    for kind in _BY_FIELDS:
        if _complete(kind, first):
            return kind
    kind = str(first.get("signature", "")).partition("|")[0]
    return kind if kind in _FIELDS else None


def command_of(kind: str, rows: Sequence[Row]) -> str:
    """The command line that gives such rows, from what is in them."""
    if kind == "evaluation":
        return _evaluation_command(rows)
    if kind == "sampling":
        regimes = ",".join(dict.fromkeys(str(row["sampling"]) for row in rows))
        return shlex.join(["modtok", "study", "sampling", "--regimes", regimes])
    if kind == "generation":
        return "modtok generate < prompts.jsonl"
    words = ["modtok", *(["study", "cost"] if kind == "cost" else [kind])]
    for name in dict.fromkeys(str(row["tokenizer"]) for row in rows):
        words += ["-t", name]
    words += dict.fromkeys(str(row["text"]) for row in rows if "text" in row)
    pivots = {str(row["pivot"]) for row in rows if "pivot" in row}
    if len(pivots) == 1:
        words += ["--pivot", pivots.pop()]
    return shlex.join(words)


def _evaluation_command(rows: Sequence[Row]) -> str:
    """`modtok eval mt|sum|mcq`, by the tasks and inference vocabularies of the rows."""
    commands = []
    for name, flag in (("mt", "--pairs"), ("sum", "--langs"), ("mcq", "--langs")):
        named = (row["task"] if row["task"] in ("mt", "sum") else "mcq" for row in rows)
        mine = [row for row, task in zip(rows, named, strict=True) if task == name]
        tasks = dict.fromkeys(str(row["task"]) for row in mine if row["task"] != "mean")
        if not tasks:
            continue
        words = ["modtok", "eval", name, *(["--tasks", ",".join(tasks)] if name == "mcq" else [])]
        words += [flag, ",".join(dict.fromkeys(str(row["language"]) for row in mine))]
        for mode in dict.fromkeys(str(row["infer"]) for row in mine):
            # A slice is asked as it was cut; what its rows say of it is no mode.
            commands.append([*words, *([] if mode == "slice" else ["--infer", mode])])
    return "\n".join(map(shlex.join, commands))
