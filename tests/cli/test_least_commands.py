"""bpe-merge: options handed on, and one small real run through everything that tokenizes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from modtok_cli.text.reading import Reading

from .conftest import FakeReport
from .test_commands import rest

SAMPLE = Path(__file__).parents[2] / "examples" / "sample"


def test_bpe_merge(here: Any, stand_in: Any) -> None:
    called = stand_in("modtok_cli.construct.bpe_merge", "bpe_merge", FakeReport())
    assert here("bpe-merge")[0] == 0
    assert rest(called) == {"reading": Reading()}
    line = "--langs fi,en -k 900 --overtrain 1.5 --whole-characters --no-references --special <s>"
    line += " --superwords 200"
    line += " --data text -o out --errors skip --threads 3 --force"
    assert here("bpe-merge", *line.split(), "--json")[0] == 0
    assert rest(called) == {
        "languages": "fi,en",
        "data": Path("text"),
        "output": Path("out"),
        "k": 900,
        "overtrain": 1.5,
        "whole_characters": True,
        "superwords": 200,
        "references": False,
        "specials": ["<s>"],
        "reading": Reading("skip"),
        "threads": 3,
        "force": True,
    }
    here("bpe-merge", "--append", "sv,da")
    assert rest(called) == {"append": "sv,da", "reading": Reading()}
    here("bpe-merge", "--remove", "sv")
    assert rest(called) == {"remove": "sv", "reading": Reading()}
    line = "--append sv -k 900 --overtrain 1.25 --whole-characters --special <s>"
    here("bpe-merge", *line.split())
    options = {"k": 900, "overtrain": 1.25, "whole_characters": True, "specials": ["<s>"]}
    assert rest(called) == {**options, "append": "sv", "reading": Reading()}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["bpe-merge", "--overtrain", "0.9"], "--overtrain"),
        (["bpe-merge", "--overtrain", "x"], "--overtrain"),
        (["bpe-merge", "--remove", "sv,,da"], "--remove"),
        (["bpe-merge", "--append", "sv,sv"], "--append"),
        (["bpe-merge", "--langs", "sv", "--remove", "sv"], "exclude each other"),
        (["bpe-seq", "--segmentation", "most"], "most"),
    ],
)
def test_wrong_usage(here: Any, args: list[str], said: str) -> None:
    status, out, err = here(*args)
    assert (status, out) == (2, "")
    assert said in err


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_everything_that_tokenizes_takes_it(
    here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    for language in ("en", "fr"):
        shutil.copy(SAMPLE / "data" / f"{language}.jsonl", "data")
        shutil.copy(SAMPLE / "parallel" / f"{language}.txt", ".")
    status, out, _ = here("bpe-merge", "-k", "500", "--whole-characters")
    assert status == 0
    assert [(row["language"], row["tokens"]) for row in rows(out)] == [("en", 500), ("fr", 500)]
    assert here("bpe-seq", "-k", "500", "--segmentation", "fewest-tokens", "-o", "seq")[0] == 0
    for place in ("tokenizer", "seq"):
        assert here("extract", "-t", place, "--langs", "fr", "-o", f"{place}.json")[0] == 0
        status, ids, _ = here("encode", "-t", f"{place}.json", "fr.txt")
        assert status == 0
        assert ids == here("encode", "-t", place, "--langs", "fr", "fr.txt")[1]
        Path("ids").write_text(ids)
        assert here("decode", "-t", f"{place}@fr", "ids")[1] == Path("fr.txt").read_text()
        status, out, _ = here("nsl", "-t", f"{place}@each", "en.txt", "fr.txt")
        assert status == 0
        assert all(row["nsl"] < 1.0 for row in rows(out))
        status, out, _ = here("inspect", "-t", place, "--check")
        assert status == 0
        assert all(row["sound"] and row["merges"] == 0 for row in rows(out))
    # Sequential BPE keeps stepping stones that fewest tokens do not step on.
    assert any(row["unused"] for row in rows(out))
    assert here("extract", "--langs", "fr", "-o", "fr.model")[0] == 0
    assert (
        here("encode", "-t", "fr.model", "fr.txt")[1]
        == here("encode", "-t", "tokenizer@fr", "fr.txt")[1]
    )
    status, _, err = here("extract", "-t", "seq", "--langs", "fr", "-o", "seq.model")
    assert status == 2
    assert "--whole-characters" in err
    out = here("inspect", "-t", "seq", "seq", "--json")[1]
    assert rows(out)[0]["relation"] == "equal"
    assert here("bpe-merge", "--remove", "fr")[0] == 0
    assert rows(here("inspect")[1])[0]["language"] == "en"
