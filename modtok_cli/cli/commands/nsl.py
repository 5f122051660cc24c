"""`modtok nsl`: normalized sequence length of tokenizers on texts."""

from collections.abc import Sequence

from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.output import Column, emit_rows, parse_columns
from modtok_cli.cli.plotting import emit_plot
from modtok_cli.cli.session import stdin_holds_data
from modtok_cli.measure.nsl import nsl

COLUMNS = parse_columns(
    "text, language=lang, tokenizer, size:int, tokens:int, nsl=NSL:ratio, "
    "tokens_per_character=/char:ratio, tokens_per_byte=/byte:ratio, tokens_per_word=/word:ratio, "
    "one_token_words=1 token:ratio"
)
(NSL,) = (column for column in COLUMNS if column.key == "nsl")
BOUNDARIES = parse_columns("morph_score=MorphScore:ratio, boundary_f1=boundary F1:ratio")
WORKSPACE_TOKENIZER = "tokenizer"


@command(
    "nsl",
    nsl,
    keeps=True,
    examples="""
    # tokenizer/ on a text
    modtok nsl flores.txt
    # a subset, by pipe and by name
    modtok extract --langs fr,en | modtok nsl flores.txt
    modtok nsl -t tokenizer@fr,en flores.txt
    # each text with the subset of its language
    modtok nsl -t tokenizer@each en.txt fi.txt fr.txt
    # several tokenizers on several texts
    modtok nsl -t tokenizer@fr -t bpe-joint fr.txt en.txt
    # token boundaries against morpheme boundaries
    modtok nsl -t tokenizer@each fi.txt --morphemes fi.tsv
    # as a plot
    modtok nsl -t tokenizer -t tokenizer@each -t bpe-joint texts/ --plot nsl.svg
    """,
)
def show(call: Call, plot: Plot = None, json: Json = False) -> None:
    """Without -t, the tokenizer is read from standard input if that is a pipe or a file, else
    from tokenizer/.
    """
    rows = call(tokenizers=tokenizers_of(call))
    columns = [*COLUMNS, *(BOUNDARIES if "morphemes" in call.values else ())]
    if len({row["reference_size"] for row in rows} - {None}) > 1:  # each language has its own k
        columns.insert(columns.index(NSL) + 1, Column("reference_size", "of k", "int"))
    emit_rows(
        rows, columns, title="NSL, tokens per character and word, words in one token", json=json
    )
    emit_plot(call.say, plot, rows, "nsl")


def tokenizers_of(call: Call) -> list[str]:
    """Return tokenizers of a call that measures texts, as `tokenizers_or_default` has them."""
    return tokenizers_or_default(call, call.values.get("tokenizers"), call.values["texts"])


def tokenizers_or_default(
    call: Call, tokenizers: Sequence[str] | None, texts: Sequence[str]
) -> list[str]:
    """Return tokenizers of -t; else `-` if standard input has data, else tokenizer/."""
    if tokenizers:
        return list(tokenizers)
    if "-" in texts or not stdin_holds_data():
        return [WORKSPACE_TOKENIZER]
    # A note, since the command would wait silently if -t was forgotten.
    call.say("reading the tokenizer from standard input")
    return ["-"]
