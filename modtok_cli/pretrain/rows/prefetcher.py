"""The microbatches of a rank on its device, and those of the step to come."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modtok_cli.pretrain.data.slot_packer import Batch
from modtok_cli.pretrain.data.stream import BatchStream, State
from modtok_cli.pretrain.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.pretrain.rows.microbatch import MicroBatch


@dataclass(frozen=True)
class Step:
    """What a rank works on in a step, slot by slot.

    Attributes:
        batches, micros: the same microbatches, as they were made and on the device.
        sizes: (tokens, |V_S|) of each.
    """

    batches: list[Batch]
    micros: list[MicroBatch]
    sizes: list[tuple[int, int]]


class Prefetcher:
    """Batches of a stream, brought to the device; a step's own are made once."""

    def __init__(
        self, stream: BatchStream, subsets: SubtokenizerCache, device: torch.device
    ) -> None:
        self._stream, self._subsets, self._device = stream, subsets, device
        self._ahead: tuple[int, Step] | None = None

    @property
    def state(self) -> State:
        """Places of the lanes after the steps taken."""
        return self._stream.state

    @property
    def waited(self) -> float:
        """Seconds spent waiting for batches, in all."""
        return self._stream.waited

    def step(self, step: int) -> Step:
        """What to work on in `step`, the next one.

        Raises:
            ModtokError: a tokenizing process failed, or died.
        """
        batches = self._stream.step(step)
        if self._ahead is not None and self._ahead[0] == step:
            return self._ahead[1]
        return self._on_device(batches)

    def ahead(self, step: int) -> Step | None:
        """What `step` will give when it is called next; None behind the last step."""
        batches = self._stream.ahead(step)
        if batches is None:
            return None
        if self._ahead is None or self._ahead[0] != step:
            self._ahead = (step, self._on_device(batches))
        return self._ahead[1]

    def close(self) -> None:
        """End the workers."""
        self._stream.close()

    def _on_device(self, batches: list[Batch]) -> Step:
        ids = [self._subsets.of(batch.draw.languages).global_ids for batch in batches]
        pairs = list(zip(batches, ids, strict=True))
        return Step(
            batches,
            [MicroBatch.of(one.inputs, one.targets, rows, self._device) for one, rows in pairs],
            [(one.targets.size, len(rows)) for one, rows in pairs],
        )
