"""Results: JSON lines on standard output, or tables on standard error.

If standard output is a terminal, rows are shown as a table on standard error, so that standard
output carries data only. If it is piped, or with --json, rows are JSON lines. With --table, tables
are written to standard output, for a pager or a file.
"""

import errno
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from itertools import repeat
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import check_new
from modtok_cli.reports.tables import Best, Worst, cell, marked, short_names
from modtok_cli.reports.tables import Column as Column
from modtok_cli.reports.tables import parse_columns as parse_columns

# Whether --table was given: tables go to standard output, whatever that is.
TABLES: ContextVar[bool] = ContextVar("TABLES", default=False)
# What keeps the rows of the command for later; see `Session.keep`.
KEEP: ContextVar[Callable[[Sequence[Mapping[str, Any]]], None] | None] = ContextVar(
    "KEEP", default=None
)

_CHUNK = 1 << 16
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNLIMITED = 1 << 20  # columns; wide enough for any table


def emit_rows(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[Column],
    *,
    title: str,
    json: bool,
    caption: str | None = None,
) -> None:
    """Write `rows` as a table on a terminal, else as one JSON object per line.

    JSON has every key of a row, the table only `columns`. `caption`, such as a signature, is
    printed below the table.
    """
    rows = list(rows)
    emit_tables(rows, [(title, rows, columns)], json=json, caption=caption)


def wants_json(json: bool) -> bool:
    """Return whether results are JSON lines rather than tables."""
    return json or not (TABLES.get() or _is_terminal(sys.stdout))


def emit_document(
    text: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    *,
    title: str,
    json: bool,
    caption: str | None = None,
) -> None:
    """Write `text` to standard output, for a file, and `rows` as a table beside it.

    With `json` only the rows are written, as JSON lines.
    """
    if json:
        emit_each(rows)
        return
    emit_chunks([text.encode()])
    _print_table(list(rows), columns, title, caption)


def emit_tables(
    rows: Iterable[Mapping[str, Any]],
    tables: Iterable[tuple[str, Sequence[Mapping[str, Any]], Sequence[Column]]],
    *,
    json: bool,
    caption: str | Sequence[str] | None = None,
) -> None:
    """Like `emit_rows`, with separate `tables` for the terminal: (title, rows, columns).

    `caption` is printed below each table; several are of one table each. Of rows that a kind of
    the report ranks, the best and the worst are marked, and the last line says what they mean.
    """
    if keep := KEEP.get():
        rows = list(rows)
        keep(rows)
    if wants_json(json):
        emit_each(rows)
        return
    rows = list(rows)
    ranked, sentence = _judged(rows)
    captions = repeat(caption) if caption is None or isinstance(caption, str) else caption
    for (title, lines, columns), below in zip(tables, captions, strict=False):
        _print_table(list(lines), columns, title, below, ranked)
    if sentence:
        _console().print(sentence, markup=False)


