"""The settings beside a transplanted model train its new rows and adapters, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch

from helpers.external_models import build
from helpers.sample import SAMPLE
from modtok_cli.inference.hf.peft_settings import PEFT
from modtok_cli.inference.hf.transplant import transplant
from modtok_cli.inference.slice.graft import graft
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


def test_peft_trains_the_new_rows_and_adapters_and_the_result_is_grafted(
    whole: Path, tmp_path: Path
) -> None:
    peft = pytest.importorskip("peft")
    import transformers
    from safetensors.torch import load_file

    part, merged = tmp_path / "fi", tmp_path / "merged"
    ids = slice_model(whole, "fi", data=DATA, output=part).ids
    settings = settings_of(part)
    before = load_file(part / "model.safetensors")
    model = transformers.AutoModelForCausalLM.from_pretrained(part)
    tuned = peft.get_peft_model(model, peft.LoraConfig(**settings))
    trained = [parameter for parameter in tuned.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=1.0)
    torch.manual_seed(0)
    for _ in range(3):
        tokens = torch.randint(0, len(ids), (8, 32))
        tuned(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    tuned.merge_and_unload().save_pretrained(merged)
    after = load_file(merged / "model.safetensors")
    for name, tensor in after.items():
        if len(tensor) != len(ids):  # adapters: matrices changed, norms and biases did not
            assert torch.equal(tensor, before[name]) == (tensor.ndim == 1), name
            continue
        (rows,) = {tuple(each) for each in settings["trainable_token_indices"].values()}
        changed = np.flatnonzero((tensor != before[name]).any(1).numpy())
        assert set(changed) <= set(rows)
        assert len(changed) > len(rows) // 2
    graft(merged, whole, original=part, output=tmp_path / "new")
    slice_model(tmp_path / "new", "fi", data=DATA, output=tmp_path / "again")
    again = load_file(tmp_path / "again" / "model.safetensors")
    assert again.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in again.items())
