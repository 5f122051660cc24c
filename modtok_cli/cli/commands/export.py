"""`modtok export`: a run or slice as one GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.declaration import Call
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.options import Json
from modtok_cli.cli.output import emit_object
from modtok_cli.cli.session import Session
from modtok_cli.inference.export.export import export
from modtok_cli.text.reading import Reading

Probe = Annotated[
    list[str] | None,
    typer.Option(
        "--probe",
        metavar="TEXT",
        help="Text whose token ids are compared; words of the vocabulary by default. Repeatable.",
    ),
]


@command(
    "export",
    export,
    tables=False,
    examples="""
    # a slice for llama.cpp
    modtok export fr-en/ --format gguf -o fr-en.gguf
    # a published model of the Llama family, sliced
    modtok slice model/ --langs fr -o fr-model
    modtok export fr-model/ -o fr-model.gguf
    # a subset of the last run, with a probe of real text
    modtok export --langs fr,en --probe flores/fr.txt -o fr-en.gguf
    """,
)
def show(
    session: Session,
    call: Call,
    probe: Probe = None,
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    require_models()
    texts: list[str] | None = None
    if probe:
        from modtok_cli.text.readers import read_documents
        from modtok_cli.text.workspace import files_in

        texts = [
            document.text.decode()
            for text in probe
            for path in files_in(Path(text))
            for document in read_documents(path, reading)
        ]
        if not texts:
            raise UsageError("contains no text", where=", ".join(probe))
    report = call(probe=texts)
    if json:
        facts = {**report.__dict__, "output": str(report.output)}
        emit_object({name: value for name, value in facts.items() if name != "program"})
    session.say(
        f"wrote {report.output}: {report.bytes:,} bytes, {report.vocabulary:,} tokens, "
        f"pre-tokenizer {report.tokenizer!r} of {report.program}; "
        f"{report.lines - report.different:,} of {report.lines:,} probe lines have the same ids"
    )
