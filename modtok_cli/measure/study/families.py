"""Families of languages, from a file of the user: a line per language, `tr<tab>Turkic`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.reading import read_file
from modtok_cli.text.languages import canonical, is_language, subtags

LEAST = 2
"""Fewest languages of a family: with one, nothing can be added."""


def read_families(
    path: Path, languages: Sequence[str], progress: Progress = SILENT
) -> dict[str, list[str]]:
    """Families by name, each with those of `languages` that the file puts into it, both ascending.

    A line has a code and the name of a family, with a tab between them; empty lines and those that
    begin with `#` count nothing. A code means the label that it spells (`sr_Cyrl`), or all labels
    of a language (`srp`). Languages of `languages` without a line, and families with fewer
    than `LEAST` of them, are left out, with a warning.

    Raises:
        ModtokError: the file cannot be read, a line has another form, a language has two families,
            or no family has `LEAST` languages.
    """
    table = _table(path)
    found: dict[str, list[str]] = {}
    for label in sorted(languages):
        parts = subtags(label)
        family = table.get(canonical(label)) or table.get(parts[0] if parts else label)
        if family:
            found.setdefault(family, []).append(label)
    kept = {name: found[name] for name in sorted(found) if len(found[name]) >= LEAST}
    if not kept:
        raise ModtokError(
            f"no family has {LEAST} of the languages",
            where=str(path),
            remedy="add lines such as tr<tab>Turkic for the languages in --data",
        )
    without = len(languages) - sum(map(len, kept.values()))
    if without:
        progress.warn(f"{path.name}: languages without a family of {LEAST} or more: {without}")
    return kept


def _table(path: Path) -> dict[str, str]:
    table: dict[str, str] = {}
    content = read_file(path).removeprefix(b"\xef\xbb\xbf")  # a byte order mark
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            raise _invalid(path, number, "is not UTF-8") from error
        if not text or text.startswith("#"):
            continue
        code, *families = (part.strip() for part in text.split("\t"))
        if len(families) != 1 or not is_language(code):
            raise _invalid(path, number, "is not a language code, a tab and the name of a family")
        if table.setdefault(canonical(code), families[0]) != families[0]:
            raise _invalid(path, number, f"gives {code} a second family")
    return table


def _invalid(path: Path, number: int, what: str) -> ModtokError:
    return ModtokError(
        f"line {what}", where=f"{path}:{number}", remedy="write lines such as tr<tab>Turkic"
    )
