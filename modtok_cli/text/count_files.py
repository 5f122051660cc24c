"""Word counts of files, texts and tables, in one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.text.counter import WordCounter
from modtok_cli.text.counts import WordCounts, merge_counts
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.text.readers import read_spans
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import Advance
from modtok_cli.text.table_files import SUFFIX, is_table, load_counts
from modtok_cli.text.table_tsv import read_tsv


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
    `most` and `spill` are those of the `WordCounter`.
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
        elif Path(file).suffix == SUFFIX:
            table = load_counts(Path(file))
            check_pattern(file, table.pretokenizer.name, pretokenizer)
            tables.append(table)
            if advance:
                advance(Path(file).stat().st_size)
        else:
            tables.append(
                read_tsv(
                    file,
                    pretokenizer=pretokenizer,
                    reading=reading,
                    progress=progress,
                    advance=advance,
                )
            )
    if counter.documents or not tables:
        tables.append(counter.result())
    return merge_counts(tables)


def check_pattern(file: Path | str, name: str, pretokenizer: PreTokenizer) -> None:
    """Check that the words of a table were split as expected.

    Raises:
        UsageError: by another pre-tokenizer.
    """
    if name != pretokenizer.name:
        raise UsageError(
            f"counted with pre-tokenizer '{name}', expected '{pretokenizer.name}'",
            where=str(file),
            remedy="count the text again",
        )
