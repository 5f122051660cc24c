"""A step of fine-tuning with `ActiveHead` beside the whole model: seconds and memory.

    python -m benchmarks active_head [--model DIR] [--active 0.2] [--tokens 512] [--steps 8]

Without --model: a random model of Gemma 3's smallest vocabulary and width (262,144 x 640, tied),
with --layers layers. A step is loss, gradients and AdamW of all parameters, in float32, on a random
sequence of active tokens. Every measurement is a process of its own, and both take turns; seconds
are medians of all steps but the first. Prints a JSON object a line.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

import torch

from benchmarks.common import describe, emit, in_a_process, parser_of, peak_of_self


def model_of(options: argparse.Namespace) -> Any:
    import transformers

    if options.model:
        return transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype="float32")
    config = transformers.Gemma3TextConfig(
        vocab_size=262_144, hidden_size=640, intermediate_size=2048, head_dim=256,
        num_hidden_layers=options.layers, num_attention_heads=4, num_key_value_heads=1,
        tie_word_embeddings=True,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    from modtok_cli.model.head import ActiveHead

    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    model = model_of(options).train()
    size = len(model.get_output_embeddings().weight)
    ids = torch.randperm(size)[: int(size * options.active)].sort().values
    if options.only == "active":
        ActiveHead.attach(model, ids)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5)
    tokens = ids[torch.randint(len(ids), (1, options.tokens))]
    seconds = []
    for _ in range(options.steps):
        began = time.process_time()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.process_time() - began)
    return {
        "what": "active head", "kind": options.only, "vocabulary": size, "active": len(ids),
        "trained_parameters": sum(each.numel() for each in trained), "tokens": options.tokens,
        "cpu_seconds": round(statistics.median(seconds[1:]), 3),
        "peak_mib": round(peak_of_self()), "loss": round(float(loss.detach()), 4),
    }  # fmt: skip


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--model")
    parser.add_argument("--active", type=float, default=0.2)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", choices=["whole", "active"], help="one measurement, here")
    options = parser.parse_args()
    if options.only:
        emit(measure(options))
        return
    emit({"what": "machine", "machine": describe()})
    for _ in range(options.turns):
        for kind in ("whole", "active"):
            emit(in_a_process("active_head", *sys.argv[1:], "--only", kind))
