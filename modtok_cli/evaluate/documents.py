"""Documents with summaries, as JSON lines per language.

    DIR/sum/fr.jsonl           {"document": "…", "summary": "…"} per line, to be scored
    DIR/sum/fr.train.jsonl     the same, for few-shot examples; without this file the first rows
                               of fr.jsonl are used and not scored

Files may be `.zst` or `.gz`, and DIR itself may be the directory. The field names of GEM's
WikiLingua ("source", "target"), lists of sentences or sections, and WikiLingua's own {"article":
{"document": […], "summary": […]}} are accepted. White space, including line ends, becomes a single
space, because a line end terminates an example of the prompt.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, missing
from modtok_cli.evaluate.task_files import Example, SplitFiles, json_lines, own_name, with_shots

LAYOUT = (
    'provide documents as DIR/sum/fr.jsonl and DIR/sum/fr.train.jsonl, {"document": "…", '
    '"summary": "…"} per line; modtok eval fetch sum downloads WikiLingua'
)
_ROW = 'a row is {"document": "…", "summary": "…"}'
_NAMES = (("document", "summary"), ("source", "target"))


class Documents(SplitFiles):
    """Sets in `data` or `data`/sum; an error names the files of the first of `languages`.

    Attributes:
        path: directory of the files.
    """

    def __init__(self, data: Path, languages: Iterable[str] = ("fr",)) -> None:
        inside = data / "sum"
        self.path = inside if inside.is_dir() else data
        super().__init__(self.path)
        if not self.languages:
            layout = LAYOUT.replace("/fr.", f"/{next(iter(languages))}.")
            if not self.path.is_dir():
                raise missing(self.path, layout, "is a file; a directory of .jsonl files is read")
            said = "no file LANG.jsonl (also .gz or .zst), and no others are read"
            raise ModtokError(said, where=self.path, remedy=layout)

    def of(self, language: str, shots: int) -> tuple[Sequence[Example], Sequence[Example]]:
        """Return (few-shot examples, documents to score) of a language."""
        path = self.find(language, "test")
        if path is None:
            raise ModtokError(f"no documents in {language}", where=self.path, remedy=LAYOUT)
        training = self.find(language, "train")
        pool = None if training is None else read_documents(training)
        tests = read_documents(path)
        return with_shots(tests, pool, shots, of=f"rows in {language}", where=self.path)


def read_documents(path: Path) -> list[Example]:
    """Read the rows of a file."""
    rows: dict[str, Example] = {}
    for number, row in json_lines(path, _ROW):
        document, summary = _texts(row)
        for name, text in (("document", document), ("summary", summary)):
            if text is None:
                raise ModtokError(f'no text in "{name}"', where=f"{path}:{number}", remedy=_ROW)
            if not text:
                raise ModtokError(f"the {name} is empty", where=f"{path}:{number}", remedy=_ROW)
        name = own_name(row, number, rows)
        rows[name] = Example(name, str(document), str(summary))
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
