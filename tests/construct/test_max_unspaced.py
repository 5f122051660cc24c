"""The limit of characters in a token, in scripts without spaces between words."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from modtok_cli.base.errors import UsageError
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.learn.merges import unspaced
from modtok_cli.modular.tokenizer import ModularTokenizer

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


def longest_in(path: Path) -> int:
    """Bytes of the longest token of a `tokenizer.json`."""
    vocabulary = orjson.loads(path.read_bytes())["model"]["vocab"]
    return max(len(token) for token in vocabulary if not token.startswith("<|"))


@pytest.mark.parametrize("build", [bpe_seq, bpe_merge])
def test_no_token_is_longer(build: object, data: Path, tmp_path: Path) -> None:
    assert callable(build)
    for most, expected in ((None, 16), (16, 16), (0, 21), (7, 7), (1, 1)):
        place = tmp_path / str(most)
        build(data=data, output=place, k=600, max_unspaced=most)
        found = longest(place)
        assert found <= expected
        assert found > expected // 2
        tokens = ModularTokenizer.load(place).vocabulary.tokens()
        assert b"Donaudampfschifffahrtsgesellschaft" in tokens
        settings = ModularTokenizer.load(place).settings
        assert settings.get("max_unspaced") == (None if most == 16 else most)
        assert longest_in(place / "references" / "ja.json") <= 3 * expected + 2


def test_appending_keeps_the_limit(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "tok"
    bpe_seq(["de"], data=data, output=place, k=600, max_unspaced=4)
    with pytest.raises(UsageError, match="with 4, not with 5"):
        bpe_seq(append="ja", data=data, output=place, max_unspaced=5)
    bpe_seq(append="ja", data=data, output=place)
    assert longest(place) <= 4
    bpe_seq(["de"], data=data, output=tmp_path / "usual", k=600)
    bpe_seq(append="ja", data=data, output=tmp_path / "usual", max_unspaced=16)
    assert longest(tmp_path / "usual") <= 16
