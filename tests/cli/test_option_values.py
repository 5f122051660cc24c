"""One declaration gives the flag, its checks, its place in a stored configuration."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from modtok_cli.base.errors import IN_COMMAND, UsageError
from modtok_cli.base.option import Declared, Option, option, options_of
from modtok_cli.base.suggestion import near
from modtok_cli.cli.command import as_parameter
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.tree import nodes
from modtok_cli.training.command_line import command_line
from modtok_cli.training.recipe import read_assignments
from modtok_cli.training.resolve import resolve
from modtok_cli.training.settings import SECTIONS, RunSettings
from modtok_cli.training.stored_config import config_as_json, config_from_json


@dataclass(frozen=True, kw_only=True)
class Example(Declared):
    count: int = option("Count.", default=3, low=1, high=9)
    rate: float = option("Rate.", default=lambda run: run.count / 2, above=0)
    kind: Literal["a", "b"] = option("Kind.", default="a")
    place: Path | None = option("Place.")
    bytes: int | None = option("Bytes.")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "count: expected at least 1 and at most 9, got 0"),
        ({"count": True}, "count: expected a whole number, got True"),
        ({"rate": float("inf")}, "rate: expected a number greater than 0, got inf"),
        ({"kind": "c"}, "kind: expected a or b, got 'c'"),
        ({"place": 3}, "place: expected a path, got 3"),
        ({"rate": 10**400}, "rate: the number is out of range"),
        ({"bytes": 1 << 63}, "bytes: the number is out of range"),
    ],
)
def test_values_are_checked(values: dict[str, Any], message: str) -> None:
    """Messages have the name of the field, those of a command its flag."""
    for is_command in (False, True):
        token = IN_COMMAND.set(is_command)
        with pytest.raises(UsageError) as caught:
            Example(**values)
        IN_COMMAND.reset(token)
        assert str(caught.value) == f"{'--' if is_command else ''}{message}"


def test_values_are_converted() -> None:
    assert Example(rate=2, place="x").given() == {"rate": 2.0, "place": Path("x")}  # type: ignore[arg-type]
    assert Example(count=4).given() == {"count": 4}


def test_every_training_option_is_on_the_command_line() -> None:
    (node,) = (node for node in nodes(command_tree()) if node.path == ("pretrain",))
    flags = {flag for line in node.lines for flag in line.flags}
    options = options_of(RunSettings).values()
    assert flags >= {each.flag for each in options if not each.recipe_only}
    assert {each.section for each in options if each.recipe_only} <= SECTIONS.keys()


def test_what_may_be_on_can_be_turned_off() -> None:
    """Also an option that is on by default and may not change when a run is resumed."""

    @dataclass(frozen=True, kw_only=True)
    class Switches(Declared):
        on: bool = option("On.", default=True)
        off: bool = option("Off.", default=False)
        later: bool = option("Later.", default=False, changeable=True)

    flags = {
        name: as_parameter(each).annotation.__metadata__[0].default
        for name, each in options_of(Switches).items()
    }
    assert flags == {"on": "--on/--no-on", "off": "--off", "later": "--later/--no-later"}


def test_stored_options_are_read_back() -> None:
    """Options of the shape with the shape."""
    given = RunSettings(mix={"en": 0.4}, langs=("fi", "en"), name="x", tied=True)
    stored = config_as_json(resolve(given, gpu=False))
    assert stored.keys() == {*SECTIONS, "shape", "stages"}
    assert stored["architecture"] == {"model": "tiny"}
    assert (stored["data"]["langs"], stored["shape"]["tied"]) == (("en", "fi"), True)
    config = config_from_json(stored)
    assert (config_as_json(config), config.architecture.tied) == (stored, True)


@pytest.mark.parametrize(
    "given",
    [
        RunSettings(),
        RunSettings(data=Path("my text"), langs=("fi", "en"), mix={"en": 0.4}, steps=20, lr=1e-4),
        RunSettings(model="0.5b", sampling="sub:2", p=0.25, tied=True, batch_size=8),
        RunSettings(valid={"news": Path("n")}, eval_tasks=(), steps=7, warmup=3, eval_bytes=500),
        RunSettings(offload=True, offload_delay=0, offload_moments="bfloat16", keep_every=2),
    ],
)
def test_the_command_of_a_run_gives_its_configuration(given: RunSettings) -> None:
    config = resolve(given, gpu=False)
    program, command, *words = shlex.split(command_line(config, "x", gpu=False))
    assert (program, command) == ("modtok", "pretrain")
    parsed = command_tree(command).commands[command].make_context(command, words)
    values = {n: parsed.params[n] for n, o in options_of(RunSettings).items() if not o.recipe_only}
    explicit = {
        name: value
        for name, value in values.items()
        if parsed.get_parameter_source(name).name == "COMMANDLINE"
    }
    explicit |= read_assignments(parsed.params["set"] or ())
    assert config_as_json(resolve(RunSettings(**explicit), gpu=False)) == config_as_json(config)
    # No word more than needed: those given, and the preset.
    assert explicit.keys() <= given.given().keys() | {"model", "name", "sampling"}


NUMBER = Option("", kind=int, low=1, high=9)
LARGE = Option("", kind=int, high=2**31 - 1)
CHOICE = Option("", kind=Literal["a", "b", "c"])


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (NUMBER, "5", 5),
        (Option("", kind=float), "1e3", 1000.0),
        (Option("", kind=bool), "No", False),
        (Option("", kind=bool), "1", True),
        (Option("", kind=Path), "a/b", Path("a/b")),
        (Option("", kind=str), "5", "5"),
        (CHOICE, "b", "b"),
        (Option("", kind=int, parse=lambda text: text.split(",")), "1,2", ["1", "2"]),
    ],
)
def test_text_becomes_a_value(option: Option, text: str, value: Any) -> None:
    read = option.from_text(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        (NUMBER, "x", "expected a whole number of at least 1 and at most 9, got 'x'"),
        (NUMBER, "10", "expected a whole number of at least 1 and at most 9, got '10'"),
        (NUMBER, "5.5", "expected a whole number of at least 1 and at most 9, got '5.5'"),
        (LARGE, "x", "expected a whole number, got 'x'"),
        (LARGE, "9" * 11, f"expected a whole number of at most 2147483647, got '{'9' * 11}'"),
        (Option("", kind=int), "9" * 20, "the number is out of range"),
        (Option("", kind=float), "nan", "expected a number, got 'nan'"),
        (Option("", kind=float, above=0), "0", "expected a number greater than 0, got '0'"),
        (Option("", kind=bool), "maybe", "expected true or false, got 'maybe'"),
        (CHOICE, "d", "expected a, b or c, got 'd'"),
    ],
)
def test_other_text_is_refused(option: Option, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        option.from_text(text)


@pytest.mark.parametrize(
    ("word", "names", "meant"),
    [
        ("buget", "budget quiet", "budget"),
        ("cuont", "count", "count"),
        ("lrs", "lr", "lr"),
        ("tokneizer", "tokenizer", "tokenizer"),
        ("refrencess", "references", "references"),
        ("rfrencs", "references", "references"),
        ("zttle", "settle", "settle"),
        ("lan", "langs", "langs"),
        ("untie", "quiet", ""),
        ("batchsize", "batch-size", "batch-size"),
        ("lang", "lang-field k langs", "langs lang-field"),
        ("language", "lang", "lang"),
        ("la", "langs", ""),
        ("de", "ne", ""),
        ("path", "patha pathb pathc pathd", "pathd pathc pathb"),
        ("threads" * 20, "threads", ""),
    ],
)
def test_names_of_a_near_spelling(word: str, names: str, meant: str) -> None:
    assert near(word, names.split()) == meant.split()
