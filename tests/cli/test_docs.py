"""What is written about the command line elsewhere is so, and every flag is tried."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers.documented import PAGES, calls, code_lines
from modtok_cli.base.option import options_of
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.tree import nodes
from modtok_cli.training.recipe import read_assignments
from modtok_cli.training.settings import RunSettings

ROOT = Path(__file__).parents[2]
TREE = command_tree()
FLAGS = {node.path: {f for line in node.lines for f in line.flags} for node in nodes(TREE)}


@pytest.mark.parametrize("file", ["README.md", "examples/demo.sh", "CHANGELOG.md"])
def test_commands_in_the_docs_exist_with_their_flags(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    calls = re.findall(r"\bmodtok ([a-z][a-z-]*(?: [^|`#\n]*)?)", text)
    found = 0
    for call in calls:
        words = call.replace('"', " ").split()
        path = tuple(words[:2]) if tuple(words[:2]) in FLAGS else tuple(words[:1])
        if path not in FLAGS:
            continue  # prose
        found += 1
        used = {word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word)}
        assert used <= FLAGS[path], call
    assert found >= 5


def call(words: list[str]) -> None:
    """Parse a call, and check the values of training options, without running it."""
    path = tuple(words[:2]) if tuple(words[:2]) in FLAGS else tuple(words[:1])
    command: Any = TREE
    for name in path:
        command = command.commands[name]
    parsed = command.make_context(" ".join(path), words[len(path) :])
    if path != ("pretrain",):
        return
    known = options_of(RunSettings).keys() & parsed.params.keys()
    given = {name for name in known if parsed.get_parameter_source(name).name == "COMMANDLINE"}
    values = {name: parsed.params[name] for name in given}
    RunSettings(**values | read_assignments(parsed.params["set"] or ()))


@pytest.mark.parametrize("page", [page for page in PAGES if code_lines(page)])
def test_commands_in_code_blocks_are_right_usage(page: str) -> None:
    for line in code_lines(page):
        for words in calls(line):
            if words != ["--install-completion"]:
                call(words)


def test_make_venv_says_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", str(ROOT / ".ci" / "make-venv.sh"), "venv"],
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_make_help_names_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert targets is not None
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in targets[1].split():
        assert f"  make {target} " in done.stdout
