"""`modtok nsl`: normalized sequence length of tokenizers on texts."""

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import Json, Lang, Plot, References, Texts, Tokenizers
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.plotting import check_plot, emit_plot
from modtok_cli.cli.session import Session, stdin_holds_data
from modtok_cli.text.reading import Reading

COLUMNS = (
    Column("text", "text"),
    Column("language", "lang"),
    Column("tokenizer", "tokenizer"),
    Column("size", "size", "int"),
    Column("tokens", "tokens", "int"),
    Column("nsl", "NSL", "ratio"),
    Column("tokens_per_character", "/char", "ratio"),
    Column("tokens_per_byte", "/byte", "ratio"),
    Column("tokens_per_word", "/word", "ratio"),
)
BOUNDARIES = (
    Column("morph_score", "MorphScore", "ratio"),
    Column("boundary_f1", "boundary F1", "ratio"),
)
Morphemes = Annotated[
    Path | None,
    typer.Option(
        "--morphemes",
        metavar="PATH",
        help="File or directory with segmented words (LANG.tsv: word, tab, morphemes joined by |).",
    ),
]
WORKSPACE_TOKENIZER = "tokenizer"


@command(
    "nsl",
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
def nsl(
    session: Session,
    texts: Texts,
    tokenizer: Tokenizers = None,
    references: References = None,
    morphemes: Morphemes = None,
    lang: Lang = None,
    reading: Reading = Reading(),
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Measure token counts relative to monolingual tokenizers.

    NSL (normalized sequence length) is the number of tokens divided by that of the
    monolingual reference tokenizer of the language: 1.2 means 20% more tokens. Tokens per
    character, byte and word are reported as well. --morphemes adds MorphScore and the F1 of
    token boundaries against morpheme boundaries.

    Without -t, the tokenizer is read from standard input if that is a pipe or a file, else
    from tokenizer/. DIR@each uses the subset of the language of each text.
    """
    sources = text_paths(texts)
    check_plot(plot)
    from modtok_cli.measure.nsl import nsl

    rows = nsl(
        tokenizers_or_default(session, tokenizer, texts),
        sources,
        references=references,
        morphemes=morphemes,
        language=lang,
        reading=reading,
        progress=session.progress,
    )
    columns = (*COLUMNS, *BOUNDARIES) if morphemes else COLUMNS
    emit_rows(rows, columns, title="NSL and tokens per character, byte and word", json=json)
    emit_plot(session, plot, rows, "nsl")


def tokenizers_or_default(
    session: Session, tokenizers: list[str] | None, texts: list[str]
) -> list[str]:
    """Tokenizers of -t; else `-` if standard input has data, else the tokenizer/ directory."""
    if tokenizers:
        return tokenizers
    if "-" in texts or not stdin_holds_data():
        return [WORKSPACE_TOKENIZER]
    # A note, since the command would wait silently if -t was forgotten.
    session.say("reading the tokenizer from standard input")
    return ["-"]


def text_paths(texts: list[str]) -> list[Path | str]:
    """Paths of `texts`; `-` is kept.

    Raises:
        UsageError: a repeated `-`.
    """
    if texts.count("-") > 1:
        raise UsageError("standard input (-) is given twice", remedy="give it once")
    return ["-" if text == "-" else Path(text) for text in texts]
