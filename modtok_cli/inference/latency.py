"""`modtok latency`: time of a forward pass and of decoding, by tokenizer, on the same text.

What a tokenizer costs is its number of tokens and the rows of its head; neither depends on
what the weights are, so they are random. Tokenizers take turns line by line, so that a
machine whose speed wanders treats all alike. Everything is divided by the time of the
language's own monolingual reference.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F

from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.memory import check_memory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.inference.backbone import backbone_config, empty_backbone
from modtok_cli.measure.candidates import Candidate, in_order, open_each, open_named
from modtok_cli.measure.references import find_references
from modtok_cli.measure.texts import load_texts
from modtok_cli.modular.protocol import Tokenizer

CONTEXT = 4096
_DECODE_PROMPT = 64


@dataclass(frozen=True)
class _Entry:
    """A tokenizer with a text cut by it."""

    label: str
    size: int
    lines: list[list[int]]

    @property
    def tokens(self) -> int:
        return sum(map(len, self.lines))


class RandomModel:
    """A Llama of random weights with a table of `rows`; its first V rows serve as the head."""

    def __init__(self, shape: Shape, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        need = (shape.parameters + 2 * rows * shape.hidden_size) * (torch.finfo(dtype).bits // 8)
        if device.type == "cpu":
            check_memory(need, "the model", "name a smaller --scale, or use a larger machine")
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

    def forward(self, ids: torch.Tensor, size: int, cache: Any = None) -> torch.Tensor:
        """Logits of all tokens over the first `size` rows; (B, T) to (B, T, size)."""
        states = self.backbone(
            inputs_embeds=F.embedding(ids, self.table),
            past_key_values=cache,
            use_cache=cache is not None,
        ).last_hidden_state
        return F.linear(states, self.table[:size])

    def seconds(self, ids: torch.Tensor, size: int, cache: Any = None) -> float:
        """Wall time of `forward`, finished on the device."""
        self._wait()
        started = time.perf_counter()
        self.forward(ids, size, cache)
        self._wait()
        return time.perf_counter() - started

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def decode_seconds(self, sizes: Sequence[int], steps: int) -> list[float]:
        """Median time of one decoded token for each head size, behind 64 tokens of cache."""
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


@torch.inference_mode()
def latency(
    tokenizers: Sequence[str],
    texts: Sequence[Path | str],
    *,
    models: Mapping[str, Shape],
    references: Path | None = None,
    language: str | None = None,
    lines: int = 32,
    decode_steps: int = 16,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    errors: str = "strict",
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Time tokenizers on texts at some model sizes, the monolingual reference beside them.

    `lines`: documents of each text that are read, one forward pass each (batch 1, 4096
    tokens at most). Numbers are bfloat16 on a GPU and float32 on a CPU.

    Returns:
        A row per model, language and tokenizer: tokens, forward_seconds (all lines),
        forward_ratio, token_seconds (one decoded token), decode_ratio (all tokens of the
        text decoded one by one); ratios are against the reference.

    Raises:
        UsageError: no model; ModtokError: a text, a tokenizer or a reference is not usable.
    """
    if not models:
        raise UsageError("no model size given", remedy="name one with --model")
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    numbers = dtype or (torch.bfloat16 if where.type == "cuda" else torch.float32)
    entries = _entries(tokenizers, texts, references, language, lines, errors, progress)
    largest = max(entry.size for each in entries.values() for entry in each)
    total = len(models) * sum(len(each) * len(each[0].lines) for each in entries.values())
    rows: list[dict[str, Any]] = []
    with progress.task("timing", total, "passes") as task:
        for name, shape in models.items():
            model = RandomModel(shape, largest, numbers, where)
            for spoken, each in entries.items():
                forward = _forward_seconds(model, each, task)
                sizes = [entry.size for entry in each]
                tokens = model.decode_seconds(sizes, decode_steps)
                rows += _rows(name, spoken, each, forward, tokens)
            del model
    return rows


def _entries(
    tokenizers: Sequence[str],
    texts: Sequence[Path | str],
    references: Path | None,
    language: str | None,
    lines: int,
    errors: str,
    progress: Progress,
) -> dict[str, list[_Entry]]:
    """Language → its reference first, then the tokenizers, each with the text it cut."""
    known = find_references(references, tokenizers)
    named = open_named(tokenizers)
    loaded = load_texts(
        texts,
        language=language,
        references=known,
        keep_documents=True,
        errors=errors,
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
                f"language '{spoken}' has blank lines only",
                where=", ".join(map(str, texts)),
                remedy="give a text of it",
            )
        own = Candidate(known[spoken].tokenizer, "reference")
        fitting = [candidate for candidate in candidates if candidate.fits(spoken)]
        found[spoken] = [
            _Entry(each.label, each.tokenizer.size, _cut(each.tokenizer, documents))
            for each in (own, *fitting)
        ]
    return found


def _cut(tokenizer: Tokenizer, documents: list[str]) -> list[list[int]]:
    return [ids[:CONTEXT].tolist() or [0] for ids in tokenizer.encode_batch(documents)]


def _forward_seconds(model: RandomModel, entries: list[_Entry], task: Any) -> list[float]:
    sums = [0.0] * len(entries)
    count = len(entries[0].lines)
    for entry in entries:  # the first pass of a shape pays for allocations and kernels
        model.seconds(torch.tensor([entry.lines[0]], device=model.device), entry.size)
    for line in range(count):
        for index, entry in enumerate(entries):
            ids = torch.tensor([entry.lines[line]], device=model.device)
            sums[index] += model.seconds(ids, entry.size)
            task.advance(1)
    return sums


def _rows(
    model: str,
    language: str,
    entries: list[_Entry],
    forward: list[float],
    token_seconds: list[float],
) -> list[dict[str, Any]]:
    decode = [seconds * entry.tokens for seconds, entry in zip(token_seconds, entries, strict=True)]
    return [
        {
            "model": model,
            "language": language,
            "tokenizer": entry.label,
            "vocabulary": entry.size,
            "tokens": entry.tokens,
            "forward_seconds": forward[index],
            "forward_ratio": forward[index] / forward[0],
            "token_seconds": token_seconds[index],
            "decode_ratio": decode[index] / decode[0],
        }
        for index, entry in enumerate(entries)
    ]
