"""Copies between host memory and the device, beside what the device computes.

Two streams of their own: rows go up on one, gradients come down on the other. Compute meets
them at two events only, which correctness needs: it waits for the rows of its step, and the
way down waits for the gradients of its step. Neither the host nor compute waits for a copy.

Where the device is the CPU its memory is the host's: nothing is copied or waited for, and
the same code runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Warn = Callable[[str], None]


@dataclass
class Upload:
    """Tensors on their way to the device; `staged` is not to be changed until `settle`."""

    tensors: list[torch.Tensor]
    done: Any = None

    def settle(self) -> None:
        """Wait, on the host, until the staged memory is free again."""
        if self.done is not None:
            self.done.synchronize()


@dataclass
class Download:
    """Tensors on their way to the host; keeps those of the device until they are here."""

    tensors: list[torch.Tensor]
    source: Sequence[torch.Tensor] = ()
    done: Any = None

    def wait(self) -> list[torch.Tensor]:
        """The tensors in host memory, once they are there."""
        if self.done is not None:
            self.done.synchronize()
            self.source = ()
        return self.tensors


class Copies:
    """On a CPU: the identity."""

    def empty(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Host memory to stage copies in, (count,)."""
        return torch.empty(count, dtype=dtype)

    def upload(self, staged: Sequence[torch.Tensor]) -> Upload:
        """Begin to bring staged tensors to the device; of any thread."""
        return Upload(list(staged))

    def arrive(self, upload: Upload) -> list[torch.Tensor]:
        """The tensors on the device, for compute issued by this thread from here on."""
        return upload.tensors

    def download(
        self, tensors: Sequence[torch.Tensor], stage: Callable[[int], torch.Tensor]
    ) -> Download:
        """Begin to bring to the host what this thread's compute has made of `tensors`.

        `stage(i)` gives host memory of the shape and type of the i-th.
        """
        return Download(list(tensors))


class CudaCopies(Copies):
    """On a GPU: pinned memory, a stream up, a stream down."""

    def __init__(self, device: torch.device, warn: Warn) -> None:
        self._device, self._warn = device, warn
        stream: Any = torch.cuda.Stream
        self._up, self._down = stream(device), stream(device)
        self._pinned = True

    def empty(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Pinned memory; ordinary memory, with a warning, where the system refuses."""
        if self._pinned:
            try:
                return torch.empty(count, dtype=dtype, pin_memory=True)
            except RuntimeError as error:
                self._pinned = False
                self._warn(_refused(error, count * dtype.itemsize, self._device))
        return torch.empty(count, dtype=dtype)

    def upload(self, staged: Sequence[torch.Tensor]) -> Upload:
        """On the stream up, into memory that the allocator gives that stream."""
        with torch.cuda.stream(self._up):
            tensors = [one.to(self._device, non_blocking=True) for one in staged]
            return Upload(tensors, self._up.record_event())

    def arrive(self, upload: Upload) -> list[torch.Tensor]:
        """First event: compute waits for the rows of its step."""
        compute = torch.cuda.current_stream(self._device)
        compute.wait_event(upload.done)
        for tensor in upload.tensors:
            tensor.record_stream(compute)  # the stream up may have its memory after compute
        return upload.tensors

    def download(
        self, tensors: Sequence[torch.Tensor], stage: Callable[[int], torch.Tensor]
    ) -> Download:
        """Second event: the stream down waits for the gradients of this step."""
        staged = [stage(i) for i in range(len(tensors))]
        self._down.wait_event(torch.cuda.current_stream(self._device).record_event())
        with torch.cuda.stream(self._down):
            for source, target in zip(tensors, staged, strict=True):
                target.copy_(source, non_blocking=True)
            return Download(staged, tensors, self._down.record_event())


def copies_for(device: torch.device, warn: Warn) -> Copies:
    """The way to copy to and from that device."""
    return CudaCopies(device, warn) if device.type == "cuda" else Copies()


def _refused(error: RuntimeError, size: int, device: torch.device) -> str:
    """What went wrong, and what a copy of that size costs without pinning, measured."""
    ordinary = torch.ones(min(size, 1 << 28), dtype=torch.uint8)
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        ordinary.to(device)
        best = min(best, time.perf_counter() - started)
    rate = len(ordinary) / best
    reason = str(error).splitlines()[0]
    return (
        f"host memory cannot be pinned ({reason}): copies of rows run at {rate / 1e9:.1f} GB/s, "
        f"{size / rate * 1000:.0f} ms for {size / 2**20:,.0f} MiB, and no longer beside the "
        "step; raise ulimit -l, or the container's limit of locked memory"
    )
