"""bpe-merge: options handed on, and one small real run through everything that tokenizes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers.sample import SAMPLE


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
