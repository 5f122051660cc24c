"""The man pages: those committed are those generated, and groff has nothing to say."""

import shutil
import subprocess
from pathlib import Path

import pytest

from modtok_cli.cli.main import ORDER, command_tree
from modtok_cli.cli.manpage import escape, pages, write_pages

MAN = Path(__file__).parents[2] / "man"
PAGES = pages(command_tree())


def test_committed_pages_are_the_generated_ones() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in MAN.glob("*.1")}
    assert committed == PAGES, "run `make man`"


def test_one_page_per_command() -> None:
    assert set(PAGES) == {"modtok.1"} | {f"modtok-{words.replace(' ', '-')}.1" for words in ORDER}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_sections(name: str) -> None:
    sections = [line[4:] for line in PAGES[name].splitlines() if line.startswith(".SH ")]
    expected = ["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "ARGUMENTS", "OPTIONS"]
    expected += ["ENVIRONMENT", "FILES", "EXIT STATUS", "EXAMPLES", "SEE ALSO"]
    assert sections == [section for section in expected if section in sections]
    assert set(expected) - set(sections) <= {"COMMANDS", "ARGUMENTS"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("name", sorted(PAGES))
def test_groff_finds_nothing_wrong(name: str) -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8"], input=PAGES[name].encode(), capture_output=True
    )
    assert done.returncode == 0
    assert done.stderr == b""
    assert b"EXIT" in done.stdout or b"E\x08EX" in done.stdout


def test_pages_are_ascii_and_escaped() -> None:
    assert escape(".B 'x\n'y \\ é") == "\\&.B 'x\n\\&'y \\e \\[u00E9]"
    for text in PAGES.values():
        assert text.isascii()


def test_writing_takes_away_pages_of_commands_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "modtok-gone.1").write_text("old")
    (tmp_path / "other.1").write_text("kept")
    write_pages(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(PAGES) | {"other.1"}
