"""`modtok nsl`: tokenizers × texts → how many tokens, against monolingual tokenizers."""

from pathlib import Path

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import Errors, Json, Lang, Plot, References, Texts, Tokenizers
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.plotting import check_plot, emit_plot
from modtok_cli.cli.session import Session, stdin_holds_data

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
WORKSPACE_TOKENIZER = "tokenizer"


@command(
    "nsl",
    examples="""
    # the workspace's tokenizer on a text
    modtok nsl flores.txt
    # a subset of it, by pipe and by name
    modtok extract --langs fr,en | modtok nsl flores.txt
    modtok nsl -t tokenizer@fr,en flores.txt
    # every text by the subset of its language
    modtok nsl -t tokenizer@each en.txt fi.txt fr.txt
    # several tokenizers on several texts
    modtok nsl -t tokenizer@fr -t bpe-joint fr.txt en.txt
    # the same as a picture
    modtok nsl -t tokenizer -t tokenizer@each -t bpe-joint texts/ --plot nsl.svg
    """,
)
def nsl(
    session: Session,
    texts: Texts,
    tokenizer: Tokenizers = None,
    references: References = None,
    lang: Lang = None,
    errors: Errors = "strict",
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Measure tokens against monolingual tokenizers.

    NSL (normalized sequence length) is tokens divided by those of the language's own
    tokenizer: 1.2 means a fifth more. Beside it stand tokens per character, per byte and
    per word.

    Without -t, the tokenizer is read from standard input when it is a pipe or a file,
    else it is the workspace's tokenizer/. DIR@each takes for each text the subset of its
    language.
    """
    sources = texts_of(texts)
    check_plot(plot)
    from modtok_cli.measure.nsl import nsl

    rows = nsl(
        named_or_default(session, tokenizer, texts),
        sources,
        references=references,
        language=lang,
        errors=errors,
        progress=session.progress,
    )
    emit_rows(rows, COLUMNS, title="NSL, and tokens per character, byte and word", json=json)
    emit_plot(session, plot, rows, "nsl")


def named_or_default(session: Session, tokenizers: list[str] | None, texts: list[str]) -> list[str]:
    """Those of -t; else `-` when a tokenizer is piped in, which is said, else the workspace's."""
    if tokenizers:
        return tokenizers
    if "-" in texts or not stdin_holds_data():
        return [WORKSPACE_TOKENIZER]
    # Who forgot -t would wait for a pipe that is silent.
    session.say("reading the tokenizer from standard input")
    return ["-"]


def texts_of(texts: list[str]) -> list[Path | str]:
    """Paths, with `-` left as it is.

    Raises:
        UsageError: `-` named twice.
    """
    if texts.count("-") > 1:
        raise UsageError("standard input (-) can be read once only", remedy="name it once")
    return ["-" if text == "-" else Path(text) for text in texts]
