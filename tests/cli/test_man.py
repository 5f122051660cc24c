"""The man pages that `make man` writes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from modtok_cli.cli.main import command_tree
from modtok_cli.cli.manpage import escape, pages, write_pages
from modtok_cli.training.settings import OPTIONS

MAN = Path(__file__).parents[2] / "man"


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """The pages, by file."""
    return pages(command_tree())


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
