"""Models with other tables than one of inputs and one of outputs, sliced, against the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.external_models import PADDED
from helpers.external_tokenizers import save_tokenizer
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Silent
from modtok_cli.model.architecture import stored_model as hf_directory
from modtok_cli.model.architecture.complete import check_complete
from modtok_cli.model.architecture.stored_model import HfDirectory
from modtok_cli.model.hf import model_check as slice_check
from modtok_cli.model.hf import model_directory, token_tensors
from modtok_cli.model.hf.model_directory import ModelDirectory
from modtok_cli.model.hf.token_tensors import TokenTensors

transformers = pytest.importorskip("transformers")

IDS = {"vocab_size": PADDED, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}
USUAL = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
BART = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
    "max_position_embeddings": 64, "decoder_start_token_id": 2,
}  # fmt: skip
T5 = {
    "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4,
    "decoder_start_token_id": 3,
}  # fmt: skip
# Class of the model → class of the configuration, fields. They differ in tables, biases, names and
# ids of tokens; layers are of no account.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Gemma3nForCausalLM": (
        "Gemma3nText",
        USUAL | {
            "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 8, "laurel_rank": 4,
            "vocab_size_per_layer_input": 400, "hidden_size_per_layer_input": 8,
            "intermediate_size": [48] * 4, "activation_sparsity_pattern": [0.0] * 4,
            "num_kv_shared_layers": 0, "layer_types": ["full_attention"] * 4,
        },
    ),
    "Gemma4ForCausalLM": (  # heads of another width in some layers
        "Gemma4Text",
        USUAL | {
            "num_key_value_heads": 2, "head_dim": 8, "global_head_dim": 16, "sliding_window": 8,
            "vocab_size_per_layer_input": PADDED, "hidden_size_per_layer_input": 8,
            "final_logit_softcapping": 0.5, "num_kv_shared_layers": 0,
        },
    ),
    "MptForCausalLM": ("Mpt", {"d_model": 32, "n_heads": 4, "n_layers": 1}),
    # The table of positions has two more rows than positions: as many as there are tokens.
    "OPTForCausalLM": (
        "OPT",
        {
            "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
            "word_embed_proj_dim": 32, "max_position_embeddings": PADDED - 2,
        },
    ),
    "GPT2LMHeadModel": ("GPT2", {"n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": PADDED}),
    "LlamaForCausalLM": ("Llama", USUAL),
    "LlamaForSequenceClassification": ("Llama", USUAL),
    "Qwen2ForCausalLM": ("Qwen2", USUAL | {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "GPTNeoXForCausalLM": ("GPTNeoX", USUAL),
    "GPTJForCausalLM": (
        "GPTJ", {"n_embd": 32, "n_layer": 1, "n_head": 4, "rotary_dim": 8, "n_positions": 64}
    ),
    "BertForMaskedLM": ("Bert", USUAL),
    "ElectraForPreTraining": ("Electra", USUAL | {"embedding_size": 16}),
    "RwkvForCausalLM": (
        "Rwkv", {"hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32}
    ),
    "XLNetLMHeadModel": ("XLNet", {"d_model": 32, "n_layer": 1, "n_head": 4, "d_inner": 48}),
    "ModernBertForMaskedLM": ("ModernBert", USUAL | {"cls_token_id": 1, "sep_token_id": 2}),
    "T5ForConditionalGeneration": ("T5", T5),
    "MT5ForConditionalGeneration": ("MT5", T5 | {"tie_word_embeddings": False}),
    "T5ForTokenClassification": ("T5", T5),
    "BartForConditionalGeneration": ("Bart", BART),
    "MBartForConditionalGeneration": ("MBart", BART),
    "M2M100ForConditionalGeneration": ("M2M100", BART),
    "MarianMTModel": ("Marian", BART),
    "PegasusForConditionalGeneration": ("Pegasus", BART),
}  # fmt: skip


def build(path: Path, name: str) -> Path:
    kind, fields = FAMILIES[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**IDS, **fields)
    model = getattr(transformers, name)(config)
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:  # biases begin as zeros
            if tensor.is_floating_point():
                tensor.add_(torch.randn_like(tensor) * 0.1)
    model.save_pretrained(path)
    save_tokenizer(path, "byte-level")
    return path


def outputs(path: Path, name: str, ids: np.ndarray) -> torch.Tensor:
    model, info = getattr(transformers, name).from_pretrained(path, output_loading_info=True)
    assert not any(info.values())
    inputs = {"input_ids": torch.from_numpy(ids[None].astype(np.int64))}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = inputs["input_ids"][:, 4:]
    with torch.no_grad():
        return model.eval()(**inputs).logits[0]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_tensor_with_an_index_per_token_is_cut(name: str, tmp_path: Path) -> None:
    whole = build(tmp_path / "whole", name)
    warned = Silent()
    made = ModelDirectory(whole).slice(
        np.arange(300, 500, 3, dtype=np.int32), tmp_path / "part", progress=warned
    )
    assert not warned.warnings
    after, before = made.parts["vocabulary rows"]
    assert after < before
    kept = made.ids
    some = np.random.default_rng(0).permutation(np.arange(4, len(kept) - 4))[:20]
    expected = outputs(whole, name, kept[some])
    expected = expected[..., kept] if expected.shape[-1] == PADDED else expected
    found = outputs(made.output, name, some)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    if name in ("Gemma3nForCausalLM", "BartForConditionalGeneration"):  # sliced again
        again = ModelDirectory(made.output).slice(np.arange(0, dtype=np.int32), tmp_path / "again")
        assert again.rows()[-1]["bytes"] < made.rows()[-1]["bytes"]


def test_a_tensor_of_unknown_role_is_refused_with_its_name(tmp_path: Path) -> None:
    whole = build(tmp_path / "whole", "GPT2LMHeadModel")
    file = whole / "model.safetensors"
    tensors = load_file(file)
    save_file({**tensors, "extra.scores": torch.zeros(PADDED, 4)}, file, {"format": "pt"})
    for verify in (True, False):
        with pytest.raises(ModtokError, match=r"tensor 'extra.scores' \(640, 4\) has a size of"):
            ModelDirectory(whole).slice(np.array([300]), tmp_path / "part", verify=verify)
    assert not (tmp_path / "part").exists()


def test_a_result_that_is_not_the_model_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build(tmp_path / "whole", "Gemma3nForCausalLM")
    directory = ModelDirectory(whole)
    monkeypatch.delitem(directory.layout.fields, ("vocab_size_per_layer_input",))
    first = TokenTensors.axis_of

    def whole_tables(self: TokenTensors, name: str, shape: tuple[int, ...]) -> Any:
        return None if "per_layer" in name else first(self, name, shape)

    monkeypatch.setattr(TokenTensors, "axis_of", whole_tables)
    with pytest.raises(ModtokError, match=r"tensor 'model.embed_tokens_per_layer.weight'.*would"):
        directory.slice(np.arange(300, 500, 3), tmp_path / "part")
    # The same without the check of shapes.
    monkeypatch.setattr(TokenTensors, "check", lambda *_: None)
    with pytest.raises(ModtokError, match=r"'model.embed_tokens_per_layer.weight' is mismatched"):
        directory.slice(np.arange(300, 500, 3), tmp_path / "part")
    assert not (tmp_path / "part").exists()
    directory.slice(np.arange(300, 500, 3), tmp_path / "part", verify=False)


def test_other_logits_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = build(tmp_path / "whole", "BartForConditionalGeneration")
    directory = ModelDirectory(whole)
    cuts_of = model_directory.cuts_of

    def wrong(axes: Any, ids: np.ndarray) -> Any:
        bias = cuts_of(axes, ids)["final_logits_bias"]
        shifted = {"final_logits_bias": bias._replace(ids=np.arange(len(bias.ids)))}
        return cuts_of(axes, ids) | shifted

    monkeypatch.setattr(model_directory, "cuts_of", wrong)
    with pytest.raises(ModtokError, match="'logits' of kept tokens differ by"):
        directory.slice(np.arange(300, 500, 3), tmp_path / "part")
    assert not (tmp_path / "part").exists()
    warned = Silent()
    monkeypatch.setattr(slice_check, "available", lambda: 1)
    directory.slice(np.arange(300, 500, 3), tmp_path / "part", progress=warned)
    assert warned.warnings[0].startswith("logits are not compared: needs ")


def test_a_model_that_transformers_does_not_open(tmp_path: Path) -> None:
    whole = build(tmp_path / "whole", "GPT2LMHeadModel")
    file = whole / "config.json"
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | {"model_type": "none-such"}))
    with pytest.raises(ModtokError, match="transformers does not open it"):
        ModelDirectory(whole).slice(np.array([300]), tmp_path / "part")
    # By names, the table of positions, which has as many rows, is not known.
    with pytest.raises(ModtokError, match=r"tensor 'transformer.wpe.weight' .* unknown role"):
        ModelDirectory(whole).slice(np.array([300]), tmp_path / "part", verify=False)


def test_a_size_that_the_configuration_does_not_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build(tmp_path / "whole", "Gemma3nForCausalLM")
    file = whole / "config.json"
    config = orjson.loads(file.read_bytes())
    defaults = {name: config[name] for name in ("vocab_size", "vocab_size_per_layer_input")}

    as_it_is = hf_directory.open_config

    def opened(path: Path) -> Any:
        """With defaults for what the file does not state."""
        found, stated = as_it_is(path), orjson.loads((path / "config.json").read_bytes())
        for name in defaults.keys() - stated.keys():
            setattr(found, name, defaults[name])
        return found

    for module in (hf_directory, model_directory, token_tensors, slice_check):
        monkeypatch.setattr(module, "open_config", opened)
    for name in ("vocab_size_per_layer_input", "vocab_size"):
        del config[name]
        file.write_bytes(orjson.dumps(config))
        made = ModelDirectory(whole).slice(np.arange(300, 500, 3), tmp_path / name)
        found = orjson.loads((made.output / "config.json").read_bytes())
        assert found["vocab_size"] == len(made.ids)
        assert found["vocab_size_per_layer_input"] == int((made.ids < 400).sum())


# --- quantized tables ---

F8 = torch.float8_e4m3fn
ROWS: dict[str, dict[str, torch.Tensor]] = {  # by what a part is called: with a row per token
    "fp8, a scale per row": {
        "weight": torch.randn(PADDED, 32).to(F8), "weight_scale": torch.rand(PADDED, 1),
    },
    "fp8, a scale": {"weight": torch.randn(PADDED, 32).to(F8), "weight_scale": torch.rand(1)},
    "nvfp4": {
        "weight_packed": torch.randint(256, (PADDED, 16), dtype=torch.uint8),
        "weight_scale": torch.rand(PADDED, 2).to(F8), "weight_global_scale": torch.rand(1),
    },
    "int4": {
        "weight_packed": torch.randint(9**9, (PADDED, 4), dtype=torch.int32),
        "weight_scale": torch.rand(PADDED, 2), "weight_shape": torch.tensor([PADDED, 32]),
    },
    "int8": {
        "weight": torch.randint(99, (PADDED, 32), dtype=torch.int8), "SCB": torch.rand(PADDED),
    },
}  # fmt: skip
MIXED: dict[str, dict[str, torch.Tensor]] = {
    "bitsandbytes": {
        "weight": torch.randint(256, (PADDED * 16, 1), dtype=torch.uint8),
        "weight.absmax": torch.rand(PADDED), "weight.quant_map": torch.rand(16),
    },
    "fp8": {
        "weight": torch.randn(PADDED, 32).to(F8), "weight_scale_inv": torch.rand(PADDED // 128, 1),
    },
    "awq": {
        "qweight": torch.randint(9**9, (32, PADDED // 8), dtype=torch.int32),
        "qzeros": torch.randint(9**9, (1, PADDED // 8), dtype=torch.int32),
        "scales": torch.rand(1, PADDED),
    },
    "gptq": {
        "qweight": torch.randint(9**9, (4, PADDED), dtype=torch.int32),
        "qzeros": torch.randint(9**9, (1, PADDED // 8), dtype=torch.int32),
        "scales": torch.rand(1, PADDED), "g_idx": torch.zeros(32, dtype=torch.int32),
    },
}  # fmt: skip


def with_head(path: Path, parts: dict[str, torch.Tensor], method: str) -> Path:
    build(path, "LlamaForCausalLM")
    tensors = load_file(path / "model.safetensors")
    del tensors["lm_head.weight"]
    tensors |= {f"lm_head.{name}": part for name, part in parts.items()}
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    config = orjson.loads((path / "config.json").read_bytes())
    config["quantization_config"] = {"quant_method": method}
    (path / "config.json").write_bytes(orjson.dumps(config))
    return path


@pytest.mark.parametrize("kind", ROWS)
def test_quantized_rows_are_cut_with_their_scales(kind: str, tmp_path: Path) -> None:
    path = with_head(tmp_path / "whole", ROWS[kind], "compressed-tensors")
    made = ModelDirectory(path).slice(np.arange(300, 400, 3), tmp_path / "part", verify=False)
    found = load_file(made.output / "model.safetensors")
    for name, whole in ROWS[kind].items():
        part = found[f"lm_head.{name}"]
        if name == "weight_shape":
            assert part.tolist() == [len(made.ids), 32]
            continue
        bytes_of = [each.view(torch.uint8).reshape(len(each), -1) for each in (whole, part)]
        kept = bytes_of[0][made.ids] if len(whole) == PADDED else bytes_of[0]
        assert torch.equal(bytes_of[1], kept), name
    with pytest.raises(ModtokError, match="'lm_head' is quantized"):
        ModelDirectory(path).axes(ModelDirectory(path).layout)  # as transplant and graft do


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("method", MIXED)
def test_quantized_tables_that_mix_tokens_are_refused(
    method: str, verify: bool, tmp_path: Path
) -> None:
    path = with_head(tmp_path / "whole", MIXED[method], method)
    with pytest.raises(ModtokError, match=rf"table 'lm_head' is quantized \({method}\)"):
        ModelDirectory(path).slice(np.arange(300, 400), tmp_path / "part", verify=verify)
    assert not (tmp_path / "part").exists()
    for scale in ("scales", "weight_scale_inv", "weight.quant_map"):
        if scale in MIXED[method]:
            lost = {name: part for name, part in MIXED[method].items() if name != scale}
            with pytest.raises(ModtokError, match=r"tensor 'lm_head.* is missing"):
                check_complete(HfDirectory(with_head(tmp_path / "lost", lost, method)))
