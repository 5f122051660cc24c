"""`modtok bpe-parity`: parity-aware BPE, a fairness baseline."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    MAX_BUDGET,
    Data,
    Force,
    Json,
    Langs,
    NoDefaultSpecials,
    Output,
    Pretokenizer,
    Special,
    split_languages,
)
from modtok_cli.cli.report import emit_report
from modtok_cli.cli.session import Session
from modtok_cli.text.reading import Reading

Parallel = Annotated[
    Path,
    Argument(
        metavar="PARALLEL", help="Directory of line-aligned text that compression is balanced on."
    ),
]

Total = Annotated[
    int,
    Option(
        "-k",
        "--budget",
        metavar="N",
        max=MAX_BUDGET,
        help="Total vocabulary size, including bytes.",
    ),
]


@command(
    "bpe-parity",
    examples="""
    # balance on a development set, compare on a test set
    modtok bpe-parity flores/dev --langs en,fi,fr -k 64000
    modtok fairness -t bpe-parity.json -t tokenizer@each flores/devtest
    """,
)
def bpe_parity(
    session: Session,
    parallel: Parallel,
    langs: Langs = None,
    k: Total = 128000,
    pretokenizer: Pretokenizer = "bpe",
    special: Special = None,
    no_default_specials: NoDefaultSpecials = False,
    data: Data = Path("data"),
    output: Output = Path("bpe-parity.json"),
    reading: Reading = Reading(),
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn parity-aware BPE, a fairness baseline.

    One vocabulary of N tokens for all languages. Each merge is chosen for the language with
    the worst compression on PARALLEL so far. Requires a version of the tokenizers library
    with this trainer. Do not evaluate on PARALLEL.
    """
    from modtok_cli.construct.bpe_parity import bpe_parity

    report = bpe_parity(
        parallel,
        split_languages(langs),
        data=data,
        output=output or Path("bpe-parity.json"),
        k=k,
        pretokenizer=pretokenizer,
        specials=tuple(special or ()),
        default_specials=not no_default_specials,
        reading=reading,
        force=force,
        progress=session.progress,
    )
    emit_report(report, title="Parity-aware BPE", json=json)
