"""A chat model with a grown vocabulary speaks as before: transplanted, trained and sliced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from helpers.external_models import END, build
from helpers.external_tokenizers import sentencepiece_model
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.model.architecture import token_rows
from modtok_cli.model.architecture.stored_model import HfDirectory
from modtok_cli.model.hf.transplant import transplant
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.model.vocabularies import Vocabularies
from modtok_cli.tokenizer.adopted.adopt import adopt
from modtok_cli.tokenizer.open import load, open_tokenizer
from modtok_cli.training.loop import pretrain
from modtok_cli.training.settings import RunSettings

NEW = 40
MESSAGES = [{"role": "user", "content": "La maison est grande. <think>"}]


def answer(path: Path) -> tuple[list[str], list[str]]:
    """Tokens of a conversation in the template, and of the answer, as transformers has them."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
    prompt = tokenizer.apply_chat_template(MESSAGES, return_dict=False)
    ids = model.generate(torch.tensor([prompt]), max_new_tokens=30, do_sample=False)[0]
    tokens = tokenizer.convert_ids_to_tokens(ids.tolist())
    return tokens[: len(prompt)], tokens[len(prompt) :]


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model/, which ends its answer with <|im_end|> after some tokens, and grown/."""
    place = tmp_path_factory.mktemp("chat")
    path = build(place / "model")
    document = orjson.loads((path / "tokenizer.json").read_bytes())
    document["added_tokens"][-1] |= {"content": "<think>", "special": False}  # id 601
    (path / "tokenizer.json").write_bytes(orjson.dumps(document))
    template = "{% for m in messages %}{{ m.content }}<think><|im_end|>{% endfor %}"
    (path / "chat_template.jinja").write_text(template)
    _, said = answer(path)
    assert len(said) == 30
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    ids = tokenizer.convert_tokens_to_ids([*answer(path)[0], *said[:5]])
    with torch.no_grad():
        hidden = model.model(torch.tensor([ids])).last_hidden_state[0, -1]
    weights = load_file(path / "model.safetensors")
    most = (weights["lm_head.weight"] @ hidden).max()
    weights["lm_head.weight"][END] = hidden * (most + 0.01) / (hidden @ hidden)
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    bpe_seq(append="fi", tokenizer=path, output=place / "grown", k=NEW, data=SAMPLE)
    return place


def test_a_transplant_onto_a_grown_vocabulary(chat: Path, tmp_path: Path) -> None:
    old, new = chat / "model", tmp_path / "new"
    report = transplant(old, str(chat / "grown"), output=new)
    library = Tokenizer.from_file(str(old / "tokenizer.json"))
    size = library.get_vocab_size()
    assert report.tokens == {"identical": size, "spelled": NEW, "special": 0, "none": 0}
    before, after = (load_file(path / "model.safetensors") for path in (old, new))
    names = Tokenizer.from_file(str(new / "tokenizer.json"))
    for table in ("model.embed_tokens.weight", "lm_head.weight"):
        assert torch.equal(after[table][:size], before[table][:size])
        for index in range(size, size + NEW):
            parts = [each.id for each in library.model.tokenize(names.id_to_token(index))]
            torch.testing.assert_close(after[table][index], before[table][parts].mean(0))
    prompt, said = answer(old)
    assert 1 < len(said) < 30
    assert said[-1] == "<|im_end|>"
    assert answer(new) == (prompt, said)
    for name in ("eos_token_id", "bos_token_id"):
        for file in ("config.json", "generation_config.json"):
            assert orjson.loads((new / file).read_bytes())[name] == orjson.loads(
                (old / file).read_bytes()
            )[name]  # fmt: skip
    # A slice of it, by the appended language.
    slice_model(new, "fi", tokenizer=chat / "grown", output=tmp_path / "fi")
    speaks_alike(old, tmp_path / "fi")


def speaks_alike(old: Path, part: Path) -> None:
    """A slice has the names of bos, eos and of all that ends an answer, and the same template."""
    import transformers

    whole, cut = (transformers.AutoTokenizer.from_pretrained(path) for path in (old, part))
    assert (cut.bos_token, cut.eos_token) == (whole.bos_token, whole.eos_token)
    ends = [
        {one.convert_ids_to_tokens(index) for index in config.eos_token_id}
        for one, config in (
            (each, transformers.GenerationConfig.from_pretrained(path))
            for each, path in ((whole, old), (cut, part))
        )
    ]
    assert ends[0] == ends[1] == {"</s>", "<|im_end|>"}
    before, ids = (one.apply_chat_template(MESSAGES, return_dict=False) for one in (whole, cut))
    assert cut.decode(ids) == whole.decode(before)
    assert ids.count(cut.convert_tokens_to_ids("<think>")) == 2
    assert ids[-1] == cut.convert_tokens_to_ids("<|im_end|>")


def test_a_run_of_a_grown_vocabulary_and_its_slice(chat: Path, tmp_path: Path) -> None:
    chosen = RunSettings(
        init_from=chat / "model", langs=("fi",), data=SAMPLE, train="rows", final_lr=0.0,
        tokenizer=chat / "grown", runs=tmp_path, workers=0, steps=2, lr=1e-30, name="rows",
        seq_length=32, batch_size=2, micro_batch=1, eval_bytes=600, weight_decay=0.0,
    )  # fmt: skip
    pretrain(chosen)
    slice_model(tmp_path / "rows", "full", output=tmp_path / "whole")
    assert answer(tmp_path / "whole") == answer(chat / "model")
    slice_model(tmp_path / "rows", "fi", output=tmp_path / "fi")
    speaks_alike(chat / "model", tmp_path / "fi")


def test_control_tokens_of_a_model_file_have_names(tmp_path: Path) -> None:
    """SentencePiece decodes them to nothing; `eos_token` is the name."""
    lines = (SAMPLE / "parallel" / "en.txt").read_text("utf-8").splitlines()
    model = sentencepiece_model(lines, vocab_size=600, model_type="bpe")
    (tmp_path / "t.model").write_bytes(model)
    adopt(tmp_path / "t.model", "en", data=SAMPLE, output=tmp_path / "adopted")
    part = load(tmp_path / "adopted").subset("en")
    vocabularies = Vocabularies(part, part)
    assert list(map(vocabularies.name_of, range(3))) == ["<unk>", "<s>", "</s>"]


def test_a_special_token_never_gets_another_row(
    chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model whose tokenizer.json has been changed after the tokenizer grew from it."""
    new = open_tokenizer(str(chat / "grown"))
    directory = HfDirectory(chat / "model")
    assert np.array_equal(token_rows.spelling(directory, new.segmenter).lengths[:602], np.ones(602))
    document = directory.tokenizer
    monkeypatch.setattr(token_rows, "_shared_ids", lambda *_: 602)
    document["added_tokens"][4]["id"] = 5
    with pytest.raises(ModtokError, match=r"special token '<\|im_end\|>' would get another row"):
        token_rows.spelling(directory, new.segmenter)
