"""--valid: bits per byte of text beside the held-out split."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from helpers.metrics import read_metrics
from helpers.said import Said
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.training.loop import pretrain
from modtok_cli.training.settings import RunSettings

from .conftest import SAMPLE


@pytest.fixture
def news(settings: RunSettings, tmp_path: Path) -> RunSettings:
    """A run with text of two languages to evaluate on, and one that the tokenizer lacks."""
    texts = tmp_path / "news"
    texts.mkdir()
    shutil.copy(SAMPLE / "sw.jsonl", texts)
    for language in ("fi", "fr"):
        document = orjson.loads((SAMPLE / f"{language}.jsonl").read_bytes().split(b"\n")[0])
        (texts / f"{language}.txt").write_text(document["text"].replace("\n", " ") + "\n", "utf-8")
    return replace(settings, valid={"news": texts})


def test_valid_is_evaluated_beside_held_out_text(news: RunSettings) -> None:
    notes = Said()
    report = pretrain(news, progress=notes)
    lines = [line for line in read_metrics(news.runs / "it") if "held_out" in line]
    assert [line["step"] for line in lines] == [3, 6]
    assert all(set(line["valid"]["news"]) == {"fi", "fr"} for line in lines)
    figures = lines[-1]["valid"]["news"]["fi"]
    assert figures["bytes"] == len((news.valid["news"] / "fi.txt").read_bytes()) - 1  # type: ignore[index]
    rows = [(row["text"], row["language"]) for row in report.rows()]
    assert rows[-2:] == [("news", "fi"), ("news", "fr")]
    assert rows[0] == ("held-out", "el")
    assert "--valid news: the tokenizer has no sw; not evaluated" in notes.notes
    assert any(note.startswith("step 6: news bits per byte fi ") for note in notes.notes)


def test_held_out_text_as_valid_gives_the_same_figures(
    settings: RunSettings, tmp_path: Path
) -> None:
    """A file with the held-out documents only gives what the held-out split gives."""
    documents = (SAMPLE / "fi.jsonl").read_bytes().splitlines(keepends=True)
    stride = min(100, len(documents))
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "fi.jsonl").write_bytes(b"".join(documents[stride - 1 :: stride]))
    pretrain(replace(settings, valid=str(tmp_path / "copy"), steps=3))  # type: ignore[arg-type]
    line = read_metrics(settings.runs / "it")[-1]
    assert line["valid"]["copy"]["fi"] == line["held_out"]["fi"]


def test_wrong_directories(news: RunSettings, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    shutil.copy(SAMPLE / "sw.jsonl", tmp_path / "other")
    for valid, message in (
        (news.data, "is the text of the run"),
        (tmp_path / "other", "no language of the tokenizer, but sw"),
        (tmp_path / "nowhere", "does not exist"),
        (f"a={tmp_path},a={tmp_path}", "two directories have the name 'a'"),
        ("a b=x", "expected directories such as news=DIR"),
    ):
        with pytest.raises(ModtokError, match=message):
            pretrain(replace(news, valid=str(valid)))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^valid: expected directories"):
        replace(news, valid=3)  # type: ignore[arg-type]
    assert not (news.runs / "it").exists()
