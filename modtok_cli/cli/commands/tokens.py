"""`modtok tokens`: ids of the tokens of some languages, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.inference_options import Coverage, TokensPerLanguage
from modtok_cli.cli.options import Data, Force, Langs, OutputOrStdout
from modtok_cli.cli.output import emit_bytes, is_stdout_terminal
from modtok_cli.cli.session import Session
from modtok_cli.text.languages import optional_languages

Source = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="A modular directory, or the directory of a Hugging Face model."
    ),
]
ListFormat = Annotated[
    str,
    typer.Option(
        "--format", metavar="NAME", help="List format: ids, json, vllm, llama.cpp, sglang."
    ),
]


@command(
    "tokens",
    tables=False,
    examples="""
    # ids of the French tokens, one per line
    modtok tokens tokenizer --langs fr > fr.txt
    # of any model, by the text in data/, for requests to llama.cpp's server
    modtok tokens model/ --langs fr --format llama.cpp -o fr.json
    # token map for speculative decoding in SGLang: the 16,000 most useful
    modtok tokens model/ --langs fr,en -k 16000 --format sglang -o fr-en.pt
    """,
)
def tokens(
    session: Session,
    source: Source,
    langs: Langs = None,
    data: Data = Path("data"),
    k: TokensPerLanguage = None,
    coverage: Coverage = None,
    format: ListFormat = "ids",
    output: OutputOrStdout = None,
    force: Force = False,
) -> None:
    """List the ids of the tokens of some languages.

    Programs restrict a model's output with them.

    MODEL is a modular directory (also of modtok adopt), or a Hugging Face model with text of the
    languages in data/. Ids are those of the whole model. The formats vllm and llama.cpp are
    fields of a request; sglang is a file for --speculative-token-map.
    """
    from modtok_cli.base.files import write_bytes
    from modtok_cli.inference.hf.slice import Selection
    from modtok_cli.inference.hf.token_lists import check_format, select, token_list

    languages = optional_languages(langs)
    if languages is None:
        raise UsageError("no languages given", remedy="as in: modtok tokens MODEL --langs fr,en")
    if output is not None and output.exists() and not force:
        raise UsageError(
            "already exists", where=str(output), remedy="choose another -o or pass --force"
        )
    if output is None and format == "sglang" and is_stdout_terminal():
        raise UsageError("standard output is a terminal", remedy="write to a file with -o")
    check_format(format)  # before any text is read
    selection = Selection(tuple(languages), data=data, k=k, coverage=coverage)
    ids, rows = select(source, selection, session.progress)
    content = token_list(ids, rows, format)
    if output is None:
        emit_bytes(content)
    else:
        write_bytes(output, content)
        session.say(f"wrote {len(ids):,} of {rows:,} ids to {output}")
