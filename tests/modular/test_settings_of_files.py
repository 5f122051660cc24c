"""Truncation, padding and dropout of a tokenizer.json change no number; a warning says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from helpers.toy_tokenizers import toy
from modtok_cli.base.progress import Silent
from modtok_cli.measure.corpus_stats import stats_of
from modtok_cli.measure.nsl import nsl
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.subtokenizer import Subtokenizer

from .test_fewest_tokens import random_parts, united

LINE = "abc abc aab12 eed bcd abc abé aab abcde " * 10


def external() -> bytes:
    """A BPE of another shape than ours, with dropout."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.train_from_iterator([LINE], trainers.BpeTrainer(vocab_size=60, show_progress=False))
    document = orjson.loads(inner.to_str())
    document["model"]["dropout"] = 0.5
    return orjson.dumps(document)


def ours() -> bytes:
    return toy(3).subset(["en", "fi"]).to_json()


def fewest() -> bytes:
    return united(random_parts(2)).full().to_json()


def stored(data: bytes) -> bytes:
    """The file after `tokenizer(text, truncation=True, padding=...)` and `save_pretrained`."""
    inner = tokenizers.Tokenizer.from_buffer(data)
    inner.enable_truncation(16)
    inner.enable_padding(length=512, pad_id=1, pad_token="a")
    return inner.to_str().encode()


def plain(data: bytes) -> bytes:
    document = orjson.loads(data)
    document["model"]["dropout"] = None
    return orjson.dumps(document)


@pytest.mark.parametrize("make", [external, ours, fewest])
def test_settings_are_not_applied_and_a_warning_says_so(
    tmp_path: Path, make: Callable[[], bytes]
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(plain(make()))
    bad.write_bytes(stored(make()))
    quiet, warned = Silent(), Silent()
    expected = open_tokenizer(str(good), progress=quiet)
    found = open_tokenizer(str(bad), progress=warned)
    assert type(found) is type(expected)
    assert isinstance(found, Subtokenizer) == (make is not external)
    assert quiet.warnings == []
    dropout = ", dropout 0.5" if make is external else ""
    assert warned.warnings == [f"{bad}: not applied: truncation to 16 tokens, padding{dropout}"]
    for _ in range(5):
        assert found.encode(LINE).tolist() == expected.encode(LINE).tolist()
    assert len(found.encode(LINE)) not in (16, 512)
    batch = [ids.tolist() for ids in found.encode_batch([LINE, "abc"])]
    assert batch == [ids.tolist() for ids in expected.encode_batch([LINE, "abc"])]


def test_dropout_of_our_own_file_is_not_applied(tmp_path: Path) -> None:
    document = orjson.loads(ours())
    document["model"]["dropout"] = 0.5
    path = tmp_path / "dropout.json"
    path.write_bytes(orjson.dumps(document))
    warned = Silent()
    found = open_tokenizer(str(path), progress=warned)
    assert isinstance(found, Subtokenizer)
    assert warned.warnings == [f"{path}: not applied: dropout 0.5"]


def test_commands_give_the_same_numbers(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text(LINE + "\n" + LINE)
    references = tmp_path / "references"
    references.mkdir()
    (references / "en.json").write_bytes(ours())
    rows: list[Any] = []
    for name, data in (("good", plain(external())), ("bad", stored(external()))):
        path = tmp_path / f"{name}.json"
        path.write_bytes(data)
        warned = Silent()
        (row,) = nsl([str(path)], [tmp_path / "en.txt"], references=references, progress=warned)
        stats = stats_of({"en": [tmp_path / "en.txt"]}, tokenizer=str(path), progress=warned)
        ignored = [each for each in warned.warnings if "not applied" in each]
        assert len(ignored) == (2 if name == "bad" else 0)
        rows.append((row["tokens"], row["nsl"], stats[0]["tokens"]))
    assert rows[0] == rows[1]
