"""`modtok explore`: a page that shows how tokenizers segment text that one types."""

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli import completion
from modtok_cli.cli.command import command
from modtok_cli.cli.options import Force, Json, Langs, Output, Tokenizers
from modtok_cli.cli.output import emit_object
from modtok_cli.cli.session import Session
from modtok_cli.text.languages import optional_languages

WORKSPACE_TOKENIZER = "tokenizer"
PAGE = Path("explore.html")

Named = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOKENIZER",
        autocompletion=completion.tokenizers,
        help="Tokenizers, as in -t.",
    ),
]


@command(
    "explore",
    tables=False,
    examples="""
    # the tokenizer in tokenizer/: open explore.html in a browser
    modtok explore
    # beside other tokenizers, with Finnish and French chosen
    modtok explore tokenizer llama3.tiktoken --langs fi,fr -o page.html
    """,
)
def explore(
    session: Session,
    names: Named = None,
    tokenizer: Tokenizers = None,
    langs: Langs = None,
    output: Output = PAGE,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a page that segments typed text in the browser.

    Shows tokens in the color of their language, token counts and vocabulary sizes, for any
    set of languages of a modular tokenizer and for other tokenizers beside it. The page is one
    HTML file that needs no server and no network; it computes the same ids as modtok encode.

    Tokenizers: modular directories and plain files of modtok; a tokenizer.json with BPE of
    bytes (GPT-2, Llama 3, Qwen) or of characters with byte fallback (Gemma, Llama 2), or Unigram
    without a normalizer; tiktoken rank files. SentencePiece files of other programs are refused.
    --langs are the languages that are chosen when the page opens.
    """
    from modtok_cli.reports.explore.page import explore

    row = explore(
        [*(names or []), *(tokenizer or [])] or [WORKSPACE_TOKENIZER],
        output or PAGE,
        languages=optional_languages(langs),
        force=force,
        progress=session.progress,
    )
    session.say(f"wrote {output} ({row['bytes'] / 1e6:.1f} MB); open it in a browser")
    if json:
        emit_object(row)
