"""The tables of a report, as headings and cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modtok_cli.measure.pictures import languages_of, short_names
from modtok_cli.measure.study.summary import (
    budget_summary,
    combos_summary,
    cost_summary,
    grouped,
    orders_summary,
    scaling_summary,
)
from modtok_cli.modular.tokenizer import ModularTokenizer

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """A caption, headings, and rows of text; the first `left` columns are names.

    `prose`: cells hold sentences, which may break into lines.
    """

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    note: str = field(default="")
    prose: bool = False


def ratio(value: float | None) -> str:
    """A ratio with three decimals.

    >>> ratio(1.01449), ratio(None)
    ('1.014', '–')
    """
    return "–" if value is None else f"{value:.3f}"


def number(value: float | None) -> str:
    """A whole number, thousands apart."""
    return "–" if value is None else f"{int(value):,}"


def size(value: int) -> str:
    """Bytes, in MB or for little text in kB.

    >>> size(12_345_678), size(9_500)
    ('12.3 MB', '9.5 kB')
    """
    return f"{value / 1e6:.1f} MB" if value >= 1e5 else f"{value / 1e3:.1f} kB"


def percent(value: float | None) -> str:
    """A share as a percentage."""
    return "–" if value is None else f"{100 * value:.2f}"


def wide(rows: Sequence[Row], key: str, caption: str, mean: bool = True) -> Table:
    """Languages as rows, tokenizers as columns, one number each."""
    names = short_names([row["tokenizer"] for row in rows])
    cells = {(row["language"], row["tokenizer"]): row[key] for row in rows}
    body = [
        [language, *(ratio(cells.get((language, name))) for name in names)]
        for language in languages_of(rows)
    ]
    if mean:
        means = []
        for name in names:
            values = [row[key] for row in rows if row["tokenizer"] == name and row[key] is not None]
            means.append(ratio(sum(values) / len(values)) if values else "–")
        body.append(["mean", *means])
    return Table(caption, ["language", *names.values()], body)


def nsl_tables(rows: Sequence[Row]) -> list[Table]:
    """NSL and tokens per character."""
    # One file may hold several texts of a language; each text is a table of its own.
    texts = grouped(rows, "text")
    joined = len(texts) > 1 and len({row["language"] for row in rows}) == len(texts)
    tables = []
    for (text,), group in {("all texts",): list(rows)}.items() if joined else texts.items():
        if any(row["nsl"] is not None for row in group):
            tables.append(wide(group, "nsl", f"NSL on {text}"))
        tables.append(wide(group, "tokens_per_character", f"Tokens per character on {text}"))
    return tables


def fairness_tables(rows: Sequence[Row]) -> list[Table]:
    """Per language, and over languages."""
    lines = [row for row in rows if row["kind"] == "language"]
    totals = [row for row in rows if row["kind"] == "tokenizer"]
    names = short_names([row["tokenizer"] for row in totals])
    summary = Table(
        "Over all languages",
        [
            "tokenizer", "size", "tokens/character", "max/min", "premium", "of", "Gini",
            "NSL", "vocabulary used %", "junk %",
        ],
        [
            [
                names[row["tokenizer"]],
                number(row["size"]),
                ratio(row["per_character_mean"]),
                ratio(row["per_character_max_min"]),
                ratio(row["premium_max"]),
                str(row["premium_max_language"]),
                ratio(row["tokens_gini"]),
                ratio(row.get("nsl_mean")),
                percent(row["utilization"]),
                percent(row["merge_only"]),
            ]
            for row in totals
        ],
    )  # fmt: skip
    pivot = lines[0]["pivot"] if lines else "en"
    return [
        summary,
        wide(lines, "tokens_per_character", "Tokens per character"),
        wide(lines, "premium", f"Parity premium over {pivot}", mean=False),
    ]


def origin_tables(rows: Sequence[Row]) -> list[Table]:
    """Shares of foreign tokens, and who gives most of them."""
    body = []
    for row in rows:
        ordered = sorted(row["exclusive"].items(), key=lambda item: (-item[1], item[0]))
        most = ", ".join(f"{name} {percent(share)}" for name, share in ordered[:3] if share)
        alone = sum(row["exclusive"].values())
        shares = [percent(row["outside"]), percent(alone), percent(row["several"])]
        body.append([row["language"], number(row["tokens"]), *shares, most])
    headings = ["language", "tokens", "outside %", "of one other %", "of several %", "most from"]
    return [Table("Tokens from outside the language's own subtokenizer", headings, body)]


def orders_tables(rows: Sequence[Row]) -> list[Table]:
    """NSL over orders."""
    body = [
        [
            line["language"],
            line["tokenizer"],
            number(line["size"]),
            *(ratio(line[key]) for key in ("mean", "min", "max", "spread")),
        ]
        for line in orders_summary(rows)
    ]
    headings = ["language", "tokenizer", "size", "NSL", "min", "max", "spread"]
    return [Table("NSL over language orders", headings, body, left=2)]


def combos_tables(rows: Sequence[Row]) -> list[Table]:
    """NSL of unions."""
    body = [
        [
            str(line["n"]),
            line["method"],
            number(line["sets"]),
            number(line["values"]),
            *(ratio(line[key]) for key in ("mean", "std", "std_all", "min", "max")),
        ]
        for line in combos_summary(rows)
    ]
    headings = [
        "languages", "method", "sets", "values", "NSL", "± languages", "± all", "min", "max",
    ]  # fmt: skip
    return [Table("NSL of unions of languages", headings, body, left=2)]


def scaling_tables(rows: Sequence[Row]) -> list[Table]:
    """Size of T."""
    body = [
        [str(line["n"]), *(number(line[key]) for key in ("total", "min", "max", "new", "adopted"))]
        for line in scaling_summary(rows)
    ]
    headings = ["languages", "tokens of T", "min", "max", "new", "adopted"]
    return [Table("Size of the whole vocabulary, mean over orders", headings, body)]


def budget_tables(rows: Sequence[Row]) -> list[Table]:
    """NSL over budgets."""
    body = [
        [
            number(line["k"]),
            line["tokenizer"],
            number(line["size"]),
            *(ratio(line[key]) for key in ("mean", "min", "max")),
            line["worst"],
        ]
        for line in budget_summary(rows)
    ]
    headings = ["tokens per language", "tokenizer", "size", "NSL", "min", "max", "of"]
    return [Table("NSL over budgets", headings, body, left=2)]


def cost_tables(rows: Sequence[Row]) -> list[Table]:
    """Cost by model size."""
    body = [
        [
            line["tokenizer"],
            line["scale"],
            number(line["size"]),
            ratio(line["mean"]),
            ratio(line["max"]),
            line["worst"],
        ]
        for line in cost_summary(rows)
    ]
    headings = ["tokenizer", "model", "size", "cost", "max", "of"]
    return [Table("Cost relative to monolingual tokenizers", headings, body, left=2)]


def sampling_tables(rows: Sequence[Row]) -> list[Table]:
    """Bits per byte, and the share written in the language, by regime and vocabulary."""
    return [
        _by_regime(rows, "bits_per_byte", "Bits per byte of held-out text"),
        _by_regime(rows, "in_language", "Share of what the model writes that is in the language"),
    ]


def _by_regime(rows: Sequence[Row], key: str, caption: str) -> Table:
    columns = list(dict.fromkeys((row["sampling"], row["inference"]) for row in rows))
    cells = {(row["language"], row["sampling"], row["inference"]): row.get(key) for row in rows}
    body = [
        [language, *(ratio(cells.get((language, *column))) for column in columns)]
        for language in languages_of(rows)
    ]
    headings = [f"{sampling} / {inference}" for sampling, inference in columns]
    return Table(caption, ["language", *headings], body)


def evaluation_tables(rows: Sequence[Row]) -> list[Table]:
    """Languages as rows, tasks and metrics as columns, for each inference vocabulary."""
    tables = []
    for (infer,), group in grouped(rows, "infer").items():
        columns = list(dict.fromkeys((row["task"], row["metric"]) for row in group))
        cells = {(row["language"], row["task"], row["metric"]): row["value"] for row in group}
        body = [
            [language, *(score(cells.get((language, *column))) for column in columns)]
            for language in languages_of(group)
        ]
        names = [f"{task} {metric}" for task, metric in columns]
        tables.append(Table(f"Scores with --infer {infer}", ["language", *names], body))
    return tables


def score(value: float | None) -> str:
    """A score from 0 to 100.

    >>> score(33.333), score(None)
    ('33.3', '–')
    """
    return "–" if value is None else f"{value:.1f}"


def generation_tables(rows: Sequence[Row]) -> list[Table]:
    """Prompts and what the model wrote, a cell a text."""
    body = [
        [",".join(row["langs"]), row["prompt"], row["text"], number(row["prompt_tokens"])]
        for row in rows
    ]
    headings = ["vocabulary", "prompt", "the model went on", "prompt's tokens"]
    return [Table("Generated text", headings, body, left=3, prose=True)]


TABLES: dict[str, Callable[[Sequence[Row]], list[Table]]] = {
    "nsl": nsl_tables,
    "fairness": fairness_tables,
    "origin": origin_tables,
    "orders": orders_tables,
    "combos": combos_tables,
    "scaling": scaling_tables,
    "budget": budget_tables,
    "cost": cost_tables,
    "sampling": sampling_tables,
    "evaluation": evaluation_tables,
    "generation": generation_tables,
}
"""Kind of rows → its tables."""


def tokenizer_table(tokenizer: ModularTokenizer) -> Table:
    """Per language: its tokens, how many no other language has, and how many all have."""
    members = tokenizer.token_membership
    owners = members.sum(axis=1)
    body = []
    for column, language in enumerate(tokenizer.languages):
        mine = members[:, column]
        corpus = tokenizer.corpora.get(language)
        body.append(
            [
                language,
                number(mine.sum()),
                number((mine & (owners == 1)).sum()),
                percent(float((mine & (owners > 1)).sum() / mine.sum())),
                "–" if corpus is None else size(corpus.bytes),
            ]
        )
    headings = ["language", "tokens", "its alone", "shared %", "learned from"]
    return Table("Languages in training order", headings, body)


def all_tokenizers_table(tokenizers: Mapping[str, ModularTokenizer]) -> Table:
    """A row for each tokenizer of the workspace."""
    body = [
        [
            name,
            tokenizer.algorithm,
            number(len(tokenizer.languages)),
            number(tokenizer.k),
            number(tokenizer.size),
            tokenizer.signature,
        ]
        for name, tokenizer in tokenizers.items()
    ]
    headings = ["name", "algorithm", "languages", "tokens asked for", "tokens in all", "signature"]
    return Table("Tokenizers in the workspace", headings, body, left=2)
