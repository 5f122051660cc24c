"""Stages of a run: the `[[stage]]` tables of a recipe.

The first stage is the run as its other options say. Each table follows for `steps` steps; what it
does not set stays as in the stage before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import path_text
from modtok_cli.base.option import Option
from modtok_cli.base.suggestion import near

RATE = ("lr", "final_lr", "schedule", "warmup", "decay_steps")
"""Options of the learning rate: a stage that sets one has a schedule of its own."""
_TABLE = "[[stage]]"
_DEFAULT = "default"


@dataclass(frozen=True)
class StageTable:
    """A stage after the first.

    Attributes:
        steps: its number of steps.
        options: options that it changes, by name; None is a default that a stage before had
            replaced, "default" in a table.
        flags: their flags, by name; none if the stage was not read (`read_stages`).
        places: file and line of its keys, by name; "" is its first line. None are known of a
            stage that does not come from a file.
    """

    steps: int
    options: Mapping[str, Any]
    flags: Mapping[str, str] = field(default_factory=dict, compare=False)
    places: Mapping[str, str] = field(default_factory=dict, compare=False)

    @staticmethod
    def read(
        table: object, options: Mapping[str, Option], places: Mapping[str, str] | None = None
    ) -> StageTable:
        """Check a table; `options` are all of a run.

        Raises:
            UsageError: no table, no `steps`, an unknown key, an option that cannot change in a
                run, or an invalid value.
        """
        places = places or {}
        if not isinstance(table, Mapping):
            raise UsageError(f"expected a table, got {table!r}", where=_where(places, ""))
        known = [name for name, option in options.items() if option.staged]
        values: dict[str, Any] = {}
        for key, value in table.items():
            where = _where(places, key)
            if key not in known and key in options and key != "steps":
                remedy = f"set it for the whole run, or use {', '.join(known)}"
                raise UsageError("cannot change between stages", where=where, remedy=remedy)
            if key not in known and key != "steps":
                close = near(str(key).replace("-", "_"), [*known, "steps"])
                remedy = f"did you mean {close[0]}?" if close else f"use {', '.join(known)}"
                raise UsageError(f"unknown key of {_TABLE}", where=where, remedy=remedy)
            try:
                usual = value == _DEFAULT and options[key].optional
                values[key] = None if usual else options[key].read(value)
            except ValueError as error:
                raise UsageError(str(error), where=where) from error
        if "steps" not in values:
            remedy = "set its number of steps"
            raise UsageError("has no steps", where=_where(places, ""), remedy=remedy)
        steps = values.pop("steps")
        return StageTable(steps, values, {name: options[name].flag for name in values}, places)

    def as_json(self) -> dict[str, Any]:
        """The table, as a recipe and `config.json` have it."""
        return {"steps": self.steps, **{name: _plain(one) for name, one in self.options.items()}}

    def at(self, key: str = "") -> str:
        """Where it, or one of its keys, is: `recipe.toml:14: [[stage]] lr`."""
        return _where(self.places, key)

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Context whose errors name the stage; its key in place of a flag or a path."""
        try:
            yield
        except ModtokError as error:
            words = {name: (self.flags[name], str(value)) for name, value in self.options.items()}
            key = next((name for name in words if error.where in words[name]), "")
            what = f"{error.where}: {error.what}" if error.where and not key else error.what
            kind = UsageError if isinstance(error, UsageError) else ModtokError
            raise kind(what, where=self.at(key), remedy=error.remedy) from error

    def differs(self, other: StageTable | None) -> str | None:
        """The first key that differs from another stage, "" if there is none; None: equal.

        The text of a stage may be elsewhere: its content is compared, not its place.
        """
        if other is None:
            return ""
        mine, theirs = ({**one.options, "steps": one.steps} for one in (self, other))
        for key in dict.fromkeys([*mine, *theirs]):
            if mine.get(key) != theirs.get(key) and (
                key != "data" or key not in mine.keys() & theirs.keys()
            ):
                return key
        return None


def _plain(value: Any) -> Any:
    if value is None:
        return _DEFAULT
    return path_text(value) if isinstance(value, Path) else value


def _where(places: Mapping[str, str], key: str) -> str:
    place = places.get(key) or places.get("", "")
    return ": ".join(filter(None, [place, f"{_TABLE} {key}".strip()]))


class _Stages(tuple[StageTable, ...]):
    """Stages that were read: each stage has a configuration with all of them."""


def read_stages(tables: Iterable[Any], options: Mapping[str, Option]) -> tuple[StageTable, ...]:
    """Stages from tables, as a Python call has them, and from stages; those that were read stay."""
    if isinstance(tables, _Stages):
        return tables
    return _Stages(
        StageTable.read(one, options)
        if not isinstance(one, StageTable)
        else one
        if one.flags or not one.options
        else StageTable.read(one.as_json(), options, one.places)
        for one in tables
    )
