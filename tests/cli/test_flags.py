"""The flags themselves: frozen, one meaning each, documented."""

from pathlib import Path

from modtok_cli.cli.command import REGISTERED
from modtok_cli.cli.main import ORDER, command_tree
from modtok_cli.cli.tree import by_panel, nodes

from .frozen import surface

COMMANDS = [node for node in nodes(command_tree()) if not node.is_group]


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


def test_options_of_pretrain_are_grouped_as_in_recipes() -> None:
    (node,) = (node for node in COMMANDS if node.path == ("pretrain",))
    groups = {title: {line.name for line in lines} for title, lines in by_panel(node.lines).items()}
    assert {"lr", "warmup"} <= groups["Schedule"]
    assert {"gpus", "offload"} <= groups["Parallelism"]
    assert {"name", "runs", "config", "resume", "quiet", "help"} <= groups["Options"]
    assert len(groups) == 10
    assert len(groups["Options"]) < 16


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
