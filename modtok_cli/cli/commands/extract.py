"""`modtok extract`: a compact tokenizer of some languages, or of the most frequent tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli import completion
from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Force,
    Json,
    Langs,
    OutputOrStdout,
    Special,
    Tokenizer,
    subset_spec,
)
from modtok_cli.cli.output import emit_bytes, emit_object, is_stdout_terminal
from modtok_cli.cli.session import Session
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading

WORKSPACE_TOKENIZER = "tokenizer"

Name = Annotated[
    str | None,
    typer.Argument(metavar="TOKENIZER", help="Same as -t TOKENIZER."),
]
TopK = Annotated[
    int | None,
    typer.Option(
        "--top-k",
        metavar="N",
        min=1,
        help="Keep the N tokens most frequent in --on; for any Unigram tokenizer.",
    ),
]
On = Annotated[
    list[str] | None,
    typer.Option("--on", metavar="TEXT", help="Text for --top-k. Repeatable."),
]

HfDirectory = Annotated[
    Path | None,
    typer.Option(
        "--hf",
        metavar="DIR",
        help="Write a directory that AutoTokenizer.from_pretrained opens, instead of a file.",
    ),
]
ChatTemplate = Annotated[
    str | None,
    typer.Option(
        "--chat-template",
        metavar="TEMPLATE",
        autocompletion=completion.chat_templates,
        help="Chat template for --hf: chatml, headers, or a file with a Jinja template.",
    ),
]


@command(
    "extract",
    tables=False,
    examples="""
    # French and English, as a standard tokenizer.json
    modtok extract --langs fr,en -o fr-en.json
    # pipe into a measurement
    modtok extract --langs fr,en | modtok nsl flores.txt
    # from another directory
    modtok extract -t bpe-joint --langs fi > fi.json
    # a Unigram tokenizer for SentencePiece
    modtok extract -t unigram-merged --langs fr -o fr.model
    # a directory for transformers, with a chat template and its special tokens
    modtok extract --langs fr,en --hf fr-en-chat/ --chat-template chatml
    # the 24,000 tokens most frequent in French, of an external model
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
    output: OutputOrStdout = None,
    hf: HfDirectory = None,
    special: Special = None,
    chat_template: ChatTemplate = None,
    reading: Reading = Reading(),
    force: Force = False,
    json: Json = False,
) -> None:
    """Extract a compact tokenizer for a subset of languages.

    The result is a standard tokenizer.json with contiguous ids, written to standard output or
    to the file given by -o. If that is named *.model, a SentencePiece model is written, for
    Unigram tokenizers and those of bpe-merge --whole-characters. The output depends only on
    the tokenizer and the set of languages.

    With --top-k and --on, tokens are selected by their frequency in a text, instead of or in
    addition to --langs. Special tokens and bytes are always kept.

    --hf writes a directory for transformers: EOS and padding tokens, the special tokens of
    --special, which get the ids after the last one, and a chat template. A named template adds
    its special tokens, and its end-of-turn token becomes the EOS token.
    """
    if name is not None:
        if tokenizer not in (WORKSPACE_TOKENIZER, name):
            raise UsageError(f"two tokenizers given, {name} and {tokenizer}", remedy="give one")
        tokenizer = name
    if (top_k is None) != (not on):
        raise UsageError(
            "--top-k and --on require each other",
            remedy="as in: modtok extract --top-k 24000 --on data/fr.jsonl.zst TOKENIZER",
        )
    languages = optional_languages(langs)
    if languages is None and top_k is None:
        raise UsageError("no languages given", remedy="as in: modtok extract --langs fr,en")
    if hf is None and (special or chat_template is not None):
        raise UsageError(
            "--special and --chat-template require --hf",
            remedy="as in: modtok extract --langs fr,en --hf DIR --chat-template chatml",
        )
    if hf is not None and output is not None:
        raise UsageError("-o and --hf are mutually exclusive", remedy="give one of them")
    if output is None and hf is None and json:
        raise UsageError("--json requires -o or --hf, since the tokenizer is written to stdout")
    if output is None and hf is None and is_stdout_terminal():
        raise UsageError(
            "standard output is a terminal",
            remedy="write to a file with -o, or pipe: modtok extract --langs fr,en | modtok nsl …",
        )
    if output is not None and output.exists() and not force:
        raise UsageError(
            "already exists", where=str(output), remedy="choose another -o or pass --force"
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
            as_model=None if output is None and hf is None else as_model,
            reading=reading,
            progress=session.progress,
        )
    else:
        from modtok_cli.modular.open import extract

        suffix = ".json" if output is None else output.suffix
        data = extract(Path(tokenizer), languages or [], suffix=suffix)
    if hf is not None:
        from modtok_cli.modular.hf_directory import write_hf_directory

        row = write_hf_directory(
            hf, data, specials=special or (), chat_template=chat_template, force=force
        )
        session.say(f"wrote {hf}: {row['tokens']:,} tokens, EOS {row['eos']}, pad {row['pad']}")
        if json:
            emit_object(row)
    elif output is None:
        emit_bytes(data)
    else:
        write_bytes(output, data)
        session.say(f"wrote {output}")
        if json:
            emit_object({"output": str(output), "bytes": len(data)})
