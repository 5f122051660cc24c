"""`modtok adopt`: an existing tokenizer becomes a modular one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.commands.inspect import LANGUAGES
from modtok_cli.cli.options import (
    Data,
    Force,
    Json,
    Langs,
    Output,
    Threads,
)
from modtok_cli.cli.output import emit_rows
from modtok_cli.cli.session import Session
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading

Source = Annotated[
    Path,
    typer.Argument(
        metavar="TOKENIZER", help="A tokenizer.json, or the directory of a Hugging Face model."
    ),
]
TokensPerLanguage = Annotated[
    int | None,
    typer.Option(
        "-k",
        "--budget",
        metavar="N",
        min=257,
        help="Keep the N most used tokens of each language; all used tokens by default.",
    ),
]
Coverage = Annotated[
    float | None,
    typer.Option(
        "--coverage",
        metavar="SHARE",
        min=0,
        max=1,
        help="Drop rare tokens while texts grow by at most 1 − SHARE.",
    ),
]


EndOfText = Annotated[
    str | None,
    typer.Option(
        "--end-of-text",
        metavar="TOKEN",
        help="Token between documents, for pretrain. Default: eos_token of the files beside the "
        "tokenizer.",
    ),
]


@command(
    "adopt",
    examples="""
    # which tokens of a model each language in data/ uses
    modtok adopt model/ -o adopted
    # at most 24,000 tokens per language
    modtok adopt model/ --langs fr,en -k 24000 -o adopted
    # the tokenizer of French and English
    modtok extract -t adopted --langs fr,en -o fr-en.json
    """,
)
def adopt(
    session: Session,
    source: Source,
    langs: Langs = None,
    data: Data = Path("data"),
    k: TokensPerLanguage = None,
    coverage: Coverage = None,
    end_of_text: EndOfText = None,
    output: Output = Path("tokenizer"),
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Make an existing tokenizer modular.

    The vocabulary and its ids stay as they are. A language gets the tokens that its text in
    data/ uses, with all tokens that the merges build them from. Then extract, slice, nsl,
    fairness and inspect work for any set of the languages, and pretrain --init-from continues
    the model with it.

    TOKENIZER is a byte-level BPE, a SentencePiece BPE or a Unigram tokenizer.json. Text in other
    languages stays lossless if the tokenizer has bytes.
    """
    output = output or Path("tokenizer")
    from modtok_cli.modular.adopted.adopt import adopt as adopt_tokenizer
    from modtok_cli.modular.adopted.adopt import check_output
    from modtok_cli.modular.inspect import contents

    check_output(output, force=force)
    made = adopt_tokenizer(
        source,
        optional_languages(langs),
        data=data,
        k=k,
        coverage=coverage,
        end_of_text=end_of_text,
        reading=reading,
        threads=threads,
        progress=session.progress,
    )
    made.save(output)
    rows = contents(made)
    caption = f"{output}: {made.size:,} tokens in all, signature {made.signature}"
    emit_rows(rows, LANGUAGES, title="Tokens in use", json=json, caption=caption)
