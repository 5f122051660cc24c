"""unigram, unigram-merge and extract --top-k: options handed on, and one small real run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers.sample import SAMPLE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top-k", "300"], "--on and --top-k or --coverage require each other"),
        (["--on", "fi.txt", "--langs", "fi"], "--on and --top-k or --coverage require each other"),
        (["one", "-t", "two", "--langs", "fi"], "two tokenizers given, one and two"),
        (["none", "--top-k", "300", "--on", "fi.txt"], "none: tokenizer does not exist"),
    ],
)
def test_extract_refuses(here: Any, arguments: list[str], message: str) -> None:
    status, out, err = here("extract", *arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_from_text_to_measurement(here: Any, workspace: Path) -> None:
    """The issue's commands as written, on the sample text."""
    (workspace / "data").mkdir()
    for language in ("en", "fi", "fr"):
        shutil.copy(SAMPLE / "data" / f"{language}.jsonl", workspace / "data")
        shutil.copy(SAMPLE / "parallel" / f"{language}.txt", workspace)
    status, out, _ = here("unigram", "--langs", "en,fi,fr", "-k", "600")
    assert status == 0
    assert [json.loads(line)["tokens"] for line in out.splitlines()] == [600] * 3
    status, out, err = here("unigram-merge", "--langs", "en,fi,fr", "-k", "600")
    assert status == 0
    assert "fr: using the model unigram/fr.json" in err
    assert "EM 1: log-likelihood" in err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["tokens"] for row in rows] == [600] * 3
    assert all(row["at_the_floor"] >= 0 for row in rows)
    assert here("extract", "--langs", "fr", "-o", "fr.model")[0] == 0
    assert here("extract", "--langs", "fr", "-o", "fr.json")[0] == 0
    cut = ["extract", "--top-k", "500", "--on", "data/fr.jsonl", "unigram/en.model"]
    assert here(*cut, "-o", "top.model")[0] == 0
    assert here(*cut, "-o", "top.json")[0] == 0
    names = ["tokenizer@fr", "fr.model", "fr.json", "top.model", "top.json", "unigram/fr.model"]
    status, out, _ = here("nsl", *(part for name in names for part in ("-t", name)), "fr.txt")
    assert status == 0
    rows = [json.loads(line) for line in out.splitlines()]
    found = {row["tokenizer"]: row["nsl"] for row in rows}
    assert found["tokenizer@fr"] == found["fr.model"] == found["fr.json"] < 1.1
    assert found["unigram/fr.model"] == 1.0
    assert found["top.model"] == found["top.json"] > 1.1
    assert here("inspect", "--check")[0] == 0
    assert here("inspect", "-t", "fr.json", "top.json")[0] == 0
    status, out, err = here("inspect", "--find", "^ le")
    assert status == 0
    text = (workspace / "fr.txt").read_text("utf-8").splitlines()[0]
    (workspace / "one.txt").write_text(text + "  ▁\n", "utf-8")
    status, out, _ = here("encode", "-t", "tokenizer@fr", "one.txt")
    (workspace / "ids").write_text(out)
    assert here("decode", "-t", "fr.model", "ids")[1] == text + "  ▁\n"
    wrong = here("extract", "--top-k", "5000", "--on", "fr.txt", "tokenizer", "-o", "x.json")
    assert wrong[0] == 2
    assert "choose at most" in wrong[2]
