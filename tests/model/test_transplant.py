"""A model of any architecture with another vocabulary."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from helpers.external_models import FAMILIES, SMALL, build, save_tokenizer
from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.model.architecture.token_rows import PEFT
from modtok_cli.model.hf.fit_outputs import FitText, first_only, logit_offsets
from modtok_cli.model.hf.model_files import framed
from modtok_cli.model.hf.transplant import transplant
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.tokenizer.spelling import LibraryVocabulary, Spelling
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

from .test_sliced_families import build as build_other

TEXT = "La maison est grande, the house is large."


@pytest.fixture(scope="module")
def french(workspace: Path) -> str:
    return f"{workspace / 'tokenizer'}@fr"


def opened(path: Path) -> tuple[Any, Any]:
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
    return model, transformers.AutoTokenizer.from_pretrained(path)


def spelled(old: Path, spec: str) -> tuple[Subtokenizer, Spelling]:
    """A tokenizer, and its tokens spelled by the tokenizer of a model."""
    new = open_tokenizer(spec)
    assert isinstance(new, Subtokenizer)
    vocabulary = LibraryVocabulary((old / "tokenizer.json").read_bytes(), "old")
    return new, vocabulary.spell(new.vocabulary)


@pytest.mark.parametrize(
    ("family", "kind"),
    # Two tables, some tokens without a spelling; tied tables; tables of other names.
    [("Llama", "unigram"), ("Qwen2", "byte-level"), ("GPTNeoX", "byte-level")],
)
def test_rows_are_copied_or_means(family: str, kind: str, workspace: Path, tmp_path: Path) -> None:
    old = build(tmp_path / "model", family, kind)
    spec = f"{workspace / 'tokenizer'}@fr,en"
    report = transplant(old, spec, output=tmp_path / "new")
    new, spelling = spelled(old, spec)
    learned = np.arange(len(new.vocabulary.specials), new.size)
    lengths = spelling.lengths[learned]
    assert (lengths == 0).any() == (kind == "unigram")
    before, after = (load_file(path / "model.safetensors") for path in (old, tmp_path / "new"))
    assert before.keys() == after.keys()
    tables: list[str] = []
    for name, tensor in before.items():
        if len(tensor) != 640:
            assert torch.equal(tensor, after[name])
            continue
        tables.append(name.split(".")[-2])
        assert len(after[name]) == sum(report.tokens.values())
        for token in range(1, new.size, 7):
            ids = spelling.ids[spelling.offsets[token] : spelling.offsets[token + 1]]
            expected = tensor[ids] if len(ids) else tensor  # no spelling: the mean of all rows
            torch.testing.assert_close(after[name][token], expected.mean(0))
    assert len(tables) == (1 if family == "Qwen2" else 2)
    settings = orjson.loads((tmp_path / "new" / PEFT).read_bytes())
    assert settings["task_type"] == "CAUSAL_LM"
    trained = settings["trainable_token_indices"]
    assert trained.keys() == {*tables}
    for rows in trained.values():  # those that the model did not have
        assert np.intersect1d(rows, learned).tolist() == learned[lengths != 1].tolist()
    model, tokenizer = opened(tmp_path / "new")
    ids = tokenizer(TEXT, add_special_tokens=False).input_ids
    assert ids == new.encode(TEXT).tolist()
    assert tokenizer.decode(ids) == TEXT
    with torch.no_grad():
        assert torch.isfinite(model(torch.tensor([ids])).logits).all()


def test_a_slice_of_a_transplanted_model_trains_its_own_new_rows(
    workspace: Path, tmp_path: Path
) -> None:
    whole, part = tmp_path / "whole", tmp_path / "fi"
    transplant(build(tmp_path / "old"), f"{workspace / 'tokenizer'}@fi,fr", output=whole)
    ids = slice_model(whole, "fi", data=SAMPLE / "parallel", output=part).ids.tolist()
    old, new = (orjson.loads((each / PEFT).read_bytes()) for each in (whole, part))
    for module, every in old["trainable_token_indices"].items():
        rows = new["trainable_token_indices"][module]
        assert [ids[row] for row in rows] == [index for index in every if index in ids]
        assert 0 < len(rows) < len(every)


def test_tokens_around_a_text_stay(french: str, tmp_path: Path) -> None:
    """As T5 ends a text, and RoBERTa begins and ends one."""
    import transformers

    old = build(tmp_path / "model")
    document = orjson.loads((old / "tokenizer.json").read_bytes())
    names = [token["content"] for token in document["added_tokens"] if token["special"]][:2]
    ids = {token["content"]: token["id"] for token in document["added_tokens"]}
    for number, (before, after) in enumerate([(None, names[0]), (names[0], names[1])]):
        document["post_processor"] = None
        special = [each and (each, ids[each]) for each in (before, after)]
        (old / "tokenizer.json").write_bytes(framed(orjson.dumps(document), *special))  # type: ignore[arg-type]
        (old / "chat_template.jinja").write_text(" ".join(names))  # names both
        output = tmp_path / f"new-{number}"
        transplant(old, french, output=output)
        new = transformers.PreTrainedTokenizerFast.from_pretrained(output)
        plain = new("La maison", add_special_tokens=False).input_ids
        whole = new("La maison").input_ids
        begin = [] if before is None else [new.convert_tokens_to_ids(before)]
        assert whole == [*begin, *plain, new.convert_tokens_to_ids(after)]
        assert None not in whole


@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3"])
def test_other_ids_of_autotokenizer_are_told(family: str, french: str, tmp_path: Path) -> None:
    """transformers opens the tokenizer of a qwen2 model with Qwen's own pre-tokenizer."""
    import transformers

    old, progress = build(tmp_path / "model", family), Silent()
    output = tmp_path / "new"
    transplant(old, french, output=output, progress=progress)
    text, tokenizer = "1986 e\u0301te\u0301", open_tokenizer(french)
    expected = tokenizer.encode(text).tolist()
    auto = transformers.AutoTokenizer.from_pretrained(output)
    is_other = auto.encode(text, add_special_tokens=False) != expected
    assert is_other == (family == "Qwen2")
    assert [is_other] * is_other == [
        "have other token ids: it opens Qwen2Tokenizer" in each for each in progress.warnings
    ]
    plain = transformers.PreTrainedTokenizerFast.from_pretrained(output)
    assert plain.encode(text, add_special_tokens=False) == expected


