"""`modtok check`: how well any tokenizer suits a language."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from modtok_cli.base.errors import UsageError, missing
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import PATHS
from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.commands.nsl import WORKSPACE_TOKENIZER, tokenizers_or_default
from modtok_cli.cli.output import Column, emit_tables, parse_columns
from modtok_cli.cli.plotting import emit_plot
from modtok_cli.measure.check import check, hint, split_arguments
from modtok_cli.reports.tables import grouped

Arguments = Annotated[
    list[str],
    Option(
        "Tokenizers (as in -t) and texts (.txt, .jsonl, .parquet, .csv, .arrow, directory, or - "
        "for stdin), in any order.",
        argument=True,
        metavar="TOKENIZER_OR_TEXT",
        hub="tokenizer",
        complete="tokenizers",
        accepts=PATHS,
    ),
]


@command(
    "check",
    check,
    keeps=True,
    examples="""
    # how many tokens does Gemma's tokenizer need for Finnish?
    modtok check gemma.json fi.txt
    # several tokenizers on several languages, one file per language
    modtok check llama3.tiktoken other.model texts/
    # text from a pipe
    head -n 100 fi.txt | modtok check gemma.json - --lang fi
    # the tokenizer in tokenizer/, and each language's subset of it
    modtok check tokenizer tokenizer@each texts/
    # also with errors, in upper case, without diacritics, mixed with English
    modtok check tokenizer@each llama3.tiktoken texts/ --robust
    """,
)
def show(call: Call, arguments: Arguments, plot: Plot = None, json: Json = False) -> None:
    """Without a tokenizer, tokenizer/ is judged. For exact ratios with reference tokenizers use
    modtok nsl.
    """
    tokenizers, texts = split_arguments(arguments)
    if not texts:
        for name in tokenizers:
            if "@" not in name and not Path(name).exists():
                raise missing(name)
        raise UsageError(
            f"no text among the arguments: {', '.join(arguments)}",
            remedy="as in: modtok check tokenizer.json fi.txt",
        )
    specs = [*tokenizers, *call.values.get("tokenizers", [])]
    specs = specs or tokenizers_or_default(call, None, texts)
    if specs == [WORKSPACE_TOKENIZER] and not Path(WORKSPACE_TOKENIZER).exists():
        raise UsageError(
            f"no tokenizer among the arguments, and no {WORKSPACE_TOKENIZER}/ here: "
            + ", ".join(arguments),
            remedy="as in: modtok check tokenizer.json fi.txt",
        )
    rows = call(tokenizers=specs, texts=texts)
    verdicts = [{**row, "text": f"{row['verdict']}: {row['reason']}"} for row in rows]
    tables = [
        ("Tokens per word and character, words in one token", rows, columns(rows)),
        ("Verdicts", verdicts, VERDICTS),
    ]
    if call.values.get("robust"):
        tables.append(("Tokens relative to the unchanged text", rows, CHANGED))
    emit_tables(rows, tables, json=json)
    for text in filter(None, map(hint, grouped(rows, "tokenizer").values())):
        call.say(text)
    emit_plot(call.say, plot, rows, "check")


VERDICTS = [*parse_columns("name=language, tokenizer, text=verdict")]
CHANGED = [
    *parse_columns(
        "name=language, tokenizer, errors_5=5% errors:ratio, errors_10=10% errors:ratio, "
        "upper_case=upper:ratio, no_diacritics=no marks:ratio, mixed_with_english=+English:ratio"
    )
]


def columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Return columns of the numbers; about English and unknown tokens only where there are any."""
    columns = [
        *parse_columns(
            "name=language, tokenizer, tokens:int, tokens_per_word=/word:ratio, "
            "one_token_words=1 token:ratio, "
            "tokens_per_character=/char:ratio, excess=vs mono:ratio, "
            "byte_tokens=bytes:ratio"
        )
    ]
    if any(row["unknown_tokens"] for row in rows):
        columns.append(Column("unknown_tokens", "unknown", "ratio"))
    if any(row["premium"] is not None for row in rows):
        columns.append(Column("premium", "vs English", "ratio"))
    elif any(row["per_character_premium"] is not None for row in rows):
        columns.append(Column("per_character_premium", "/char vs English", "ratio"))
    return columns
