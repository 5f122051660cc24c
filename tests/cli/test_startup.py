"""Help and version answer at once: no heavy module is imported for them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from helpers.made_tokenizers import MADE
from helpers.processes import python
from modtok_cli.cli.main import command_tree, listing
from modtok_cli.cli.names import HEADINGS, MEANT, ORDER, heading_of
from modtok_cli.cli.tree import nodes

HEAVY = {
    "torch",
    "tokenizers",
    "megatron",
    "sentencepiece",
    "rich",
    "tiktoken",
    "safetensors",
    "click",
}
PROBE = """
import sys
opened = []
sys.addaudithook(lambda event, args: event == "open" and opened.append(str(args[0])))
from modtok_cli.cli.main import _tree, command_tree
from modtok_cli.cli.execute import run
status = run(_tree(sys.argv[1:]), sys.argv[1:])
print([name for name in opened if "/tok/" in name], file=sys.stderr)
print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
sys.exit(status)
"""
# What encoding a line and extracting a subset do without.
NEEDLESS = HEAVY | {"pydantic"}


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["bpe-seq", "--help"], ["nsl"]])
def test_no_heavy_import(args: list[str]) -> None:
    done = python("-c", PROBE, *args)
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "typer" in loaded
    assert loaded & HEAVY == set()


def test_cost_and_all_help_need_no_extra() -> None:
    probe = "import sys; sys.modules |= dict.fromkeys(sys.argv[1].split()); " + PROBE.replace(
        "_tree(sys.argv[1:])", "command_tree()"
    ).replace("sys.argv[1:]", "['cost', '--model', '0.5b']")
    extras = "torch megatron transformers tokenizers huggingface_hub tiktoken pyarrow gguf yaml"
    extras += " matplotlib scipy lm_eval sacrebleu datatrove fastwarc resiliparse vllm"
    extras += " trafilatura py3langid"
    done = python("-c", probe, extras)
    assert done.returncode == 0, done.stderr
    assert "0.5b" in done.stdout


@pytest.mark.parametrize("command", ["encode", "extract"])
@pytest.mark.parametrize("segmentation", MADE)
def test_little_is_loaded_for_a_line(command: str, segmentation: str, tmp_path: Path) -> None:
    place = tmp_path / "tok"
    tokenizer = MADE[segmentation]()
    tokenizer.save(place)
    probe = PROBE.replace("_tree(sys.argv[1:])", "command_tree(sys.argv[1])")
    words = (command, "-t", place, "--langs", "fr,en")
    done = python("-c", probe, *words, input="abc dé")
    expected = tokenizer.subset("fr,en")
    if command == "extract":
        assert done.stdout == expected.to_json().decode()
    else:
        assert json.loads(done.stdout) == {"ids": expected.encode("abc dé").tolist()}
    *_, opened, loaded = done.stderr.splitlines()
    assert opened == str([str(place / "manifest.json"), str(place / "arrays.safetensors")])
    assert set(loaded.split()) & NEEDLESS == set()


def test_one_command_of_the_tree_is_that_of_the_tree() -> None:
    for words in ("encode", "corpus count"):
        helped = python("-m", "modtok_cli", *words.split(), "--help").stdout
        assert helped == python("-m", "modtok_cli", "help", *words.split()).stdout


def test_listed_commands_are_those_of_the_tree() -> None:
    def names(root: Any) -> list[tuple[str, ...]]:
        return [node.path for node in nodes(root)]

    listed = names(listing())
    assert sorted(listed) == sorted(names(command_tree.__wrapped__()))


def test_help_lists_every_command_whole() -> None:
    done = python("-m", "modtok_cli", "--help", env={**os.environ, "COLUMNS": "80"})
    text = done.stdout
    assert done.returncode == 0
    assert done.stderr == ""
    for words in ORDER:
        assert f"\n  {words.split()[0]} " in text
    headings = [f"\n{heading}:\n" for heading in HEADINGS]
    assert sorted(headings, key=text.index) == headings
    for heading, names in HEADINGS.items():
        assert {heading_of(name.split()[0]) for name in names} == {heading}
    assert heading_of("no") == ""
    assert text.index("Learn:") < text.index("\n  unigram ") < text.index("Tokenize:")
    assert "...\n" not in text.split("Learn:")[1].split("Examples:")[0]  # none cut short


def test_a_command_by_the_name_that_others_give_it(here) -> None:
    for word, meant in MEANT.items():
        assert {one.partition(" --")[0] for one in meant.split(" or ")} <= {*ORDER}
        status, _, err = here(word, "x")
        assert (status, f"unknown command {word}; use modtok {meant}; try" in err) == (2, True)


def test_without_a_command_help_goes_to_stderr() -> None:
    for args in ([], ["corpus"]):
        done = python("-m", "modtok_cli", *args)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("Usage: modtok")
