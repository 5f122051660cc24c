"""Order of work on streams: what a GPU may run in another order than the program says.

The rehearsal computes at once, so that a missing wait changes nothing. `Order` notes what each
stream, and the host, must have waited for (vector clocks), and raises an error at

- an operation that reads or changes a tensor that another stream writes, or changes one that it
  reads, without having waited for that stream;
- a tensor that is freed while another stream may use it, without `record_stream`;
- pinned memory that changes before it was copied to the device, or that a copy from the device
  goes to before the one before it was waited for.

A copy to pinned memory arrives when the host waits for it; before, there are zeros.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import torch
import torch.cuda._gpu_trace as trace
from torch.utils._python_dispatch import _disable_current_modes

Clock = dict[int, int]  # stream → its latest operation that is waited for


class OrderError(RuntimeError):
    """Work of two streams, or of one and the host, whose order is open."""


@dataclass(eq=False)
class Use:
    """Who uses the memory of a tensor; shared by its views."""

    stream: int  # of the allocation
    writer: tuple[int, int, str] | None = None
    readers: dict[int, tuple[int, str]] = field(default_factory=dict)
    recorded: set[int] = field(default_factory=set)

    def __del__(self) -> None:
        ORDER.freed(self)


@dataclass(eq=False)
class Copy:
    """A copy between the device and pinned memory that the host has not waited for."""

    pinned: torch.Tensor
    values: torch.Tensor
    stream: int
    time: int
    line: str
    arrives: bool


class Order:
    """Clocks of streams, of events and of the host; one lock, as threads issue work."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._streams: dict[int, Clock] = {}
        self._events: dict[int, Clock] = {}
        self._host: Clock = {}
        self._copies: list[Copy] = []
        self.mistakes: list[str] = []

    def install(self) -> None:
        """Listen to torch's streams and events."""
        torch._C._activate_gpu_trace()
        trace.register_callback_for_event_record(self._record)
        trace.register_callback_for_event_wait(self._wait)
        trace.register_callback_for_event_synchronization(
            lambda event: self._wait_on_host(self._events.get(event, {}))
        )
        trace.register_callback_for_stream_synchronization(
            lambda stream: self._wait_on_host(self._clock(stream))
        )
        trace.register_callback_for_device_synchronization(lambda device: self.synchronize())

    def current(self) -> int:
        """The current stream of this thread."""
        return int(torch._C._cuda_getCurrentRawStream(torch.cuda.current_device()))

    def launch(self, reads: list[Use], writes: list[Use], line: str) -> tuple[int, int]:
        """An operation on the current stream: (the stream, its time there).

        Raises:
            OrderError: it may run before work of another stream that it depends on.
        """
        stream = self.current()
        with self._lock:
            self.raise_mistakes()
            clock = self._clock(stream)
            _merge(clock, self._host)
            for use in (*reads, *writes):
                if use.writer is not None:
                    self._check(clock, stream, use.writer, line, "wrote")
            for use in writes:
                for reader, (time, where) in use.readers.items():
                    self._check(clock, stream, (reader, time, where), line, "read")
            clock[stream] = now = clock.get(stream, 0) + 1
            for use in reads:
                use.readers[stream] = now, line
            for use in writes:
                use.writer = stream, now, line
                use.readers.clear()
            return stream, now

    def copied(
        self, at: tuple[int, int], pinned: torch.Tensor, line: str, *, arrives: bool
    ) -> None:
        """The operation `at` copies to (`arrives`) or from pinned memory, whenever it runs.

        Raises:
            OrderError: nobody has waited for what an operation before copies there.
        """
        with self._lock, _disable_current_modes():
            for one in self._copies:
                if (
                    arrives
                    and one.arrives
                    and pinned.numel()
                    and (one.pinned.data_ptr() == pinned.data_ptr())
                ):
                    raise OrderError(f"{line} copies again to memory that nobody waited for")
            self._copies.append(Copy(pinned, pinned.clone(), *at, line, arrives))
            if arrives:
                pinned.zero_()

    def freed(self, use: Use) -> None:
        """Nothing refers to this memory any more: its stream may give it to other tensors."""
        with self._lock:
            users = {stream: time for stream, (time, _) in use.readers.items()}
            if use.writer is not None:
                users[use.writer[0]] = max(use.writer[1], users.get(use.writer[0], 0))
            clock = self._clock(use.stream)
            for stream, time in users.items():
                waited = (
                    stream == use.stream
                    or max(clock.get(stream, 0), self._host.get(stream, 0)) >= time
                )
                if not waited and stream not in use.recorded:
                    line = use.readers[stream][1] if stream in use.readers else use.writer[2]
                    self.mistakes.append(f"freed while another stream uses it, at {line}")

    def synchronize(self) -> None:
        """The host has waited for everything."""
        with self._lock:
            for clock in list(self._streams.values()):
                self._wait_on_host(clock)

    def wait_for_current(self) -> None:
        """The host has waited for the current stream, as it does for a number."""
        self._wait_on_host(self._clock(self.current()))

    def raise_mistakes(self) -> None:
        """Raise what was noticed where no error can be raised."""
        if self.mistakes:
            raise OrderError(self.mistakes.pop())

    def _clock(self, stream: int) -> Clock:
        return self._streams.setdefault(stream, {})

    def _record(self, event: int, stream: int) -> None:
        with self._lock:
            self._events[event] = _merge(dict(self._clock(stream)), self._host)

    def _wait(self, event: int, stream: int) -> None:
        with self._lock:
            _merge(self._clock(stream), self._events.get(event, {}))

    def _wait_on_host(self, clock: Clock) -> None:
        with self._lock, _disable_current_modes():
            _merge(self._host, clock)
            done = [one for one in self._copies if self._host.get(one.stream, 0) >= one.time]
            self._copies = [one for one in self._copies if one not in done]
            for one in done:
                if one.arrives:
                    one.pinned.copy_(one.values)
                elif not torch.equal(_bytes(one.pinned), _bytes(one.values)):
                    self.mistakes.append(
                        f"pinned memory changed before it was copied, at {one.line}"
                    )

    @staticmethod
    def _check(clock: Clock, stream: int, other: tuple[int, int, str], line: str, how: str) -> None:
        if other[0] != stream and clock.get(other[0], 0) < other[1]:
            raise OrderError(f"{line} does not wait for the stream on which {other[2]} {how} it")


def _merge(clock: Clock, other: Clock) -> Clock:
    for stream, time in other.items():
        clock[stream] = max(time, clock.get(stream, 0))
    return clock


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.flatten().view(torch.uint8)  # as numbers, NaN does not equal NaN


ORDER = Order()