def _judged(rows: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
    """The field by which a kind of the report ranks such rows, and its sentence about them."""
    if len(rows) < 2:
        return "", None
    from modtok_cli.reports.kinds import kind_of, kinds

    name = kind_of(rows[0])
    if name is None:
        return "", None
    kind = kinds()[name]
    sentence = kind.finding(rows)
    is_one = len({(row.get("language"), row.get("text")) for row in rows}) == 1
    ranked = kind.measure[0] if kind.measure and (kind.compares_languages or is_one) else ""
    return ranked, sentence and escape_controls(sentence)


def emit_each(rows: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON objects on standard output, one per line."""
    emit_chunks(map(json_line, rows))


def json_line(row: Mapping[str, Any]) -> bytes:
    """Return a row as a line of JSON."""
    import orjson

    option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    row = rounded(row)
    try:
        return orjson.dumps(row, option=option)
    except TypeError:  # a name that is not UTF-8
        return orjson.dumps(_valid(row), option=option)


def rounded(value: Any) -> Any:
    """Return `value` with six significant digits of each number that is not whole."""
    if isinstance(value, float) and not value.is_integer():
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return value


def _valid(value: Any) -> Any:
    """Return `value` with bytes of names that are not UTF-8 escaped."""
    if isinstance(value, str):
        return _SURROGATE.sub(lambda match: _escaped(match[0]), value)
    if isinstance(value, Path):
        return _valid(str(value))
    if isinstance(value, Mapping):
        return {_valid(key): _valid(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_valid(each) for each in value]
    return value


def emit_lines(lines: Iterable[str], row: Mapping[str, Any], *, json: bool) -> None:
    """Write `lines` on a terminal, else `row` as one JSON object."""
    if wants_json(json):
        emit_each([row])
    elif TABLES.get():
        emit_chunks(f"{escape_controls(line)}\n".encode() for line in lines)
    else:
        for line in lines:
            say(escape_controls(line))


def say(line: str) -> None:
    """Write a line to standard error; if nobody can read it, the work goes on."""
    with suppress(OSError, ValueError, AttributeError):  # closed, full or missing
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def emit_chunks(chunks: Iterable[bytes]) -> None:
    """Write `chunks` as they arrive: raw and buffered to a file or pipe, else safe characters.

    Raises:
        BrokenPipeError: the reader closed the pipe (ends the command quietly).
        ModtokError: standard output is closed or its file system is full.
    """
    if sys.stdout is None:
        raise ModtokError("standard output is closed", remedy="redirect it to a file or a pipe")
    stream = sys.stdout.buffer
    to_terminal = _is_terminal(sys.stdout)
    limit = 1 if to_terminal else _CHUNK
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        if to_terminal:
            text = chunk.decode("utf-8", "surrogateescape")
            chunk = escape_controls(text, keep="\n\t").encode()
        held.append(chunk)
        size += len(chunk)
        if size >= limit:
            _write(stream, b"".join(held))
            held, size = [], 0
    _write(stream, b"".join(held))


def _write(stream: Any, data: bytes) -> None:
    try:
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_error(error) from error


def output_error(error: OSError) -> ModtokError:
    """Return the user's error for a failed write to standard output."""
    remedy = (
        "free disk space or write to another file system" if error.errno == errno.ENOSPC else None
    )
    return ModtokError(
        f"cannot write: {error.strerror or error}", where="standard output", remedy=remedy
    )


def one_line(text: str) -> str:
    """Return `text` on one line, with control characters escaped.

    >>> one_line("a\\n  b\\x1b[1m")
    'a b\\\\x1b[1m'
    """
    return escape_controls(" ".join(text.split()))


def escape_controls(text: str, *, keep: str = "") -> str:
    """Return `text` with the characters escaped that a terminal could execute or reorder text by.

    Escapes control characters (C0, DEL, C1), line and paragraph separators, bidirectional
    embeddings, and bytes that are not UTF-8, except those in `keep`. Everything that comes from
    files or names passes through here on its way to a terminal.

    >>> escape_controls("a\\tb\\x1b]52;c;\\x07 \\udcff"), escape_controls("a\\tb\\x9b", keep="\\t")
    ('a\\\\tb\\\\x1b]52;c;\\\\x07 \\\\xff', 'a\\tb\\\\x9b')
    """
    return _UNSAFE.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte of a name that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return ascii(character)[1:-1]


def check_output(output: Path | None, force: bool, remedy: str, *, json: bool = False) -> None:
    """Check where a file of `-o` goes that standard output gets without it.

    Raises:
        UsageError: `output` exists; without it, standard output is a terminal or wants JSON.
    """
    if output is None and json:
        raise UsageError("--json requires -o, since the tokenizer is written to stdout")
    if output is None and _is_terminal(sys.stdout):
        raise UsageError("standard output is a terminal", remedy=remedy)
    if output is not None:
        check_new(output, force=force)


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # closed or missing
        return False


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=not TABLES.get(), highlight=False, soft_wrap=False)


def _print_table(
    rows: list[Mapping[str, Any]],
    columns: Sequence[Column],
    title: str,
    caption: str | None,
    ranked: str = "",
) -> None:
    from rich.console import Console
    from rich.measure import Measurement
    from rich.text import Text

    to_stdout = TABLES.get()
    console = _console()
    table = _table(rows, columns, title, ranked)
    if to_stdout and not _is_terminal(sys.stdout):
        # A file or a pager has no width: every cell stays on its line.
        width = Measurement.get(console, console.options.update(width=_UNLIMITED), table).maximum
        console = Console(highlight=False, width=max(width, len(caption or "")))
    room = console.options.update(width=_UNLIMITED)
    if Measurement.get(console, room, table).maximum > console.width:
        rows = _without_directories(rows)
        table = _table(rows, columns, title, ranked)
        if Measurement.get(console, room, table).minimum > console.width:
            table = _stacked(rows, columns, title)
    console.print(table)
    if caption:
        console.print(Text(escape_controls(caption), style="dim"))


def _without_directories(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return rows with paths of texts and tokenizers shortened to their last part, where unique."""
    short = {}
    for key in ("text", "tokenizer"):
        names = [row[key] for row in rows if isinstance(row.get(key), str)]
        short[key] = short_names(names)
    return [
        {
            key: short[key].get(value, value) if key in short and isinstance(value, str) else value
            for key, value in row.items()
        }
        for row in rows
    ]


def _empty_table(title: str, **options: Any) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    return Table(
        title=Text(escape_controls(title)),
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
        collapse_padding=True,
        **options,
    )


def _stacked(rows: list[Mapping[str, Any]], columns: Sequence[Column], title: str) -> Any:
    """Return a line for each cell, for a terminal that is narrower than the columns."""
    from rich.text import Text

    table = _empty_table(title, show_header=False)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for row in rows:
        for column in columns:
            text = cell(row.get(column.key), column.form)
            table.add_row(Text(escape_controls(column.heading)), Text(escape_controls(text)))
        table.add_section()
    return table


def _table(
    rows: list[Mapping[str, Any]], columns: Sequence[Column], title: str, ranked: str = ""
) -> Any:
    """`ranked`: the field whose least value is in bold and whose greatest is underlined."""
    from rich.text import Text

    styles = {Best: "bold", Worst: "underline"}
    marks = {
        column.key: marked([row.get(column.key) for row in rows], column.form)
        for column in columns
        if column.key == ranked
    }
    table = _empty_table(title)
    for column in columns:
        numeric = column.form != "text"
        table.add_column(
            Text(escape_controls(column.heading)),
            justify="right" if numeric else "left",
            no_wrap=numeric,
            overflow="fold",  # truncated names would be ambiguous
        )
    for index, row in enumerate(rows):
        cells = (
            marks[key][index] if (key := column.key) in marks else cell(row.get(key), column.form)
            for column in columns
        )
        # Text does not interpret [brackets] as markup.
        table.add_row(*(Text(escape_controls(each), styles.get(type(each), "")) for each in cells))
    return table
