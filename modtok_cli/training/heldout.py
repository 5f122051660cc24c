"""Bits per byte on text that training never uses: held-out documents, and those of --valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.distributed.ranks import gather_json
from modtok_cli.training.metrics import LanguageSums
from modtok_cli.training.model.model import MicroBatch, Model


def held_out_texts(store: TextStore, most: int) -> list[bytes]:
    """The first held-out documents, up to `most` bytes in total."""
    return first_texts(store, store.held_out, most)


def first_texts(store: TextStore, documents: Sequence[int], most: int) -> list[bytes]:
    """The first of `documents`, up to `most` bytes in total."""
    texts: list[bytes] = []
    left = most
    for index in documents:
        text = store.document(index, 0, left)
        if len(text) < store.length(index):
            text = text.decode("utf-8", "ignore").encode()  # without a truncated character
        if text:
            texts.append(text)
        left -= len(text)
        if left < 16:
            break
    return texts


def bits_of(
    model: Model,
    texts: Mapping[str, tuple[TextStore, Sequence[int]]],
    subtokenizers: Mapping[str, Subtokenizer],
    *,
    end_of_text: int,
    length: int,
    rows: int,
    most: int,
) -> dict[str, dict[str, float]]:
    """Bits per byte, nats per token and sizes, by language of `texts` (documents of a store).

    `end_of_text` is an id of T. Each language is evaluated with its subtokenizer on up to `most`
    bytes. Documents are packed as in training, in sequences of `length` tokens, the last padded.
    Languages are divided among replicas.
    """
    languages = sorted(texts)
    sums = LanguageSums(languages, model.ranks.device)
    mine = languages[model.ranks.replica :: model.ranks.replicas]
    parts = [
        (language, part)
        for language in mine
        for part in _microbatches(
            model,
            first_texts(*texts[language], most),
            subtokenizers[language],
            end_of_text,
            length,
            rows,
        )
    ]
    # Replicas measure together: each has rows that the others need.
    for turn in range(max(gather_json(model.ranks, len(parts)))):
        if turn >= len(parts):
            model.idle()
            continue
        language, (microbatch, counted, size) = parts[turn]
        sums.add_tokens(language, model.measure(microbatch), counted, size)
    return sums.over_replicas(model.ranks)[1]


def add_texts(
    sums: LanguageSums,
    model: Model,
    language: str,
    texts: Sequence[bytes],
    subtokenizer: Subtokenizer,
    end_of_text: int,
    length: int,
    rows: int,
) -> None:
    """Add documents, split by a subtokenizer, to the sums of their language; on one replica."""
    for microbatch, counted, size in _microbatches(
        model, texts, subtokenizer, end_of_text, length, rows
    ):
        sums.add_tokens(language, model.measure(microbatch), counted, size)


def _microbatches(
    model: Model,
    texts: Sequence[bytes],
    subtokenizer: Subtokenizer,
    end_of_text: int,
    length: int,
    rows: int,
) -> Iterator[tuple[MicroBatch, torch.Tensor, int]]:
    """Documents, split by a subtokenizer: (microbatch, which tokens count, bytes of text)."""
    local = int(subtokenizer.segmenter.selection.local_of_global[end_of_text])
    end = np.array([local], dtype=np.int32)
    parts = [end]
    for ids in subtokenizer.encode_utf8(texts, 1):
        parts += [ids, end]
    stream = np.concatenate(parts)
    count = len(stream) - 1
    padded = -(-count // length) * length
    inputs = np.full((padded // length, length), local, dtype=np.int32)
    targets = inputs.copy()
    inputs.ravel()[:count], targets.ravel()[:count] = stream[:-1], stream[1:]
    size = sum(map(len, texts))
    for start in range(0, len(inputs), rows):
        part = slice(start, start + rows)
        microbatch = MicroBatch.of(
            subtokenizer.global_ids[inputs[part]],
            targets[part],
            subtokenizer.global_ids,
            model.ranks.device,
        )
        counted = microbatch.targets != end_of_text
        yield microbatch, counted, size if start == 0 else 0
