"""The result of learning as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modtok_cli.cli.output import Column, emit_rows

if TYPE_CHECKING:
    from modtok_cli.construct.request import BuildReport

_CAPTION = ("output", "signature")  # equal in every row: shown below the table
_FORMS = {"seconds": "seconds", "bytes": "bytes", "nsl": "ratio"}


def emit_report(report: BuildReport, *, title: str, json: bool) -> None:
    """Print the rows of a `BuildReport`; their keys are the columns."""
    rows = report.rows()
    caption = f"{report.output}  (signature {report.signature})"
    emit_rows(rows, columns_of(rows), title=title, json=json, caption=caption)


def columns_of(rows: list[dict[str, object]]) -> list[Column]:
    """A column for every key; its form depends on the key or the first value.

    >>> [column.form for column in columns_of([{"language": "fi", "tokens": 3, "seconds": 1.5}])]
    ['text', 'int', 'seconds']
    """
    columns: dict[str, Column] = {}
    for row in rows:
        for key, value in row.items():
            if key not in (*columns, *_CAPTION) and value is not None:
                number = isinstance(value, int) and not isinstance(value, bool)
                form = _FORMS.get(key) or ("int" if number else "text")
                columns[key] = Column(key, key.replace("_", " "), form)  # type: ignore[arg-type]
    return list(columns.values())
