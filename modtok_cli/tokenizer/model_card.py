"""README.md of what others may load, in the form of the Hugging Face hub.

A card has only what is known where it is written: no license that nobody stated, no figure that
nobody measured. Its last line is a digest of the text: a card that its user has changed, or wrote,
is kept where the output is written again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modtok_cli.base.signature import digest
from modtok_cli.text.languages import Label

README = "README.md"
BASE_README = "README-base.md"
"""The card of the model that another one was made from, beside it."""
TAGS = ("modtok", "modular-tokenizer")
_CODE = re.compile("[a-z]{2,3}|code")  # what the hub knows as a language
_MARK = "<!-- written by modtok: {} -->\n"
_MARKED = re.compile(r"<!-- written by modtok: (\w+) -->\n\Z")

Rows = Sequence[Sequence[object]]


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a card says.

    Attributes:
        about: some sentences.
        languages: labels; the languages among them are in the metadata.
        loaded_by: library that loads it, as the hub names it.
        metadata: further fields that are known, as `base_model`, `license`, `pipeline_tag`.
        tables: heading and rows.
        load: lines of Python, or of a shell.
        after: a sentence below them.
        made: the command that made it, as far as it is known.
        signature: of the tokenizer or the slice.
        left_out: files of the source that were not copied.
    """

    title: str
    about: str
    languages: Sequence[str] = ()
    loaded_by: str = "transformers"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tables: Sequence[tuple[Sequence[str], Rows]] = ()
    load: str = ""
    after: str = ""
    made: str = ""
    signature: str = ""
    left_out: Sequence[str] = ()

    def text(self) -> str:
        """The file."""
        names = {Label.of(label).language for label in self.languages}
        codes = sorted(filter(_CODE.fullmatch, names))
        fields = {
            "language": codes,
            **self.metadata,
            "library_name": self.loaded_by,
            "tags": list(TAGS),
        }
        parts = [f"---\n{''.join(map(_yaml, fields.items()))}---\n", f"# {self.title}\n"]
        parts += [f"{self.about}\n", *(_table(*table) for table in self.tables)]
        if self.load:
            kind = "python" if "import " in self.load else "sh"
            parts.append(f"## How to load it\n\n```{kind}\n{self.load.rstrip()}\n```\n")
        if self.after:
            parts.append(f"{self.after}\n")
        if self.made or self.signature:
            parts.append("## How it was made\n")
        if self.made:
            parts.append(f"```sh\n{self.made}\n```\n")
        if self.signature:
            parts.append(f"Signature: `{self.signature}`\n")
        if self.left_out:
            parts.append(f"Files that were not copied: {', '.join(self.left_out)}.\n")
        text = "\n".join(parts)
        return f"{text}\n{_MARK.format(digest(text.encode()))}"


def is_own(text: str) -> bool:
    """Whether modtok wrote a card, and nobody has changed it since."""
    found = _MARKED.search(text)
    return found is not None and digest(text[: found.start() - 1].encode()) == found[1]


def readme(card: Card, output: Path) -> bytes:
    """The card for an output, or the one that its user has there."""
    there = output / README
    if there.is_file():
        kept = there.read_bytes()
        if not is_own(kept.decode(errors="replace")):
            return kept
    return card.text().encode()


def _yaml(entry: tuple[str, Any]) -> str:
    """A field of the metadata. Strings are as in JSON: `no` alone would be false."""
    key, value = entry
    if isinstance(value, list | tuple):
        lines = "".join(f"- {json.dumps(each, ensure_ascii=False)}\n" for each in value)
        return f"{key}:\n{lines}" if value else ""
    return f"{key}: {json.dumps(value, ensure_ascii=False)}\n"


def _table(headings: Sequence[str], rows: Rows) -> str:
    def line(cells: Sequence[object]) -> str:
        words = (f"{each:,}" if isinstance(each, int) else str(each) for each in cells)
        return f"| {' | '.join(word.replace('|', chr(92) + '|') for word in words)} |\n"

    numbers = rows[0][1:] if rows else ()
    rule = ["---", *("---:" if isinstance(each, int) else "---" for each in numbers)]
    return f"{line(headings)}|{'|'.join(rule)}|\n{''.join(map(line, rows))}"
