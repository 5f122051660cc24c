"""Results: data on standard output, tables for the eye on standard error.

When standard output is a terminal, rows are shown as a table (on standard error, so that
standard output stays pure); when it is piped, or with --json, they are JSON lines.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Literal

from modtok_cli.base.errors import ModtokError

Form = Literal["text", "int", "ratio", "score", "seconds", "bytes", "count"]
_CHUNK = 1 << 16
_ENDLESS = 1 << 20  # columns of a terminal that any table fits


@dataclass(frozen=True)
class Column:
    """One column of a table: key of the row, heading, and how its values are written.

    Forms: text; int with thousands separated; ratio with 3 decimals (NSL and the like);
    score with 1 (accuracy, BLEU: of 100); seconds; bytes in kB, MB, GB; count for the number
    of things in a list.
    """

    key: str
    heading: str
    form: Form = "text"


def emit_rows(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[Column],
    *,
    title: str,
    json: bool,
    caption: str | None = None,
) -> None:
    """Give `rows` to whoever reads: a table on a terminal, else one JSON object a line.

    JSON holds every key of a row, the table only `columns`; `caption` (a signature, say)
    stands below the table.
    """
    if json or not _is_terminal(sys.stdout):
        _emit_json(rows)
    else:
        _print_table(list(rows), columns, title, caption)


def emit_tables(
    rows: Iterable[Mapping[str, Any]],
    tables: Iterable[tuple[str, Sequence[Mapping[str, Any]], Sequence[Column]]],
    *,
    json: bool,
    caption: str | None = None,
) -> None:
    """As `emit_rows`, but a person is shown tables of their own: (title, rows, columns).

    `caption` stands below each of them.
    """
    if json or not _is_terminal(sys.stdout):
        _emit_json(rows)
        return
    for title, lines, columns in tables:
        _print_table(list(lines), columns, title, caption)


def _emit_json(rows: Iterable[Mapping[str, Any]]) -> None:
    import orjson

    option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    emit_chunks(orjson.dumps(row, option=option) for row in rows)


def emit_object(row: Mapping[str, Any]) -> None:
    """Write one JSON object on standard output."""
    _emit_json([row])


def emit_story(lines: Iterable[str], row: Mapping[str, Any], *, json: bool) -> None:
    """Findings that are no table: lines on a terminal, else all of it as one JSON object."""
    if json or not _is_terminal(sys.stdout):
        emit_object(row)
    else:
        for line in lines:
            print(harmless(line), file=sys.stderr)


def emit_bytes(data: bytes) -> None:
    """Write `data` to standard output as it is."""
    emit_chunks([data])


def emit_text_lines(lines: Iterable[str]) -> None:
    """Write lines of text, each with a newline behind it, as UTF-8."""
    emit_chunks(line.encode("utf-8", "surrogateescape") + b"\n" for line in lines)


def emit_chunks(chunks: Iterable[bytes]) -> None:
    """Write `chunks` as they come; on a terminal each at once, else in larger pieces.

    Raises:
        BrokenPipeError: the reader went away (ends the command quietly).
        ModtokError: standard output is closed or its file system is full.
    """
    if sys.stdout is None:
        raise ModtokError("standard output is closed", remedy="redirect it to a file or a pipe")
    stream = sys.stdout.buffer
    limit = 1 if _is_terminal(sys.stdout) else _CHUNK
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
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
    """What a refused write to standard output means to the user."""
    remedy = "free space, or write elsewhere" if error.errno == errno.ENOSPC else None
    return ModtokError(
        f"cannot write: {error.strerror or error}", where="standard output", remedy=remedy
    )


def one_line(text: str) -> str:
    """`text` in one line without control characters, which could disturb a terminal.

    >>> one_line("a\\n  b\\x1b[1m")
    'a b\\\\x1b[1m'
    """
    return harmless(" ".join(text.split()))


def harmless(line: str) -> str:
    """`line` without control characters, its spaces kept."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def is_stdout_terminal() -> bool:
    """Whether a person, not a program, would see what we write to standard output."""
    return _is_terminal(sys.stdout)


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # closed, or none at all
        return False


def format_value(value: Any, form: Form) -> str:
    """One cell.

    >>> format_value(1.01449, "ratio"), format_value(340147, "int"), format_value(None, "int")
    ('1.014', '340,147', '–')
    """
    if value is None or (isinstance(value, float) and isnan(value)):
        return "–"
    if form == "count":
        return f"{len(value):,}"
    if form == "int":
        return f"{int(value):,}"
    if form == "ratio":
        return f"{value:.3f}"
    if form == "score":
        return f"{value:.1f}"
    if form == "seconds":
        return f"{value:.1f} s"
    if form == "bytes":
        return _format_bytes(float(value))
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def _format_bytes(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def _print_table(
    rows: list[Mapping[str, Any]], columns: Sequence[Column], title: str, caption: str | None
) -> None:
    from rich.console import Console
    from rich.measure import Measurement
    from rich.text import Text

    console = Console(stderr=True, highlight=False, soft_wrap=False)
    table = _table(rows, columns, title)
    room = console.options.update(width=_ENDLESS)
    if Measurement.get(console, room, table).maximum > console.width:
        table = _table(_without_directories(rows), columns, title)
    console.print(table)
    if caption:
        console.print(Text(caption, style="dim"))


def _without_directories(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows whose texts and tokenizers go by the last part of their paths, if that tells them."""
    from modtok_cli.measure.pictures import short_names

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


def _table(rows: list[Mapping[str, Any]], columns: Sequence[Column], title: str) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title),
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
        collapse_padding=True,
    )
    for column in columns:
        numeric = column.form != "text"
        table.add_column(
            Text(column.heading),
            justify="right" if numeric else "left",
            no_wrap=numeric,
            overflow="fold",  # a name cut short would be another name
        )
    for row in rows:
        cells = (format_value(row.get(column.key), column.form) for column in columns)
        table.add_row(*(Text(cell) for cell in cells))  # Text: [brackets] are no markup
    return table
