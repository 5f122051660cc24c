"""Files of absurd size are refused before they are read; settings of files that are not applied."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from helpers.made_tokenizers import MADE
from helpers.toy_tokenizers import toy
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Silent
from modtok_cli.base.read_file import LARGEST, read_stream
from modtok_cli.measure.corpus_stats import stats_of
from modtok_cli.measure.nsl import nsl
from modtok_cli.tokenizer.modular_directory import read_references
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer


def sparse(path: Path, size: int) -> None:
    """A file that claims to be large and takes no space."""
    with path.open("ab") as stream:
        stream.truncate(size)


def error_of(spec: str) -> str:
    with pytest.raises(ModtokError) as caught:
        open_tokenizer(spec)
    message = str(caught.value)
    assert "\n" not in message
    assert "; " in message, "no remedy"
    return message


def test_devices_are_refused() -> None:
    assert error_of("/dev/zero") == "/dev/zero: is a device, not a file; name a file or use a pipe"


@pytest.mark.parametrize("name", ["tokenizer.json", "x.model", "ranks.tiktoken"])
def test_large_files_are_refused(tmp_path: Path, name: str) -> None:
    sparse(tmp_path / name, 12 << 30)
    message = error_of(str(tmp_path / name))
    assert "expected at most 1,073,741,824 bytes, it has 12,884,901,888" in message


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("manifest.json", ModularTokenizer.load),
        ("arrays.safetensors", lambda place: open_tokenizer(f"{place}@fi")),
        ("tokenizer.json", ModularTokenizer.load),
        ("references/fi.json", read_references),
    ],
)
def test_large_files_of_a_directory_are_refused(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    toy(3).save(tmp_path / "tok", {"fi": toy(1).full().to_json()})
    sparse(tmp_path / "tok" / name, 12 << 30)
    with pytest.raises(ModtokError, match=rf"{name}: .*12,884,901,888"):
        read(tmp_path / "tok")
    if name in ("tokenizer.json", "references/fi.json"):  # which encoding does not need
        assert open_tokenizer(str(tmp_path / "tok")).size == toy(3).size


def test_pipes_are_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = toy(3).full().to_json()
    writer = threading.Thread(target=lambda: pipe.write_bytes(data))
    writer.start()
    assert open_tokenizer(str(pipe)).size == toy(3).size
    writer.join()


def test_endless_stream_is_refused() -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return bytes(min(size, 1 << 20))

    with pytest.raises(ModtokError, match="expected at most 4,194,304 bytes, it has more"):
        read_stream(Endless(), "stdin", largest=1 << 22)  # type: ignore[arg-type]
    assert LARGEST >= 1 << 28


LINE = "abc abc aab12 eed bcd abc abé aab abcde " * 10


def external() -> tokenizers.Tokenizer:
    """A BPE of another shape than ours."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.train_from_iterator([LINE], trainers.BpeTrainer(vocab_size=60, show_progress=False))
    return inner


@pytest.mark.parametrize("kind", ["external", "merges", "fewest-tokens"])
def test_settings_are_not_applied_and_a_warning_says_so(tmp_path: Path, kind: str) -> None:
    """As after `tokenizer(text, truncation=True, padding=...)` and `save_pretrained`."""
    data = external().to_str().encode() if kind == "external" else MADE[kind]().full().to_json()
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(data)
    inner = tokenizers.Tokenizer.from_buffer(data)
    inner.enable_truncation(16)
    inner.enable_padding(length=512, pad_id=1, pad_token="a")
    document = orjson.loads(inner.to_str())
    dropout = kind != "fewest-tokens"
    document["model"] |= {"dropout": 0.5} if dropout else {}
    bad.write_bytes(orjson.dumps(document))
    quiet, warned = Silent(), Silent()
    expected = open_tokenizer(str(good), progress=quiet)
    found = open_tokenizer(str(bad), progress=warned)
    assert type(found) is type(expected)
    assert isinstance(found, Subtokenizer) == (kind != "external")
    assert quiet.warnings == []
    what = "truncation to 16 tokens, padding" + ", dropout 0.5" * dropout
    assert warned.warnings == [f"{bad}: not applied: {what}"]
    for _ in range(5):
        assert found.encode(LINE).tolist() == expected.encode(LINE).tolist()
    assert len(found.encode(LINE)) not in (16, 512)
    batch = [ids.tolist() for ids in found.encode_batch([LINE, "abc"])]
    assert batch == [ids.tolist() for ids in expected.encode_batch([LINE, "abc"])]
    text, references = tmp_path / "en.txt", tmp_path / "references"
    text.write_text(LINE)
    references.mkdir()
    (references / "en.json").write_bytes(toy(3).full().to_json())
    heard = Silent()  # of commands
    nsl([str(bad)], [text], references=references, progress=heard)
    stats_of({"en": [text]}, tokenizer=str(bad), progress=heard)
    assert sum("not applied" in line for line in heard.warnings) == 2
