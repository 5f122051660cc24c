"""Rows of `modtok check`, `nsl`, `fairness` and `origin`."""

from collections.abc import Sequence

from modtok_cli.measure.check import SOME_UNKNOWN
from modtok_cli.reports.charts import Chart, Curves, Heat, dots
from modtok_cli.reports.kinds import RowKind
from modtok_cli.reports.tables import (
    Row,
    Table,
    by_text,
    cell,
    language_table,
    languages_of,
    parse_columns,
    short_names,
    table_of,
)
from modtok_cli.text.languages import Label


def _check_charts(rows: Sequence[Row]) -> list[Chart]:
    title = "Tokens relative to a monolingual tokenizer, estimated"
    axis = "estimate (1: as many tokens as a monolingual tokenizer, k = 24,000; lower is better)"
    return [dots(group, "excess", title + on, axis, reference=1.0) for on, group in by_text(rows)]


_ONE_TOKEN = "Share of words in one token"
_VERDICTS = parse_columns("language, tokenizer, verdict, reason")


def _check_tables(rows: Sequence[Row]) -> list[Table]:
    tables = []
    for on, group in by_text(rows):
        tables.append(table_of(f"Verdicts{on}", group, _VERDICTS, left=4, prose=True))
        tables.append(language_table(group, "tokens_per_word", f"Tokens per word{on}"))
        table = language_table(group, "one_token_words", _ONE_TOKEN + on, least=False)
        tables.append(table)
    return tables


def _lossless(rows: Sequence[Row]) -> list[Row]:
    """Rows of tokenizers that do not lose text: unknown tokens are few and bad."""
    losing = {
        row["tokenizer"] for row in rows if (row.get("unknown_tokens") or 0.0) >= SOME_UNKNOWN
    }
    return [row for row in rows if row["tokenizer"] not in losing]


CHECK = RowKind(
    name="check",
    title="Tokenizers judged by language",
    about="Tokens relative to an estimate for a monolingual tokenizer of 24,000 tokens, whatever "
    "the size of the references of NSL.",
    charts=_check_charts,
    tables=_check_tables,
    order=15,
    fields=("tokenizer", "language", "text", "excess", "verdict"),
    key=("tokenizer", "language", "text"),
    measure=("excess", "ratio to a monolingual tokenizer (k = 24,000)"),
    ranked=_lossless,
)


def nsl_charts(rows: Sequence[Row]) -> list[Chart]:
    """NSL per language and tokenizer; tokens per character if no row has an NSL."""
    charts: list[Chart] = []
    for on, group in by_text(rows):
        measured = [row for row in group if row["nsl"] is not None]
        sizes = {row["reference_size"] for row in group if row.get("reference_size")}
        k = f", k = {sizes.pop():,}" if len(sizes) == 1 else ""
        title = f"Tokens relative to a monolingual tokenizer{on}"
        axis = f"NSL (1: as many tokens as a monolingual tokenizer{k}; lower is better)"
        charts.append(
            dots(measured, "nsl", title, axis, reference=1.0)
            if measured
            else _per_character_chart(group, on)
        )
    return charts


def _per_character_chart(rows: Sequence[Row], on: str = "") -> Chart:
    axis = "tokens per character (lower is better, equal is fair)"
    return dots(rows, "tokens_per_character", f"Tokens per character{on}", axis)


def nsl_tables(rows: Sequence[Row]) -> list[Table]:
    """NSL, tokens per character and MorphScore, where a row has them."""
    return [
        language_table(group, key, name + on, least=key not in ("morph_score", "one_token_words"))
        for on, group in by_text(rows)
        for key, name in (
            ("nsl", "NSL"),
            ("tokens_per_character", "Tokens per character"),
            ("one_token_words", _ONE_TOKEN),
            ("morph_score", "MorphScore"),
        )
        if any(row.get(key) is not None for row in group)
    ]


NSL = RowKind(
    name="nsl",
    title="Tokens relative to monolingual tokenizers",
    about="NSL is the number of tokens divided by the number under a monolingual tokenizer, which "
    "is trained on the language alone. 1 means equal; lower is better.",
    charts=nsl_charts,
    tables=nsl_tables,
    order=10,
    fields=("tokenizer", "language", "text", "nsl", "tokens_per_character"),
    key=("tokenizer", "language", "text"),
    measure=("nsl", "NSL"),
)


_TOTALS = parse_columns(
    "tokenizer, size:int, per_character_mean=tokens/character:ratio, "
    "per_character_max_min=max/min:ratio, premium_max=premium:ratio, premium_max_language=of, "
    "tokens_gini=Gini:ratio, tokens_max_min=worst/best:ratio, "
    "tokens_relative=tokens vs first:ratio, nsl_mean=NSL:ratio, "
    "utilization=vocabulary used %:percent, merge_only=junk %:percent"
)


def _by_kind(rows: Sequence[Row]) -> tuple[list[Row], list[Row], str]:
    """Rows of languages, rows of tokenizers, and the name of the pivot language."""
    lines = [row for row in rows if row.get("kind") == "language"]
    totals = [row for row in rows if row["kind"] == "tokenizer"]
    return lines, totals, Label.of(lines[0]["pivot"] if lines else "en").name


