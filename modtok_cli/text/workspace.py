"""Which files of a workspace hold which language: `data/<lang>*` by their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.text.languages import (
    code_of_name,
    is_language,
    language_of_path,
    normalize,
    suggest,
)
from modtok_cli.text.readers import has_fields, is_text, read_documents, text_files
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import is_pipe
from modtok_cli.text.table_files import SUFFIX, is_table, read_header

_LAYOUT = "put each language there as <lang>.txt, <lang>.jsonl.zst, <lang>.counts or <lang>/"


def language_files(
    data: Path, languages: Sequence[str] | None = None, reading: Reading = Reading()
) -> dict[str, list[Path]]:
    """The files of each language in the directory `data`: language → files, both sorted.

    An entry belongs to the language it is named after (`fr.jsonl.zst`, `fra_Latn.devtest`,
    `fr.counts`, `fr.tsv`, all text in `fr/`). Without `languages`, all languages.

    With `reading.lang_field`, files with fields that are not named after a language belong to
    every language; `reading.of(language)` reads its documents. Without `languages`, these files
    are read for the languages that they hold.

    Raises:
        ModtokError: no such directory; nothing in it; a language without text.
        UsageError: an invalid or missing language, or two entries that spell one language
            differently.
    """
    if not data.is_dir():
        raise ModtokError("no such directory", where=str(data), remedy=_LAYOUT)
    wanted = None if languages is None else [_checked(name) for name in languages]
    entries: dict[str, list[Path]] = {}
    mixed: list[Path] = []
    for entry in sorted(data.iterdir()):
        if entry.name.startswith(".") or not (entry.is_dir() or is_text(entry) or is_table(entry)):
            continue
        language = language_of_path(entry.name)
        if language is None and wanted:
            # A rare code counts only on request: "abc.txt" may be anything.
            first = normalize(entry.name.split(".")[0])
            language = first if first in wanted else None
        if language is not None:
            entries.setdefault(language, []).append(entry)
        elif reading.lang_field is not None:
            mixed += _mixed(entry)
    if mixed:
        for language in wanted or _languages_in(mixed, reading):
            entries.setdefault(language, []).extend(mixed)
    there = ", ".join(sorted(entries))
    if not entries and not wanted:
        raise ModtokError("no language in this directory", where=str(data), remedy=_LAYOUT)
    for language in wanted or ():
        if language not in entries:
            has = f"there are {there}" if there else _LAYOUT
            raise UsageError(
                f"no text of language '{language}'",
                where=str(data),
                remedy=suggest(language, sorted(entries)) + has,
            )
    chosen = sorted(entries if wanted is None else set(wanted))
    for language in chosen:
        _check_spelling(language, entries[language])
    return {language: _files_of(language, entries[language]) for language in chosen}


def _mixed(entry: Path) -> list[Path]:
    files = _files_below(entry) if entry.is_dir() else [entry]
    return [file for file in files if is_text(file) and has_fields(file)]


def _languages_in(files: Sequence[Path], reading: Reading) -> list[str]:
    """Languages of the documents of `files`."""
    found: set[str] = set()
    for file in files:
        stat = file.stat()
        found |= _languages_of(file, stat.st_size, stat.st_mtime_ns, reading)
    return sorted(found)


@cache
def _languages_of(file: Path, size: int, time: int, reading: Reading) -> frozenset[str]:
    documents = read_documents(file, reading, may_be_empty=True)
    return frozenset(one.language for one in documents if one.language is not None)


def _check_spelling(language: str, entries: Sequence[Path]) -> None:
    """Refuse `en.txt` beside `eng.txt`, or `zho_Hans.txt` beside `zho_Hant.txt`."""
    seen: dict[str, Path] = {}
    for entry in entries:
        if code := code_of_name(entry.name):  # else its directory names the language
            seen.setdefault(code, entry)
    if len(seen) > 1:
        raise same_language(language, *list(seen.values())[:2])


def same_language(language: str, first: Path, second: Path) -> UsageError:
    """The error for two files of which one must be meant."""
    return UsageError(
        f"{first.name} and {second.name} are both language '{language}'",
        where=str(second.parent),
        remedy="remove or rename one",
    )


def _checked(name: str) -> str:
    if not is_language(name):
        raise UsageError(
            f"'{name}' is not a language code", remedy="use ISO 639 codes such as en,fi,fr"
        )
    return normalize(name)


def _files_of(language: str, entries: list[Path]) -> list[Path]:
    found: list[Path] = []
    for entry in entries:
        found += _files_below(entry) if entry.is_dir() else [entry]
    if not any(file.stat().st_size for file in found):
        raise ModtokError(
            f"language '{language}' has no text",
            where=", ".join(str(entry) for entry in entries),
            remedy="add text, or leave the language out",
        )
    return without_covered_tables(found)


def _files_below(directory: Path) -> list[Path]:
    return sorted(
        file
        for file in directory.rglob("*")
        if (is_text(file) or is_table(file))
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(directory).parts)
    )


def files_in(source: Path | str) -> list[Path | str]:
    """The texts and count tables of one argument: a file, all in a directory, or "-".

    Raises:
        ModtokError: no such file, or no text in it.
    """
    if is_pipe(source):
        return [source]
    path = Path(source)
    if path.is_dir():
        found = _files_below(path)
        if found:
            return list(without_covered_tables(found))
    elif is_table(path) and path.exists():
        return [path]
    return text_files(path)


def without_covered_tables(files: Sequence[Path]) -> list[Path]:
    """`files` without count tables made from other files of the list, so no text counts twice."""
    texts = {file.name for file in files if is_text(file)}
    return [
        file
        for file in files
        if file.suffix != SUFFIX or not (names := _source_names(file)) or not names <= texts
    ]


def _source_names(table: Path) -> set[str]:
    return {source.name for source in read_header(table).sources}


def by_language(paths: Iterable[Path | str], language: str | None = None) -> dict[str, list[Path]]:
    """Files given by name, by the language each is named after, or all as `language`.

    Raises:
        UsageError: a file name without a language, or two names that spell one language
            differently.
    """
    found: dict[str, list[Path]] = {}
    for path in paths:
        name = normalize(language) if language else language_of_path(path)
        if name is None:
            raise UsageError(
                "the file name contains no language",
                where=str(path),
                remedy="name the file after it (fr.txt) or pass --lang",
            )
        found.setdefault(name, []).append(Path(path))
    if language is None:
        for name, files in found.items():
            _check_spelling(name, files)
    return {name: sorted(found[name]) for name in sorted(found)}
