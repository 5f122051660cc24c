"""Which files of a workspace hold which language: `data/<lang>*` by their names."""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.remote import path_of
from modtok_cli.text.directory import Directory, variety_of_name
from modtok_cli.text.file_labels import guess_language, label_of_path, split_name
from modtok_cli.text.identify import identified
from modtok_cli.text.languages import (
    Label,
    by_label,
    canonical,
    matching,
    shortened,
    suggest,
    the_one,
)
from modtok_cli.text.readers import has_fields, is_text, read_documents, text_files
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import is_pipe
from modtok_cli.text.table_files import SUFFIX, is_table, read_header

_MOST_NAMES = 10
_LAYOUT = "put each language there as <lang>.txt, <lang>.jsonl.zst, <lang>.counts or <lang>/"


def language_files(
    data: Path,
    languages: Sequence[str] | None = None,
    reading: Reading = Reading(),
    known: Sequence[str] = (),
    progress: Progress = SILENT,
) -> dict[str, list[Path]]:
    """Find the files of each label in `data`, a directory or one file: label → files, sorted.

    An entry belongs to the language it is named after (`fr.jsonl.zst`, `fra_Latn.devtest`,
    `dev.fra_Latn`, `fr.counts`, all text in `fr/` or `lang=fr/`); a single file of another name to
    the only one of `languages`. Without `languages`, all languages. Labels of one language have
    script or region if there are several (`languages.shortened`), or as in `known`, the languages
    of a tokenizer.

    With `reading.lang_field`, files with fields that are not named after a language belong to
    every language; `reading.of(language)` reads its documents. Without `languages`, these files
    are read for the languages that they hold.

    The languages of a download of the hub may be in its `data/` or its one snapshot. `progress`
    is warned of what is left out (`text.directory`).
    """
    data = path_of(data)
    single = data.is_file()
    if single:
        files_in(data)  # an error for another format
    elif not data.is_dir():
        raise missing(data, _LAYOUT)
    wanted = None if languages is None else [_checked(name) for name in languages]
    if wanted and known:  # zh of this tokenizer are its zh-Hans and zh-Hant
        wanted = [label for name in wanted for label in matching(name, known) or [name]]
    directory = Directory(data, _is_read)
    entries, mixed, nameless = _entries(directory, wanted, reading)
    if not entries and not mixed and (inner := _inner(data, wanted, reading)):
        progress.note(f"{data}: languages are looked for in {inner.relative_to(data)}")
        return language_files(inner, languages, reading, known, progress)
    for file in filter(Path.is_file, [*nameless]):
        if label := identified(file, reading, progress):
            entries.setdefault(label, []).append(file)
            nameless.remove(file)
    if mixed:
        for label in wanted or _languages_in(mixed, reading):
            entries.setdefault(label, []).extend(mixed)
    there = ", ".join(sorted(entries))
    if mixed and not entries:
        raise ModtokError(
            f"no document has a language in field '{reading.lang_field}'",
            where=mixed[0],
            remedy="choose the field with --lang-field",
        )
    if not entries and not wanted:
        place = f"the names of {_shown(nameless)}" if nameless else "this directory"
        raise ModtokError(
            f"no language in {place}",
            where=data.parent if single else data,
            remedy=_remedy_of(nameless) if nameless else _LAYOUT,
        )
    if nameless and not wanted:
        progress.warn(
            f"{data}: left out, since the names are not languages: {_shown(nameless)}; "
            + _remedy_of(nameless)
        )
    short = shortened(entries)
    names = {label: the_one(label, known) or short[label] for label in entries}
    chosen = set(names.values()) if wanted is None else set()
    for name in wanted or ():
        those = {name} & set(names.values()) or {names[x] for x in matching(name, list(names))}
        if not those:
            has = _remedy_of(nameless) if nameless else _LAYOUT
            raise UsageError(
                f"no text of language '{name}'",
                where=data,
                remedy=suggest(name, sorted(set(names.values())))
                + (f"there are {there}" if there else has),
            )
        chosen |= those
    of: dict[str, list[Path]] = {name: [] for name in sorted(chosen)}
    for label in sorted(entries):
        if names[label] in of:
            of[names[label]] += entries[label]
    found = {}
    for name, own in of.items():
        _check_spelling(name, own)
        found[name] = _files_of(name, own, directory)
    directory.look_for_train(entry for those in entries.values() for entry in those)
    directory.tell(progress)
    return found


def _inner(data: Path, wanted: Sequence[str] | None, reading: Reading) -> Path | None:
    """The only directory that has the languages of a download of the hub; None for others."""
    if not data.is_dir():
        return None
    if (data / "data").is_dir():
        return data / "data"
    if (data / "snapshots").is_dir():
        inner = list((data / "snapshots").iterdir())
    else:
        directory = Directory(data, _is_read)
        entries = directory.entries(data)
        if any(directory.reads(each) and each.is_file() for each in entries):
            return None
        below = (Directory(each, _is_read) for each in entries if each.is_dir())
        inner = [each.root for each in below if _entries(each, wanted, reading)[0]]
    return inner[0] if len(inner) == 1 else None


