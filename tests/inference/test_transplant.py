"""A model of any architecture with another vocabulary."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from safetensors.torch import load_file

from helpers.external_models import FAMILIES, build
from modtok_cli.base.errors import UsageError
from modtok_cli.inference.transplant import transplant
from modtok_cli.modular.external_spelling import LibraryVocabulary
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.subtokenizer import Subtokenizer

TEXT = "La maison est grande, the house is large."


def opened(path: Path) -> tuple[Any, Any]:
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
    return model, transformers.AutoTokenizer.from_pretrained(path)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_copied_or_means(family: str, workspace: Path, tmp_path: Path) -> None:
    old = build(tmp_path / "model", family)
    spec = f"{workspace / 'tokenizer'}@fr,en"
    report = transplant(old, spec, output=tmp_path / "new")
    new = open_tokenizer(spec)
    assert isinstance(new, Subtokenizer)
    vocabulary = LibraryVocabulary((old / "tokenizer.json").read_bytes(), "old")
    spelling = vocabulary.spell(new.vocabulary)
    before, after = (load_file(path / "model.safetensors") for path in (old, tmp_path / "new"))
    assert before.keys() == after.keys()
    tables = 0
    for name, tensor in before.items():
        if len(tensor) != 640:
            assert torch.equal(tensor, after[name])
            continue
        tables += 1
        assert len(after[name]) == sum(report.tokens.values())
        for token in range(1, new.size, 7):
            ids = spelling.ids[spelling.offsets[token] : spelling.offsets[token + 1]]
            expected = tensor[ids] if len(ids) else tensor  # no spelling: the mean of all rows
            torch.testing.assert_close(after[name][token], expected.mean(0))
    assert tables == (1 if "tie_word_embeddings" in FAMILIES[family] else 2)
    model, tokenizer = opened(tmp_path / "new")
    ids = tokenizer(TEXT, add_special_tokens=False).input_ids
    assert ids == new.encode(TEXT).tolist()
    assert tokenizer.decode(ids) == TEXT
    with torch.no_grad():
        assert torch.isfinite(model(torch.tensor([ids])).logits).all()


def test_an_identical_vocabulary_changes_no_logit(workspace: Path, tmp_path: Path) -> None:
    """The tokenizer of the model itself, as modtok writes it, given back to the model."""
    import transformers

    old = build(tmp_path / "model")
    new = open_tokenizer(f"{workspace / 'tokenizer'}@fr")
    assert isinstance(new, Subtokenizer)
    (old / "tokenizer.json").write_bytes(new.to_json())
    report = transplant(old, f"{workspace / 'tokenizer'}@fr", output=tmp_path / "new")
    assert report.tokens == {"identical": new.size, "spelled": 0, "special": 0, "none": 0}
    ids = torch.tensor([new.encode(TEXT).tolist()])
    with torch.no_grad():
        whole, other = (
            transformers.AutoModelForCausalLM.from_pretrained(path)(ids).logits
            for path in (old, tmp_path / "new")
        )
    torch.testing.assert_close(other, whole[..., : new.size])


def test_special_tokens_keep_their_meaning(workspace: Path, tmp_path: Path) -> None:
    places = [build(tmp_path / "model"), tmp_path / "new"]
    transplant(places[0], f"{workspace / 'tokenizer'}@fr", output=places[1])
    configs = [orjson.loads((path / "config.json").read_bytes()) for path in places]
    tokenizers = [opened(path)[1] for path in places]
    tables = [load_file(path / "model.safetensors")["model.embed_tokens.weight"] for path in places]
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        ids = [config[name] for config in configs]
        texts = [
            tokenizer.convert_ids_to_tokens(one)
            for tokenizer, one in zip(tokenizers, ids, strict=True)
        ]
        assert texts[0] == texts[1], name
        assert torch.equal(tables[0][ids[0]], tables[1][ids[1]])
    begins = [
        tokenizer.convert_ids_to_tokens(tokenizer(TEXT).input_ids[0]) for tokenizer in tokenizers
    ]
    if begins[0] in tokenizers[0].all_special_tokens:
        assert begins[0] == begins[1]
    assert (places[1] / "LICENSE").is_file()
    assert not (places[1] / "tokenizer.model").exists()


def test_what_transplant_refuses(workspace: Path, tmp_path: Path) -> None:
    old = build(tmp_path / "model")
    spec = f"{workspace / 'tokenizer'}@fr"
    with pytest.raises(UsageError, match=r"already exists; choose another -o, or use --force"):
        transplant(old, spec, output=old)
    with pytest.raises(UsageError, match="was not made by modtok"):
        transplant(old, str(old / "tokenizer.json"), output=tmp_path / "new")
    with pytest.raises(UsageError, match=r"has no config.json"):
        transplant(workspace, spec, output=tmp_path / "new")
    (tmp_path / "notes").mkdir()
    with pytest.raises(UsageError, match="exists but is not a model"):
        transplant(old, spec, output=tmp_path / "notes", force=True)
    assert not (tmp_path / "new").exists()