def test_special_tokens_keep_their_meaning(french: str, tmp_path: Path) -> None:
    places = [build(tmp_path / "model"), tmp_path / "new"]
    transplant(places[0], french, output=places[1])
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
    # The new end of text begins a text as <s> does, and ends it as </s> does.
    before, after = (load_file(path / "model.safetensors") for path in places)
    for name, index in (("model.embed_tokens.weight", 1), ("lm_head.weight", 2)):
        assert torch.equal(after[name][0], before[name][index])
    begins = [
        tokenizer.convert_ids_to_tokens(tokenizer(TEXT).input_ids[0]) for tokenizer in tokenizers
    ]
    if begins[0] in tokenizers[0].all_special_tokens:
        assert begins[0] == begins[1]
    assert (places[1] / "LICENSE").is_file()
    assert not (places[1] / "tokenizer.model").exists()


def test_the_end_of_text_has_a_name(tmp_path: Path) -> None:
    """The first special token may be another one; Unigram's is the unknown one."""
    old = build(tmp_path / "model")
    bpe_seq(["fi"], data=SAMPLE / "data", output=tmp_path / "fi", k=300, default_specials=False,
            specials=["<|x|>", "<|endoftext|>"], references=False)  # fmt: skip
    transplant(old, f"{tmp_path / 'fi'}@fi", output=tmp_path / "new")
    before, after = (load_file(path / "model.safetensors") for path in (old, tmp_path / "new"))
    for name, index in (("model.embed_tokens.weight", 1), ("lm_head.weight", 2)):
        assert torch.equal(after[name][1], before[name][index])
        torch.testing.assert_close(after[name][0], before[name].mean(0))


def test_a_vocabulary_of_a_part_for_text(french: str, tmp_path: Path) -> None:
    import transformers

    old, eyes = tmp_path / "model", {"hidden_size": 16, "intermediate_size": 16, "image_size": 28}
    shape = {**SMALL, **FAMILIES["Gemma3Text"]}
    config = transformers.Gemma3Config(
        text_config=transformers.Gemma3TextConfig(**shape).to_dict(),
        vision_config={**eyes, "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 14},
    )
    transformers.Gemma3ForConditionalGeneration(config).save_pretrained(old)
    save_tokenizer(old, "characters")
    report = transplant(old, french, output=tmp_path / "new")
    part = orjson.loads((tmp_path / "new" / "config.json").read_bytes())["text_config"]
    assert part["vocab_size"] == sum(report.tokens.values())
    made = transformers.AutoModelForImageTextToText.from_pretrained(tmp_path / "new")
    assert len(made.get_input_embeddings().weight) == part["vocab_size"]


def test_what_transplant_refuses(workspace: Path, french: str, tmp_path: Path) -> None:
    old = build(tmp_path / "model")
    with pytest.raises(UsageError, match=r"is MODEL too and would be lost"):
        transplant(old, french, output=old)
    with pytest.raises(UsageError, match="was not made by modtok"):
        transplant(old, str(old / "tokenizer.json"), output=tmp_path / "new")
    with pytest.raises(UsageError, match=r"has no config.json"):
        transplant(workspace, french, output=tmp_path / "new")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "file").touch()
    with pytest.raises(UsageError, match="exists but is not a model"):
        transplant(old, french, output=tmp_path / "notes", force=True)
    assert not (tmp_path / "new").exists()


