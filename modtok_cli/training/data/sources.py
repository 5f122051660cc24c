"""Sources of the text of a language, such as web and wiki: what tells them apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from modtok_cli.base.errors import UsageError
from modtok_cli.text.file_labels import label_of_path
from modtok_cli.text.languages import canonical
from modtok_cli.text.reading import Reading


@dataclass(frozen=True)
class Sources:
    """The rule that tells sources apart: a field of documents, else a language's files and
    directories.

    Attributes:
        languages: whose text has sources.
        root: directory of the text of all languages.
        field: name of the field; None: the source of `fi/wiki/1.jsonl` and `fi/wiki.jsonl` is
            wiki.
    """

    languages: Collection[str] = ()
    root: Path = Path()
    field: str | None = None

    def reading(self, language: str, reading: Reading) -> Reading:
        """How the text of a language is read."""
        if self.field is None or language not in self.languages:
            return reading
        return replace(reading, source_fields=(self.field,))

    def of_files(self, language: str, files: Sequence[Path]) -> list[str]:
        """The source of each file of a language; [] if files do not tell.

        Raises:
            UsageError: a file holds the text of a language.
        """
        if self.field is not None or language not in self.languages:
            return []
        return [self._of(file, language) for file in files]

    def _of(self, file: Path, language: str) -> str:
        parts = file.relative_to(self.root).parts
        names = [i for i, part in enumerate(parts) if _is_of(part, language)]
        rest = parts[names[0] + 1 :] if names else parts
        if not rest or rest == (".",):
            raise UsageError(
                f"is all text of '{language}', whose sources are weighted",
                where=file,
                remedy=f"put each source into {language}/, as {language}/wiki.jsonl or "
                f"{language}/wiki/, or name the field of the source as data.source_field",
            )
        return rest[0] if rest[1:] else rest[0].partition(".")[0]


NO_SOURCES = Sources()


def _is_of(name: str, language: str) -> bool:
    """Whether a file or directory is named after a language."""
    labels = (label_of_path(name), label_of_path(f"{name}/_"))
    return any(labels) or canonical(name.partition(".")[0]) == language
