"""Report of a build: what was kept and what was dropped and why, from task statistics."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.corpus.build_plan import FILTERS, STAGES, read_json, work_of

REPORT = "corpus.json"
_TABLES = ("languages", "dropped", "changed", "bad")
UNITS = ("pages", "paragraphs", "characters")
STEPS = ("read", "url", "extract", "language", *[*FILTERS][1:], "quality", "deduplicate")
"""Names of the blocks that count, in the order of processing."""
Counts = dict[tuple[str, str, str, str], Counter[str]]
"""(kind, step, reason, language) → unit → number."""


def label(kind: str, reason: str, language: str, unit: str) -> str:
    """Name of a count in datatrove's statistics.

    >>> parse_label(label("dropped", "short", "fi", "pages"))
    ('dropped', 'short', 'fi', 'pages')
    """
    return orjson.dumps([kind, reason, language, unit]).decode()


def parse_label(name: str) -> tuple[str, str, str, str] | None:
    """Parts of a label; None for datatrove's own statistics."""
    if not name.startswith("["):
        return None
    kind, reason, language, unit = orjson.loads(name)
    return kind, reason, language, unit


@dataclass
class CorpusReport:
    """Counts of each language that was written, and of each reason for dropping text.

    `languages`: language, pages, paragraphs, characters, and *_before deduplication.
    `dropped`: step, reason, language (None before it is known), pages, paragraphs, characters,
    and `share`, the part of all characters of the pages that were read.
    `changed`: the same fields, of text that was changed.
    `bad`: the first bad records; `source` is file:offset. `seconds`: processor time by step.
    """

    output: Path
    languages: list[dict[str, Any]] = field(default_factory=list)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    changed: list[dict[str, Any]] = field(default_factory=list)
    bad: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """Rows for standard output: kept text, then dropped text."""
        return [{"kept": True, **row} for row in self.languages] + [
            {"kept": False, **row} for row in self.dropped
        ]


def collect(work: Path, output: Path) -> CorpusReport:
    """Sum the statistics of all tasks in `work`."""
    counts: Counts = defaultdict(Counter)
    report = CorpusReport(output, seconds=seconds_of(work))
    for stage, step, block in _blocks(work):
        for name, value in block["stats"].items():
            kind, reason, language, unit = parse_label(name) or ("", "", "", "")
            if kind == "bad":
                report.bad.append({"source": language, "reason": reason, "detail": unit})
            # The second stage drops pages as the fourth does.
            elif kind and stage != STAGES[1]:
                counts[kind, step, reason, language][unit] += int(_total(value))
    report.dropped = _rows(counts, "dropped")
    report.changed = _rows(counts, "changed")
    languages = sorted(key[3] for key in counts if key[:2] == ("kept", "deduplicate"))
    for name in languages:
        after, before = (counts[kind, "deduplicate", "", name] for kind in ("kept", "before"))
        sizes = {unit: after[unit] for unit in UNITS}
        sizes |= {f"{unit}_before": before[unit] for unit in UNITS}
        report.languages.append({"language": name, **sizes})
    return report


def seconds_of(work: Path) -> dict[str, float]:
    """Time of each step over all tasks."""
    seconds: Counter[str] = Counter()
    for _, step, block in _blocks(work):
        seconds[step] += _total(block["time_stats"])
    return {step: round(spent, 3) for step, spent in seconds.items()}


def _blocks(work: Path) -> Iterator[tuple[str, str, Any]]:
    """(stage, step, statistics) of all blocks of all tasks."""
    for stage in STAGES:
        for path in sorted((work / "logs" / stage / "stats").glob("*.json")):
            for block in read_json(path):
                yield stage, block["name"].removeprefix("modtok: "), block


def _total(statistic: Any) -> Any:
    """A statistic as datatrove writes it: of one value alone a number."""
    return statistic["total"] if isinstance(statistic, dict) else statistic


def _rows(counts: Counts, wanted: str) -> list[dict[str, Any]]:
    """Counts of a kind by step, in the order of processing; `share` is of all characters read."""
    order = {step: place for place, step in enumerate(STEPS)}
    whole = sum(
        each["characters"]
        for (kind, step, _, _), each in counts.items()
        if kind == "kept" and step == "extract"
    )
    return [
        {"step": step, "reason": reason, "language": language or None}
        | {unit: each[unit] for unit in UNITS}
        | {"share": round(each["characters"] / max(1, whole), 6)}
        for (kind, step, reason, language), each in sorted(
            counts.items(), key=lambda item: (order[item[0][1]], *item[0][2:])
        )
        if kind == wanted
    ]


def summary(report: CorpusReport) -> list[dict[str, Any]]:
    """`dropped` summed over languages, for a compact table."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for row in report.dropped:
        total = sums.setdefault(
            (row["step"], row["reason"]),
            {"step": row["step"], "reason": row["reason"], **dict.fromkeys(UNITS, 0), "share": 0.0},
        )
        for unit in (*UNITS, "share"):
            total[unit] += row[unit]
    return list(sums.values())


def load_report(output: Path) -> CorpusReport:
    """Load the report of a finished build.

    Raises:
        ModtokError: there is none, or it is damaged.
    """
    content = read_report(output / REPORT)
    return CorpusReport(
        output, **{name: content[name] for name in _TABLES}, seconds=seconds_of(work_of(output))
    )


def read_report(path: Path) -> dict[str, Any]:
    """Content of a report.

    Raises:
        ModtokError: it is missing or damaged.
    """
    content: Any = read_json(path)
    if not (isinstance(content, dict) and all(_is_rows(content.get(name)) for name in _TABLES)):
        raise ModtokError(
            "not a report of modtok corpus build", where=path, remedy="build with --force"
        )
    return content


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)
