"""Count words into a table file, in bounded memory: full tables go to disk and are merged.

Tables of one text add up to those of the whole, so a word table that reaches its bound is written
beside the output, sorted, and counting goes on with an empty one. Merging reads windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import scratch_beside
from modtok_cli.base.memory import parse_bytes
from modtok_cli.base.progress import Progress
from modtok_cli.text.count_files import check_pattern, count_files
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import Advance
from modtok_cli.text.table_files import SUFFIX, Header, Source, read_header, save_counts
from modtok_cli.text.table_merging import MEMORY, merge_files

LEAST_MEMORY = 100_000_000
"""Bytes below which tables are too small to be worth their files."""
_COPIES = 4
"""Times its own size that a table takes at most while it is sorted and written."""


def checked_memory(value: str | int | None) -> int | None:
    """Bytes of a bound such as "4GB"; None if there is none.

    Raises:
        UsageError: it is not a size, or less than `LEAST_MEMORY`.
    """
    if value is None:
        return None
    try:
        memory = parse_bytes(value)
    except ValueError as error:
        raise UsageError(str(error), where="--memory") from error
    if memory < LEAST_MEMORY:
        raise UsageError(f"expected 100MB or more, got {value}", where="--memory")
    return memory


def count_into(
    output: Path,
    language: str,
    files: Sequence[Path],
    pretokenizer: PreTokenizer,
    reading: Reading,
    sources: Sequence[Source],
    progress: Progress,
    advance: Advance | None,
    *,
    memory: int | None = None,
    recorded: Reading | None = None,
    may_be_empty: bool | None = None,
) -> Header | None:
    """Write the table of texts and tables at `output`; None, and no file, if they have no words.

    The file is the same for any `memory`, the bytes that tables of words may take while counting
    and merging. It does not bound `.tsv` tables, which are read whole, nor the buffers of readers.
    `recorded` is the reading in the header, if not `reading`.

    Raises:
        ModtokError, UsageError: as `count_files.count_files` and `table_merging.merge_files`.
    """
    said = recorded or reading
    if may_be_empty is None:
        may_be_empty = len(files) > 1
    if memory is None:
        table = count_files(
            files, pretokenizer, reading, progress, advance, may_be_empty=may_be_empty
        )
        if not len(table):
            return None
        save_counts(table, output, language, sources, said)
        return read_header(output)
    with scratch_beside(output) as scratch:
        parts = [Path(file) for file in files if Path(file).suffix == SUFFIX]
        texts = [file for file in files if Path(file).suffix != SUFFIX]
        for path in parts:
            check_pattern(path, read_header(path).pretokenizer, pretokenizer)
            if advance:
                advance(path.stat().st_size)

        def spill(table: WordCounts) -> None:
            parts.append(scratch / f"{len(parts):05d}{SUFFIX}")
            save_counts(table, parts[-1], language)

        if texts:
            table = count_files(
                texts,
                pretokenizer,
                reading,
                progress,
                advance,
                may_be_empty=may_be_empty,
                most=memory // _COPIES,
                spill=spill,
            )
            if not parts:
                if len(table):
                    save_counts(table, output, language, sources, said)
                return read_header(output) if len(table) else None
            spill(table)
            del table
        window = min(MEMORY, memory // _COPIES)
        header = merge_files(parts, output, language, scratch, sources, said, window)
    if not header.unique:
        output.unlink()
        return None
    return header
