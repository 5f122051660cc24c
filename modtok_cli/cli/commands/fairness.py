"""`modtok fairness`: tokenization cost of languages on parallel text."""

from collections.abc import Mapping, Sequence
from typing import Any

from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.commands.nsl import tokenizers_of
from modtok_cli.cli.output import Column, emit_tables, parse_columns
from modtok_cli.cli.plotting import emit_plot
from modtok_cli.measure.fairness import fairness
from modtok_cli.reports.kinds.tokenizers import summary_title

TOTALS = parse_columns(
    "tokenizer, size:int, per_character_mean=/char:ratio, per_character_max_min=max/min:ratio, "
    "premium_max=premium:ratio, premium_max_language=of, tokens_gini=Gini:ratio, "
    "tokens_max_min=worst/best:ratio, tokens_relative=vs first:ratio, "
    "nsl_mean=NSL:ratio, utilization=used:ratio, merge_only=junk:ratio"
)


@command(
    "fairness",
    fairness,
    keeps=True,
    examples="""
    # tokenizer/ on parallel text, one file per language
    modtok fairness flores/
    # each language with its own subtokenizer, and external tokenizers
    modtok fairness -t tokenizer@each -t llama3.tiktoken -t gemma.json flores/
    # plot, relative to French
    modtok fairness -t tokenizer flores/ --pivot fr --plot fairness.svg
    """,
)
def show(call: Call, plot: Plot = None, json: Json = False) -> None:
    rows = call(tokenizers=tokenizers_of(call))
    totals = [row for row in rows if row["kind"] == "tokenizer"]
    wide, columns = per_language(rows)
    emit_tables(
        rows,
        [("Tokens per character", wide, columns), (summary_title(rows), totals, TOTALS)],
        json=json,
    )
    emit_plot(call.say, plot, rows, "fairness")


def per_language(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], list[Column]]:
    """Return languages as rows, tokenizers as columns: tokens per character."""
    table: dict[str, dict[str, Any]] = {}
    labels: dict[str, None] = {}
    for row in rows:
        if row["kind"] == "language":
            labels[row["tokenizer"]] = None
            line = table.setdefault(row["language"], {"language": row["language"]})
            line[row["tokenizer"]] = row["tokens_per_character"]
    columns = [Column("language", "lang"), *(Column(name, name, "ratio") for name in labels)]
    return list(table.values()), columns
