"""The texts of --valid: directories like `data/`, of text that is not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.text.reading import Reading
from modtok_cli.text.workspace import language_files
from modtok_cli.training.config import Config
from modtok_cli.training.data.text_store import TextStore, text_stores

Files = dict[str, dict[str, list[Path]]]
_FLAG = "--valid"


def check_validation(config: Config, languages: Sequence[str]) -> tuple[Files, list[str]]:
    """Files by name and language, and a note on languages that the tokenizer lacks.

    Raises:
        UsageError: a directory is the corpus, or has no language of the tokenizer.
        ModtokError: a directory does not exist, or has no text.
    """
    found: Files = {}
    notes = []
    for name, path in (config.valid or {}).items():
        files = language_files(path, reading=config.reading, known=languages)
        if path.samefile(config.data):
            raise UsageError(
                f"{path} is the text of the run", where=_FLAG, remedy="use other text, or leave out"
            )
        known = {language: paths for language, paths in files.items() if language in languages}
        if not known:
            raise UsageError(
                f"{path} has no language of the tokenizer, but {', '.join(files)}", where=_FLAG
            )
        unknown = sorted(set(files) - set(known))
        if unknown:
            notes.append(
                f"{_FLAG} {name}: the tokenizer has no {', '.join(unknown)}; not evaluated"
            )
        found[name] = known
    return found, notes


def open_validation(
    files: Mapping[str, Mapping[str, Sequence[Path]]],
    cache: Path,
    reading: Reading,
    progress: Progress,
) -> dict[str, dict[str, TextStore]]:
    """The stores of the files, created in `cache` if they do not exist.

    Raises:
        ModtokError: a text is unreadable or empty.
    """
    return {
        name: text_stores(by_language, cache, reading=reading, least=1, progress=progress)
        for name, by_language in files.items()
    }
