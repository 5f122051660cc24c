"""Each command hands its options to the room's function, under the function's own names.

Rooms are replaced by stand-ins here; that the real functions take these arguments is
checked against their signatures.
"""

import json
from pathlib import Path

import pytest

from modtok_cli.text.reading import Reading

from .conftest import FakeReport, StandIn


def rest(called: StandIn) -> dict[str, object]:
    return {key: value for key, value in called.kwargs.items() if key != "progress"}


def test_bpe_seq(here, stand_in) -> None:
    called = stand_in("modtok_cli.construct.bpe_seq", "bpe_seq", FakeReport())
    status, out, err = here("bpe-seq")
    assert (status, err) == (0, "")
    assert [json.loads(line)["language"] for line in out.splitlines()] == ["en", "fi"]
    assert rest(called) == {"reading": Reading()}
    line = "--langs fi,en -k 900 --order given --passes 2"
    line += " --segmentation fewest-tokens --no-references"
    line += " --special <s> --special </s> --no-default-specials --data text -o out --errors skip"
    line += " --threads 3 --force"
    assert here("bpe-seq", *line.split(), "--json")[0] == 0
    assert rest(called) == {
        "languages": "fi,en",
        "data": Path("text"),
        "output": Path("out"),
        "k": 900,
        "order": "given",
        "passes": 2,
        "segmentation": "fewest-tokens",
        "references": False,
        "specials": ["<s>", "</s>"],
        "default_specials": False,
        "reading": Reading("skip"),
        "threads": 3,
        "force": True,
    }
    here("bpe-seq", "--append", "sv,da")
    assert rest(called) == {"append": "sv,da", "reading": Reading()}
    line = "--append sv -k 900 --order given --passes 2"
    line += " --segmentation fewest-tokens"
    here("bpe-seq", *line.split(), "--special", "<s>")
    assert rest(called) == {
        "append": "sv",
        "k": 900,
        "order": "given",
        "passes": 2,
        "segmentation": "fewest-tokens",
        "specials": ["<s>"],
        "reading": Reading(),
    }


def test_settings_of_a_workspace_are_for_what_is_made_new(here, stand_in) -> None:
    """With `k = 16000` in modtok.toml a language can still be added to any tokenizer."""
    called = stand_in("modtok_cli.construct.bpe_seq", "bpe_seq", FakeReport())
    Path("modtok.toml").write_text(
        '[default]\nk = 16000\n[bpe-seq]\nspecial = ["<s>"]\nlangs = ["en"]\npasses = 2\n'
    )
    here("bpe-seq")
    new = {"k": 16000, "passes": 2, "languages": "en", "specials": ["<s>"], "reading": Reading()}
    assert rest(called) == new
    here("bpe-seq", "--append", "sv")
    assert rest(called) == {"append": "sv", "reading": Reading()}
    here("bpe-seq", "--append", "sv", "-k", "900", "--langs", "fi")
    expected = {"append": "sv", "k": 900, "languages": "fi", "reading": Reading()}
    assert rest(called) == expected  # for the function to refuse


@pytest.mark.parametrize("command", ["bpe-seq", "bpe-merge"])
def test_tokenizer_to_extend_and_output(here, stand_in, monkeypatch, command: str) -> None:
    name = command.replace("-", "_")
    called = stand_in(f"modtok_cli.construct.{name}", name, FakeReport())
    for words, expected in (
        ("", (None, None)),
        ("-o new", (None, "new")),
        ("-t old", ("old", None)),
        ("-t old -o new", ("old", "new")),
        ("-t old -o tokenizer", ("old", "tokenizer")),
    ):
        here(command, "--append", "sv", *words.split())
        paths = called.kwargs.get("tokenizer"), called.kwargs.get("output")
        assert tuple(path and str(path) for path in paths) == expected
    monkeypatch.setenv(f"MODTOK_{name.upper()}_TOKENIZER", "other")
    here(command, "--append", "sv")
    assert "tokenizer" not in called.kwargs


def test_quiet_and_verbose_before_and_after_the_command(here, stand_in) -> None:
    stand_in("modtok_cli.construct.bpe_seq", "bpe_seq", FakeReport())
    assert "MiB" in here("-v", "bpe-seq")[2]
    assert "MiB" in here("bpe-seq", "--verbose")[2]
    assert here("-q", "bpe-seq", "-v")[2] == ""
    assert here("--quiet", "bpe-seq", "-v")[2] == ""
