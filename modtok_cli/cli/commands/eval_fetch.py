"""`modtok eval fetch`: the data of evaluations, from the hub to a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.evaluation_output import require_evaluation
from modtok_cli.cli.options import Force, Json, Langs, Output, split_languages
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session

COLUMNS = (
    Column("task", "task"),
    Column("language", "lang"),
    Column("examples", "examples", "int"),
    Column("shots", "for shots", "int"),
    Column("source", "source"),
)
Tasks = Annotated[
    list[str] | None,
    typer.Argument(metavar="TASK", help="mcq, mt or sum; all of them without a name."),
]


@command(
    "eval fetch",
    examples="""
    # everything for the languages of tokenizer/, to tasks/
    modtok eval fetch
    # FLORES in three languages
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
    """Write what evaluation reads, from the hub.

    The multiple-choice suites, FLORES-200 and WikiLingua, in the layouts that modtok eval
    reads, to tasks/. The network is needed here and nowhere else. Without it, the files can
    be laid out by hand, as the error says.
    """
    languages = split_languages(langs) or workspace_languages()
    require_evaluation("datasets", "yaml")
    from modtok_cli.evaluate.fetch import TASKS, fetch

    fetched = fetch(
        tasks or TASKS, languages, output or Path("tasks"), force=force, progress=session.progress
    )
    if fetched.rows:
        emit_rows(fetched.rows, COLUMNS, title="Fetched", json=json)
    fetched.require_complete()


def workspace_languages() -> list[str]:
    """Languages of the workspace's tokenizer.

    Raises:
        UsageError: there is none.
    """
    from modtok_cli.modular.directory import is_modular
    from modtok_cli.modular.manifest import read_manifest

    path = Path("tokenizer")
    if not is_modular(path):
        raise UsageError("which languages?", remedy="name them: --langs en,fr")
    return [str(row["language"]) for row in read_manifest(path)["languages"]]
