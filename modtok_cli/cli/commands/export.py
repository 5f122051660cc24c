"""`modtok export`: a run or slice as GGUF, in one file or several."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.model.export.export import export

COLUMNS = parse_columns("languages, vocabulary=tokens:int, bytes=size:bytes, output=file")


@command(
    "export",
    export,
    examples="""
    # a slice for llama.cpp
    modtok export fr-en/ --format gguf --inexact -o fr-en.gguf
    # a published model of the Llama family, sliced
    modtok slice model/ --langs fr -o fr-model
    modtok export fr-model/ -o fr-model.gguf
    # a subset of the last run, with a probe of real text
    modtok export --langs fr,en --probe flores/fr.txt --inexact -o fr-en.gguf
    # a file for each language
    modtok export --each --inexact -o gguf/
    """,
)
def show(call: Call, json: Json = False) -> None:
    require_models()
    reports = call()
    every = reports if isinstance(reports, list) else [reports]
    rows = [
        {
            **each.__dict__,
            "output": str(each.output),
            "languages": ",".join(each.languages),
        }
        for each in every
    ]
    emit_rows(rows, COLUMNS, title="Files", json=json)
    for each in every:
        call.say(
            f"wrote {each.output}: {each.bytes:,} bytes, {each.vocabulary:,} tokens, "
            f"pre-tokenizer {each.tokenizer!r} of llama.cpp; "
            f"{each.lines - each.different:,} of {each.lines:,} probe lines have the same ids"
        )
