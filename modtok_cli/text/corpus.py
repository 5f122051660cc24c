"""Word counts of a corpus: any number of texts and tables, several languages in parallel."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import refuse_others, scratch_beside
from modtok_cli.base.memory import parse_bytes
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.remote import path_of
from modtok_cli.text.counts import WordCounter, WordCounts, merge_counts, size_of
from modtok_cli.text.parallel import read_each
from modtok_cli.text.pretokenizer import BPE, PreTokenizer
from modtok_cli.text.readers import read_line_batches, read_spans
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import Advance, display
from modtok_cli.text.table_files import (
    MEMORY,
    SUFFIX,
    Header,
    TableSource,
    is_table,
    load_counts,
    merge_files,
    read_header,
    save_counts,
    sources_of,
)
from modtok_cli.text.workspace import empty_language, files_in, language_files


def count_corpus(
    paths: Iterable[Path | str],
    *,
    pretokenizer: PreTokenizer = BPE,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
    threads: int = 1,
) -> WordCounts:
    """Return word counts of texts and saved tables together, in any number and order.

    A path is a text file, a `.counts` or `.counts.tsv` table, a directory of those, or "-". The
    result depends neither on the order of the files nor on `threads`, which share them.
    `reading` is as in `readers.read_documents`; progress is in bytes of the files.
    """
    sources = list(paths)
    files = [file for path in sources for file in files_in(path, progress)]
    name = Path(sources[0]).name if len(sources) == 1 else f"{len(sources)} files"
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
        raise no_text(sources, reading)
    return table


def no_text(sources: Sequence[Path | str], reading: Reading) -> ModtokError:
    """Return the error for files without documents."""
    return ModtokError(
        "holds no text" if len(sources) == 1 else "hold no text",
        where=", ".join(map(display, sources)),
        remedy="choose the field of the languages with --lang-field"
        if reading.lang_field
        else "expected a file with one document per line",
    )


def count_languages(
    files: Mapping[str, Sequence[Path]],
    *,
    pretokenizer: PreTokenizer = BPE,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
    threads: int | None = None,
) -> dict[str, WordCounts]:
    """Return word counts of each language, several at a time (`threads`: default one a core)."""
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
    reading: Reading = Reading(),
    threads: int | None = None,
    memory: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> list[dict[str, object]]:
    """Count each language of `data` into `output/<lang>.counts`; a row for each.

    A table made from the same files (name, size and time) is kept, with a note, unless
    `force`. Each table is written atomically when it is complete, so a stopped run resumes.
    `memory`: bytes of the tables of words of all threads (`count_into`).
    """
    files = language_files(data, languages, reading, progress=progress)
    places = tables_of(files, output, data)
    workers = min(threads or os.cpu_count() or 1, len(files))
    share = None
    if memory is not None:
        workers = max(1, min(workers, memory // LEAST_MEMORY))
        share = memory // workers
    said = recorded_reading(reading, share)
    headers = {}
    if not force:
        headers = {name: finished(places[name], paths, said) for name, paths in files.items()}
    rows = {name: row_of(each, places[name], True) for name, each in headers.items() if each}
    if rows:
        done = ", ".join(sorted(rows))
        progress.note(f"{output}: counted already and unchanged: {done} (--force counts again)")
    waiting = [language for language in files if language not in rows]

    def count(language: str, advance: Advance) -> None:
        paths, place = files[language], places[language]
        header = count_into(
            place,
            language,
            paths,
            reading.of(language),
            sources_of(paths),  # before reading: a file that changes meanwhile is counted again
            progress=progress,
            advance=advance,
            memory=share,
            recorded=reading,
        )
        if header is None:
            raise empty_language(language, paths)
        rows[language] = row_of(header, place, False)

    read_each(
        count,
        waiting,
        files=[file for language in waiting for file in files[language]],
        label="counting words",
        threads=workers,
        progress=progress,
    )
    return [rows[language] for language in sorted(rows)]


def tables_of(files: Mapping[str, Sequence[Path]], output: Path, data: Path) -> dict[str, Path]:
    """Return where the table of each language is written, which is not a file to count.

    Raises:
        UsageError: it is one, or `output` has files that are neither tables nor that text.
    """
    places = {language: output / f"{language}{SUFFIX}" for language in files}
    for language, place in places.items():
        if any(path.resolve() == place.resolve() for path in files[language]):
            raise UsageError("would overwrite its own input", where=place, remedy="pass --output")
    if output.resolve() != data.resolve():
        refuse_others(output, lambda name: name.startswith(".") or name.endswith(SUFFIX))
    return places


def row_of(header: Header, place: Path, unchanged: bool) -> dict[str, object]:
    """Return the row of a table that `corpus count` prints."""
    return {
        "language": header.language,
        **vars(header.size),
        "words": header.words,
        "unique_words": header.unique,
        "path": str(place),
        "unchanged": unchanged,
    }


def finished(place: Path, paths: Sequence[Path], reading: Reading) -> Header | None:
    """Return the header of the table at `place` if it was counted from these files, this way."""
    if not place.exists():
        return None
    try:
        header = read_header(place)
    except ModtokError:
        return None  # damaged, or of an older format: counted again
    same = (header.pretokenizer, header.reading, header.sources) == (
        BPE.name,
        reading,
        sources_of(paths),
    )
    return header if same else None


def count_files(
    files: Sequence[Path | str],
    pretokenizer: PreTokenizer,
    reading: Reading,
    progress: Progress,
    advance: Advance | None,
    *,
    may_be_empty: bool | None = None,
    most: int = 0,
    spill: Callable[[WordCounts], None] | None = None,
) -> WordCounts:
    """Count files, texts and tables, one after the other.

    A text file `may_be_empty`, by default one among others: then the table may be empty too.
    `most` and `spill` are arguments of the `WordCounter`.
    """
    counter = WordCounter(pretokenizer, most, spill)
    if may_be_empty is None:
        may_be_empty = len(files) > 1
    tables: list[WordCounts] = []
    for file in files:
        if not is_table(file):
            for spans in read_spans(
                file, reading, progress=progress, advance=advance, may_be_empty=may_be_empty
            ):
                counter.add_spans(spans.data, spans.starts, spans.stops)
        elif (path := path_of(file)).suffix == SUFFIX:
            table = load_counts(path)
            check_pattern(file, table.pretokenizer.name, pretokenizer)
            tables.append(table)
            if advance:
                advance(path.stat().st_size)
        else:
            tables.append(read_tsv(file, pretokenizer, reading, progress, advance))
    if counter.documents or not tables:
        tables.append(counter.result())
    return merge_counts(tables)


def check_pattern(file: Path | str, name: str, pretokenizer: PreTokenizer) -> None:
    """Check that the words of a table were split as expected."""
    if name != pretokenizer.name:
        raise UsageError(
            f"counted with pre-tokenizer '{name}', expected '{pretokenizer.name}'",
            where=file,
            remedy="count the text again",
        )


LEAST_MEMORY = 100_000_000
"""Bytes below which tables are too small to be worth their files."""
_COPIES = 4
"""Times its own size that a table takes at most while it is sorted and written."""
_LONGEST = 12
"""Part of the memory that a document may have; of three copies, the tables leave a quarter."""


def _within(reading: Reading, memory: int | None) -> Reading:
    longest = reading.longest if memory is None else min(reading.longest, memory // _LONGEST)
    return replace(reading, longest=longest)


def recorded_reading(reading: Reading, memory: int | None) -> Reading:
    """Return the reading as a header has it: with the longest document if longer ones miss."""
    return _within(reading, memory) if reading.errors == "skip" else reading


def checked_memory(value: str | int | None, least: int = LEAST_MEMORY) -> int | None:
    """Return bytes of a bound such as "4GB", which is at least `least`; None if there is none."""
    if value is None:
        return None
    try:
        memory = parse_bytes(value)
    except ValueError as error:
        raise UsageError(str(error), where="--memory") from error
    if memory < least:
        raise UsageError(f"expected {least // 10**6}MB or more, got {value}", where="--memory")
    return memory


def count_into(
    output: Path,
    language: str,
    files: Sequence[Path],
    reading: Reading,
    sources: Sequence[TableSource],
    *,
    progress: Progress = SILENT,
    advance: Advance | None = None,
    memory: int | None = None,
    recorded: Reading | None = None,
    may_be_empty: bool | None = None,
    pretokenizer: PreTokenizer = BPE,
) -> Header | None:
    """Write the table of texts and tables at `output`; None, and no file, if they have no words.

    The file is the same for any `memory`, the bytes that tables of words and long documents may
    take while counting and merging, unless `reading` skips documents that are too long for it. It
    does not bound `.counts.tsv` tables, which are read whole, nor the buffers of readers.
    `recorded` is the reading in the header, if not `reading`.
    """
    said = recorded_reading(recorded or reading, memory)
    reading = _within(reading, memory)
    if may_be_empty is None:
        may_be_empty = len(files) > 1
    with nullcontext(output) if memory is None else scratch_beside(output) as scratch:
        parts = [] if memory is None else [file for file in files if file.suffix == SUFFIX]
        texts = [file for file in files if file not in parts]
        for path in parts:
            check_pattern(path, read_header(path).pretokenizer, pretokenizer)
            if advance:
                advance(path.stat().st_size)

        def spill(table: WordCounts) -> None:
            parts.append(scratch / f"{len(parts):05d}{SUFFIX}")
            save_counts(table, parts[-1], language)

        most = (memory or 0) * 3 // 4 // _COPIES
        if texts:
            table = count_files(
                texts,
                pretokenizer,
                reading,
                progress,
                advance,
                may_be_empty=may_be_empty,
                most=most,
                spill=spill if memory else None,
            )
            if not parts:
                if len(table):
                    save_counts(table, output, language, sources, said)
                return read_header(output) if len(table) else None
            spill(table)
            del table
        header = merge_files(parts, output, language, scratch, sources, said, min(MEMORY, most))
    if not header.unique:
        output.unlink()
        return None
    return header


_PLAIN = {rb"\t": b"\t", rb"\n": b"\n", rb"\r": b"\r", rb"\\": b"\\"}
_UNESCAPE = re.compile(rb"\\[tnr\\]")
_LARGEST = 1 << 53
"""Larger counts could overflow 64 bits when added; no corpus has them."""


def read_tsv(
    path: str | Path,
    pretokenizer: PreTokenizer = BPE,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
    advance: Advance | None = None,
) -> WordCounts:
    r"""Read a `.counts.tsv` file (or .zst, .gz) of lines `word<TAB>count`, which add up.

    A word is taken with its spaces (" the" and "the" are two). Tab, newline, carriage return
    and backslash inside a word are written `\t`, `\n`, `\r` and `\\`; any other backslash
    is literal. A line of more than one word of the pre-tokenizer is split, and each word
    gets the line's count.

    Documents are 0, unknown; characters and bytes are counted in the words.
    """
    counter = WordCounter(pretokenizer)
    for documents in read_line_batches(path, reading, progress=progress, advance=advance):
        words, weights = [], []
        for document in documents:
            if document.text:
                word, count = _line(document.text, f"{display(path)}:{document.line}")
                words.append(word)
                weights.append(count)
        counter.add_documents(words, np.array(weights, dtype=np.int64))
    table = counter.result()
    size = size_of(table.data, table.offsets, table.counts)
    return WordCounts(table.data, table.offsets, table.counts, pretokenizer, size)


def _line(line: bytes, where: str) -> tuple[bytes, int]:
    word, tab, number = line.removesuffix(b"\r").rpartition(b"\t")
    remedy = "a line is a word, a tab and a count of at least 1"
    if not tab:
        raise ModtokError("no tab in this line", where=where, remedy=remedy)
    if not word:
        raise ModtokError("no word before the tab", where=where, remedy=remedy)
    if not re.fullmatch(rb"[0-9]{1,16}", number) or not 1 <= int(number) <= _LARGEST:
        shown = number[:20].decode(errors="replace")
        raise ModtokError(f"'{shown}' is not a count", where=where, remedy=remedy)
    return _UNESCAPE.sub(lambda match: _PLAIN[match[0]], word), int(number)
