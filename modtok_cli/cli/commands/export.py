"""`modtok export`: a run or slice as one GGUF file."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import emit_each
from modtok_cli.inference.export.export import export


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
def show(call: Call, json: Json = False) -> None:
    require_models()
    report = call()
    if json:
        facts = {**report.__dict__, "output": str(report.output)}
        emit_each([{name: value for name, value in facts.items() if name != "program"}])
    call.say(
        f"wrote {report.output}: {report.bytes:,} bytes, {report.vocabulary:,} tokens, "
        f"pre-tokenizer {report.tokenizer!r} of {report.program}; "
        f"{report.lines - report.different:,} of {report.lines:,} probe lines have the same ids"
    )
