"""`modtok serve`: a server for all languages of a model."""

import shlex

from modtok_cli.cli.command import Call, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import emit_chunks
from modtok_cli.model.serve.serve import serve


@command(
    "serve",
    serve,
    tables=False,
    examples="""
    # the last run; each request names its languages
    modtok serve
    # French and English where a request names none, and an option of vLLM
    modtok serve runs/latest --langs fr,en --port 8080 -- --max-model-len 512
    # a Hugging Face model, with its tokenizer of modtok adopt
    modtok serve model/ -t adopted -o served/
    # the command of vLLM, for another machine
    modtok serve runs/latest -o served/ --prepare
    """,
)
def show(call: Call) -> None:
    require_models()
    if str(call.values.get("model", "")).startswith("-"):  # `modtok serve -- --seed 1`
        call.values["arguments"] = [str(call.values.pop("model")), *call.values["arguments"]]
    emit_chunks([f"{shlex.join(call())}\n".encode()])
