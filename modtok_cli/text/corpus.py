"""Word counts of a corpus: any number of texts and tables, several languages in parallel."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.text.bounded_count import count_into
from modtok_cli.text.count_files import count_files
from modtok_cli.text.counts import CorpusSize, WordCounts, merge_counts
from modtok_cli.text.parallel import read_each
from modtok_cli.text.pretokenizer import BPE, PreTokenizer
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import Advance, display
from modtok_cli.text.table_files import (
    SUFFIX,
    Header,
    read_header,
    sources_of,
)
from modtok_cli.text.workspace import files_in, language_files


def count_corpus(
    paths: Iterable[Path | str],
    *,
    pretokenizer: PreTokenizer = BPE,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
    threads: int = 1,
) -> WordCounts:
    """Word counts of texts and saved tables together, in any number and order.

    A path is a text file, a `.counts` or `.tsv` table, a directory of those, or "-". The
    result depends neither on the order of the files nor on `threads`, which share them.
    `reading` is that of `readers.read_documents`; progress is in bytes of the files.

    Raises:
        ModtokError: a file is missing or damaged, or there is no text; names it, with the line.
        UsageError: a table was split by another pre-tokenizer.
    """
    given = list(paths)
    files = [file for path in given for file in files_in(path)]
    name = Path(given[0]).name if len(given) == 1 else f"{len(given)} files"
    # One thread takes all files into one table; more take a file each and merge.
    shares = [[file] for file in files] if threads > 1 else [files]
    tables = read_each(
        lambda share, advance: count_files(
            share, pretokenizer, reading, progress, advance, may_be_empty=len(files) > 1
        ),
        shares,
        files=files,
        label=f"counting {name}",
        threads=threads,
        progress=progress,
    )
    table = merge_counts(tables)
    if not len(table) and not table.size.documents:
        raise ModtokError(
            "holds no text" if len(given) == 1 else "hold no text",
            where=", ".join(map(display, given)),
            remedy="choose the field of the languages with --lang-field"
            if reading.lang_field
            else "expected a file with one document per line",
        )
    return table


def count_languages(
    files: Mapping[str, Sequence[Path]],
    *,
    pretokenizer: PreTokenizer = BPE,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
    threads: int | None = None,
) -> dict[str, WordCounts]:
    """Word counts of each language, several at a time (`threads`: default one a core).

    Raises:
        ModtokError: as `count_corpus`; the first error stops the work.
    """
    languages = sorted(files)
    tables = read_each(
        lambda name, advance: count_files(
            files[name], pretokenizer, reading.of(name), progress, advance
        ),
        languages,
        files=[file for language in languages for file in files[language]],
        label="counting words",
        threads=threads,
        progress=progress,
    )
    return dict(zip(languages, tables, strict=True))


def write_counts(
    languages: Sequence[str] | None = None,
    *,
    data: Path = Path("data"),
    output: Path = Path("counts"),
    pretokenizer: PreTokenizer = BPE,
    reading: Reading = Reading(),
    threads: int | None = None,
    memory: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> list[dict[str, object]]:
    """Count each language of `data` into `output/<lang>.counts`; a row for each.

    A table made from the same files (name, size and time) is kept, with a note, unless
    `force`. Each table is written atomically when it is complete, so a stopped run resumes.
    `memory`: bytes of the tables of words of all threads (`bounded_count`).

    Raises:
        ModtokError: as `count_corpus` and `workspace.language_files`.
    """
    files = language_files(data, languages, reading, progress=progress)
    for language, paths in files.items():
        place = output / f"{language}{SUFFIX}"
        if any(path.resolve() == place.resolve() for path in paths):
            raise UsageError(
                "would overwrite its own input", where=str(place), remedy="pass --output"
            )
    rows: dict[str, dict[str, object]] = {}
    waiting = []
    for language, paths in files.items():
        place = output / f"{language}{SUFFIX}"
        found = None if force else _finished(place, paths, pretokenizer, reading)
        if found:
            rows[language] = _row(language, found.size, found.words, found.unique, place, True)
        else:
            waiting.append(language)
    if rows:
        done = ", ".join(sorted(rows))
        progress.note(f"{output}: counted already and unchanged: {done} (--force counts again)")

    workers = min(threads or os.cpu_count() or 1, len(waiting)) or 1

    def count(language: str, advance: Advance) -> None:
        paths, place = files[language], output / f"{language}{SUFFIX}"
        sources = sources_of(
            paths
        )  # before reading: a file that changes meanwhile is counted again
        header = count_into(
            place,
            language,
            paths,
            pretokenizer,
            reading.of(language),
            sources,
            progress,
            advance,
            memory=memory and memory // workers,
            recorded=reading,
        )
        if header is None:
            raise ModtokError(
                f"language '{language}' has no text",
                where=", ".join(map(str, paths)),
                remedy="add text, or leave the language out",
            )
        rows[language] = _row(
            language, header.size, header.words, header.unique, place, unchanged=False
        )

    read_each(
        count,
        waiting,
        files=[file for language in waiting for file in files[language]],
        label="counting words",
        threads=threads,
        progress=progress,
    )
    return [rows[language] for language in sorted(rows)]


def _row(
    language: str, size: CorpusSize, words: int, unique: int, place: Path, unchanged: bool
) -> dict[str, object]:
    return {
        "language": language,
        "documents": size.documents,
        "characters": size.characters,
        "bytes": size.bytes,
        "words": words,
        "unique": unique,
        "path": str(place),
        "unchanged": unchanged,
    }


def _finished(
    place: Path, paths: Sequence[Path], pretokenizer: PreTokenizer, reading: Reading
) -> Header | None:
    """The header of the table at `place` if it was counted from these files, this way."""
    if not place.exists():
        return None
    try:
        header = read_header(place)
    except ModtokError:
        return None  # damaged, or of an older format: counted again
    same = (header.pretokenizer, header.reading, header.sources) == (
        pretokenizer.name,
        reading,
        sources_of(paths),
    )
    return header if same else None