def write_texts(place: Path) -> list[str]:
    texts = ["La maison est grande et la porte est petite.\n" * 5, "The house is large.\n" * 7]
    files = [place / "fr.txt", place / "en.txt"]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, "utf-8")
    return [str(file) for file in files]


@pytest.mark.parametrize("family", ["Phi", "Qwen2", "GPTNeoX", "Granite"])
def test_fitted_output_rows(family: str, workspace: Path, tmp_path: Path) -> None:
    """From counts made a line at a time with the files in `tokenizers`."""
    old, spec = build(tmp_path / "model", family), f"{workspace / 'tokenizer'}@fr,en"
    texts = write_texts(tmp_path)
    plain, fitted = tmp_path / "plain", tmp_path / "fitted"
    transplant(old, spec, output=plain)
    report = transplant(old, spec, output=fitted, fit=texts)
    new, spelling = spelled(old, spec)
    lines = [line for text in texts for line in Path(text).read_text("utf-8").splitlines()]
    library = Tokenizer.from_file(str(old / "tokenizer.json"))
    before = [i for line in lines for i in library.encode(line, add_special_tokens=False).ids]
    after = [i for line in lines for i in new.encode(line).tolist()]
    counts = np.bincount(before, minlength=640), np.bincount(after, minlength=new.size)
    lower = logit_offsets(spelling, *counts)
    (model, _), (unfitted, _), (source, _) = map(opened, (fitted, plain, old))
    tied = model.config.tie_word_embeddings
    assert tied is (family == "Qwen2")
    table, written = (each.get_output_embeddings().weight.detach() for each in (source, model))
    directions = []
    for token in range(2, new.size, 5):
        parts = spelling.ids[spelling.offsets[token] : spelling.offsets[token + 1]]
        row = table[parts].mean(0)
        if not tied:
            row = 0.4 * row + 0.6 * table[parts[0]]
        found = written[token] - row
        # Each row is lowered along the same vector, by as much as the counts say.
        if lower[token]:
            directions.append(found / lower[token])
        else:
            torch.testing.assert_close(found, torch.zeros_like(found))
    assert len(directions) >= 5
    for direction in directions[1:]:
        torch.testing.assert_close(direction, directions[0], rtol=1e-3, atol=1e-4)
    if not tied:
        with torch.no_grad():
            states = model.base_model(torch.tensor([new.encode(lines[0])]))[0]
        factor = 1 / 8 if family == "Granite" else 1.0  # of its logits
        assert abs(float((states @ directions[0]).mean()) * factor - 1) < 0.5
        inputs = (each.get_input_embeddings().weight for each in (unfitted, model))
        assert torch.equal(*inputs)
    size = sum(tensor.nbytes for tensor in load_file(fitted / "model.safetensors").values())
    assert sum(after for after, _ in report.parts.values()) == size


def test_offsets_of_logits() -> None:
    spelling = Spelling(np.array([4, 4, 5, 6, 5], np.int32), np.array([0, 0, 1, 3, 4, 5]))
    found = logit_offsets(spelling, np.array([0, 0, 0, 0, 9, 3, 2]), np.array([7, 4, 0, 5]))
    # no spelling; kept, rarer; two parts; kept, more frequent; a token that was not counted
    np.testing.assert_allclose(found, [0, math.log(0.5), 0.7 * math.log(0.1), 0, 0])
    assert first_only(spelling).ids.tolist() == [4, 4, 6, 5]


def test_fit_refuses_stdin() -> None:
    with pytest.raises(UsageError, match="read more than once"):
        FitText(["-"])


def test_tables_are_found_by_what_they_are(french: str, tmp_path: Path) -> None:
    old = build_other(tmp_path / "opt", "OPTForCausalLM")  # as many positions as tokens
    transplant(old, french, output=tmp_path / "new")
    before, after = (load_file(path / "model.safetensors") for path in (old, tmp_path / "new"))
    name = "model.decoder.embed_positions.weight"
    assert torch.equal(before[name], after[name])
    opened(tmp_path / "new")
    other = build_other(tmp_path / "bart", "BartForConditionalGeneration")
    with pytest.raises(UsageError, match=r"tensor 'final_logits_bias' \(1, 640\) is no table"):
        transplant(other, french, output=tmp_path / "bart-fr")
    assert not (tmp_path / "bart-fr").exists()
