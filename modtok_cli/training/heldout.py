"""Bits per byte on text that training never uses: held-out documents, and texts of --valid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import isfinite
from typing import Any

import numpy as np
import torch

from modtok_cli.measure.lost import Lost, lost_of, unmeasured
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.training.data.conversation import MARK
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.distributed.ranks import gather_json
from modtok_cli.training.metrics import HELD_OUT, LanguageSums, mean_bits
from modtok_cli.training.model.model import MicroBatch, Model
from modtok_cli.training.rows.microbatch import microbatches_of
from modtok_cli.training.run import Stage

# Documents of a store, by language.
Texts = Mapping[str, tuple[TextStore, Sequence[int]]]


def lost_texts(stage: Stage) -> dict[str, dict[str, Lost]]:
    """The losses of the tokenizer in each text that is evaluated, by language; warns of them."""
    held = {language: (store, store.held_out) for language, store in stage.run.held_out.items()}
    texts: dict[str, Texts] = {HELD_OUT: held}
    texts |= {name: _whole(stores) for name, stores in stage.run.valid.items()}
    return {
        name: {
            language: lost_of(
                _subtokenizer(stage, language),
                f"{name} {language}",
                [
                    piece.text.decode()
                    for text in first_texts(*documents, stage.config.evaluation.eval_bytes)
                    for piece in stage.run.subtokenizers.pieces_of(text)
                    if piece.in_loss and not piece.special
                ],
                stage.run.progress,
            )
            for language, documents in sorted(by_language.items())
        }
        for name, by_language in texts.items()
    }


def _whole(stores: Mapping[str, TextStore]) -> Texts:
    return {language: (store, range(len(store))) for language, store in stores.items()}


def _subtokenizer(stage: Stage, language: str) -> Subtokenizer:
    """The tokenizer for text of a language: its own subtokenizer, T for joint."""
    return stage.run.subtokenizers.of(stage.config.sampling.regime.own(language))


def evaluate(stage: Stage, model: Model, step: int) -> dict[str, Any]:
    """Bits per byte of each language on held-out text and on the texts of --valid."""
    line = evaluate_held_out(
        stage, model, step, stage.config.evaluation.eval_bytes, stage.run.held_out
    )
    if stage.run.valid:
        line["valid"] = {
            name: _bits(
                stage, model, _whole(stores), stage.config.evaluation.eval_bytes, stage.lost[name]
            )
            for name, stores in stage.run.valid.items()
        }
    return line


def evaluate_held_out(
    stage: Stage, model: Model, step: int, most: int, languages: Iterable[str]
) -> dict[str, Any]:
    """Bits per byte of held-out text, `most` bytes of each language."""
    stores = stage.run.held_out
    texts = {name: (stores[name], stores[name].held_out) for name in languages}
    bits = _bits(stage, model, texts, most, stage.lost[HELD_OUT])
    wrong = [name for name, figures in bits.items() if not isfinite(figures["nats_per_token"])]
    if wrong:
        raise stage.run.diverged(
            f"after step {step} held-out text has no finite loss ({', '.join(wrong)})"
        )
    return {"step": step, "held_out": bits, "bits_per_byte": mean_bits(bits)}


def _bits(
    stage: Stage, model: Model, texts: Texts, most: int, lost: Mapping[str, Lost]
) -> dict[str, dict[str, Any]]:
    """Bits per byte, nats per token and sizes, of up to `most` bytes of each language.

    Languages are divided among replicas. Where much text is `lost`, bits per byte are None.
    """
    model.drain()
    ranks = stage.run.ranks
    languages = sorted(texts)
    sums = LanguageSums(languages, ranks.device)
    parts = [
        (language, part)
        for language in languages[ranks.replica :: ranks.replicas]
        for part in microbatches(
            stage,
            model,
            first_texts(*texts[language], most),
            _subtokenizer(stage, language),
        )
    ]
    # Replicas measure together: each has rows that the others need.
    for turn in range(max(gather_json(ranks, len(parts)))):
        if turn >= len(parts):
            model.measure(None)
            continue
        language, (microbatch, counted, size) = parts[turn]
        sums.add(language, model.measure(microbatch), counted, size, counted)
    figures = sums.figures(sums.over_replicas(ranks).tolist(), unmeasured(lost))[1]
    return {
        language: {**each, "unknown_tokens": lost[language].tokens}
        for language, each in figures.items()
    }


def first_texts(store: TextStore, documents: Sequence[int], most: int) -> list[bytes]:
    """The first of `documents`, up to `most` bytes in total."""
    texts: list[bytes] = []
    left = most
    for index in documents:
        text = store.document(index, 0, left)
        if text.startswith(MARK):  # a conversation is measured as a whole
            text = store.document(index)
        if len(text) < store.length(index):
            text = text.decode("utf-8", "ignore").encode()  # without a truncated character
        if text:
            texts.append(text)
        left -= len(text)
        if left < 16:
            break
    return texts


def microbatches(
    stage: Stage, model: Model, texts: Sequence[bytes], subtokenizer: Subtokenizer
) -> Iterator[tuple[MicroBatch, torch.Tensor, int]]:
    """Documents, split by a subtokenizer: (microbatch, which tokens count, bytes of text).

    They are packed as in training, the last sequence is padded. Of conversations, answers count.
    """
    subtokenizers, ranks = stage.run.subtokenizers, stage.run.ranks
    local, length = subtokenizers.end_in(subtokenizer), stage.config.data.seq_length
    end = np.array([local], dtype=np.int32)
    parts, marks = [end], [False]
    documents = [subtokenizers.pieces_of(text) for text in texts]
    encoded = iter(subtokenizers.encode(subtokenizer, list(chain.from_iterable(documents))))
    for document in documents:
        for piece in document:
            parts.append(next(encoded))
            marks += [piece.in_loss] * len(parts[-1])
        parts.append(end)
        marks.append(False)
    stream = np.concatenate(parts)
    count = len(stream) - 1
    padded = -(-count // length) * length
    inputs = np.full((padded // length, length), local, dtype=np.int32)
    targets = inputs.copy()
    inputs.ravel()[:count], targets.ravel()[:count] = stream[:-1], stream[1:]
    in_loss = np.zeros(inputs.shape, dtype=np.bool_)
    in_loss.ravel()[:count] = marks[1:]
    size = sum(len(piece.text) for document in documents for piece in document if piece.in_loss)
    for start in range(0, len(inputs), stage.config.data.micro_batch):
        part = slice(start, start + stage.config.data.micro_batch)
        ids = subtokenizer.global_ids
        (microbatch,) = microbatches_of(
            [(ids[inputs[part]], targets[part], ids)],
            ranks,
            model.copies,
            subtokenizers.end_of_text,
        )
        counted = torch.from_numpy(in_loss[part].ravel()).to(ranks.device)
        yield microbatch, counted, size if start == 0 else 0
