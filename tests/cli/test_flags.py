"""The flags themselves: frozen, one meaning each, documented."""

from pathlib import Path

import pytest

from modtok_cli.base.option import options_of
from modtok_cli.cli.command import REGISTERED
from modtok_cli.cli.main import ORDER, command_tree
from modtok_cli.cli.tree import Node, by_panel, nodes
from modtok_cli.text.reading import Reading

from .frozen import surface

COMMANDS = [node for node in nodes(command_tree()) if not node.is_group]
BY_NAME = pytest.mark.parametrize("node", COMMANDS, ids=lambda node: " ".join(node.path))


def test_the_command_line_is_frozen() -> None:
    frozen = (Path(__file__).parent / "flags.txt").read_text(encoding="utf-8")
    assert surface() == frozen, "if this is meant: python tests/cli/frozen.py > tests/cli/flags.txt"


def test_every_declared_command_is_in_the_tree() -> None:
    assert set(ORDER) <= set(REGISTERED)
    assert {" ".join(node.path) for node in COMMANDS} == set(REGISTERED)


def test_a_flag_means_the_same_everywhere() -> None:
    meanings: dict[str, set[tuple[str, str, str]]] = {}
    for node in nodes(command_tree()):
        for line in node.lines:
            for flag in line.flags:
                # The choices of an option may depend on the command; what it is called may not.
                value = "choice" if "|" in line.value else line.value
                meanings.setdefault(flag, set()).add((line.name, value, line.flags[-1]))
    assert {flag: said for flag, said in meanings.items() if len(said) > 1} == {}


@BY_NAME
def test_no_flag_twice(node: Node) -> None:
    flags = [flag for line in node.lines for flag in line.flags]
    assert len(flags) == len(set(flags))


@BY_NAME
def test_every_command_has_the_shared_flags(node: Node) -> None:
    flags = {flag for line in node.lines for flag in line.flags}
    assert flags >= {"-q", "--quiet", "-v", "--verbose", "--debug", "--help"}


@BY_NAME
def test_every_option_and_argument_has_help(node: Node) -> None:
    for line in node.lines:
        assert line.help.endswith("."), f"{node.path} {line.heading}"


@BY_NAME
def test_help_shows_options_and_examples_in_80_columns(
    node: Node, here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = here(*node.path, "--help")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    options = out.split("Options:")[1]
    for line in node.lines:
        if not line.is_argument:
            assert f"  {line.heading}" in options
    examples = options.split("Examples:")[1].splitlines()
    assert any(f"modtok {' '.join(node.path)}" in example for example in examples)


@BY_NAME
def test_options_of_reading_have_their_own_part_of_the_help(node: Node, here) -> None:
    groups = by_panel(node.lines)
    names = {line.name for line in node.lines}
    there = [line.name for line in groups.get("Reading text", [])]
    assert there == [name for name in options_of(Reading) if name in names]
    _, out, _ = here(*node.path, "--help")
    assert [f"\n{title}:\n" in out for title in groups] == [True] * len(groups)


def test_options_of_pretrain_are_grouped_as_in_recipes() -> None:
    (node,) = (node for node in COMMANDS if node.path == ("pretrain",))
    groups = {title: {line.name for line in lines} for title, lines in by_panel(node.lines).items()}
    assert {"lr", "warmup"} <= groups["Schedule"]
    assert {"gpus", "offload"} <= groups["Parallelism"]
    assert {"name", "runs", "config", "resume", "quiet", "help"} <= groups["Options"]
    assert len(groups) == 10
    assert len(groups["Options"]) < 16


@BY_NAME
def test_examples_use_only_options_that_exist(node: Node) -> None:
    known = {node.path: {flag for line in node.lines for flag in line.flags} for node in COMMANDS}
    for example in (node.command.epilog or "").splitlines():
        if example.strip().startswith("#"):
            continue
        for call in example.split("|"):
            words = call.split(" -- ")[0].split()  # what follows is of another program
            if "modtok" not in words:
                continue
            rest = words[words.index("modtok") + 1 :]
            path = tuple(rest[:2]) if tuple(rest[:2]) in known else tuple(rest[:1])
            used = {word for word in rest if word.startswith("-") and word != "-"}
            assert used <= known[path], example
