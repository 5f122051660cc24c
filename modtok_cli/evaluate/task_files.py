"""Shared by the formats of users' task files: JSON lines, languages and splits, shots."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.text.languages import Label, by_label, the_one
from modtok_cli.text.streams import SUFFIXES, Broken, read_chunks
from modtok_cli.text.text_format import BOM
from modtok_cli.text.workspace import same_language

# Without a file of examples this many rows are reserved for shots even if fewer are used, so that
# scores with 0 and with 5 shots are on the same rows.
RESERVED = 5
PARTS = ("test", "train")


@dataclass(frozen=True)
class Example:
    """One text and what should be generated from it; `name` is unique in its set."""

    name: str
    source: str
    target: str


def with_shots(
    tests: Sequence[Example],
    pool: Sequence[Example] | None,
    shots: int,
    *,
    of: str,
    where: Path,
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return (shots, examples to score); shots are the first of `pool`, else of `tests`."""
    if pool is None:
        reserved = max(shots, RESERVED)
        pool, tests = tests[:reserved], tests[reserved:]
    if len(pool) < shots or not tests:
        raise ModtokError(
            f"too few {of} for {shots} shots and one example",
            where=where,
            remedy="lower --shots, or provide more text",
        )
    return pool[:shots], tests


class SplitFiles:
    """The files of a directory by language and split: `fr.jsonl`, `fra_Latn.train.jsonl.zst`.

    Without a split in its name a file is of "test".
    """

    def __init__(self, directory: Path) -> None:
        named: dict[str, list[tuple[str, Path]]] = {part: [] for part in PARTS}
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            plain = path.with_suffix("") if path.suffix in SUFFIXES else path
            code, _, part = plain.stem.partition(".")
            if plain.suffix == ".jsonl" and Label.of(code).is_known and (part or "test") in PARTS:
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

    def has(self, language: str) -> bool:
        """Return whether there is something to test in `language`."""
        return self.find(language, "test") is not None

    def find(self, language: str, part: str) -> Path | None:
        """Return the file of a language, which may be spelled differently."""
        files = self._files[part]
        name = the_one(language, list(files))
        return None if name is None else files[name]

    def files_of(self, language: str) -> list[Path]:
        """Return the files of a language, the file of "test" first."""
        return [path for part in PARTS if (path := self.find(language, part)) is not None]


def json_lines(path: Path, remedy: str = "") -> Iterator[tuple[int, Any]]:
    """Yield (line number from 1, value) of each line that is not blank, also compressed."""
    try:
        data = b"".join(read_chunks(path))
    except Broken as error:
        raise ModtokError(str(error), where=path) from error
    for number, line in enumerate(data.removeprefix(BOM).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
        except ValueError as error:
            raise ModtokError(
                f"invalid JSON ({error})", where=f"{path}:{number}", remedy=remedy
            ) from error
        yield number, value


def own_name(row: dict[str, Any], number: int, taken: Container[str]) -> str:
    """Name of a row that is unique in its file: its "id", or its line number.

    >>> own_name({"id": 7}, 2, ()), own_name({"id": None}, 2, ()), own_name({"id": "a"}, 2, ["a"])
    ('7', '2', 'a (line 2)')
    """
    name = str(number) if row.get("id") is None else str(row["id"])
    return f"{name} (line {number})" if name in taken else name
