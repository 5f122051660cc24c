"""The flags: frozen, one meaning each, and in help."""

import re
from pathlib import Path

import pytest

from modtok_cli.base.option import options_of
from modtok_cli.cli.command import REGISTERED
from modtok_cli.cli.main import ORDER, command_tree
from modtok_cli.cli.names import MEANT_OPTIONS
from modtok_cli.cli.tree import MORE, by_panel, first_sentence, nodes

from .frozen import surface

COMMANDS = [node for node in nodes(command_tree()) if not node.is_group]


def test_the_command_line_is_frozen() -> None:
    frozen = (Path(__file__).parent / "flags.txt").read_text(encoding="utf-8")
    assert surface() == frozen, "if this is meant: python tests/cli/frozen.py > tests/cli/flags.txt"


def test_every_declared_command_is_in_the_tree() -> None:
    assert set(ORDER) <= set(REGISTERED)
    assert {" ".join(node.path) for node in COMMANDS} == set(REGISTERED)


def test_a_description_names_arguments_as_the_usage_does() -> None:
    declared = filter(None, (each.declaration for each in REGISTERED.values()))
    for help, own in ((each.help, options_of(each.function)) for each in declared):
        named = {each.flag for each in own.values() if each.argument}
        assert not named & set(re.findall(r"--[a-z-]+", help)), help


def test_a_flag_means_the_same_everywhere() -> None:
    meanings: dict[str, set[tuple[str, str, str]]] = {}
    for node in nodes(command_tree()):
        for line in node.lines:
            for flag in line.flags:
                # The choices of an option may depend on the command; what it is called may not.
                value = "choice" if "|" in line.value else line.value
                meanings.setdefault(flag, set()).add((line.name, value, line.flags[-1]))
    assert {flag: said for flag, said in meanings.items() if len(said) > 1} == {}


# Options whose sentence depends on the command.
OWN_SENTENCE = {
    "--output": "a command writes a file or a directory, or nothing without it",
    "--tokenizer": "commands take other kinds: one to extend, any, or that of a run",
}


def test_an_option_has_one_sentence() -> None:
    """What depends on the command follows the first sentence."""
    sentences: dict[str, set[str]] = {}
    for node in COMMANDS:
        for line in node.lines:
            for flag in line.flags:
                sentences.setdefault(flag, set()).add(first_sentence(line.help))
    several = {flag: found for flag, found in sentences.items() if len(found) > 1}
    short = {flag for flag in several if not flag.startswith("--")}
    assert several.keys() - short == OWN_SENTENCE.keys(), several
    assert short == {"-o", "-t"}


def test_hints_for_unknown_options_name_options() -> None:
    names = {name for node in COMMANDS for line in node.lines for name in (*line.flags, line.value)}
    names |= {name.strip("[].") for name in names}
    for other, choices in MEANT_OPTIONS.items():
        assert {each.split()[0] for each in choices} <= names, other


@pytest.mark.parametrize("name", ["pretrain", "slice"])
def test_long_help_has_two_screens_of_what_is_changed_first(here, monkeypatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (node,) = (node for node in COMMANDS if node.path == (name,))
    groups = {title: [line.name for line in lines] for title, lines in by_panel(node.lines).items()}
    assert groups.keys() - {"Arguments"} == {"Options", MORE}
    assert groups["Options"][0] == {"pretrain": "sampling", "slice": "langs"}[name]
    assert len(groups["Options"]) < 22
    assert len(here(name, "--help")[1].splitlines()) <= 100


def test_help_shows_every_option_and_an_example_in_80_columns(here, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for node in COMMANDS:
        flags = [flag for line in node.lines for flag in line.flags]
        assert len(flags) == len(set(flags))
        assert all(line.help.endswith(".") for line in node.lines), node.path
        status, out, _ = here(*node.path, "--help")
        assert status == 0
        assert max(map(len, out.splitlines())) <= 80
        options, examples = out.split("Options:")[1].split("Examples:")
        assert f"modtok {' '.join(node.path)}" in examples
        for line in node.lines:
            assert line.is_argument or f"  {line.heading}" in options
