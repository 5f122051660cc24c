"""Report of a build: what was kept and what was dropped and why, from task statistics."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.corpus.plan import STAGES, read_json, work_of

REPORT = "corpus.json"
SECONDS = "seconds.json"
UNITS = ("pages", "paragraphs", "characters")
_SEPARATOR = "|"


def label(kind: str, reason: str, language: str, unit: str) -> str:
    """Name of a count in datatrove's statistics.

    >>> parse_label(label("dropped", "short", "fi", "pages"))
    ('dropped', 'short', 'fi', 'pages')
    """
    return _SEPARATOR.join((kind, reason.replace(_SEPARATOR, "/"), language, unit))


def parse_label(name: str) -> tuple[str, str, str, str] | None:
    """Parts of a label; None for datatrove's own statistics."""
    parts = name.split(_SEPARATOR)
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) == 4 else None


@dataclass
class CorpusReport:
    """Counts of each language that was written, and of each reason for dropping text.

    `languages`: language, pages, paragraphs, characters, and *_before deduplication;
    `near_duplicates`: pages dropped as such, `near_share`: their share of the pages compared.
    `dropped`: step, reason, language (None before it is known), pages, paragraphs, characters,
    and `share`, the part of all characters of the pages that were read.
    `changed`: the same fields, of text that was changed.
    `bad`: the first bad records; `source` is file:offset. `seconds`: processor time by step.
    `folders`: the directories that were written, if they are not named after the languages.
    """

    output: Path
    languages: list[dict[str, Any]] = field(default_factory=list)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    changed: list[dict[str, Any]] = field(default_factory=list)
    bad: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """Rows for standard output: kept text, then dropped text."""
        return [{"kept": True, **row} for row in self.languages] + [
            {"kept": False, **row} for row in self.dropped
        ]


def collect(work: Path, output: Path) -> CorpusReport:
    """Sum the statistics of all tasks in `work`."""
    counts: dict[tuple[str, str, str, str], dict[str, int]] = {}
    seconds: dict[str, float] = {}
    for stage in STAGES:
        for path in sorted((work / "logs" / stage / "stats").glob("*.json")):
            for block in read_json(path):
                step = block["name"].removeprefix("modtok: ")
                spent = block["time_stats"]
                total = spent["total"] if isinstance(spent, dict) else spent
                seconds[step] = seconds.get(step, 0.0) + float(total)
                for name, value in block["stats"].items():
                    parsed = parse_label(name)
                    if parsed:
                        kind, reason, language, unit = parsed
                        row = counts.setdefault((kind, step, reason, language), {})
                        amount = value["total"] if isinstance(value, dict) else value
                        row[unit] = row.get(unit, 0) + int(amount)
    report = CorpusReport(output)
    report.seconds = {step: round(spent, 3) for step, spent in seconds.items()}
    report.languages = _languages(counts)
    report.dropped = _rows(counts, "dropped")
    report.changed = _rows(counts, "changed")
    for path in sorted((work / "bad").glob("*.json")):
        report.bad += read_json(path)
    return report


def _languages(
    counts: Mapping[tuple[str, str, str, str], Mapping[str, int]],
) -> list[dict[str, Any]]:
    before = {key[3]: row for key, row in counts.items() if key[:2] == ("kept", "write")}
    after = {key[3]: row for key, row in counts.items() if key[:2] == ("kept", "deduplicate")}
    return [
        {"language": language}
        | {unit: after[language].get(unit, 0) for unit in UNITS}
        | {f"{unit}_before": before.get(language, {}).get(unit, 0) for unit in UNITS}
        | _near(counts, language, before.get(language, {}).get("pages", 0))
        for language in sorted(after)
    ]


def _near(
    counts: Mapping[tuple[str, str, str, str], Mapping[str, int]], language: str, written: int
) -> dict[str, Any]:
    def pages(reason: str) -> int:
        return counts.get(("dropped", "deduplicate", reason, language), {}).get("pages", 0)

    near, compared = pages("near-duplicate"), written - pages("quality")
    return {
        "near_duplicates": near,
        "near_share": round(near / compared, 6) if compared else 0.0,
    }


def _rows(
    counts: Mapping[tuple[str, str, str, str], Mapping[str, int]], wanted: str
) -> list[dict[str, Any]]:
    order = list(dict.fromkeys(_steps(counts)))
    keys = [key for key in counts if key[0] == wanted]
    keys.sort(key=lambda key: (order.index(key[1]), key[2], key[3]))
    whole = sum(
        row.get("characters", 0)
        for key, row in counts.items()
        if key[0] != "changed" and key[1] == "extract"
    )
    rows: list[dict[str, Any]] = [
        {"step": step, "reason": reason, "language": language or None}
        | {unit: counts[kind, step, reason, language].get(unit, 0) for unit in UNITS}
        for kind, step, reason, language in keys
    ]
    return [row | {"share": round(row["characters"] / max(1, whole), 6)} for row in rows]


def _steps(counts: Iterable[tuple[str, str, str, str]]) -> Iterable[str]:
    """Steps in processing order."""
    yield from ("read", "urls", "extract", "heuristics", "language", "repetition", "stop words")
    yield from ("pii", "quality", "write", "deduplicate")
    for key in counts:
        yield key[1]


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
    content = read_json(output / REPORT)
    spent = work_of(output) / SECONDS
    seconds = read_json(spent) if spent.is_file() else {}
    names = ("languages", "dropped", "changed", "bad")
    folders = content.get("folders", []) if isinstance(content, dict) else None
    if not isinstance(folders, list) or not all(_is_rows(content.get(name)) for name in names):
        raise ModtokError(
            "not a report of modtok corpus build",
            where=output / REPORT,
            remedy="build with --force",
        )
    rows = {name: content[name] for name in names}
    return CorpusReport(output, **rows, seconds=seconds, folders=folders)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)
