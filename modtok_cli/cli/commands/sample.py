"""`modtok sample`: a workspace with text to try modtok with."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_each
from modtok_cli.samples.sample import sample


@command(
    "sample",
    sample,
    tables=False,
    examples="""
    # text in six languages; then: cd try-it
    modtok sample try-it
    """,
)
def show(call: Call, json: Json = False) -> None:
    output = call()
    call.say(f"wrote {output}: data, parallel, tasks, stories, unseen; next: cd {output}")
    if json:
        emit_each([{"output": str(output)}])
