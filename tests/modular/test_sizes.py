"""Devices and files of absurd size are errors of one line, before anything is read."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest

from helpers.toy_tokenizers import toy
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.reading import LARGEST, read_stream
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer


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
    path = tmp_path / name
    path.write_bytes(b"{}")
    sparse(path, 12 << 30)
    assert "expected at most 1,073,741,824 bytes, it has 12,884,901,888" in error_of(str(path))


@pytest.mark.parametrize(
    "name", ["manifest.json", "tokenizer.json", "arrays.safetensors", "references/fi.json"]
)
def test_large_files_of_a_directory_are_refused(tmp_path: Path, name: str) -> None:
    toy(3).save(tmp_path / "tok", {"fi": toy(1).full().to_json()})
    sparse(tmp_path / "tok" / name, 12 << 30)
    if name.startswith("references"):
        from modtok_cli.modular.directory import read_references

        ModularTokenizer.load(tmp_path / "tok")
        with pytest.raises(ModtokError, match="bytes, it has 12,884,901,888"):
            read_references(tmp_path / "tok")
        return
    if name == "tokenizer.json":  # that is for other programs
        assert open_tokenizer(str(tmp_path / "tok")).size == toy(3).size
        with pytest.raises(ModtokError, match=r"tokenizer\.json: .*12,884,901,888"):
            ModularTokenizer.load(tmp_path / "tok")
        return
    assert name in error_of(str(tmp_path / "tok"))
    assert "12,884,901,888" in error_of(f"{tmp_path / 'tok'}@fi")


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
