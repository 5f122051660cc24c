"""`modtok adopt`: an existing tokenizer becomes a modular one."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.commands.inspect import LANGUAGES
from modtok_cli.cli.output import emit_rows
from modtok_cli.tokenizer.adopted.adopt import adopt
from modtok_cli.tokenizer.inspect import contents


@command(
    "adopt",
    adopt,
    examples="""
    # which tokens of a model each language in data/ uses
    modtok adopt model/ -o adopted
    # at most 24,000 tokens per language
    modtok adopt model/ --langs fr,en --top 24000 -o adopted
    # the tokenizer of French and English
    modtok extract -t adopted --langs fr,en -o fr-en.json
    """,
)
def show(call: Call, json: Json = False) -> None:
    output = call.value("output")
    adopted = call(output=output)
    caption = f"{output}: {adopted.size:,} tokens in all, signature {adopted.signature}"
    emit_rows(contents(adopted), LANGUAGES, title="Tokens in use", json=json, caption=caption)
