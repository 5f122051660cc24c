"""Result file of a study: JSON lines, written unit by unit and resumable.

While a study runs, its rows are in `.NAME.resume` beside the output. A unit is complete with its
closing line. When all units are done the output is written with rows in unit order, so that an
interrupted and resumed study writes the same bytes.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.parameters import FilePath
from modtok_cli.base.progress import Progress
from modtok_cli.base.reading import read_bounded
from modtok_cli.base.signature import digest, signature

Row = dict[str, Any]


class StudyFile:
    """Rows of one study in `output`, by unit.

    `settings` must contain everything that determines the rows; a file with other settings is
    another study. `command` is stored for the reader.
    """

    def __init__(
        self, output: FilePath, study: str, settings: Mapping[str, Any], command: str
    ) -> None:
        self.output = Path(output)
        self.partial = self.output.with_name(f".{self.output.name}.resume")
        settings = orjson.loads(orjson.dumps(settings))
        key = digest(orjson.dumps(settings, option=orjson.OPT_SORT_KEYS))
        self.signature = signature(f"study-{study}", key=key)
        self.header: Row = {
            "study": study,
            "settings": settings,
            "command": command,
            "signature": self.signature,
        }
        self._units: dict[str, list[Row]] = {}

    def run(
        self,
        units: Mapping[str, Callable[[], Sequence[Row]]],
        force: bool,
        progress: Progress,
        what: str,
        unit: str,
    ) -> list[Row]:
        """Rows of all units, of which those that are missing are computed, in this order.

        Raises:
            UsageError: the output is something else and `force` is not set.
        """
        rows = self.finished(force, progress)
        if rows is not None:
            return rows
        self.resume(force, progress)
        with progress.task(what, total=len(units), unit=unit) as task:
            for name, measure in units.items():
                if not self.has(name):
                    self.add(name, measure())
                task.advance(1)
        return self.finish(list(units))

    def finished(self, force: bool, progress: Progress) -> list[Row] | None:
        """Rows of a finished study with these settings; None if there is work to do.

        Raises:
            UsageError: the output is something else and `force` is not set.
        """
        if force or not self.output.exists():
            return None
        try:
            head, rows = read_study(self.output)
        except ModtokError:
            head, rows = {}, []
        if head.get("signature") != self.signature:
            raise UsageError(
                "already exists with other settings or texts",
                where=self.output,
                remedy="choose another -o, or pass --force to replace it",
            )
        progress.warn(f"{self.output} is already finished; --force repeats it")
        return rows

    def resume(self, force: bool, progress: Progress) -> None:
        """Load the units of an interrupted run, or start."""
        self._units = {} if force else self._read_partial()
        if self._units:
            progress.note(f"resuming: {len(self._units)} units are done")
        self.output.parent.mkdir(parents=True, exist_ok=True)
        # Rewritten, to remove an incomplete unit at the end.
        lines = [orjson.dumps(self.header)]
        for unit, rows in self._units.items():
            lines += _unit_lines(unit, rows)
        write_bytes(self.partial, b"\n".join(lines) + b"\n")

    def _read_partial(self) -> dict[str, list[Row]]:
        try:
            lines = read_bounded(self.partial).split(b"\n")
        except OSError:
            return {}
        units: dict[str, list[Row]] = {}
        waiting: list[Row] = []
        for number, line in enumerate(lines):
            try:
                row = orjson.loads(line)
                orjson.dumps(row)  # orjson reads deeper nesting than it writes
            except (orjson.JSONDecodeError, orjson.JSONEncodeError):
                break  # incomplete last line
            if not isinstance(row, dict):
                break
            if number == 0:
                if row.get("signature") != self.signature:
                    return {}
            elif "closes" in row:
                if line != _closing(str(row["closes"]), waiting):
                    break  # damaged
                units[str(row["closes"])] = waiting
                waiting = []
            else:
                waiting.append(row)
        return units

    def has(self, unit: str) -> bool:
        """Whether a unit is done."""
        return unit in self._units

    def rows_of(self, unit: str) -> list[Row]:
        """Rows of a finished unit."""
        return self._units[unit]

    def add(self, unit: str, rows: Sequence[Row]) -> None:
        """Save the rows of a unit; they are on disk when this returns."""
        self._units[unit] = list(rows)
        with open(self.partial, "ab") as handle:
            handle.write(b"\n".join(_unit_lines(unit, rows)) + b"\n")
            handle.flush()
            os.fsync(handle.fileno())

    def finish(self, units: Sequence[str]) -> list[Row]:
        """Write the output with the units in this order; returns its rows."""
        rows = [{**row, "signature": self.signature} for unit in units for row in self._units[unit]]
        lines = [orjson.dumps(self.header), *map(orjson.dumps, rows)]
        write_bytes(self.output, b"\n".join(lines) + b"\n")
        self.partial.unlink(missing_ok=True)
        return rows


def _unit_lines(unit: str, rows: Sequence[Row]) -> list[bytes]:
    return [*map(orjson.dumps, rows), _closing(unit, rows)]


def _closing(unit: str, rows: Sequence[Row]) -> bytes:
    """Line after the rows of a unit, with a checksum that marks them as complete."""
    sum_of_rows = digest(*map(orjson.dumps, rows))
    return orjson.dumps({"closes": unit, "rows": len(rows), "sha256": sum_of_rows})


def read_study(path: Path) -> tuple[Row, list[Row]]:
    """Header and rows of a finished study.

    Raises:
        ModtokError: the file does not exist or is not a study.
    """
    try:
        lines = read_bounded(path).splitlines()
        head, *rows = (orjson.loads(line) for line in lines)
        if not isinstance(head, dict) or "study" not in head:
            raise ValueError("the first line has no field 'study'")
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("a line is not a JSON object")
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror}", where=path) from error
    except ValueError as error:
        raise ModtokError(f"not a study: {error}", where=path) from error
    return head, rows
