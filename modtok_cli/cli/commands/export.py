"""`modtok export`: a slice as one file for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.inference_options import Numbers, RunTokenizer, Step, require_models
from modtok_cli.cli.options import Errors, Force, Langs, Output, split_languages
from modtok_cli.cli.session import Session

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A slice, or a run with --langs.")]
Format = Annotated[Literal["gguf"], typer.Option("--format", help="gguf is llama.cpp's.")]
Probe = Annotated[
    list[str] | None,
    typer.Option(
        "--probe",
        metavar="TEXT",
        help="Text whose ids must stay the same; the slice's own words by default.",
    ),
]
Inexact = Annotated[
    bool, typer.Option("--inexact", help="Write it though some text is cut into other tokens.")
]


@command(
    "export",
    examples="""
    # a slice for llama.cpp
    modtok export fr-en/ --format gguf -o fr-en.gguf
    # straight from a run, checked on real text
    modtok export runs/latest --langs fr,en --probe flores/fr.txt -o fr-en.gguf
    """,
)
def export(
    session: Session,
    model: Model,
    format: Format = "gguf",
    langs: Langs = None,
    output: Output = None,
    probe: Probe = None,
    inexact: Inexact = False,
    numbers: Numbers = None,
    step: Step = None,
    modular: RunTokenizer = None,
    errors: Errors = "strict",
    force: Force = False,
) -> None:
    """Write a slice as GGUF, for llama.cpp.

    llama.cpp cuts text in ways of its own. The nearest is taken; the ids that it gives are
    compared on a probe first, and the export is refused if any differ, unless --inexact.
    Merges and Unigram can be carried, least tokens if learned with --whole-characters.
    """
    require_models()
    from modtok_cli.inference.export import export

    texts: list[str] | None = None
    if probe:
        from modtok_cli.text.readers import read_documents
        from modtok_cli.text.workspace import files_in

        texts = [
            document.text.decode()
            for text in probe
            for path in files_in(Path(text))
            for document in read_documents(path, errors)
        ]
        if not texts:
            raise UsageError("holds no text", where=", ".join(probe))
    report = export(
        model,
        output or Path(f"{model.resolve().name}.{format}"),
        languages=split_languages(langs),
        probe=texts,
        inexact=inexact,
        dtype=numbers or "float16",
        tokenizer=modular,
        step=step,
        force=force,
        progress=session.progress,
    )
    session.say(
        f"wrote {report.output}: {report.bytes:,} bytes, {report.vocabulary:,} tokens, cut by "
        f"llama.cpp's '{report.tokenizer}'; "
        f"{report.lines - report.different:,} of {report.lines:,} probe lines get the same ids"
    )
