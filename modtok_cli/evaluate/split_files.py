"""Files of languages and splits: `fr.jsonl`, `fr.test.jsonl`, `fra_Latn.train.jsonl.zst`."""

from __future__ import annotations

from pathlib import Path

from modtok_cli.text.labels import by_label, the_one
from modtok_cli.text.languages import is_language
from modtok_cli.text.streams import SUFFIXES
from modtok_cli.text.workspace import same_language

PARTS = ("test", "train")


class SplitFiles:
    """The files of a directory by language and split; without a split in its name, "test".

    Raises:
        UsageError: two files of one language and split.
    """

    def __init__(self, directory: Path) -> None:
        named: dict[str, list[tuple[str, Path]]] = {part: [] for part in PARTS}
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            plain = path.with_suffix("") if path.suffix in SUFFIXES else path
            code, _, part = plain.stem.partition(".")
            if plain.suffix == ".jsonl" and is_language(code) and (part or "test") in PARTS:
                named[part or "test"].append((code, path))
        self._files: dict[str, dict[str, Path]] = {}
        for part, items in named.items():
            self._files[part] = {}
            for language, those in by_label(items).items():
                if len(those) > 1:
                    raise same_language(language, *those[:2])
                self._files[part][language] = those[0]

    @property
    def languages(self) -> list[str]:
        """Languages to test, ascending."""
        return sorted(self._files["test"])

    def find(self, language: str, part: str) -> Path | None:
        """The file of a language, which may be spelled differently."""
        files = self._files[part]
        name = the_one(language, list(files))
        return None if name is None else files[name]

    def of(self, language: str) -> list[Path]:
        """The files of a language, that of "test" first."""
        return [path for part in PARTS if (path := self.find(language, part)) is not None]
