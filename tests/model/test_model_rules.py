"""What counts in a model directory: transformers' rules, for every command alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.external_models import build
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.model.architecture.complete import check_complete
from modtok_cli.model.architecture.stored_model import HfDirectory
from modtok_cli.model.export.export import export
from modtok_cli.model.hf.model_directory import ModelDirectory
from modtok_cli.model.hf.transplant import transplant
from modtok_cli.model.load import load, open_model
from modtok_cli.model.serve.served_directory import served_model
from modtok_cli.model.serve.served_languages import ServedLanguages
from modtok_cli.model.slice.graft import graft
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.tokenizer.adopted.adopt import adopt
from modtok_cli.training.initial import open_initial

transformers = pytest.importorskip("transformers")
WEIGHTS = "model.safetensors"


def edit(file: Path, **fields: Any) -> None:
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | fields))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return build(tmp_path / "m", "Llama")


def other_rows(path: Path, *, stored: tuple[str, ...] = (), same: bool = False) -> None:
    """Say that the tables are tied, and store these."""
    tensors = load_file(path / WEIGHTS)
    if same:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    left = {name: each for name, each in tensors.items() if not stored or name in stored
            or name not in ("lm_head.weight", "model.embed_tokens.weight")}  # fmt: skip
    save_file(left, path / WEIGHTS, metadata={"format": "pt"})
    edit(path / "config.json", tie_word_embeddings=True)


@pytest.mark.parametrize(
    ("change", "tied"),
    [
        ({}, False),
        ({"same": True}, True),
        ({"stored": ("lm_head.weight",)}, True),
        ({"stored": ("model.embed_tokens.weight",)}, True),
    ],
)
def test_tables_are_tied_as_transformers_ties_them(
    model: Path, change: dict[str, Any], tied: bool
) -> None:
    other_rows(model, **change)
    directory, warned = HfDirectory(model), Silent()
    directory.warn(warned)
    assert (directory.shape.tied, not warned.warnings) == (tied, tied)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    assert torch.equal(directory.table("input"), theirs.get_input_embeddings().weight)
    assert torch.equal(directory.table("output"), theirs.get_output_embeddings().weight)
    assert open_initial(model).origin.shape.tied is tied


def test_the_file_of_weights_is_that_of_transformers(model: Path, tmp_path: Path) -> None:
    single = load_file(model / WEIGHTS)
    save_file({name: each + 1 for name, each in single.items()}, model / "old.safetensors")
    index = {"weight_map": dict.fromkeys(single, "old.safetensors"), "metadata": {}}
    (model / f"{WEIGHTS}.index.json").write_bytes(orjson.dumps(index))
    for explicit, first in ((None, 0), ("old.safetensors", 1), (f"{WEIGHTS}.index.json", 1)):
        edit(model / "config.json", transformers_weights=explicit)
        theirs = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        found = HfDirectory(model).tensor("model.norm.weight")
        assert torch.equal(found, theirs.model.norm.weight)
        assert float((found - single["model.norm.weight"])[0]) == first
        made = ModelDirectory(model).slice(np.arange(300, 310), tmp_path / f"s{explicit}")
        again = HfDirectory(made.output).tensor("model.norm.weight")
        assert torch.equal(again, found)


def test_ids_are_found_where_transformers_has_them(model: Path) -> None:
    (model / "generation_config.json").unlink()
    plain = orjson.loads((model / "config.json").read_bytes())
    ids = {name: plain.pop(name) for name in ("bos_token_id", "eos_token_id")}
    place = model / "config.json"
    place.write_bytes(orjson.dumps({**plain, "text_config": ids}))
    assert HfDirectory(model).token_ids("eos_token_id") == [2, 1]
    place.write_bytes(orjson.dumps({**plain, "text_config": None}))
    (model / "tokenizer_config.json").write_bytes(
        orjson.dumps({"eos_token": {"content": "</s>"}, "bos_token": "<s>"})
    )
    assert HfDirectory(model).token_id("bos_token_id", "eos_token_id") == 1
    assert HfDirectory(model).token_ids("eos_token_id") == [2]
    (model / "generation_config.json").write_bytes(orjson.dumps({"eos_token_id": 5}))
    place.write_bytes(orjson.dumps({**plain, **ids}))
    assert HfDirectory(model).token_ids("eos_token_id") == [5]


def test_a_token_without_a_row_is_left_out_by_all(
    model: Path, workspace: Path, tmp_path: Path
) -> None:
    file = model / "tokenizer.json"
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    whole = orjson.loads(file.read_bytes())
    like = whole["added_tokens"][3]
    # The library gives added tokens the ids of the file only if the vocabulary has them too.
    ids = {token["content"]: token["id"] for token in whole["added_tokens"]} | {"<mine>": 640}
    rules = {**whole["model"], "vocab": {**whole["model"]["vocab"], **ids}}
    file.write_bytes(orjson.dumps({**whole, "model": rules, "added_tokens": [
        *whole["added_tokens"], {**like, "id": 640, "content": "<mine>", "special": True}
    ]}))  # fmt: skip
    edit(model / "tokenizer_config.json", pad_token="<mine>")
    (text := tmp_path / "en.txt").write_text("a house")
    expected = tokenizer("a <mine>", add_special_tokens=False)["input_ids"]
    warned = Silent()
    source = open_model(model, progress=warned)
    assert warned.warnings == [f"{model}: tokens without a row are left out: <mine>"]
    assert source.vocabularies(None, None).tokenizer_in.encode("a <mine>").tolist() == expected
    assert load(model).encode_in("a <mine>") == expected
    slice_model(model, texts=text, output=tmp_path / "s", progress=warned)
    part = transformers.AutoTokenizer.from_pretrained(tmp_path / "s")
    assert part.pad_token is None
    assert len(part) == HfDirectory(tmp_path / "s").vocab_size
    export(model, tmp_path / "m.gguf", progress=warned)
    spec = f"{workspace / 'tokenizer'}@fi"
    made = transplant(model, spec, output=tmp_path / "t", progress=warned)
    assert "<mine>" not in transformers.AutoTokenizer.from_pretrained(made.output).get_vocab()
    assert set(warned.warnings[1:]) >= {warned.warnings[0]}
    # vLLM's own tokenizer cannot give such an id either, nor can T.
    adopt(model, "fr", data=SAMPLE / "parallel", output=tmp_path / "adopted", progress=warned)
    place = served_model(model, tmp_path / "adopted", tmp_path / "served", progress=warned)
    assert warned.warnings[-2:] == warned.warnings[:1] * 2
    assert ServedLanguages.of(place).encode("a <mine>", "fr").tolist() == expected
    assert "<mine>" not in transformers.AutoTokenizer.from_pretrained(place).get_vocab()
    assert b"<mine>" in file.read_bytes()
    (tmp_path / "alone.json").write_bytes(file.read_bytes())
    alone = tmp_path / "alone"
    adopt(tmp_path / "alone.json", "fr", data=SAMPLE / "parallel", output=alone)
    with pytest.raises(UsageError, match="has tokens without a row: the model has 640; make one"):
        served_model(model, alone, tmp_path / "other")
    # What every text needs cannot be left out.
    whole["post_processor"]["special_tokens"]["<s>"]["tokens"] = ["<mine>"]
    whole["added_tokens"] = [*whole["added_tokens"], {**like, "id": 640, "content": "<mine>"}]
    file.write_bytes(orjson.dumps(whole))
    for refused in (lambda: load(model), lambda: ModelDirectory(model).indispensable()):
        with pytest.raises(ModtokError, match=r"token '<mine>' \(id 640\) has no row"):
            refused()


COMMANDS: dict[str, Callable[[Path], Any]] = {
    "slice": lambda path: slice_model(path, texts="t.txt", output="out"),
    "export": lambda path: export(path, "out.gguf"),
    "load": load,
    "transplant": lambda path: transplant(path, output="out"),
    "graft": lambda path: graft(path, path, output="out"),
    "--init-from": open_initial,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_an_adapter_is_refused(
    command: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    (tmp_path / "adapter_config.json").write_text("{}")
    # Beside a whole model too: transformers would read the base model, and not these weights.
    for name in ("adapter_model.safetensors", "config.json", WEIGHTS, "tokenizer.json"):
        (tmp_path / name).write_text("{}")
        with pytest.raises(UsageError, match=r"is an adapter, not a model; merge it: .*merge_and"):
            COMMANDS[command](tmp_path)


@pytest.mark.parametrize("way", ["indexed", "nowhere", "another shape"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_tensor_is_named(
    command: str,
    way: str,
    model: Path,
    workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """transformers makes it up at random."""
    monkeypatch.chdir(workspace)
    if command == "graft":
        ModelDirectory(model).slice(np.arange(300, 310), tmp_path / "s")
        (model / "modtok-vocabulary.json").write_bytes(
            (tmp_path / "s" / "modtok-vocabulary.json").read_bytes()
        )
    name = "model.layers.1.mlp.down_proj.weight"
    tensors = load_file(model / WEIGHTS)
    lost = tensors.pop(name)
    if way == "another shape":
        tensors[name] = lost[1:].clone()
    if way == "indexed":
        save_file(tensors, model / "model-00001-of-00001.safetensors", metadata={"format": "pt"})
        (model / WEIGHTS).unlink()
        table = dict.fromkeys([*tensors, name], "model-00001-of-00001.safetensors")
        (model / f"{WEIGHTS}.index.json").write_bytes(orjson.dumps({"weight_map": table}))
    else:
        save_file(tensors, model / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(ModtokError, match=rf"tensor '{name}' is (missing|\(31, 48\))"):
        COMMANDS[command](model)
    assert not (workspace / "out").exists()


def test_a_missing_tensor_of_an_expert_is_named(model: Path) -> None:
    """transformers joins experts as it loads them."""
    config = transformers.MixtralConfig(
        vocab_size=640, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=3,
    )  # fmt: skip
    transformers.MixtralForCausalLM(config).save_pretrained(model)
    check_complete(HfDirectory(model))
    tensors = load_file(model / WEIGHTS)
    name = next(name for name in tensors if ".experts.1." in name)
    del tensors[name]
    save_file(tensors, model / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(ModtokError, match=rf"tensor '{name}' is missing"):
        check_complete(HfDirectory(model))


def test_files_that_are_not_known_are_named_and_not_copied(
    model: Path, workspace: Path, tmp_path: Path
) -> None:
    unknown = {"consolidated.safetensors", "params.json", "training_args.bin", "optimizer.pt"}
    for name in unknown:
        (model / name).write_bytes(b"{}")
    (model / "onnx").mkdir()
    unknown.add("onnx")
    (model / "preprocessor_config.json").write_bytes(b'{"size": 3}')
    (model / "additional_chat_templates").mkdir()
    (model / "additional_chat_templates" / "tool_use.jinja").write_text("T")
    made = ModelDirectory(model).slice(np.arange(300, 310), tmp_path / "s")
    assert {*made.left_out} == unknown | {"tokenizer.model"}
    transplant(model, f"{workspace / 'tokenizer'}@fi", output=tmp_path / "t")
    graft(made.output, model, output=tmp_path / "g")
    for output in (made.output, tmp_path / "t", tmp_path / "g"):
        names = {file.name for file in output.iterdir()}
        assert not names & unknown
        assert {"preprocessor_config.json", "additional_chat_templates", "LICENSE"} <= names
        assert HfDirectory(output).chat_templates["tool_use"] == "T"


def test_ids_of_a_configuration_under_any_name(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.XLMConfig(
        vocab_size=640, emb_dim=32, n_layers=1, n_heads=4, max_position_embeddings=64,
        bos_index=1, eos_index=2, pad_index=3, mask_index=480, lang_id=1, image_token_index=481,
    )  # fmt: skip
    path = build(tmp_path / "m", "Llama")
    transformers.XLMWithLMHeadModel(config).save_pretrained(path)
    edit(path / "config.json", nested={"im_end_id": 482, "num_token_ids": 3})
    warned = Silent()
    made = ModelDirectory(path).slice(np.arange(500, 560), tmp_path / "s", progress=warned)
    new_of = {old: new for new, old in enumerate(made.ids.tolist())}
    found = orjson.loads((made.output / "config.json").read_bytes())
    assert (found["mask_index"], found["image_token_index"]) == (new_of[480], new_of[481])
    assert found["nested"] == {"im_end_id": new_of[482], "num_token_ids": 3}
    opened, whole = (transformers.AutoConfig.from_pretrained(each) for each in (made.output, path))
    for name in ("unk_index", "bos_index", "eos_index", "pad_index"):  # also those not stated
        assert getattr(opened, name) == new_of[getattr(whole, name)]
    assert "unchanged, though they may be token ids: lang_id" in "\n".join(warned.warnings)
