"""Learning with the pre-tokenizer of a published model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tokenizers

from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.construct.bpe import bpe
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.model.export.gguf_tokenizer import candidates
from modtok_cli.tokenizer.modular_directory import read_references
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_bytes, open_tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

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


@pytest.mark.parametrize(("build", "name"), [(bpe_seq, "llama3"), (bpe_merge, "qwen2")])
def test_modular_tokenizers_learn_with_a_published_pretokenizer(
    build: Any, name: str, tmp_path: Path
) -> None:
    output = tmp_path / "t"
    settings = {"data": PARALLEL, "output": output, "k": 400}
    build(("en", "fr"), pretokenizer=name, **settings)
    made = ModularTokenizer.load(output)
    part = made.subset("fr")
    agrees(part)
    if build is bpe_seq:  # llama.cpp has the same pre-tokenizer, which is then the only candidate
        assert [one.pattern for one in candidates(part, "x")] == ["llama-bpe"]  # type: ignore[attr-defined]
    reference = open_bytes(read_references(output)["fr"], "fr", "fr")
    assert reference.pretokenizer is made.pretokenizer
    # The same command is finished; another pre-tokenizer is another tokenizer.
    build(("en", "fr"), pretokenizer=name, **settings)
    with pytest.raises(UsageError, match="exists with other settings"):
        build(("en", "fr"), **settings)
    with pytest.raises(UsageError, match="unknown pre-tokenizer 'gpt9'"):
        build(("en",), data=PARALLEL, output=tmp_path / "u", k=400, pretokenizer="gpt9")
    build(append=("fi",), data=PARALLEL, output=tmp_path / "v", tokenizer=output)
    more = ModularTokenizer.load(tmp_path / "v")
    assert more.pretokenizer.name == name
    agrees(more.subset(["fi", "fr"]))
    with pytest.raises(UsageError, match="pretokenizer"):
        build(
            append=("fi",), data=PARALLEL, output=tmp_path / "w", tokenizer=output,
            pretokenizer="gpt2",
        )  # fmt: skip


def test_removing_a_language_keeps_the_pretokenizer(tmp_path: Path) -> None:
    bpe_merge(("en", "fr"), data=PARALLEL, output=tmp_path / "t", k=300, pretokenizer="qwen2")
    bpe_merge(remove=("en",), output=tmp_path / "v", tokenizer=tmp_path / "t")
    assert ModularTokenizer.load(tmp_path / "v").pretokenizer.name == "qwen2"
