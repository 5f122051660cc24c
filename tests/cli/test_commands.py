"""Each command hands its options to the room's function, under the function's own names.

Rooms are replaced by stand-ins here; that the real functions take these arguments is
checked against their signatures.
"""

import inspect as python_inspect
import json
from importlib import import_module
from pathlib import Path

import pytest

from modtok_cli.text.reading import Reading

from .conftest import FakeReport, StandIn


def fits(called: StandIn, module: str, name: str) -> None:
    """The call would be understood by the function that the stand-in stood for."""
    import sys

    stand_in = sys.modules.pop(module)
    try:
        real = getattr(import_module(module), name)
    finally:
        sys.modules[module] = stand_in
    python_inspect.signature(real).bind(*called.args, **called.kwargs)


def rest(called: StandIn) -> dict[str, object]:
    return {key: value for key, value in called.kwargs.items() if key != "progress"}


def test_bpe_seq(here, stand_in) -> None:
    called = stand_in("modtok_cli.construct.bpe_seq", "bpe_seq", FakeReport())
    status, out, err = here("bpe-seq")
    assert (status, err) == (0, "")
    assert [json.loads(line)["language"] for line in out.splitlines()] == ["en", "fi"]
    assert rest(called) == {"reading": Reading()}
    line = "--langs fi,en -k 900 --order given --passes 2 --unit-counts word"
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
        "unit_counts": "word",
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
    line = "--append sv -k 900 --order given --passes 2 --unit-counts word"
    line += " --segmentation fewest-tokens"
    here("bpe-seq", *line.split(), "--special", "<s>")
    assert rest(called) == {
        "append": "sv",
        "k": 900,
        "order": "given",
        "passes": 2,
        "unit_counts": "word",
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


@pytest.mark.parametrize("passes", ["0", "3"])
def test_bpe_seq_has_one_or_two_passes(here, passes: str) -> None:
    assert here("bpe-seq", "--passes", passes)[0] == 2


def test_bpe(here, stand_in) -> None:
    called = stand_in("modtok_cli.construct.bpe", "bpe", FakeReport())
    assert here("bpe", "--langs", "fr")[0] == 0
    assert rest(called) == {"languages": "fr", "reading": Reading()}
    here("bpe", "--joint", "-o", "both", "--special", "<s>")
    options = {"joint": True, "output": Path("both"), "specials": ["<s>"]}
    assert rest(called) == {**options, "reading": Reading()}


def test_corpus_count(here, stand_in) -> None:
    where = ("modtok_cli.corpus.count", "write_counts")
    called = stand_in(*where, [{"language": "fr", "words": 3}])
    line = "corpus count --langs fr --errors replace --memory 4GB --force"
    status, out, _ = here(*line.split())
    assert (status, json.loads(out)) == (0, {"language": "fr", "words": 3})
    assert rest(called) == {
        "languages": ["fr"],
        "data": Path("data"),
        "output": Path("counts"),
        "reading": Reading(errors="replace"),
        "threads": None,
        "memory": 4_000_000_000,
        "force": True,
    }
    fits(called, *where)


def test_nsl(here, stand_in) -> None:
    called = stand_in("modtok_cli.measure.nsl", "nsl", [{"nsl": 1.0}])
    line = "nsl -t a -t b@fr x.txt - --references refs --lang fr --errors skip --morphemes m.tsv"
    assert here(*line.split())[0] == 0
    assert rest(called) == {
        "tokenizers": ["a", "b@fr"],
        "texts": ["x.txt", "-"],
        "references": Path("refs"),
        "language": "fr",
        "reading": Reading("skip"),
        "morphemes": Path("m.tsv"),
    }


def test_progress_reaches_the_package(here, stand_in) -> None:
    called = stand_in("modtok_cli.measure.nsl", "nsl", [])
    here("nsl", "x.txt", "-t", "a")
    called.kwargs["progress"].note("a note")
    with called.kwargs["progress"].task("label", 10, "B") as task:
        task.advance(1)
        task.describe("other")


def test_quiet_and_verbose_before_and_after_the_command(here, stand_in) -> None:
    stand_in("modtok_cli.construct.bpe_seq", "bpe_seq", FakeReport())
    assert "MiB" in here("-v", "bpe-seq")[2]
    assert "MiB" in here("bpe-seq", "--verbose")[2]
    assert here("-q", "bpe-seq", "-v")[2] == ""
    assert here("--quiet", "bpe-seq", "-v")[2] == ""


def test_long_and_short_names(here, stand_in) -> None:
    learn = stand_in("modtok_cli.construct.bpe_seq", "bpe_seq", FakeReport())
    here("bpe-seq", "--budget", "300", "--output", "there")
    assert (learn.kwargs["k"], learn.kwargs["output"]) == (300, Path("there"))
    measure = stand_in("modtok_cli.measure.nsl", "nsl", [])
    here("nsl", "x.txt", "--tokenizer", "a")
    assert measure.kwargs["tokenizers"] == ["a"]
