"""`modtok latency`: time of forward passes and of decoding, by tokenizer, on the same text.

The paper's protocol: the whole text is packed into full contexts of 4,096 tokens, batch 1, and
nothing is truncated. The time of a text is the mean forward pass times the number of contexts that
its tokens fill; it is divided by that of the language's monolingual tokenizer. Time depends on the
number of tokens and the rows of the head, not on weights, so they are random. Tokenizers alternate,
so that changes in the machine's speed affect all of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from modtok_cli.architectures.shape import Shape
from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.inference.run.backbone import backbone_config, empty_backbone
from modtok_cli.inference.run.model import check_device_memory
from modtok_cli.measure.candidates import Candidate, in_order, open_each, open_named
from modtok_cli.measure.references import find_references
from modtok_cli.measure.texts import load_texts
from modtok_cli.modular.open import Tokenizer
from modtok_cli.text.reading import Reading

CONTEXT = 4096
_DECODE_PROMPT = 64
# Logits in memory at once.
_LOGITS = 1 << 26


@dataclass(frozen=True, eq=False)
class _Entry:
    """A tokenizer and the ids of a text in it, (T,)."""

    label: str
    size: int
    ids: Int64Array

    @property
    def contexts(self) -> Int64Array:
        return packed(self.ids)


def packed(ids: Int64Array, context: int = CONTEXT) -> Int64Array:
    """Ids in full contexts, (T,) to (ceil(T / context), context).

    The last context is filled up by repeating the ids from the start.

    >>> packed(np.array([1, 2, 3]), 2).tolist()
    [[1, 2], [3, 1]]
    """
    count = -(-len(ids) // context)
    return np.resize(ids, (count, context))


@torch.inference_mode()
def latency(
    tokenizers: Sequence[str],
    texts: Sequence[Path | str],
    *,
    models: Mapping[str, Shape],
    references: Path | None = None,
    language: str | None = None,
    lines: int | None = None,
    decode_steps: int = 16,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Time tokenizers on texts for some models, next to the monolingual reference.

    `lines`: number of documents of each language, all by default. The dtype is bfloat16 on a GPU
    and float32 on a CPU by default.

    Returns:
        A row per model, language and tokenizer: tokens; contexts, the number of forward passes;
        context_seconds, their mean; forward_seconds of the whole text, context_seconds · tokens /
        4096; forward_ratio; token_seconds, the time of one decoded token; decode_ratio, for all
        tokens of the text decoded one by one. Ratios are against the reference.

    Raises:
        UsageError: no model. ModtokError: a text, a tokenizer or a reference is not usable, or a
            model does not fit into memory.
    """
    if not models:
        raise UsageError("no model size given", remedy="choose one with --scale")
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    chosen = dtype or (torch.bfloat16 if where.type == "cuda" else torch.float32)
    entries = _entries(tokenizers, texts, references, language, lines, reading, progress)
    largest = max(entry.size for each in entries.values() for entry in each)
    passes = sum(len(entry.contexts) for each in entries.values() for entry in each)
    rows: list[dict[str, Any]] = []
    with progress.task("timing", len(models) * passes, "passes") as task:
        for name, shape in models.items():
            model = RandomModel(shape, largest, chosen, where)
            for spoken, each in entries.items():
                means = _context_seconds(model, each, task)
                decoded = model.decode_seconds([entry.size for entry in each], decode_steps)
                rows += _rows(name, spoken, each, means, decoded)
            del model
    return rows


def _entries(
    tokenizers: Sequence[str],
    texts: Sequence[Path | str],
    references: Path | None,
    language: str | None,
    lines: int | None,
    reading: Reading,
    progress: Progress,
) -> dict[str, list[_Entry]]:
    """Language → its reference, then the tokenizers, each with the ids of the text."""
    named = open_named(tokenizers, progress)
    known = find_references(references, tokenizers, named)
    loaded = load_texts(
        texts,
        language=language,
        references=known,
        keep_documents=True,
        reading=reading,
        progress=progress,
    )
    present = sorted({text.language for text in loaded})
    candidates = in_order(named + open_each(tokenizers, present, progress), tokenizers)
    found: dict[str, list[_Entry]] = {}
    for spoken in present:
        documents = [
            data.decode()
            for text in loaded
            if text.language == spoken
            for data in text.documents or []
        ]
        documents = [document for document in documents if document.strip()][:lines]
        if not documents:
            raise ModtokError(
                f"language '{spoken}' has only blank lines",
                where=", ".join(map(str, texts)),
                remedy="give a text in this language",
            )
        own = Candidate(known[spoken].tokenizer, "reference")
        fitting = [candidate for candidate in candidates if candidate.fits(spoken)]
        found[spoken] = [
            _Entry(each.label, each.tokenizer.size, _ids(each.tokenizer, documents))
            for each in (own, *fitting)
        ]
    return found


def _ids(tokenizer: Tokenizer, documents: list[str]) -> Int64Array:
    """The ids of all documents, one after another."""
    return np.concatenate(tokenizer.encode_batch(documents)).astype(np.int64)


def _context_seconds(model: RandomModel, entries: list[_Entry], task: Any) -> list[float]:
    """Mean forward pass of a full context for each tokenizer, all contexts being computed."""
    contexts = [torch.from_numpy(entry.contexts) for entry in entries]
    for entry, own in zip(entries, contexts, strict=True):
        # The first pass of a size includes allocations and the choice of kernels.
        model.seconds(own[:1].to(model.device), entry.size)
    order = sorted(
        ((place + 0.5) / len(own), index, place)
        for index, own in enumerate(contexts)
        for place in range(len(own))
    )
    sums = [0.0] * len(entries)
    for _, index, place in order:
        ids = contexts[index][place : place + 1].to(model.device)
        sums[index] += model.seconds(ids, entries[index].size)
        task.advance(1)
    return [total / len(own) for total, own in zip(sums, contexts, strict=True)]


def _rows(
    model: str,
    language: str,
    entries: list[_Entry],
    context_seconds: list[float],
    token_seconds: list[float],
) -> list[dict[str, Any]]:
    forward = [
        seconds * len(entry.ids) / CONTEXT
        for seconds, entry in zip(context_seconds, entries, strict=True)
    ]
    decode = [
        seconds * len(entry.ids) for seconds, entry in zip(token_seconds, entries, strict=True)
    ]
    return [
        {
            "model": model,
            "language": language,
            "tokenizer": entry.label,
            "vocabulary": entry.size,
            "tokens": len(entry.ids),
            "contexts": len(entry.contexts),
            "context_seconds": context_seconds[index],
            "forward_seconds": forward[index],
            "forward_ratio": forward[index] / forward[0],
            "token_seconds": token_seconds[index],
            "decode_ratio": decode[index] / decode[0],
        }
        for index, entry in enumerate(entries)
    ]


class RandomModel:
    """A model of a shape with random weights; the first V of its `rows` rows are the head.

    Raises:
        ModtokError: it does not fit into memory.
    """

    def __init__(self, shape: Shape, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        number_bytes = torch.finfo(dtype).bits // 8
        # Weights and rows; the activations of one layer for a full context; logits.
        need = (shape.parameters + rows * shape.hidden_size) * number_bytes
        need += CONTEXT * (6 * shape.hidden_size + 3 * shape.ffn) * number_bytes
        need += max(_LOGITS, rows) * number_bytes
        check_device_memory(
            need, device, "the model", "choose a smaller --scale, or use a larger machine"
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
            past_key_values=cache,
            use_cache=cache is not None,
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
