"""The limit of characters in a token, in scripts without spaces between words."""

from __future__ import annotations

from pathlib import Path

import pytest

from modtok_cli.base.errors import UsageError
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.learn.merges import unspaced
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

SENTENCE = "プログラムが適切にインストールされていれば"  # 21 characters
OTHERS = ("いろはにほへと", "ちりぬるを", "わかよたれそ", "つねならむ")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    lines = [SENTENCE + "。"] * 50 + [a + b + "。" for a in OTHERS for b in OTHERS]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "ja.txt").write_text("\n".join(lines), "utf-8")
    (tmp_path / "data" / "de.txt").write_text("Donaudampfschifffahrtsgesellschaft " * 99, "utf-8")
    return tmp_path / "data"


def longest(path: Path) -> int:
    return max(unspaced(token) for token in ModularTokenizer.load(path).vocabulary.tokens())


def test_appending_keeps_the_limit(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "tok"
    bpe_seq(["de"], data=data, output=place, k=600, max_unspaced=4)
    with pytest.raises(UsageError, match="with 4, not with 5"):
        bpe_seq(append="ja", data=data, output=place, max_unspaced=5)
    bpe_seq(append="ja", data=data, output=place)
    assert longest(place) <= 4
    bpe_seq(["de"], data=data, output=tmp_path / "usual", k=600)
    bpe_seq(append="ja", data=data, output=tmp_path / "usual", max_unspaced=16)
    assert 8 < longest(tmp_path / "usual") <= 16  # the default
