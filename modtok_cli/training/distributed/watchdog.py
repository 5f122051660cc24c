"""End a run whose ranks have died or hang, with one line that names the rank.

Rank 0 listens; every other rank connects to it and says each second how many collectives it has
come to: on a GPU its device, as the host runs ahead. A connection that closes without a good-bye is
a rank that has died: its process is gone, so the kernel closes it at once; a machine that is gone
stops talking. A rank that waits for others has come to one collective more than those it waits for,
so of a run that hangs the rank with the fewest is the cause. Rank 0 then prints one line, informs
all others, and every process ends.

NCCL and gloo by themselves wait for their timeout, or fail with an error of their own on every
rank.
"""

from __future__ import annotations

import os
import secrets
import selectors
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import torch

from modtok_cli.base.processes import report_to_launcher
from modtok_cli.training.distributed.launch import RESUME
from modtok_cli.training.distributed.ranks import Ranks, collectives_reached, gather_json

_SECONDS = 1.0
# A machine that says nothing for so long is gone; a busy one is slow.
_SILENT_SECONDS = 60.0
# Ranks end at different times: rank 0 may have gone, in order, before another says good-bye.
_GOODBYE_SECONDS = 3.0
# Until rank 0 has named a rank whose connection broke; the rank that noticed it waits.
_NAMED_SECONDS = 9.0


def end_process(message: str, report: bool, remedy: str = RESUME) -> None:
    """End this process at once, because its main thread waits in a collective.

    One rank reports the error; the process that started ranks collects the reports of all.
    """
    line = f"error: {message}; {remedy}"
    if not report_to_launcher(line) and report:
        print(line, file=sys.stderr, flush=True)
    os._exit(1)


