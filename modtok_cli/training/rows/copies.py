"""Copies between host memory and the device that overlap with compute.

One CUDA stream uploads rows, another downloads gradients. They synchronize with compute by
two events: compute waits for the rows of its step, and the download waits for the gradients
of its step. An update waits until a checkpoint has been copied. Neither the host nor compute
waits for a copy otherwise.

On a CPU nothing is copied or waited for, and the same code runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch

Warn = Callable[[str], None]


@dataclass
class Transfer:
    """A tensor that is being copied to the device or to the host."""

    tensor: torch.Tensor
    done: Any = None

    def wait(self) -> torch.Tensor:
        """Wait, on the host, until it is copied; memory for staging can then be used again."""
        if self.done is not None:
            self.done.synchronize()
        return self.tensor


class _Later:
    """A copy in host memory, made by the thread that first waits for it."""

    def __init__(self, source: torch.Tensor) -> None:
        self.copy = torch.empty_like(source)
        self._source: torch.Tensor | None = source
        self._lock = Lock()

    def synchronize(self) -> None:
        with self._lock:
            if self._source is not None:
                self.copy.copy_(self._source)
                self._source = None


class Copies:
    """On a CPU: the identity, but for `keep`."""

    def __init__(self) -> None:
        self._later: list[_Later] = []

    def enter_thread(self) -> None:
        """Prepare a thread that copies: a new one would use the first GPU."""

    def empty(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Host memory for staging, (count,)."""
        return torch.empty(count, dtype=dtype)

    def upload(self, staged: torch.Tensor) -> Transfer:
        """Start to copy a staged tensor to the device; any thread may call it."""
        return Transfer(staged)

    def arrive(self, upload: Transfer) -> torch.Tensor:
        """The tensor on the device; compute that this thread issues later waits for it."""
        return upload.tensor

    def send(self, arrays: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Tensors of integers on the device, int64 and flat, in one copy; nothing waits on it."""
        sizes = [one.numel() for one in arrays]
        staged = self.empty(sum(sizes), torch.int64)
        for one, place in zip(arrays, torch.split(staged, sizes), strict=True):
            place.copy_(one.flatten())
        return list(torch.split(self.arrive(self.upload(staged)), sizes))

    def download(self, source: torch.Tensor, stage: Callable[[], torch.Tensor]) -> Transfer:
        """Start to copy a tensor to the host, after the compute that this thread has issued.

        `stage()` returns host memory of its shape and dtype.
        """
        return Transfer(source)

    def keep(self, source: torch.Tensor) -> Transfer:
        """A copy in host memory of what stays as it is until the next `before_change`.

        What is in host memory is copied by the thread that waits for it, or there.
        """
        self._later.append(_Later(source))
        return Transfer(self._later[-1].copy, self._later[-1])

    def before_change(self) -> None:
        """Let compute that this thread issues from now on wait for copies of `keep`."""
        for one in self._later:
            one.synchronize()
        self._later = []


class CudaCopies(Copies):
    """On a GPU: pinned memory, one stream per direction."""

    def __init__(self, device: torch.device, warn: Warn) -> None:
        super().__init__()
        self._device, self._warn = device, warn
        stream: Any = torch.cuda.Stream
        self._up, self._down = stream(device), stream(device)
        self._pinned = True
        self._kept: Transfer | None = None

    def enter_thread(self) -> None:
        """The device of this rank is the thread's."""
        torch.cuda.set_device(self._device)

    def empty(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Pinned memory; pageable memory, with a warning, if the system refuses to pin."""
        if self._pinned:
            try:
                return torch.empty(count, dtype=dtype, pin_memory=True)
            except RuntimeError as error:
                self._pinned = False
                self._warn(_refused(error, count * dtype.itemsize, self._device))
        return torch.empty(count, dtype=dtype)

    def upload(self, staged: torch.Tensor) -> Transfer:
        """On the stream up, into memory that the allocator gives that stream."""
        with torch.cuda.stream(self._up):
            tensor = staged.to(self._device, non_blocking=True)
            return Transfer(tensor, self._up.record_event())

    def arrive(self, upload: Transfer) -> torch.Tensor:
        """First event: compute waits for the rows of its step."""
        compute = torch.cuda.current_stream(self._device)
        compute.wait_event(upload.done)
        upload.tensor.record_stream(compute)  # the stream up may have its memory after compute
        return upload.tensor

    def download(self, source: torch.Tensor, stage: Callable[[], torch.Tensor]) -> Transfer:
        """Second event: the stream down waits for the gradients of this step."""
        staged = stage()
        self._down.wait_event(torch.cuda.current_stream(self._device).record_event())
        with torch.cuda.stream(self._down):
            staged.copy_(source, non_blocking=True)
            # A step that fails drops a download: compute has its memory after the stream down.
            source.record_stream(self._down)
            return Transfer(staged, self._down.record_event())

    def keep(self, source: torch.Tensor) -> Transfer:
        """On the stream down, to pinned memory."""
        if source.device.type == "cpu":
            return super().keep(source)
        stage = lambda: self.empty(source.numel(), source.dtype).view(source.shape)  # noqa: E731
        self._kept = self.download(source, stage)
        return self._kept

    def before_change(self) -> None:
        """Wait for the last of them on the device; the host waits for copies in its memory."""
        super().before_change()
        kept, self._kept = self._kept, None
        if kept is not None:
            torch.cuda.current_stream(self._device).wait_event(kept.done)


def copies_for(device: torch.device, warn: Warn) -> Copies:
    """Copies to and from `device`."""
    return CudaCopies(device, warn) if device.type == "cuda" else Copies()


def _refused(error: RuntimeError, size: int, device: torch.device) -> str:
    """The warning, with the measured cost of a copy of that size from pageable memory."""
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
        f"{size / rate * 1000:.0f} ms for {size / 2**20:,.0f} MiB, and do not overlap with "
        "compute; raise ulimit -l, or the container's limit of locked memory"
    )
