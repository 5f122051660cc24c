"""bpe-seq with the pre-tokenizer of a published model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tokenizers

from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.inference.gguf_tokenizer import candidates
from modtok_cli.modular.directory import read_reference
from modtok_cli.modular.open import open_bytes
from modtok_cli.modular.tokenizer import ModularTokenizer


def test_bpe_seq_learns_with_a_published_pretokenizer(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for language in ("en", "fi", "fr"):
        shutil.copy(SAMPLE / "parallel" / f"{language}.txt", data)
    output = tmp_path / "t"
    bpe_seq(("en", "fr"), data=data, output=output, k=400, pretokenizer="llama3")
    made = ModularTokenizer.load(output)
    assert made.pretokenizer.name == "llama3"
    part = made.subset("fr")
    library = tokenizers.Tokenizer.from_str(part.to_json().decode())
    text = "It'S 2024,  l'été dernier :\n\n 12345 !!\n"
    assert part.encode(text).tolist() == library.encode(text).ids
    # llama.cpp has the same pre-tokenizer, which is then the only candidate.
    assert [one.pattern for one in candidates(part, "x")] == ["llama-bpe"]  # type: ignore[attr-defined]
    reference = open_bytes(read_reference(output, "fr"), "fr", "fr")
    assert reference.pretokenizer is made.pretokenizer
    # The same command is finished; another pre-tokenizer is another tokenizer.
    bpe_seq(("en", "fr"), data=data, output=output, k=400, pretokenizer="llama3")
    with pytest.raises(UsageError, match="exists with other settings"):
        bpe_seq(("en", "fr"), data=data, output=output, k=400)
    with pytest.raises(UsageError, match="unknown pre-tokenizer 'gpt9'"):
        bpe_seq(("en",), data=data, output=tmp_path / "u", k=400, pretokenizer="gpt9")
    bpe_seq(append=("fi",), data=data, output=tmp_path / "v", tokenizer=output)
    assert ModularTokenizer.load(tmp_path / "v").pretokenizer.name == "llama3"
    with pytest.raises(UsageError, match="--pretokenizer"):
        bpe_seq(
            append=("fi",), data=data, output=tmp_path / "w", tokenizer=output, pretokenizer="bpe"
        )
