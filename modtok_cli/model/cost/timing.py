"""Time of forward passes and of decoding, by tokenizer, on the same text.

The paper's protocol: the whole text is packed into full contexts of 4,096 tokens, batch 1, and
nothing is truncated. The time of a text is the mean forward pass times the number of contexts that
its tokens fill. Time depends on the number of tokens and the rows of the head, not on weights, so
they are random. Tokenizers alternate, so that changes in the machine's speed affect all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.progress import Progress
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.model.generate.backbone import backbone_config, cache_name, empty_backbone
from modtok_cli.model.generate.sliced_model import check_device_memory

CONTEXT = 4096
"""Tokens of a forward pass that is timed, as in the paper."""
_DECODE_PROMPT = 64
# Logits in memory at once.
_LOGITS = 1 << 26
Encoded = tuple[int, Int64Array]
"""Size of a tokenizer, and the ids of a text in it, (T,)."""


def packed(ids: Int64Array, context: int = CONTEXT) -> Int64Array:
    """Ids in full contexts, (T,) to (ceil(T / context), context).

    The last context is filled up by repeating the ids from the start.

    >>> packed(np.array([1, 2, 3]), 2).tolist()
    [[1, 2], [3, 1]]
    """
    count = -(-len(ids) // context)
    return np.resize(ids, (count, context))


def timed(
    models: Mapping[str, Shape],
    texts: Mapping[str, Sequence[Encoded]],
    decode_steps: int,
    progress: Progress,
) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """(model, language, figures of each tokenizer relative to the first), as `cost` returns them.

    Raises:
        ModtokError: a model does not fit into memory.
    """
    gpu = torch.cuda.is_available()
    device, dtype = ("cuda", torch.bfloat16) if gpu else ("cpu", torch.float32)
    largest = max(size for each in texts.values() for size, _ in each)
    contexts = {name: [packed(ids) for _, ids in each] for name, each in texts.items()}
    passes = len(models) * sum(len(one) for each in contexts.values() for one in each)
    with torch.inference_mode(), progress.task("timing", passes, "passes") as task:
        for name, shape in models.items():
            model = RandomModel(shape, largest, dtype, torch.device(device))
            for language, each in texts.items():
                sizes = [size for size, _ in each]
                passing = _context_seconds(model, sizes, contexts[language], task)
                decoding = model.decode_seconds(sizes, decode_steps)
                forward = [
                    seconds * len(ids) / CONTEXT
                    for seconds, (_, ids) in zip(passing, each, strict=True)
                ]
                decode = [
                    seconds * len(ids) for seconds, (_, ids) in zip(decoding, each, strict=True)
                ]
                yield (
                    name,
                    language,
                    [
                        {
                            "contexts": len(contexts[language][index]),
                            "context_seconds": passing[index],
                            "forward_seconds": forward[index],
                            "forward_ratio": forward[index] / forward[0],
                            "token_seconds": decoding[index],
                            "decode_ratio": decode[index] / decode[0],
                        }
                        for index in range(len(each))
                    ],
                )
            del model


def _context_seconds(
    model: RandomModel, sizes: Sequence[int], texts: Sequence[Int64Array], task: Any
) -> list[float]:
    """Mean forward pass of a full context for each tokenizer, all contexts being computed."""
    contexts = [torch.from_numpy(each) for each in texts]
    for size, own in zip(sizes, contexts, strict=True):
        # The first pass of a size includes allocations and the choice of kernels.
        model.seconds(own[:1].to(model.device), size)
    order = sorted(
        ((place + 0.5) / len(own), index, place)
        for index, own in enumerate(contexts)
        for place in range(len(own))
    )
    sums = [0.0] * len(sizes)
    for _, index, place in order:
        ids = contexts[index][place : place + 1].to(model.device)
        sums[index] += model.seconds(ids, sizes[index])
        task.advance(1)
    return [total / len(own) for total, own in zip(sums, contexts, strict=True)]


class RandomModel:
    """A model of a shape with random weights; the first V of its `rows` rows are the head."""

    def __init__(self, shape: Shape, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        number_bytes = torch.finfo(dtype).bits // 8
        # Weights and rows; the activations of one layer for a full context; logits.
        need = (shape.parameters + rows * shape.hidden_size) * number_bytes
        need += CONTEXT * (6 * shape.hidden_size + 3 * shape.ffn) * number_bytes
        need += max(_LOGITS, rows) * number_bytes
        check_device_memory(
            need, device, "the model", "choose a smaller --model, or use a larger machine"
        )
        config = backbone_config(shape, vocabulary=1, context=CONTEXT, end=0, dtype=dtype)
        backbone = empty_backbone(shape, config)
        rotary = backbone.rotary_emb
        self.backbone: Any = backbone.to_empty(device=device).to(dtype).eval()
        self.backbone.requires_grad_(False)
        for parameter in self.backbone.parameters():
            parameter.uniform_(-0.02, 0.02)
        self.backbone.rotary_emb = type(rotary)(config).to(device)
        self.table = torch.empty(rows, shape.hidden_size, dtype=dtype, device=device).uniform_(
            -0.02, 0.02
        )
        self.device = device

    def forward(self, ids: torch.Tensor, size: int, cache: Any = None) -> None:
        """Compute the logits of all tokens over the first `size` rows; ids (B, T).

        The logits are computed in parts of bounded size, and dropped.
        """
        states = self.backbone(
            inputs_embeds=F.embedding(ids, self.table),
            use_cache=cache is not None,
            **{cache_name(self.backbone): cache},
        ).last_hidden_state.flatten(0, 1)
        head = self.table[:size]
        for part in states.split(max(1, _LOGITS // size)):
            F.linear(part, head)

    def seconds(self, ids: torch.Tensor, size: int, cache: Any = None) -> float:
        """Wall time of `forward`, until the device has finished."""
        self._wait()
        started = time.perf_counter()
        self.forward(ids, size, cache)
        self._wait()
        return time.perf_counter() - started

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def decode_seconds(self, sizes: Sequence[int], steps: int) -> list[float]:
        """Median time of one decoded token after 64 cached ones, for each head size."""
        from transformers import DynamicCache

        times: list[list[float]] = [[] for _ in sizes]
        caches = [DynamicCache(config=self.backbone.config) for _ in sizes]
        prompt = torch.zeros(1, _DECODE_PROMPT, dtype=torch.int64, device=self.device)
        for size, cache in zip(sizes, caches, strict=True):
            self.forward(prompt, size, cache)
        for _ in range(steps):
            for index, size in enumerate(sizes):
                times[index].append(self.seconds(prompt[:, :1], size, caches[index]))
        return [median(each) for each in times]
