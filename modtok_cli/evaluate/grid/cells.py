"""The files of a grid: one for each cell, complete or absent, named by what the cell depends on.

OUTPUT/cells/<key>.jsonl    first line: {"cell": …, "rows": […], "rows_sha256": …, "bytes": …,
                            "sha256": …}, the latter two of the examples;
                            then the examples, as `modtok eval … --examples` writes them
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import atomic_file
from modtok_cli.base.signature import digest
from modtok_cli.text.reading import Reading

Row = dict[str, Any]
_LINE = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY


@dataclass(frozen=True)
class Place:
    """What a model is loaded from."""

    path: Path
    step: int | None
    tokenizer: Path | None
    dtype: str | None


@dataclass(frozen=True)
class Cell:
    """One run, task, language or pair, and inference mode.

    Attributes:
        kind: "mcq", "mt", "sum" or "bpb".
        task: name of the task; of mt, sum and bpb the kind.
        language: language, or pair such as "en-fr"; of a text None if its name has none.
        settings: of the function that evaluates it, with the mode.
        vocabulary: of the mode, see `models.Infer`; "" if it depends on the documents.
        depends: everything that determines the results.
        data: directory of the data, or a text; None for the hub.
    """

    kind: str
    place: Place
    task: str
    language: str | None
    settings: Any
    vocabulary: str
    depends: Mapping[str, Any]
    data: Path | None
    include: Path | None = None
    reading: Reading = Reading()

    @property
    def key(self) -> str:
        """Name of the file."""
        return digest(orjson.dumps(self.depends, option=orjson.OPT_SORT_KEYS), length=24)

    @property
    def label(self) -> str:
        """What it is, for people."""
        where = self.language or str(self.data)
        step = "" if self.place.step is None else f"@{self.place.step}"
        mode = self.settings.infer or "default"
        return f"{self.place.path.name}{step} {self.task} {where} {mode}"


class Store:
    """The cells in an output directory."""

    def __init__(self, output: Path) -> None:
        self.folder = output / "cells"

    def path(self, key: str) -> Path:
        """File of a cell."""
        return self.folder / f"{key}.jsonl"

    def has(self, key: str) -> bool:
        """Whether a cell is done; False if its file is damaged."""
        try:
            self.rows(key)
        except (OSError, ValueError):
            return False
        return True

    def rows(self, key: str) -> list[Row]:
        """Rows of a finished cell."""
        with open(self.path(key), "rb") as file:
            first = file.readline()
            head = orjson.loads(first)
            rest = file.seek(0, 2) - len(first)
        if not isinstance(head, dict) or head.get("bytes") != rest:
            raise ValueError("damaged")
        rows = head.get("rows")
        if not isinstance(rows, list) or head.get("rows_sha256") != _digest(rows):
            raise ValueError("damaged")
        return rows

    def examples(self, key: str) -> list[Row]:
        """Examples of a finished cell."""
        where = self.path(key)
        try:
            first, _, rest = where.read_bytes().partition(b"\n")
            if orjson.loads(first)["sha256"] != digest(rest, length=64):
                raise ValueError("wrong checksum")
            return [orjson.loads(line) for line in rest.splitlines()]
        except OSError as error:
            raise ModtokError(f"cannot be read: {error.strerror}", where=where) from error
        except (ValueError, LookupError, TypeError) as error:
            raise ModtokError(
                f"is damaged ({error})", where=where, remedy="delete it and repeat the command"
            ) from error

    def write(self, cell: Cell, rows: Sequence[Row], examples: Sequence[Row]) -> None:
        """Save a cell; it is on disk when this returns."""
        rest = b"".join(orjson.dumps(row, option=_LINE) for row in examples)
        head = {
            "cell": cell.depends,
            "rows": rows,
            "rows_sha256": _digest(rows),
            "bytes": len(rest),
            "sha256": digest(rest, length=64),
        }
        with atomic_file(self.path(cell.key)) as beside:
            beside.write_bytes(orjson.dumps(head, option=_LINE) + rest)


def _digest(rows: Sequence[Row]) -> str:
    """Checksum of rows, the same for what is written and what is read again."""
    parsed = orjson.loads(orjson.dumps(rows, option=_LINE))
    return digest(orjson.dumps(parsed), length=64)
