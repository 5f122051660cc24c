"""`bpe_merge`: outputs, errors."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece

from helpers.sample import SAMPLE, sample_text
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

LANGUAGES = ["en", "fi", "fr"]
PARALLEL = SAMPLE / "parallel"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_text(tmp_path_factory.mktemp("text"), *LANGUAGES, "el")


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("made") / "tok"
    bpe_merge(LANGUAGES, data=data, output=output, k=600)
    return output


def test_invalid_requests(data: Path, made: Path, tmp_path: Path) -> None:
    bpe_seq(["en"], data=data, output=tmp_path / "seq", k=300)
    for wrong, said in (
        (
            {"output": tmp_path / "seq", "append": ["fi"]},
            "was built by bpe-seq and cannot be changed",
        ),
        ({"output": made, "append": ["fi"]}, "already has fi"),
        ({"output": made, "remove": LANGUAGES}, "no language would remain"),
        ({"output": made, "remove": ["sw"]}, "has no language 'sw'"),
        ({"output": made, "remove": ["fi"], "append": ["el"]}, "exclude each other"),
        ({"output": tmp_path / "new", "k": 200}, "k = 200 is too small"),
        ({"output": made, "k": 700, "languages": LANGUAGES}, "with other settings"),
        ({"output": tmp_path / "new", "languages": ["en", "xx"]}, "xx"),
    ):
        with pytest.raises(ModtokError, match=said):
            bpe_merge(data=data, **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()
    with pytest.raises(UsageError, match="cannot be changed by bpe-seq"):
        bpe_seq(data=data, output=made, append=["el"])


def test_whole_characters_for_sentencepiece(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "tok"
    bpe_merge(["el", "fr"], data=data, output=output, k=600, whole_characters=True)
    tokenizer = ModularTokenizer.load(output)
    assert (output / "tokenizer.model").read_bytes() == tokenizer.full().to_model()
    for names in (["el"], ["fr"], ["el", "fr"]):
        subset = tokenizer.subset(names)
        processor = sentencepiece.SentencePieceProcessor(model_proto=subset.to_model())
        for language in ("el", "fr", "sw"):
            lines = (PARALLEL / f"{language}.txt").read_text(encoding="utf-8").splitlines()
            for line in lines[:40]:
                assert processor.encode(line) == subset.encode(line).tolist()
                assert processor.decode(processor.encode(line)) == line
    with pytest.raises(UsageError, match="single characters"):
        bpe_merge(["el"], data=data, output=tmp_path / "x", k=270, whole_characters=True)
    odd = "a/\0b ▁mot▁mot <0x41>\ufeffé"  # NUL and ▁ are no pieces of SentencePiece
    (tmp_path / "fr.txt").write_text(f"{odd}\n" * 20)
    bpe_merge(data=tmp_path, output=tmp_path / "odd", k=300, whole_characters=True)
    subset = ModularTokenizer.load(tmp_path / "odd").full()
    processor = sentencepiece.SentencePieceProcessor(model_proto=subset.to_model())
    assert processor.encode(odd) == subset.encode(odd).tolist()
    assert processor.decode(processor.encode(odd)) == subset.decode(subset.encode(odd)) == odd
