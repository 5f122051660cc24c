"""Initial weights from models of transformers, with their own tokenizer or another."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.hf_models import save_model
from modtok_cli.architectures.hf_directory import open_hf_directory
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT
from modtok_cli.construct.bpe import bpe
from modtok_cli.inference.slice.slice import slice as slice_model
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.initial import InitialModel
from modtok_cli.training.loop import pretrain
from modtok_cli.training.model.model import Model
from modtok_cli.training.settings import RunSettings

from .conftest import SAMPLE

PADDING = 7  # rows without a token


@pytest.fixture
def whole(tokenizer: Path) -> ModularTokenizer:
    return ModularTokenizer.load(tokenizer)


@pytest.fixture
def settings(tokenizer: Path, tmp_path: Path) -> RunSettings:
    """A step that changes no weight: the rate is below what float32 can add."""
    return RunSettings(
        init_from=tmp_path / "model", langs=("en", "fr"), sampling="none", data=SAMPLE,
        tokenizer=tokenizer, runs=tmp_path / "runs", workers=0, steps=1, lr=1e-30, final_lr=0.0,
        seq_length=32, batch_size=2, micro_batch=2, eval_bytes=600, name="it",
    )  # fmt: skip


def save_own(family: str, tokenizer: Path, path: Path, **fields: Any) -> Any:
    """A model with the tokenizer T itself, and padding."""
    rows = ModularTokenizer.load(tokenizer).size + PADDING
    content = (tokenizer / "tokenizer.json").read_bytes()
    return save_model(family, path, content, rows=rows, **fields)


def initialized(path: Path, new: ModularTokenizer, rows: str = "spelling") -> Model:
    initial = InitialModel(open_hf_directory(path))
    model = Model(initial.origin.shape, new.size, start_ranks(), seed=3)
    initial.initialize(model, new, rows=rows, note=SILENT)
    return model


@pytest.mark.parametrize(
    ("family", "dtype"),
    [("llama", "float32"), ("mistral", "bfloat16"), ("qwen2", "float16"), ("qwen3", "bfloat16")],
)
def test_a_slice_of_the_run_has_the_same_weights(
    family: str, dtype: str, tokenizer: Path, settings: RunSettings, tmp_path: Path
) -> None:
    save_own(family, tokenizer, tmp_path / "model", dtype=dtype, shard="40KB")
    pretrain(settings)
    slice_model(settings.runs / "it", output=tmp_path / "slice", outputs="full", dtype=dtype)
    files = [*(tmp_path / "model").glob("*.safetensors")]
    assert len(files) > 2
    before = {name: tensor for file in files for name, tensor in load_file(file).items()}
    after = load_file(tmp_path / "slice" / "model.safetensors")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        kept = tensor[:-PADDING] if name.startswith(("model.embed", "lm_head")) else tensor
        assert torch.equal(kept, after[name]), name
    fields = ("model_type", "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_parameters")
    configs = [
        orjson.loads((tmp_path / n / "config.json").read_bytes()) for n in ("model", "slice")
    ]
    assert [configs[0][name] for name in fields] == [configs[1][name] for name in fields]


def test_another_tokenizer_is_spelled_with_the_model_s(
    whole: ModularTokenizer, tmp_path: Path
) -> None:
    bpe(("en",), data=SAMPLE, output=tmp_path / "old", k=400)
    old = orjson.loads((tmp_path / "old" / "en.json").read_bytes())
    ids = old["model"]["vocab"]
    old["added_tokens"][0]["content"] = "<|start|>"
    ids["<|start|>"] = ids.pop("<|endoftext|>")
    save_model(
        "qwen2", tmp_path, orjson.dumps(old), rows=400, bos_token_id=0, eos_token_id=[5, 6],
        tie_word_embeddings=False,
    )  # fmt: skip
    model = initialized(tmp_path, whole)
    state = load_file(tmp_path / "model.safetensors")
    reading, writing = state["model.embed_tokens.weight"], state["lm_head.weight"]
    assert torch.equal(model.input.weight[0], reading[0])  # the start, under another name
    assert torch.equal(model.output.weight[0], writing[5])
    tied = {"bos_token_id": 0, "eos_token_id": [5, 6], "tie_word_embeddings": True}
    save_model("qwen2", tmp_path / "tied", orjson.dumps(old), rows=400, **tied)
    (table,) = initialized(tmp_path / "tied", whole).tables.values()
    stored = load_file(tmp_path / "tied" / "model.safetensors")["model.embed_tokens.weight"]
    assert torch.equal(table.weight[0], stored[0])  # it is read more often than it is predicted
    both = [index for index, name in enumerate(whole.vocabulary.spellings()) if name in ids]
    assert len(both) > 300
    there = [ids[whole.vocabulary.spellings()[index]] for index in both]
    assert torch.equal(model.input.weight[both], reading[there])
    assert torch.equal(model.output.weight[both], writing[there])
    others = torch.tensor(sorted(set(range(1, whole.size)) - set(both)))
    assert (model.input.weight[others].norm(dim=1) > 0.2).all()  # random rows have 0.02 · √48
    random = initialized(tmp_path, whole, rows="random")
    assert (random.input.weight[others].norm(dim=1) < 0.3).all()
    assert torch.equal(random.input.weight[both], reading[there])


def test_train_rows_changes_new_rows_only(
    tokenizer: Path, settings: RunSettings, tmp_path: Path
) -> None:
    bpe(("en",), data=SAMPLE, output=tmp_path / "old", k=400)
    save_model("llama", tmp_path / "model", (tmp_path / "old" / "en.json").read_bytes(), rows=400)
    whole = ModularTokenizer.load(tokenizer)
    first = initialized(tmp_path / "model", whole).input.weight
    new = InitialModel(open_hf_directory(tmp_path / "model")).new_rows(whole)
    pretrain(replace(settings, train="rows", lr=1e-2))
    shutil.rmtree(tmp_path / "model")  # the run needs it no more
    pretrain(RunSettings(runs=settings.runs, steps=2), resume=True)
    slice_model(settings.runs / "it", output=tmp_path / "slice", outputs="full")
    table = load_file(tmp_path / "slice" / "model.safetensors")["model.embed_tokens.weight"]
    assert torch.equal(table[~new], first[~new])
    assert not torch.equal(table[new], first[new])


def test_what_a_model_directory_can_have_wrong(
    tokenizer: Path, settings: RunSettings, tmp_path: Path
) -> None:
    save_own("qwen2", tokenizer, tmp_path / "model")
    path = tmp_path / "model"
    with pytest.raises(UsageError, match="--train rows: the tokenizer has no token that is new"):
        pretrain(replace(settings, train="rows"))
    for change, message in (
        ({"layers": 3}, "--set architecture.layers: is 3, the model of --init-from has 2"),
        ({"tied": True}, "--set architecture.tied: is True, the model of --init-from has False"),
        ({"model": "tiny"}, "--model: is tiny, the model of --init-from has model"),
    ):
        with pytest.raises(UsageError, match=message):
            pretrain(replace(settings, **change))

    config = orjson.loads((path / "config.json").read_bytes())
    for change, message in (
        ({"model_type": "gpt_bert"}, "architecture 'gpt_bert' is not supported"),
        ({"quantization_config": {"bits": 4}}, "the weights are quantized"),
        ({"use_sliding_window": True}, "config.json: field 'use_sliding_window' is set"),
        ({"vocab_size": 9}, r"has no row: config.json says 9; give it one"),
        ({"intermediate_size": 81}, "expected"),
    ):
        (path / "config.json").write_bytes(orjson.dumps(config | change))
        with pytest.raises(ModtokError, match=message):
            pretrain(settings, force=True)
    (path / "config.json").write_bytes(orjson.dumps(config))

    weights = load_file(path / "model.safetensors")
    for name, tensor, message in (
        ("model.norm.weight", None, "parameter 'norm.weight' is missing"),
        ("model.norm.weight", torch.zeros(48, dtype=torch.int8), "'model.norm.weight' is int8"),
        ("model.layers.7.x", torch.zeros(1), "parameter 'layers.7.x' has no counterpart"),
    ):
        changed = weights | {name: tensor}
        save_file({k: v for k, v in changed.items() if v is not None}, path / "model.safetensors")
        with pytest.raises(ModtokError, match=message):
            pretrain(settings, force=True)
    save_file(weights, path / "model.safetensors")
    (path / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match=r"has no tokenizer.json"):
        pretrain(settings)