def _fairness_charts(rows: Sequence[Row]) -> list[Chart]:
    """Tokens per character, and the premium over the pivot language."""
    lines, _, pivot = _by_kind(rows)
    title = f"Parity premium over {pivot}"
    axis = f"tokens for the same lines, relative to {pivot} (1: equal)"
    premium = dots(lines, "premium", title, axis, reference=1.0)
    points = {
        row["tokenizer"]: [(row["tokens_relative"], row["tokens_gini"])]
        for row in rows
        if row["kind"] == "tokenizer" and row.get("tokens_relative") is not None
    }
    cost = Curves(
        "What even numbers of tokens cost",
        "tokens relative to the first tokenizer (lower is better)",
        "Gini coefficient (0: equal)",
        {"": points} if len(points) > 1 else {},
    )
    return [_per_character_chart(lines), premium, cost]


def _fairness_tables(rows: Sequence[Row]) -> list[Table]:
    """A summary over languages, then tables by language."""
    lines, totals, pivot = _by_kind(rows)
    names = short_names([row["tokenizer"] for row in totals])
    named = [{**row, "tokenizer": names[row["tokenizer"]]} for row in totals]
    return [
        *([table_of(summary_title(rows), named, _TOTALS)] if totals else []),
        language_table(lines, "tokens_per_character", "Tokens per character"),
        language_table(lines, "premium", f"Parity premium over {pivot}", mean=False),
    ]


def summary_title(rows: Sequence[Row]) -> str:
    """Title of the summary rows, with the languages that they are over.

    >>> line = {"kind": "language", "language": "en"}
    >>> total = {"kind": "tokenizer", "languages": ["en"]}
    >>> summary_title([line, total]), summary_title([line, {**line, "language": "fi"}, total])
    ('Over 1 language', 'Over the 1 of 2 languages measured with all tokenizers: en')
    """
    present = languages_of([row for row in rows if row["kind"] == "language"])
    over = next((list(row["languages"]) for row in rows if row["kind"] == "tokenizer"), [])
    if len(over) == len(present):
        return f"Over {len(over)} language{'s' * (len(over) != 1)}"
    names = ", ".join(over)
    return f"Over the {len(over)} of {len(present)} languages measured with all tokenizers: {names}"


FAIRNESS = RowKind(
    name="fairness",
    title="Fairness across languages",
    about="The texts are the same lines in every language. The premium is the tokens of a "
    "language divided by the tokens of the pivot language. Gini is 0 if all languages need the "
    "same number of tokens. Junk tokens occur only as parts of other tokens.",
    charts=_fairness_charts,
    tables=_fairness_tables,
    order=20,
    fields=("kind", "tokenizer"),
    measure=("premium", "premium"),
)


def _origin_charts(rows: Sequence[Row]) -> list[Chart]:
    """Share of tokens from other languages, and the languages they belong to."""
    charts: list[Chart] = []
    for on, group in by_text(rows):
        languages = languages_of(group)
        columns = sorted({name for row in group for name in row["exclusive"]} | set(languages))
        outside = [
            {"tokenizer": name, "language": row["language"], "share": 100 * share}
            for row in group
            for name, share in (
                ("of any other language", row["outside"]),
                ("of exactly one other language", sum(row["exclusive"].values())),
            )
        ]
        values = {
            (row["language"], column): 100 * share
            for row in group
            for column, share in row["exclusive"].items()
        }
        heat = Heat(
            f"Languages that these tokens belong to{on}",
            "% of the source's tokens that belong to the added language only",
            "source",
            "added language",
            languages,
            columns,
            values,
        )
        charts += [dots(outside, "share", _TITLE + on, "% of the tokens of its text"), heat]
    return charts


_TITLE = "Tokens outside the language's own subtokenizer"
_OUTSIDE = parse_columns(
    "language, text, tokens:int, outside=outside %:percent, one=one other %:percent, "
    "several=several %:percent, largest"
)


def _origin_tables(rows: Sequence[Row]) -> list[Table]:
    """Shares of tokens from other languages, and the largest contributors."""
    shown = []
    for row in rows:
        ordered = sorted(row["exclusive"].items(), key=lambda item: (-item[1], item[0]))
        most = ", ".join(f"{name} {cell(share, 'percent')}" for name, share in ordered[:3] if share)
        shown.append({**row, "one": sum(row["exclusive"].values()), "largest": most})
    return [table_of(_TITLE, shown, _OUTSIDE, left=2)]


ORIGIN = RowKind(
    name="origin",
    title="Origin of tokens",
    about="Text of each language, tokenized by the union. Shows tokens that are not in the "
    "language's own subtokenizer.",
    charts=_origin_charts,
    tables=_origin_tables,
    order=30,
    fields=("tokenizer", "language", "text", "outside", "several", "exclusive"),
)

KINDS = (CHECK, NSL, FAIRNESS, ORIGIN)
