"""`modtok extract`: the tokenizer of some languages, or of the most used tokens, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Errors,
    Force,
    Json,
    Langs,
    Output,
    Tokenizer,
    split_languages,
    subset_spec,
)
from modtok_cli.cli.output import emit_bytes, emit_object, is_stdout_terminal
from modtok_cli.cli.session import Session

WORKSPACE_TOKENIZER = "tokenizer"

Name = Annotated[
    str | None,
    typer.Argument(metavar="TOKENIZER", help="The same as -t TOKENIZER."),
]
TopK = Annotated[
    int | None,
    typer.Option(
        "--top-k",
        metavar="N",
        min=1,
        help="Keep the N tokens that --on uses most, of any Unigram tokenizer.",
    ),
]
On = Annotated[
    list[str] | None,
    typer.Option("--on", metavar="TEXT", help="Text for --top-k. May be given several times."),
]


@command(
    "extract",
    examples="""
    # French and English, for any program that reads a tokenizer.json
    modtok extract --langs fr,en -o fr-en.json
    # straight into a measurement
    modtok extract --langs fr,en | modtok nsl flores.txt
    # from another directory
    modtok extract -t bpe-joint --langs fi > fi.json
    # a Unigram tokenizer for SentencePiece
    modtok extract -t unigram-merged --langs fr -o fr.model
    # the 24,000 tokens that French uses most, of a model from elsewhere
    modtok extract --top-k 24000 --on data/fr.jsonl.zst other.model -o fr.model
    """,
)
def extract(
    session: Session,
    name: Name = None,
    langs: Langs = None,
    tokenizer: Tokenizer = WORKSPACE_TOKENIZER,
    top_k: TopK = None,
    on: On = None,
    output: Output = None,
    errors: Errors = "strict",
    force: Force = False,
    json: Json = False,
) -> None:
    """Take the tokenizer of some languages out of a modular one.

    The result is an ordinary tokenizer.json with ids from 0 on, on standard output or in
    the file of -o; a SentencePiece .model if that is its name and the tokenizer is
    Unigram, or bpe-merge's of --whole-characters. Its bytes depend on the tokenizer and
    the set of languages alone.

    With --top-k and --on the tokens are chosen by how often a text uses them, in place of
    or beside --langs; special tokens and bytes always stay.
    """
    if name is not None:
        if tokenizer not in (WORKSPACE_TOKENIZER, name):
            raise UsageError(f"two tokenizers, {name} and {tokenizer}", remedy="name one")
        tokenizer = name
    if (top_k is None) != (not on):
        raise UsageError(
            "--top-k and --on go together",
            remedy="as in: modtok extract --top-k 24000 --on data/fr.jsonl.zst TOKENIZER",
        )
    languages = split_languages(langs)
    if languages is None and top_k is None:
        raise UsageError("which languages?", remedy="name them: modtok extract --langs fr,en")
    if output is None and json:
        raise UsageError("--json needs -o", remedy="standard output has the tokenizer.json")
    if output is None and is_stdout_terminal():
        raise UsageError(
            "a tokenizer.json is nothing for a terminal",
            remedy="name a file with -o, or pipe it: modtok extract --langs fr,en | modtok nsl …",
        )
    if output is not None and output.exists() and not force:
        raise UsageError(
            "is there already", where=str(output), remedy="choose another -o, or --force"
        )
    from modtok_cli.base.files import write_bytes

    as_model = output is not None and output.suffix == ".model"
    if top_k is not None:
        from modtok_cli.modular.frequent import extract_frequent

        texts: list[Path | str] = ["-" if text == "-" else Path(text) for text in on or []]
        data = extract_frequent(
            subset_spec(tokenizer, langs),
            top_k,
            texts,
            as_model=None if output is None else as_model,
            errors=errors,
            progress=session.progress,
        )
    else:
        from modtok_cli.modular.extract import extract

        data = extract(Path(tokenizer), languages or [], as_model=as_model)
    if output is None:
        emit_bytes(data)
    else:
        write_bytes(output, data)
        session.say(f"wrote {output}")
        if json:
            emit_object({"output": str(output), "bytes": len(data)})
