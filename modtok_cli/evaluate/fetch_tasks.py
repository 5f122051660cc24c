"""Fetch evaluation data; what downloads is imported when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from modtok_cli.base import parameters
from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.text.languages import optional_languages

if TYPE_CHECKING:
    from modtok_cli.evaluate.fetch import Fetched


@public
def fetch_tasks(
    tasks: Annotated[
        Sequence[str] | None,
        Option(
            "mcq, mt or sum; all by default.",
            argument=True,
            kind=list[str],
            metavar="TASK",
            accepts=parameters.CODES,
        ),
    ] = None,
    *,
    languages: parameters.Langs = None,
    output: parameters.Output = None,
    force: parameters.Force = False,
    progress: Progress = SILENT,
) -> Fetched:
    """Download evaluation data from the Hugging Face hub.

    Writes the multiple-choice suites, FLORES-200 and WikiLingua to tasks/, in the layout that
    modtok eval reads, in the languages of tokenizer/ by default. Without network access, place the
    files by hand; the error describes the layout.

    Returns:
        `rows` (task, language, number of examples and shots, source, path) and `skipped` (what
        could not be downloaded, and why).

    Raises:
        UsageError: a task is unknown, or a directory exists already.
        ModtokError: the hub cannot be reached.
    """
    from modtok_cli.evaluate.fetch import TASKS, fetch

    chosen = optional_languages(languages) or _workspace_languages()
    place = Path(output or "tasks")
    return fetch(list(tasks or TASKS), chosen, place, force=force, progress=progress)


def _workspace_languages() -> list[str]:
    from modtok_cli.modular.directory import is_modular
    from modtok_cli.modular.manifest import languages_of

    path = Path("tokenizer")
    if not is_modular(path):
        raise UsageError("no languages given", remedy="as in: modtok eval fetch --langs en,fr")
    return languages_of(path)
