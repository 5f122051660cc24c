"""`modtok export`: a run or slice as one GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.inference_options import LATEST, Model, RunTokenizer, Step, require_models
from modtok_cli.cli.options import Force, Json, Langs, Output
from modtok_cli.cli.output import emit_object
from modtok_cli.cli.session import Session
from modtok_cli.inference.export.formats import export_formats
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading

Format = Annotated[
    str,
    typer.Option("--format", metavar="NAME", help=f"File format: {', '.join(export_formats())}."),
]
Probe = Annotated[
    list[str] | None,
    typer.Option(
        "--probe",
        metavar="TEXT",
        help="Text whose token ids are compared; words of the vocabulary by default. Repeatable.",
    ),
]
ExportDtype = Annotated[
    Literal["float32", "bfloat16", "float16"], typer.Option("--dtype", help="Dtype of the weights.")
]
Inexact = Annotated[
    bool, typer.Option("--inexact", help="Export even if some token ids of the probe differ.")
]


@command(
    "export",
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
def export(
    session: Session,
    model: Model = LATEST,
    format: Format = "gguf",
    langs: Langs = None,
    output: Output = None,
    probe: Probe = None,
    inexact: Inexact = False,
    dtype: ExportDtype = "float16",
    step: Step = None,
    tokenizer: RunTokenizer = None,
    reading: Reading = Reading(),
    force: Force = False,
    json: Json = False,
) -> None:
    """Export a model as a GGUF file for llama.cpp.

    The model is a run, a slice or a directory of a Hugging Face model. llama.cpp has a fixed
    set of pre-tokenizers. The closest one is selected, and its token ids are compared on a
    probe text; a difference is an error unless --inexact is given. Merges and Unigram
    tokenizers can be exported; fewest-tokens ones if learned with --whole-characters.
    """
    require_models()
    from modtok_cli.inference.export.export import export

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
    report = export(
        model,
        output or Path(f"{model.resolve().name}.{format}"),
        format=format,
        languages=optional_languages(langs),
        probe=texts,
        inexact=inexact,
        dtype=dtype,
        tokenizer=tokenizer,
        step=step,
        force=force,
        progress=session.progress,
    )
    if json:
        emit_object(
            {
                "output": str(report.output),
                "bytes": report.bytes,
                "vocabulary": report.vocabulary,
                "tokenizer": report.tokenizer,
                "lines": report.lines,
                "different": report.different,
            }
        )
    session.say(
        f"wrote {report.output}: {report.bytes:,} bytes, {report.vocabulary:,} tokens, "
        f"pre-tokenizer {report.tokenizer!r} of {report.program}; "
        f"{report.lines - report.different:,} of {report.lines:,} probe lines have the same ids"
    )
