"""`modtok eval fetch`: download evaluation data from the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.options import Force, Json, Langs, Output
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session
from modtok_cli.text.languages import optional_languages

COLUMNS = (
    Column("task", "task"),
    Column("language", "lang"),
    Column("examples", "examples", "int"),
    Column("shots", "for shots", "int"),
    Column("source", "source"),
)
Tasks = Annotated[
    list[str] | None,
    typer.Argument(metavar="TASK", help="mcq, mt or sum; all by default."),
]


@command(
    "eval fetch",
    resumes=True,
    examples="""
    # all tasks in the languages of tokenizer/, into tasks/
    modtok eval fetch
    # FLORES-200 in three languages
    modtok eval fetch mt --langs en,fr,fi -o elsewhere
    """,
)
def eval_fetch(
    session: Session,
    tasks: Tasks = None,
    langs: Langs = None,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Download evaluation data from the Hugging Face hub.

    Writes the multiple-choice suites, FLORES-200 and WikiLingua to tasks/, in the layout that
    modtok eval reads. No other command needs the network. Without network access, place the
    files by hand; the error describes the layout.
    """
    languages = optional_languages(langs) or workspace_languages()
    require_models("datasets", "yaml")
    from modtok_cli.evaluate.fetch import TASKS, fetch

    fetched = fetch(
        tasks or TASKS, languages, output or Path("tasks"), force=force, progress=session.progress
    )
    if fetched.rows:
        emit_rows(fetched.rows, COLUMNS, title="Fetched", json=json)
    fetched.require_complete()


def workspace_languages() -> list[str]:
    """Languages of the tokenizer in the workspace.

    Raises:
        UsageError: the workspace has no tokenizer.
    """
    from modtok_cli.modular.directory import is_modular
    from modtok_cli.modular.manifest import languages_of

    path = Path("tokenizer")
    if not is_modular(path):
        raise UsageError("no languages given", remedy="as in: modtok eval fetch --langs en,fr")
    return languages_of(path)
