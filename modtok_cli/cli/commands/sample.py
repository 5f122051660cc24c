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
    follows = "" if output.samefile(".") else f"; next: cd {output}"
    call.say(f"wrote {output}: data, jobs, parallel, tasks, stories, unseen{follows}")
    if json:
        emit_each([{"output": str(output)}])
