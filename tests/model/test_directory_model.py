"""Models of transformers that modtok did not make: text and scores against transformers itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch

from helpers.external_models import END, build
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Silent
from modtok_cli.evaluate.bits import document_nats, window_bounds
from modtok_cli.evaluate.models import Models
from modtok_cli.evaluate.modes import Infer
from modtok_cli.model.architecture.families.llama import Llama
from modtok_cli.model.architecture.stored_model import open_config
from modtok_cli.model.generate.decoding import generate
from modtok_cli.model.generate.generate import Generator, Prompt
from modtok_cli.model.generate.next_token import SamplingOptions
from modtok_cli.model.generate.score import score
from modtok_cli.model.hf.hf_model import HfModel
from modtok_cli.model.hf.hf_source import HfSource
from modtok_cli.model.hf.model_directory import ModelDirectory
from modtok_cli.model.load import load, open_model

from .test_sliced_families import build as build_other

transformers = pytest.importorskip("transformers")
# Scaled embeddings, capped logits, heads of several widths; biases and absolute positions; places
# count, those of padding too; no cache of attention.
KINDS = ("Qwen2", "Gemma4ForCausalLM", "OPTForCausalLM", "MptForCausalLM", "RwkvForCausalLM")


@pytest.fixture(scope="module", params=KINDS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("directory") / "model"
    if request.param == "Qwen2":
        return build(path, "Qwen2")
    return build_other(path, request.param)


def logits(path: Path, ids: list[int]) -> torch.Tensor:
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


def test_scores_are_those_of_the_model(directory: Path) -> None:
    model = load(directory)
    assert isinstance(model, HfModel)
    assert model._split
    assert model._cached == ("rwkv" not in type(model.backbone).__name__.lower())
    texts = ("the house", "le chat dort, et puis", "a")
    shared = [model.end_of_text, *model.encode_in("The morning was cold, and nobody said a word.")]
    requests = [
        ([*shared, *model.encode_in(text)], model.encode_out(tail))
        for text in texts
        for tail in (" is", " very big indeed")
    ] * 2
    for (context, tail), found in zip(requests, score(model, requests, batch=4), strict=True):
        expected = logits(directory, [*context, *tail])[:, : len(model.head)].log_softmax(-1)
        own = sum(
            float(expected[len(context) - 1 + place, token]) for place, token in enumerate(tail)
        )
        assert found.nats == pytest.approx(own, abs=1e-3)


def test_text_is_that_of_the_model(directory: Path) -> None:
    model = load(directory)
    prompts = [[model.end_of_text, *model.encode_in(text)] for text in ("The house", "a", "Le ch")]
    model.ends_of_output = frozenset()
    options = SamplingOptions(max_tokens=6)
    for prompt, found in zip(prompts, generate(model, prompts, options), strict=True):
        ids = list(prompt)
        for _ in range(6):
            ids.append(int(logits(directory, ids)[-1, : len(model.row_of_out)].argmax()))
        assert list(found.ids) == ids[len(prompt) :]


def test_a_sliced_and_a_saved_model(tmp_path: Path) -> None:
    whole = build(tmp_path / "whole", "Llama")
    part = ModelDirectory(whole).slice(np.arange(300, 500, 3), tmp_path / "part").output
    assert (load(part).end_of_text, load(part).ends_of_output) == (
        1,
        {2, len(load(part).head) - 1},  # generation_config.json comes first
    )
    assert load(whole).ends_of_output == {2, END}
    # A model that was trained further and saved again, as after merging an adapter.
    saved = tmp_path / "saved"
    transformers.AutoModelForCausalLM.from_pretrained(part).save_pretrained(saved)
    transformers.AutoTokenizer.from_pretrained(part).save_pretrained(saved)
    one, two = (
        Generator(path).answer([Prompt("The house")], SamplingOptions(max_tokens=4))
        for path in (part, saved)
    )
    assert one == two
    assert (one[0]["languages"], one[0]["tokens"]) == ([], 4)


def test_languages_are_refused(tmp_path: Path) -> None:
    path = build(tmp_path / "model", "Qwen2")
    with pytest.raises(UsageError, match=r"is a model with one vocabulary; leave --langs, --in,"):
        load(path, ["fr"])
    with pytest.raises(UsageError, match="--step is for runs, not for Hug"):
        load(path, step=3)
    with pytest.raises(UsageError, match="one vocabulary, there is nothing to choose"):
        Generator(path, ("auto",))
    models = Models(open_model(path))
    assert models.of(Infer("full")) is models.of(Infer("full")).with_vocabulary("full")
    config = path / "config.json"
    config.write_bytes(orjson.dumps({**orjson.loads(config.read_bytes()), "model_type": "t5"}))
    with pytest.raises(ModtokError, match="transformers does not open it"):
        load(path, progress=SILENT)


# --- likelihoods of documents ---


DOCUMENTS = ["La maison est grande.", "", "The house is large, and old. " * 11, "a", "maison"]


def reference(path: Path, documents: list[str]) -> tuple[list[float], list[int]]:
    """Nats and tokens of each document, a window at a time, without a cache or a batch."""
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    texts = [tokenizer(document, add_special_tokens=False).input_ids for document in documents]
    nats = [0.0] * len(texts)
    for number, ids in enumerate(texts):
        for before, start, stop in window_bounds(len(ids), 64):
            context = ids[before:start] or [model.config.bos_token_id]
            window = torch.tensor([*context, *ids[start:stop]])
            with torch.no_grad():
                logits = model(window[None, :-1]).logits[0].double()
            lost = torch.nn.functional.cross_entropy(logits, window[1:], reduction="none")
            nats[number] += float(lost[start - stop :].sum())
    return nats, [*map(len, texts)]


# Caches, positions; tables of as many positions as the context has.
@pytest.mark.parametrize("family", ["Llama", "Gemma3Text", "GPTNeoX", "GPTJ", "OPT", "GPTNeo"])
def test_likelihoods_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    path = build(tmp_path / "model", family)
    nats, tokens = reference(path, DOCUMENTS)
    assert max(tokens) > 64  # several windows
    found = document_nats(load(path), DOCUMENTS, batch_size=8)
    np.testing.assert_allclose(found[0], nats, rtol=2e-5, atol=1e-5)
    assert found[1].tolist() == tokens


@pytest.mark.parametrize("family", ["Llama", "GPTJ", "OPT", "GPTNeo"])
def test_a_batch_goes_on_when_one_prompt_has_filled_the_context(
    family: str, tmp_path: Path
) -> None:
    model = load(build(tmp_path / "model", family))
    model.ends_of_output = frozenset()
    prompts = [[model.end_of_text, *[300] * count] for count in (60, 2, 55)]
    options = SamplingOptions(max_tokens=20)
    alone = [generate(model, [prompt], options)[0] for prompt in prompts]
    assert [each.reason for each in alone] == ["context", "length", "context"]
    assert generate(model, prompts, options) == alone


def test_special_tokens_are_text_in_documents_and_tokens_in_prompts(tmp_path: Path) -> None:
    model = load(build(tmp_path / "model"))
    assert model.encode_in("<|im_end|>") == model.encode_out("<|im_end|>") == [END]
    assert END not in model.encode_document("<|im_end|>")
    model.context = 5000
    assert model.window == 2048


def test_windows_predict_each_token_once_with_all_context_that_fits() -> None:
    for count in range(20):
        for width in range(1, 9):
            bounds = list(window_bounds(count, width))
            predicted = [place for _, start, stop in bounds for place in range(start, stop)]
            assert predicted == list(range(count))
            for before, start, stop in bounds:
                assert 0 <= before <= start
                context = start - before if start else 1  # the token that begins a text
                assert context >= 1
                assert context + stop - start <= width + 1


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build(tmp_path / "model")
    with pytest.raises(UsageError, match=r"has no config.json"):
        HfSource(tmp_path)
    config: dict[str, Any] = orjson.loads((path / "config.json").read_bytes())
    (path / "config.json").write_bytes(orjson.dumps({**config, "model_type": "nothing"}))
    with pytest.raises(ModtokError, match="transformers does not open it"):
        load(path)
    (path / "config.json").write_bytes(orjson.dumps(config))
    with monkeypatch.context() as patch:  # that is no fault of the model
        patch.setitem(sys.modules, "torch", None)
        with pytest.raises(UsageError, match=r"requires torch; pip install 'modtok\[lm\]'"):
            open_config(path)
        patch.setitem(sys.modules, "transformers", None)
        with pytest.raises(UsageError, match=r"requires transformers; pip install 'modtok\[lm\]"):
            Llama.of_hf(config)
    other = transformers.LlamaForSequenceClassification.from_pretrained(path)
    other.save_pretrained(tmp_path / "classifier")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "classifier" / name).write_bytes((path / name).read_bytes())
    with pytest.raises(ModtokError, match=r"tensor 'lm_head.weight' is missing"):
        load(tmp_path / "classifier")
    monkeypatch.setattr("modtok_cli.base.memory.available", lambda: 1000)
    with pytest.raises(ModtokError, match=r"measuring with .* needs about .* use a machine"):
        HfSource(path).open_model(torch.float32, torch.device("cpu"))


@pytest.mark.parametrize(
    "fields",
    [
        {"repetition_penalty": 1.5, "suppress_tokens": [5, 6, 7]},
        {"no_repeat_ngram_size": 2, "bad_words_ids": [[300], [301, 302]]},
        {"min_new_tokens": 8, "begin_suppress_tokens": [*range(300)]},
        {"sequence_bias": [[[310], 9.0]]},
    ],
    ids=lambda fields: "-".join(fields),
)
def test_text_is_that_of_the_generation_config(fields: dict[str, Any], tmp_path: Path) -> None:
    """By `generate` of transformers itself, a prompt at a time."""
    path = build(tmp_path / "model", "Llama")
    filler = [*range(602, 640)]  # rows without a token, which generation here never chooses
    config = {"bos_token_id": 1, "eos_token_id": [*range(300, 400)], "pad_token_id": 3, **fields}
    config["suppress_tokens"] = [*fields.get("suppress_tokens", []), *filler]
    (path / "generation_config.json").write_bytes(orjson.dumps(config))
    model = load(path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
    prompts = [[1, *model.encode_in(text)] for text in ("The house", "a a a a", "Le chat dort")]
    made = generate(model, prompts, SamplingOptions(max_tokens=12))
    for prompt, found in zip(prompts, made, strict=True):
        output = theirs.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)
        ids = output[0, len(prompt) :].tolist()
        assert list(found.ids) == [each for each in ids if each not in range(300, 400)]
    plain = build(tmp_path / "plain", "Llama")
    (plain / "generation_config.json").write_bytes(orjson.dumps({"eos_token_id": 2}))
    assert generate(load(plain), prompts, SamplingOptions(max_tokens=12)) != made


def test_fields_that_options_replace_are_named(tmp_path: Path) -> None:
    path = build(tmp_path / "model", "Llama")
    config = {"do_sample": True, "temperature": 0.6, "top_k": 20, "num_beams": 4, "eos_token_id": 2}
    config |= {"forced_bos_token_id": 0, "forced_eos_token_id": 1, "token_healing": True}
    (path / "generation_config.json").write_bytes(orjson.dumps(config))
    warned = Silent()
    Generator(path, progress=warned)
    (said,) = [each for each in warned.warnings if "options decide" in each]
    forced = "forced_bos_token_id, forced_eos_token_id"
    assert f"in place of {forced}, num_beams, temperature, token_healing, top_k of" in said
    (path / "generation_config.json").write_bytes(
        orjson.dumps({"temperature": 0.6, "max_length": 9, "num_beams": 1, "pad_token_id": 0})
    )
    Generator(path, progress=(quiet := Silent()))
    assert not quiet.warnings
