"""`modtok eval fetch`: download evaluation data from the Hugging Face hub."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.evaluate.fetch_tasks import fetch_tasks

COLUMNS = parse_columns("task, language=lang, examples:int, shots=for shots:int, source")


@command(
    "eval fetch",
    fetch_tasks,
    resumes=True,
    examples="""
    # all tasks in the languages of tokenizer/, into tasks/
    modtok eval fetch
    # FLORES-200 in three languages
    modtok eval fetch mt --langs en,fr,fi -o elsewhere
    """,
)
def show(call: Call, json: Json = False) -> None:
    require_models("datasets", "yaml")
    fetched = call()
    if fetched.rows:
        emit_rows(fetched.rows, COLUMNS, title="Fetched", json=json)
    fetched.require_complete()
