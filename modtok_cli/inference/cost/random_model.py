"""A model with random weights, for timing: the time of a step does not depend on weights."""

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F

from modtok_cli.architectures.shape import Shape
from modtok_cli.inference.cost import CONTEXT
from modtok_cli.inference.run.backbone import backbone_config, cache_name, empty_backbone
from modtok_cli.inference.run.model import check_device_memory

_DECODE_PROMPT = 64
# Logits in memory at once.
_LOGITS = 1 << 26


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
