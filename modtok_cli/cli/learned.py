"""Settings of learners in modtok.toml, and the report of a learner as a table."""

from modtok_cli.cli.command import Call
from modtok_cli.cli.output import Column, emit_tables
from modtok_cli.construct.request import BuildReport

_CAPTION = ("output", "signature")  # equal in every row: shown below the table
_PER_WORD = {f"tokens_per_word_{name}": "ratio" for name in ("before", "whole", "subset")}
_FORMS = {"seconds": "seconds", "bytes": "bytes", "nsl": "ratio", **_PER_WORD}


# What modtok.toml says of an existing tokenizer too.
_NO_SETTINGS = {"append", "remove", "data", "output", "references", "threads", "force"}


def leave_out_unused(call: Call) -> None:
    """Leave out settings of modtok.toml that are for other calls of the learner.

    modtok.toml does not choose a tokenizer to extend, and what it says of settings is for new
    tokenizers: only an option of the command line can disagree with an existing one.
    """
    call.leave_out(["output" if "tokenizer" in call.explicit else "tokenizer"])
    if "append" in call.values or "remove" in call.values:
        call.leave_out(call.values.keys() - _NO_SETTINGS)


def emit_report(report: BuildReport, *, title: str, json: bool) -> None:
    """Print the rows of a `BuildReport`; their keys are the columns."""
    rows = report.rows()
    caption = f"{report.output}  (signature {report.signature})"
    emit_tables(rows, [(title, rows, columns_of(rows))], json=json, caption=caption)


def columns_of(rows: list[dict[str, object]]) -> list[Column]:
    """Return a column for every key; its form depends on the key or the first value.

    >>> [column.form for column in columns_of([{"language": "fi", "tokens": 3, "seconds": 1.5}])]
    ['text', 'int', 'seconds']
    """
    columns: dict[str, Column] = {}
    for row in rows:
        for key, value in row.items():
            if key not in (*columns, *_CAPTION) and value is not None:
                number = isinstance(value, int) and not isinstance(value, bool)
                form = _FORMS.get(key) or ("int" if number else "text")
                columns[key] = Column(key, key.replace("_", " "), form)
    return list(columns.values())
