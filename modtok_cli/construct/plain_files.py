"""Plain tokenizers as the output of a construction: one file or more per language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modtok_cli.base.files import atomic_directory
from modtok_cli.base.signature import digest

if TYPE_CHECKING:
    from modtok_cli.construct.work import References


@dataclass(frozen=True)
class PlainFiles:
    """File names and contents of a directory, and the number of tokens per language.

    The signature covers the files that end in `.json`; all others follow from them.
    """

    files: Mapping[str, bytes]
    sizes: Mapping[str, int]

    @property
    def signature(self) -> str:
        """Hash of the `tokenizer.json` files."""
        return digest(*(data for name, data in self.files.items() if name.endswith(".json")))

    def save(self, directory: Path, references: References) -> None:
        """Write the directory, complete or not at all; there are no references."""
        with atomic_directory(directory) as beside:
            for name, data in self.files.items():
                (beside / name).write_bytes(data)

    def rows(self) -> list[dict[str, object]]:
        """A row per language."""
        return [{"language": language, "tokens": size} for language, size in self.sizes.items()]
