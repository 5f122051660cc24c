"""The flags: frozen, one meaning each, in help and in the man pages that `make man` writes."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from modtok_cli.base.option import options_of
from modtok_cli.cli.command import REGISTERED
from modtok_cli.cli.main import ORDER, command_tree
from modtok_cli.cli.manpage import escape, pages, write_pages
from modtok_cli.cli.tree import by_panel, nodes
from modtok_cli.training.settings import OPTIONS

from .frozen import surface

MAN = Path(__file__).parents[2] / "man"
COMMANDS = [node for node in nodes(command_tree()) if not node.is_group]


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """The pages, by file."""
    return pages(command_tree())


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


def test_committed_pages_are_the_generated_ones(made: dict[str, str]) -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in MAN.glob("*.1")}
    assert committed == made, "run `make man`"


def test_pages_are_ascii_and_escaped(made: dict[str, str]) -> None:
    assert escape(".B 'x\n'y \\ é") == "\\&.B 'x\n\\&'y \\e \\[u00E9]"
    for text in made.values():
        assert text.isascii()


def test_keys_of_a_recipe_are_listed_with_their_defaults(made: dict[str, str]) -> None:
    keys = [option for option in OPTIONS.values() if option.recipe_only]
    for option in keys:
        assert f"\n\\fB{option.section}.{option.name}\\fR" in made["modtok-pretrain.1"]
    assert "Epsilon of AdamW.  [default: 1e\\-08]" in made["modtok-pretrain.1"]


def test_writing_takes_away_pages_of_commands_that_are_gone(
    made: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "modtok-gone.1").write_text("old")
    (tmp_path / "other.1").write_text("kept")
    write_pages(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(made) | {"other.1"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_finds_nothing_wrong() -> None:
    files = sorted(MAN.glob("*.1"))
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", *files], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
