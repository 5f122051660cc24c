"""The settings beside a transplanted model train its new rows and adapters, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from helpers.external_models import build
from helpers.sample import SAMPLE
from modtok_cli.inference.hf.peft_settings import PEFT
from modtok_cli.inference.hf.transplant import transplant
from modtok_cli.inference.slice.slice import slice as slice_model
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.spelling import LibraryVocabulary
from modtok_cli.modular.subtokenizer import Subtokenizer

DATA = SAMPLE / "parallel"


def settings_of(path: Path) -> dict[str, Any]:
    settings: dict[str, Any] = orjson.loads((path / PEFT).read_bytes())
    return settings


@pytest.fixture(scope="module", params=["Qwen2", "Llama"])
def whole(
    request: pytest.FixtureRequest, workspace: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A transplanted model: of Qwen2 with tied tables, of Llama with two."""
    path = tmp_path_factory.mktemp("transplanted")
    old = build(path / "old", request.param)
    transplant(old, f"{workspace / 'tokenizer'}@fi,fr", output=path / "whole")
    return path / "whole"


def test_new_rows_are_those_that_the_model_did_not_have(whole: Path, workspace: Path) -> None:
    new = open_tokenizer(f"{workspace / 'tokenizer'}@fi,fr")
    assert isinstance(new, Subtokenizer)
    old = LibraryVocabulary((whole.parent / "old" / "tokenizer.json").read_bytes(), "old")
    lengths = old.spell(new.vocabulary).lengths
    settings = settings_of(whole)
    tied = orjson.loads((whole / "config.json").read_bytes())["tie_word_embeddings"]
    rows = settings["trainable_token_indices"]
    assert rows.keys() == ({"embed_tokens"} if tied else {"embed_tokens", "lm_head"})
    specials = len(new.vocabulary.specials)
    expected = [index for index in range(specials, new.size) if lengths[index] != 1]
    for found in rows.values():
        assert [index for index in found if specials <= index < new.size] == expected
    assert settings["task_type"] == "CAUSAL_LM"


def test_a_slice_has_its_own_ids(whole: Path, tmp_path: Path) -> None:
    made = slice_model(whole, "fi", data=DATA, output=tmp_path / "fi")
    ids = made.ids.tolist()
    for module, rows in settings_of(tmp_path / "fi")["trainable_token_indices"].items():
        every = settings_of(whole)["trainable_token_indices"][module]
        assert [ids[row] for row in rows] == [index for index in every if index in ids]
        assert 0 < len(rows) < len(every)
