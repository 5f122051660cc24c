"""Documents with summaries, as JSON lines per language.

    DIR/sum/fr.jsonl           {"document": "…", "summary": "…"} per line, to be scored
    DIR/sum/fr.train.jsonl     the same, for few-shot examples; without this file the first rows
                               of fr.jsonl are used and not scored

Files may be `.zst` or `.gz`, and DIR itself may be the directory. The field names of GEM's
WikiLingua ("source", "target"), lists of sentences or sections, and WikiLingua's own {"article":
{"document": […], "summary": […]}} are accepted. White space, including line ends, becomes a single
space, because a line end terminates an example of the prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.evaluate.json_lines import json_lines, own_name
from modtok_cli.evaluate.parallel import KEPT
from modtok_cli.evaluate.split_files import SplitFiles

LAYOUT = (
    'provide documents as DIR/sum/fr.jsonl and DIR/sum/fr.train.jsonl, {"document": "…", '
    '"summary": "…"} per line; modtok eval fetch sum downloads WikiLingua'
)
_ROW = 'a row is {"document": "…", "summary": "…"}'
_NAMES = (("document", "summary"), ("source", "target"))


@dataclass(frozen=True)
class Summarized:
    """One document; `name` is its "id" or line number, unique within its file."""

    name: str
    document: str
    summary: str


class Documents:
    """Sets in `data` or `data`/sum.

    Attributes:
        path: directory of the files.

    Raises:
        ModtokError: the directory does not exist or holds no documents.
    """

    def __init__(self, data: Path) -> None:
        inside = data / "sum"
        self.path = inside if inside.is_dir() else data
        self._files = SplitFiles(self.path)
        if not self.languages:
            what = "no documents" if self.path.is_dir() else "directory does not exist"
            raise ModtokError(what, where=str(self.path), remedy=LAYOUT)

    @property
    def languages(self) -> list[str]:
        """Languages with documents, ascending."""
        return self._files.languages

    def has(self, language: str) -> bool:
        """Whether there are documents to summarize in `language`."""
        return self._files.find(language, "test") is not None

    def files_of(self, language: str) -> list[Path]:
        """The files of a language."""
        return self._files.of(language)

    def of(self, language: str, shots: int) -> tuple[list[Summarized], list[Summarized]]:
        """(few-shot examples, documents to score) of a language.

        Raises:
            ModtokError: a row is invalid, or there are fewer rows than `shots`.
        """
        path = self._files.find(language, "test")
        if path is None:
            raise ModtokError(f"no documents in {language}", where=str(self.path), remedy=LAYOUT)
        tests = read_documents(path)
        training = self._files.find(language, "train")
        if training is not None:
            pool = read_documents(training)
        else:
            kept = max(shots, KEPT)
            pool, tests = tests[:kept], tests[kept:]
        if len(pool) < shots or not tests:
            raise ModtokError(
                f"too few rows in {language} for {shots} shots and one example",
                where=str(self.path),
                remedy="lower --shots, or provide more rows",
            )
        return pool[:shots], tests


def read_documents(path: Path) -> list[Summarized]:
    """Read the rows of a file.

    Raises:
        ModtokError: the file cannot be read, or a row has no document or no summary.
    """
    rows: dict[str, Summarized] = {}
    for number, row in json_lines(path, _ROW):
        document, summary = _texts(row)
        for name, text in (("document", document), ("summary", summary)):
            if text is None:
                raise _bad(path, number, f'no text in "{name}"')
            if not text:
                raise _bad(path, number, f"the {name} is empty")
        name = own_name(row, number, rows)
        rows[name] = Summarized(name, str(document), str(summary))
    return list(rows.values())


def _texts(row: Any) -> tuple[str | None, str | None]:
    if isinstance(row, dict) and isinstance(row.get("article"), dict):
        row = row["article"]
    if not isinstance(row, dict):
        return None, None
    for document, summary in _NAMES:
        if document in row or summary in row:
            return one_line(row.get(document)), one_line(row.get(summary))
    return None, None


def one_line(value: Any) -> str | None:
    """Join a text or a list of texts and collapse white space; None for any other value.

    >>> one_line(["Boil water.", "Add\\n tea. "])
    'Boil water. Add tea.'
    """
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = " ".join(value)
    return " ".join(value.split()) if isinstance(value, str) else None


def _bad(path: Path, number: int, what: str) -> ModtokError:
    return ModtokError(what, where=f"{path}:{number}", remedy=_ROW)