class Watchdog:
    """Watches the ranks of a run while its context is active; with one rank it does nothing.

    Args:
        hang_seconds: time without a collective on any rank after which the run hangs.
        end: called from a thread with the message and whether to report it; ends the process.
        reached: number of collectives that this rank has come to.
    """

    def __init__(
        self,
        ranks: Ranks,
        hang_seconds: float,
        end: Callable[[str, bool], None] = end_process,
        reached: Callable[[], int] = collectives_reached,
    ) -> None:
        self.reached = reached
        self.ranks, self.hang_seconds, self._end = ranks, hang_seconds, end
        self.stopping = Event()  # this rank has ended in order
        self.completed = False
        self._thread: Thread | None = None

    def __enter__(self) -> Watchdog:
        """Connect the ranks. Collective: every rank calls it."""
        ranks = self.ranks
        if ranks.world == 1:
            return self
        listener = None
        where: list[Any] = []
        if ranks.first:
            listener = socket.create_server(("", 0), backlog=ranks.world)
            where = [listener.getsockname()[1], secrets.token_hex(16)]
        port, token = gather_json(ranks, where)[0]
        if listener is not None:
            work = _Server(listener, token, self).run
        else:
            host = os.environ.get("MASTER_ADDR", "127.0.0.1")
            one = socket.create_connection((host, port), timeout=_SILENT_SECONDS)
            one.sendall(f"{token} {ranks.rank}\n".encode())
            work = _Client(one, self).run
        gather_json(ranks, None)  # all are connected

        def watch() -> None:
            if ranks.device.type == "cuda":  # a new thread would open the first one
                torch.cuda.set_device(ranks.device)
            work()

        self._thread = Thread(target=watch, name="watchdog", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop watching, with a good-bye if the run is complete."""
        if self._thread is not None and kind is not None and issubclass(kind, RuntimeError):
            # Most likely the connection to a rank that has died: its name comes from rank 0.
            self.stopping.wait(_NAMED_SECONDS)
        self.completed = kind is None
        self.stopping.set()
        if self._thread is not None:
            self._thread.join(2 * _SECONDS)
            self._thread = None

    def end(self, message: str, report: bool) -> None:
        """End this process, unless it is about to end in order."""
        if not self.stopping.is_set():
            self._end(message, report)


class _Client:
    """Of a rank other than 0."""

    def __init__(self, connection: socket.socket, dog: Watchdog) -> None:
        self._socket, self._dog = connection, dog

    def run(self) -> None:
        """Report to rank 0 until the end of the run, or until rank 0 says that it has failed."""
        received, last = b"", time.monotonic()
        stopping = self._dog.stopping
        self._socket.settimeout(_SECONDS)
        while not stopping.is_set():
            try:
                self._socket.sendall(f"{self._dog.reached()}\n".encode())
                data = self._socket.recv(4096)
                if not data:
                    break
                received, last = received + data, time.monotonic()
                *lines, received = received.split(b"\n")
                for line in filter(None, lines):
                    self._dog.end(line.decode(errors="replace"), False)
                    return
                stopping.wait(_SECONDS)
            except TimeoutError:
                if time.monotonic() - last > _SILENT_SECONDS:
                    break
            except OSError:
                break
        if stopping.wait(_GOODBYE_SECONDS):
            with suppress(OSError):
                if self._dog.completed:
                    self._socket.sendall(b"bye\n")
                self._socket.close()
            return
        self._dog.end("rank 0 has ended", self._dog.ranks.rank == 1)


class _Peer:
    """The knowledge of rank 0 about another rank; `rank` is -1 before it has named itself."""

    def __init__(self) -> None:
        self.rank, self.reached, self.bytes = -1, 0, b""
        self.heard = time.monotonic()
        self.gone: float | None = None


class _Server:
    """Of rank 0."""

    def __init__(self, listener: socket.socket, token: str, dog: Watchdog) -> None:
        self._token, self._dog = token, dog
        self._peers: dict[socket.socket, _Peer] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = listener
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def run(self) -> None:
        """Watch the ranks until the end of the run."""
        reached, since = -1, time.monotonic()
        spoken = since
        while not self._dog.stopping.is_set():
            for key, _ in self._selector.select(_SECONDS):
                one: Any = key.fileobj
                if one is self._listener:
                    one, _ = self._listener.accept()
                    one.setblocking(False)
                    self._peers[one] = _Peer()
                    self._selector.register(one, selectors.EVENT_READ)
                else:
                    self._read(one)
            now = time.monotonic()
            if now - spoken >= _SECONDS:
                self._say(b"\n")
                spoken = now
            counts = {0: self._dog.reached()}
            counts.update({peer.rank: peer.reached for peer in self._peers.values()})
            if sum(counts.values()) != reached:
                reached, since = sum(counts.values()), now
            message = self._failure(now, counts, now - since)
            if message:
                self._say(f"{message}\n".encode())
                self._dog.end(message, True)
                return
        self._selector.close()
        for one in [self._listener, *self._peers]:
            one.close()

    def _failure(self, now: float, counts: dict[int, int], quiet: float) -> str:
        for peer in self._peers.values():
            if peer.gone is not None and now - peer.gone > _GOODBYE_SECONDS:
                return f"rank {peer.rank} has ended"
            if peer.gone is None and now - peer.heard > _SILENT_SECONDS:
                return f"rank {peer.rank} has not answered for {_SILENT_SECONDS:.0f} s"
        if quiet <= self._dog.hang_seconds:
            return ""
        slow = sorted(rank for rank, count in counts.items() if count == min(counts.values()))
        named = ", ".join(map(str, slow[:8])) + (" …" if len(slow) > 8 else "")
        if len(slow) == len(counts):
            what = f"no rank has made progress for {quiet:.0f} s"
        else:
            what = f"rank {named} has made no progress for {quiet:.0f} s, the others wait for it"
        return f"{what} (--set parallelism.hang_timeout)"

    def _read(self, one: socket.socket) -> None:
        peer = self._peers[one]
        try:
            data = one.recv(4096)
        except OSError:
            data = b""
        peer.heard = time.monotonic()
        *lines, peer.bytes = (peer.bytes + data).split(b"\n")
        for line in lines:
            words = line.split()
            if peer.rank < 0:
                if len(words) != 2 or words[0].decode(errors="replace") != self._token:
                    data = b""  # not a rank of this run
                    break
                peer.rank = int(words[1])
            elif line == b"bye":
                self._close(one)
                del self._peers[one]
                return
            elif line.isdigit():
                peer.reached = int(line)
        if data:
            return
        self._close(one)
        if peer.rank < 0:
            del self._peers[one]
        peer.gone = time.monotonic()

    def _close(self, one: socket.socket) -> None:
        self._selector.unregister(one)
        one.close()

    def _say(self, line: bytes) -> None:
        for one, peer in self._peers.items():
            if peer.gone is None:
                with suppress(OSError):
                    one.sendall(line)