def _entries(
    directory: Directory, wanted: Sequence[str] | None, reading: Reading
) -> tuple[dict[str, list[Path]], list[Path], list[Path]]:
    """The entries of a directory: by label, files of several languages, entries without label."""
    entries: dict[str, list[Path]] = {}
    mixed: list[Path] = []
    nameless: list[Path] = []
    data = directory.root
    single = data.is_file()
    for entry in [data] if single else directory.entries(data):
        label = label_of_path(entry if single else entry.name)
        if label is None and single and reading.lang_field is None and wanted and not wanted[1:]:
            label = wanted[0]
        elif label is None and wanted:
            # A rare code counts only on request: "abc.txt" may be anything.
            first = canonical(entry.name.split(".")[0])
            label = first if any(Label.of(first).fits(Label.of(name)) for name in wanted) else None
        if not entry.is_dir() and not directory.reads(entry):
            if not wanted or any(label and Label.of(label).fits(Label.of(name)) for name in wanted):
                directory.below(entry)  # which notes that it is not read
        elif label is not None:
            entries.setdefault(label, []).append(entry)
        elif reading.lang_field is not None and (with_fields := _mixed(directory.below(entry))):
            mixed += with_fields
        elif Directory(entry, _is_read).below(entry):
            nameless.append(entry)
    return entries, directory.of_train(mixed), nameless


def _shown(entries: Sequence[Path]) -> str:
    """Return names of files, each with the language it may be in."""
    guesses = [(entry.name, guess_language(entry.name)) for entry in entries[:_MOST_NAMES]]
    shown = ", ".join(f"{name} ({guess}?)" if guess else name for name, guess in guesses)
    more = len(entries) - len(guesses)
    return f"{shown} and {more} more" if more else shown


def _remedy_of(nameless: Sequence[Path]) -> str:
    remedy = "rename them to <lang>.txt, or list what you want with --langs"
    if any(_mixed(Directory(entry, _is_read).below(entry)) for entry in nameless):
        remedy += "; if they have a field or column of the language, name it with --lang-field"
    return remedy


def _is_read(path: Path) -> bool:
    return is_text(path) or is_table(path)


def _mixed(files: Iterable[Path]) -> list[Path]:
    return [file for file in files if is_text(file) and has_fields(file)]


def _languages_in(files: Sequence[Path], reading: Reading) -> list[str]:
    """Return languages of the documents of `files`."""
    languages: set[str] = set()
    for file in files:
        stat = file.stat()
        languages |= _languages_of(file, stat.st_size, stat.st_mtime_ns, reading)
    return sorted(languages)


@cache
def _languages_of(file: Path, size: int, time: int, reading: Reading) -> frozenset[str]:
    documents = read_documents(file, reading, may_be_empty=True)
    return frozenset(one.language for one in documents if one.language is not None)


def _check_spelling(language: str, entries: Sequence[Path]) -> None:
    """Refuse names of one label that may mean two languages.

    These are `en.txt` beside `eng.txt` or `pt-BR.txt`, and beside `en-us.txt` or `en_rom.txt`: the
    spellings differ, or words after it other than splits, parts and numbers.
    """
    seen: dict[tuple[str, str], Path] = {}
    for entry in sorted(entries):
        if found := split_name(entry.name):  # else its directory names the language
            seen.setdefault((found[0].lower(), variety_of_name(entry.name)), entry)
    if len(seen) > 1:
        raise same_language(language, *list(seen.values())[:2])


def same_language(language: str, first: Path, second: Path) -> UsageError:
    """Return the error for two files of which one must be meant."""
    return UsageError(
        f"{first.name} and {second.name} are both language '{language}'",
        where=second.parent,
        remedy="remove or rename one, or put both into a directory; names with script or region "
        "(sr-Cyrl, pt-BR) on all are kept apart",
    )


def _checked(name: str) -> str:
    if not Label.of(name).is_known:
        raise UsageError(
            f"'{name}' is not a language code",
            remedy="use ISO 639 codes such as en,fi,fr, or code, math, x-NAME",
        )
    return canonical(name)


def _files_of(language: str, entries: list[Path], directory: Directory) -> list[Path]:
    files = directory.of_train(file for entry in entries for file in directory.below(entry))
    if not any(file.stat().st_size for file in files):
        raise empty_language(language, entries)
    return without_covered_tables(files)


def empty_language(language: str, paths: Iterable[Path | str]) -> ModtokError:
    """Return the error for files of a language that hold no text."""
    return ModtokError(
        f"language '{language}' has no text",
        where=", ".join(map(str, paths)),
        remedy="add text, or leave the language out",
    )


def files_in(source: Path | str, progress: Progress = SILENT) -> list[Path | str]:
    """Return the texts and count tables of one argument: a file, all in a directory, or "-"."""
    files = text_files(source, progress, _is_read)
    return files if is_pipe(source) else list(without_covered_tables(list(map(path_of, files))))


def without_covered_tables(files: Sequence[Path]) -> list[Path]:
    """Leave out count tables made from other files of the list, so that no text counts twice."""
    texts = {file.name for file in files if is_text(file)}
    return [
        file
        for file in files
        if file.suffix != SUFFIX or not (names := _source_names(file)) or not names <= texts
    ]


def _source_names(table: Path) -> set[str]:
    return {source.name for source in read_header(table).sources}


def by_language(
    paths: Iterable[Path | str],
    language: str | None = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> dict[str, list[Path]]:
    """Return files, also in directories, by the language each is named after, or as `language`.

    With a field of languages, a file with another name has the languages of its documents.
    """
    items: list[tuple[str, Path]] = []
    for path in (file for source in paths for file in files_in(source, progress)):
        name = language or label_of_path(path)
        names = [name] if name else []
        if not names and reading.lang_field and not is_pipe(path):
            names = _languages_in(_mixed([path_of(path)]), reading)
        if not names and (label := identified(path, reading, progress)):
            names = [label]
        if not names:
            raise UsageError(
                "the file name contains no language",
                where=path,
                remedy="name the file after it (fr.txt), or pass --lang or --lang-field",
            )
        items += ((name, path_of(path)) for name in names)
    groups = by_label(items)
    if language is None:
        for name, files in groups.items():
            # A directory of the language has files of any names.
            plain = [file for file in files if label_of_path(f"{file.parent.name}/_") is None]
            _check_spelling(name, plain)
    return {name: sorted(groups[name]) for name in sorted(groups)}
