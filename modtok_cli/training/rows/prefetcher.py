"""Microbatches of a rank on its device, prefetched one step ahead."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modtok_cli.training.data.slot_packer import Batch
from modtok_cli.training.data.stream import BatchStream, State
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.rows.microbatch import MicroBatch


@dataclass(frozen=True)
class Step:
    """The microbatches of a rank in one step, in order of slots.

    Attributes:
        batches, microbatches: the same microbatches in host memory and on the device.
        sizes: (tokens, |V_S|) of each.
    """

    batches: list[Batch]
    microbatches: list[MicroBatch]
    sizes: list[tuple[int, int]]


class Prefetcher:
    """Copies the batches of a stream to the device, once per step.

    `sequences` consecutive slots are a microbatch.
    """

    def __init__(
        self,
        stream: BatchStream,
        subtokenizers: SubtokenizerCache,
        device: torch.device,
        sequences: int,
    ) -> None:
        self._sequences = sequences
        self._stream, self._subtokenizers, self._device = stream, subtokenizers, device
        self._ahead: tuple[int, Step] | None = None

    @property
    def state(self) -> State:
        """Stream positions after the steps taken, by slot."""
        return self._stream.state

    @property
    def waited(self) -> float:
        """Total seconds spent waiting for batches."""
        return self._stream.waited

    def step(self, step: int) -> Step:
        """The microbatches of `step`, the next one.

        Raises:
            ModtokError: a tokenizing process failed, or died.
        """
        batches = self._stream.step(step)
        if self._ahead is not None and self._ahead[0] == step:
            return self._ahead[1]
        return self._on_device(batches)

    def ahead(self, step: int) -> Step | None:
        """The microbatches that the next call of `step` returns; None after the last step."""
        batches = self._stream.ahead(step)
        if batches is None:
            return None
        if self._ahead is None or self._ahead[0] != step:
            self._ahead = (step, self._on_device(batches))
        return self._ahead[1]

    def close(self) -> None:
        """Stop the worker processes."""
        self._stream.close()

    def _on_device(self, sequences: list[Batch]) -> Step:
        size = self._sequences
        starts = range(0, len(sequences), size)
        batches = [Batch.joined(sequences[start : start + size]) for start in starts]
        ids = [self._subtokenizers.of(batch.draw.languages).global_ids for batch in batches]
        pairs = list(zip(batches, ids, strict=True))
        return Step(
            batches,
            [MicroBatch.of(one.inputs, one.targets, rows, self._device) for one, rows in pairs],
            [(one.targets.size, len(rows)) for one, rows in pairs],
        )
