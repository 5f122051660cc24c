"""Slices of Hugging Face directories by language, text and keep-list."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import orjson
import pytest

from helpers.external_models import build
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.inference.hf.model_directory import NAME, ModelDirectory
from modtok_cli.inference.hf.slice import (
    TokenSelection,
    is_model_directory,
    read_ids,
    slice_directory,
)
from modtok_cli.modular.adopted.adopt import adopt
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.vocabulary import unspell

from .test_directory_model import logits

transformers = pytest.importorskip("transformers")
DATA = SAMPLE / "parallel"


@pytest.fixture(scope="module", params=["byte-level", "characters"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("whole"), "Llama", request.param)


def test_text_of_the_languages_has_the_same_ids_and_logits(whole: Path, tmp_path: Path) -> None:
    made = slice_directory(whole, TokenSelection(("fr", "en"), data=DATA), tmp_path / "part")
    assert is_model_directory(made.output)
    tokenizer = transformers.AutoTokenizer.from_pretrained(whole)
    part = transformers.AutoTokenizer.from_pretrained(made.output)
    for line in (DATA / "fr.txt").read_text("utf-8").splitlines()[:10]:
        ids = part(line)["input_ids"]
        assert made.ids[ids].tolist() == tokenizer(line)["input_ids"]
    few = ids[:8]
    expected = logits(whole, made.ids[few].tolist())[:, made.ids]
    assert np.allclose(logits(made.output, few), expected, atol=1e-5)
    facts = orjson.loads((made.output / NAME).read_bytes())
    assert facts["ids"] == made.ids.tolist()
    assert {*made.tensors.values()} == {(640, len(made.ids))}
    rows = {row["part"]: row for row in made.rows()}
    assert rows["backbone"]["saved"] == 0
    assert rows["all"]["full_bytes"] - rows["all"]["bytes"] == (
        rows["vocabulary rows"]["full_bytes"] - rows["vocabulary rows"]["bytes"]
    )


def test_a_model_with_a_rank_file_alone_gives_the_same_slice(tmp_path: Path) -> None:
    """Its special tokens are in tokenizer_config.json, as Kimi's."""
    model = build(tmp_path / "model")
    expected = slice_directory(model, TokenSelection(("fr",), data=DATA), tmp_path / "expected")
    document = orjson.loads((model / "tokenizer.json").read_bytes())
    added = {str(token["id"]): token for token in document["added_tokens"]}
    ids = {name: i for name, i in document["model"]["vocab"].items() if str(i) not in added}
    codes = {i: base64.b64encode(unspell(name)).decode() for name, i in ids.items()}
    ranks = "".join(f"{code} {i}\n" for i, code in sorted(codes.items()))
    (model / "tokenizer.model").unlink()
    (model / "tokenizer.json").unlink()
    (model / "tiktoken.model").write_text(ranks)
    (model / "tokenizer_config.json").write_bytes(orjson.dumps({"added_tokens_decoder": added}))
    made = slice_directory(model, TokenSelection(("fr",), data=DATA), tmp_path / "made")
    assert made.ids.tolist() == expected.ids.tolist()
    tokenizers = [open_tokenizer(str(each.output)) for each in (made, expected)]
    for line in (DATA / "fr.txt").read_text("utf-8").splitlines()[:10]:
        first, second = (each.encode(line) for each in tokenizers)
        assert first.tolist() == second.tolist()
        assert tokenizers[0].decode(first) == line


def test_an_adopted_tokenizer_gives_the_same_slice(whole: Path, tmp_path: Path) -> None:
    adopted = tmp_path / "adopted"
    adopt(whole, ["en", "fi", "fr"], data=DATA).save(adopted)
    selected = TokenSelection(("fr",), tokenizer=adopted).ids(ModelDirectory(whole))
    assert (
        selected.tolist() == TokenSelection(("fr",), data=DATA).ids(ModelDirectory(whole)).tolist()
    )
    with pytest.raises(UsageError, match="-k and --coverage do not apply to an adopted"):
        TokenSelection(("fr",), tokenizer=adopted, k=300).ids(ModelDirectory(whole))
    document = orjson.loads((whole / "tokenizer.json").read_bytes())
    other = tmp_path / "other"
    other.mkdir()
    document["added_tokens"][-1]["content"] = "<other>"
    (other / "tokenizer.json").write_bytes(orjson.dumps(document))
    adopt(other, ["fr"], data=DATA).save(tmp_path / "wrong")
    with pytest.raises(UsageError, match="is not the tokenizer of"):
        TokenSelection(("fr",), tokenizer=tmp_path / "wrong").ids(ModelDirectory(whole))
    with pytest.raises(UsageError, match="is not a modular directory"):
        TokenSelection(("fr",), tokenizer=other).ids(ModelDirectory(whole))


def test_texts_and_keep_lists_add_up(whole: Path, tmp_path: Path) -> None:
    model = ModelDirectory(whole)
    by_text = TokenSelection(texts=(DATA / "fr.txt",)).ids(model)
    assert by_text.tolist() == TokenSelection(("fr",), data=DATA).ids(model).tolist()
    keep = tmp_path / "keep"
    last = max(index for name, index in model.file.ids.items() if len(name) > 3 and index < 590)
    keep.write_text(f"{last}\n\n{last}")
    by_list = TokenSelection(keep=keep).ids(model)
    assert last in by_list
    mask = np.zeros(model.file.size, dtype=np.bool_)
    mask[by_list] = True
    assert np.array_equal(model.file.closed(mask), mask)
    both = TokenSelection(texts=(DATA / "fr.txt",), keep=keep).ids(model)
    assert both.tolist() == np.union1d(by_text, by_list).tolist()
    keep.write_text(f"[{last}, 3]")
    assert read_ids(keep).tolist() == [last, 3]
    for wrong in ("3 x", "", "[]"):
        keep.write_text(wrong)
        with pytest.raises(ModtokError, match="is not a list of token ids"):
            read_ids(keep)
    keep.write_text("5000")
    with pytest.raises(UsageError, match="the model has no token with id 5000"):
        TokenSelection(keep=keep).ids(model)
    with pytest.raises(UsageError, match="no tokens selected"):
        TokenSelection().ids(model)


def test_outputs_are_not_overwritten(whole: Path, tmp_path: Path) -> None:
    selection = TokenSelection(texts=(DATA / "fr.txt",))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(UsageError, match="exists but is not a slice"):
        slice_directory(whole, selection, tmp_path / "mine", force=True)
    slice_directory(whole, selection, tmp_path / "part")
    with pytest.raises(UsageError, match="already exists"):
        slice_directory(whole, selection, tmp_path / "part")
    slice_directory(whole, selection, tmp_path / "part", force=True)
    # A slice is a model, and can be sliced again.
    again = slice_directory(tmp_path / "part", selection, tmp_path / "again")
    assert next(iter(again.tensors.values())) == (len(again.ids), len(again.ids))
