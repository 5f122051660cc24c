"""What rows become, in words, to compare with `tests/reports/shown.txt`.

After a change that is meant: `python tests/helpers/reports.py > tests/reports/shown.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from modtok_cli.reports.charts import Chart, Curves, Dots, Heat, Mark
from modtok_cli.reports.kinds import kinds
from modtok_cli.reports.plot.terminal import to_text
from modtok_cli.reports.runs import TrainingRun, comparison, runs_tables
from modtok_cli.reports.tables import Table

Row = dict[str, Any]


def _measured(**fields: tuple[Any, ...]) -> list[Row]:
    """Rows of two tokenizers and two languages, from the values of each field."""
    places = [("joint", "en"), ("joint", "fi"), ("d/each", "en"), ("d/each", "fi")]
    return [
        {"tokenizer": place[0], "language": place[1], "text": "data/a b.txt"}
        | {name: values[index] for name, values in fields.items()}
        for index, place in enumerate(places)
    ]


def _scored(task: str, metric: str, *values: float, **more: Any) -> list[Row]:
    """Rows of an evaluation: two languages by two seeds of one recipe and of another."""
    models = [(recipe, seed) for recipe in ("wide", "narrow") for seed in (0, 1)]
    places = [(language, *model) for model in models for language in ("fi", "en")]
    return [
        {
            "task": task, "language": language, "metric": metric, "value": value,
            "low": value - 2, "high": value + 3, "n": 100 + 50 * index, "shots": 0, "infer": "lang",
            "chance": 25.0, "run": f"{recipe}-{seed}", "checkpoint": f"{recipe}-{seed}@9/{seed}ab",
            "seed": seed, "sampling": "sub:1", "p": 0.5 if recipe == "wide" else 0.2, "step": 9,
            "recipe": recipe, "signature": "", **more,
        }
        for index, ((language, recipe, seed), value) in enumerate(zip(places, values, strict=True))
    ]  # fmt: skip


def _bits(*values: float | None) -> list[Row]:
    rows = _scored("", "", *([1.0] * 8))
    for row in rows:
        del row["task"], row["metric"]
    return [
        row | {"text": f"{row['language']}.txt", "bits_per_byte": value, "bits_per_character": 2.0}
        | {"low": value and value - 0.1, "high": value and value + 0.1}
        for row, value in zip(rows, values, strict=True)
    ]  # fmt: skip


ROWS: dict[str, list[Row]] = {
    "check": _measured(
        excess=(1.0, 1.6, 1.1, 1.2), verdict=("good", "poor", "good", "fair"),
        name=("English", "Finnish") * 2, reason=("few tokens", "many tokens") * 2,
        tokens_per_word=(1.2, 2.4, 1.3, 1.5), one_token_words=(0.8, 0.4, 0.9, 0.7),
        unknown_tokens=(0.0, 0.02, 0.0, 0.001),
    ),
    "nsl": _measured(
        nsl=(1.02, 1.4, 0.99, 1.1), tokens_per_character=(0.23, 0.3, 0.24, 0.25),
        morph_score=(0.5, None, 0.6, 0.7),
    ),
    "fairness": [
        row | {"kind": "language", "pivot": "en"}
        for row in _measured(premium=(1.0, 1.7, 1.0, 1.2), tokens_per_character=(0.2, 0.3) * 2)
    ] + [
        {
            "kind": "tokenizer", "tokenizer": name, "languages": ["en", "fi"], "size": 1000 + size,
            "per_character_mean": 0.25, "per_character_max_min": 1.5, "premium_max": 1.7,
            "premium_max_language": "fi", "tokens_gini": 0.1, "tokens_max_min": 1.7,
            "tokens_relative": 1 + size / 8, "nsl_mean": 1.2, "utilization": 0.93,
            "merge_only": 0.04,
        }
        for size, name in enumerate(("joint", "d/each"))
    ],
    "origin": [
        {"tokenizer": "t", "text": f"{language}.txt", "language": language, "tokens": tokens,
         "outside": 0.1, "several": several, "exclusive": exclusive}
        for language, tokens, several, exclusive in (
            ("en", 1200, 0.06, {"fi": 0.03, "sv": 0.01}),
            ("fi", 900, 0.02, {"en": 0.05, "sv": 0.03, "fr": 0.0}),
        )
    ],
    "bpb": _bits(1.5, 1.25, 1.75, 1.0, 2.0, 1.5, None, 1.625),
    "drafts": [
        {"model": "m", "language": language, "draft_rows": size, "coverage": cover,
         "tokens": 5000, "bytes": 64 * size, "milliseconds": size / 1000}
        for language, covers in (("en", (0.7, 0.9, 0.91)), ("fi", (0.6, 0.85, 0.86)))
        for size, cover in zip((1000, 2000, 4000), covers, strict=True)
    ],
    "evaluation": [
        *_scored("arc", "acc", 30.0, 40.0, 34.0, 41.0, 50.0, 60.0, 51.0, 65.0),
        *_scored("mt", "BLEU", 3.0, 4.0, 3.5, 4.5, 5.0, 6.0, 5.5, 6.0, chance=None),
        *_scored("arc", "acc", 20.0, 30.0, 24.0, 31.0, 40.0, 50.0, 41.0, 55.0, infer="fi,en"),
    ],
    "generation": [
        {"prompt": "Hi", "text": "there", "languages": ["en", "fi"], "prompt_tokens": 1234,
         "reason": "end"}
    ],
}  # fmt: skip
RUNS = [
    TrainingRun(
        name,
        {"config": {"data": {"sampling": "sub:1"}, "architecture": {"model": "tiny"},
                    "schedule": {"steps": 2000}},
         "command": "modtok", "tokenizer": {"signature": "t"}},
        [
            {"step": step, "languages": {"fi": {"bytes": 7}, "en": {"bytes": 5}},
             "tokens": 100 * step, "time": {
                 "phases": {"forward": step / 100, "update": last / 10},
                 "model_flops_per_second": 10**9, "step_seconds": last}}
            for step in range(10, 1021, 10)
        ],
        [
            {"step": step, "held_out": {"fi": {"bits_per_byte": bits}, "en": {"bits_per_byte": 2}},
             "valid": {"news": {"sw": {"bits_per_byte": 3 * bits}}}}
            for step, bits in ((10, 4.0), (1020, last))
        ],
        [],
    )
    for name, last in (("first", 2.5), ("second", 2.25))
]  # fmt: skip
_NAMES = {name: i for i, name in enumerate(("alpha", "a much longer name of a system", "gamma"))}
PICTURES: dict[str, Chart] = {
    "dots": Dots(
        "A title that is long enough to need two lines at the width of all of these pictures",
        "NSL", ["en", "Välimäki %"],
        {name: {"en": Mark(1 + i / 8, 0.9, 1.5), "Välimäki %": Mark(1.2 + i)}
         for name, i in _NAMES.items()},
        reference=1.0, note="A note that is longer than the picture is wide, of two lines.",
    ),
    "logarithmic": Dots(
        "Cost", "s", list("abcdefghijklmnopqr"),
        {f"T{i}": {"abcdefghijklmnopqr"[2 * i]: Mark(5.0**i)} for i in range(9)},
    ),
    "curves": Curves(
        "Size", "steps", "bits", {"": {"a": [(1, 0.24), (3, 0.43)], "b": [(2, 0.3)]}}
    ),
    "many curves": Curves(
        "Size", "step", "bits", {"": {f"s{i}": [(9.5, i / 4)] for i in range(8)}}
    ),
    "panels": Curves(
        "Runs", "step", "bits",
        {name: {f"run {i}": [(4, 2.0 + i), (12, 1.5 + i)] for i in range(9)} for name in "xyz"},
    ),
    "heat": Heat(
        "Whose", "% of all", "source", "added", ["en", "fi"], ["en", "Suomi", *"abcdefgh"],
        {("en", "Suomi"): 2.5, ("en", "a"): 0.25, ("fi", "en"): 12.0},
    ),
    "72 languages": Dots(
        "Tokens", "NSL", [f"Language {i}" for i in range(72)],
        {f"a/long/path/to/tokenizer-{name}": {f"Language {i}": Mark(1 + i / 9) for i in range(72)}
         for name in range(5)},
    ),
    "heat of 72": Heat(
        "Shared", "% of all", "language", "shared with",
        *[[f"Language {i}" for i in range(72)]] * 2,
        {(f"Language {i}", f"Language {j}"): i + j for i in range(72) for j in range(i)},
    ),
}  # fmt: skip


def legend(picture: str) -> dict[str, str]:
    """Color of each name in the legend of an SVG: a marker, then its name."""
    found = re.findall(r'fill: (#\w+)"/>\s+</g>\s+</g>\s+<g[^>]*>\s+<text[^>]*>([^<]*)<', picture)
    return {name: color for color, name in found}


def _table(table: Table) -> Iterator[str]:
    yield f"{table.caption} ({table.left}, {table.prose}) {table.note}".rstrip()
    for row in (table.headings, *table.rows):
        yield "    " + " | ".join(map(str, row))


def shown() -> str:
    """Tables, sentence, command and charts as text of each kind; then of runs and pictures."""
    parts: list[Iterator[str] | list[str]] = []
    for name, rows in ROWS.items():
        kind = kinds()[name]
        parts.append([f"== {name}", str(kind.finding(rows))])
        parts += map(_table, kind.tables(rows))
        parts += [to_text(chart, 70) for chart in kind.charts(rows)]
    parts.append(["== runs"])
    parts += map(_table, runs_tables(RUNS))
    rows = (PICTURES[name] for name in ("dots", "logarithmic", "heat"))
    parts += [to_text(each, 50) for each in (*comparison(RUNS), *comparison(RUNS[:1]), *rows)]
    return "\n".join(line.rstrip() for part in parts for line in part) + "\n"


if __name__ == "__main__":
    print(shown(), end="")
