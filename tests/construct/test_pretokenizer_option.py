"""Learning with the pre-tokenizer of a published model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tokenizers

from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.construct.bpe import bpe
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.inference.export.gguf_tokenizer import candidates
from modtok_cli.modular.directory import read_references
from modtok_cli.modular.open import open_bytes, open_tokenizer
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer

PARALLEL = SAMPLE / "parallel"
TEXT = "It'S 2024,  l'été dernier :\n\n 12345 !!\n"


def agrees(part: Subtokenizer) -> None:
    """Ids and text are those of the library for the same file."""
    library = tokenizers.Tokenizer.from_str(part.to_json().decode())
    for text in (TEXT, *(PARALLEL / "fi.txt").read_text("utf-8").splitlines()[:50]):
        ids = part.encode(text).tolist()
        assert ids == library.encode(text).ids
        assert part.decode(ids) == text == library.decode(ids)


@pytest.mark.parametrize("name", ["gpt2", "smollm"])
def test_bpe_learns_with_a_published_pretokenizer(name: str, tmp_path: Path) -> None:
    bpe(["fr"], data=PARALLEL, output=tmp_path / "mono", k=400, pretokenizer=name)
    alone = open_tokenizer(str(tmp_path / "mono" / "fr.json"))
    assert isinstance(alone, Subtokenizer)
    assert alone.pretokenizer.name == name
    agrees(alone)


def test_bpe_merge_learns_with_a_published_pretokenizer(tmp_path: Path) -> None:
    output = tmp_path / "t"
    settings = {"data": PARALLEL, "k": 400}
    bpe_merge(("en", "fr"), output=output, pretokenizer="qwen2", **settings)
    made = ModularTokenizer.load(output)
    assert made.pretokenizer.name == "qwen2"
    assert made.settings == {"whole_characters": False, "superwords": 0}
    agrees(made.subset("fr"))
    # The same command is finished; another pre-tokenizer is another tokenizer.
    bpe_merge(("en", "fr"), output=output, pretokenizer="qwen2", **settings)
    with pytest.raises(UsageError, match="exists with other settings"):
        bpe_merge(("en", "fr"), output=output, **settings)
    bpe_merge(append=("fi",), data=PARALLEL, output=tmp_path / "u", tokenizer=output)
    more = ModularTokenizer.load(tmp_path / "u")
    agrees(more.subset(["fi", "fr"]))
    bpe_merge(remove=("fi",), output=tmp_path / "v", tokenizer=tmp_path / "u")
    assert ModularTokenizer.load(tmp_path / "v").pretokenizer.name == "qwen2"
    with pytest.raises(UsageError, match="pretokenizer"):
        bpe_merge(
            append=("fi",), data=PARALLEL, output=tmp_path / "w", tokenizer=output,
            pretokenizer="gpt2",
        )  # fmt: skip


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
    agrees(part)
    # llama.cpp has the same pre-tokenizer, which is then the only candidate.
    assert [one.pattern for one in candidates(part, "x")] == ["llama-bpe"]  # type: ignore[attr-defined]
    reference = open_bytes(read_references(output)["fr"], "fr", "fr")
    assert reference.pretokenizer is made.pretokenizer
    # The same command is finished; another pre-tokenizer is another tokenizer.
    bpe_seq(("en", "fr"), data=data, output=output, k=400, pretokenizer="llama3")
    with pytest.raises(UsageError, match="exists with other settings"):
        bpe_seq(("en", "fr"), data=data, output=output, k=400)
    with pytest.raises(UsageError, match="unknown pre-tokenizer 'gpt9'"):
        bpe_seq(("en",), data=data, output=tmp_path / "u", k=400, pretokenizer="gpt9")
    bpe_seq(append=("fi",), data=data, output=tmp_path / "v", tokenizer=output)
    assert ModularTokenizer.load(tmp_path / "v").pretokenizer.name == "llama3"
    with pytest.raises(UsageError, match="pretokenizer"):
        bpe_seq(
            append=("fi",), data=data, output=tmp_path / "w", tokenizer=output, pretokenizer="bpe"
        )
