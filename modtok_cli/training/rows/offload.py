"""Offloaded embedding rows: prefetched a step ahead, updated while the device computes.

This module moves the rows that this rank owns, between its host memory and its device. What the
replicas need of each other's rows they exchange on their devices (`rows.exchange`).

Semantics: let U(t) be the update by the gradients of step t, and T(t) the tables after
U(1) … U(t), with T(t) = T(0) for t < 1. With delay D, step t computes with rows of
T(t - 1 - D). D = 0 is ordinary training. With D = 1 the rows lack exactly the update of the
previous step, whether they were active in it or not. The backbone is not delayed.

One thread does all work on the tables, in order. With D = 1, when the device has work of step t,
it receives U(t - 1) and then the fetch of the rows of step t + 1. With D = 0 it receives the
fetch of the rows of step t after U(t - 1). So every update is applied once, and no row is
read while it is written.

Evaluation and checkpoints see T(t): `drain` applies U(t) at once and keeps the rows of
T(t - 1) that U(t) changed, the *late* rows. A checkpoint stores both: a resumed run fetches
the rows of step t + 1 from T(t), overlaid by the late rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeVar

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.training.rows.copies import Copies, Transfer
from modtok_cli.training.rows.table import AdamW, RowTable

Result = TypeVar("Result")
# Ids by table, (n,) int64 ascending, of rows that this rank owns; in host memory.
Ids = Mapping[str, torch.Tensor]
# Rows by table: ids (n,) of an offloaded table in host memory, and weights or gradients (n, d)
# float32.
Rows = dict[str, tuple[torch.Tensor, torch.Tensor]]
Hook = Callable[[str], None]


@dataclass
class Seconds:
    """Time on the host's thread by kind of work, and time that steps waited for it."""

    fetch: float = 0.0
    update: float = 0.0
    waited: float = 0.0


class _Worker:
    """A thread that runs jobs in order, and none after one that failed."""

    def __init__(self, enter: Callable[[], None]) -> None:
        self._pool = ThreadPoolExecutor(1, "offload", enter)
        self._last: Future[Any] | None = None

    def do(self, job: Callable[[], Result]) -> Future[Result]:
        before = self._last

        def after_it() -> Result:
            if before is not None:
                before.result()  # raises what it raised
            return job()

        self._last = future = self._pool.submit(after_it)
        return future

    def finish(self) -> None:
        """Wait for all jobs submitted so far."""
        if self._last is not None:
            self.result(self._last)

    def result(self, future: Future[Result]) -> Result:
        try:
            return future.result()
        except Exception as error:
            raise ModtokError(
                f"offloaded rows could not be updated ({type(error).__name__}: {error})",
                remedy="resume from the last checkpoint with --resume",
            ) from error

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


@dataclass
class _Stage:
    """Staging buffers by name, two of each, which grow as needed."""

    copies: Copies
    _held: dict[tuple[str, int], torch.Tensor] = field(default_factory=dict)

    def view(
        self, name: str, turn: int, shape: tuple[int, ...], dtype: torch.dtype
    ) -> torch.Tensor:
        count = prod(shape)
        held = self._held.get((name, turn))
        if held is None or len(held) < count or held.dtype != dtype:
            # A quarter more than needed: sets of languages differ, and pinning is slow.
            held = self._held[name, turn] = self.copies.empty(count + count // 4, dtype)
        return held[:count].view(shape)


class OffloadedRows:
    """Provides the rows of a step and applies its gradients.

    One thread calls `begin`, `proceed` and then `update` for each step. `hook` is called with the
    name of each point where work passes between threads; tests delay work there.
    """

    def __init__(
        self,
        tables: dict[str, RowTable],
        dtype: torch.dtype,
        adamw: AdamW,
        copies: Copies,
        *,
        delay: int = 1,
        hook: Hook | None = None,
    ) -> None:
        self.tables, self.delay = tables, delay
        self.seconds = Seconds()
        self._dtype, self._adamw, self._copies = dtype, adamw, copies
        self._at: Hook = hook or (lambda point: None)
        self._worker = _Worker(copies.enter_thread)
        self._stage = _Stage(copies)
        self._fetches, self._steps = 0, 0
        self._uploads: list[dict[str, Transfer]] = [{}, {}]
        # A prefetch: the ids it is for, and the rows by table.
        self._fetched: tuple[Ids, Future[dict[str, Transfer]]] | None = None
        # An update that has not begun: the ids of its rows by table, and its job.
        self._pending: tuple[Ids, Callable[[], None]] | None = None
        self._late: Rows = {}

    def begin(self, wanted: Ids) -> dict[str, torch.Tensor]:
        """Rows of a step, on the device."""
        fetched, self._fetched = self._fetched, None
        if fetched is None or fetched[0] is not wanted:
            fetched = wanted, self._fetch(wanted, self._late)
        self._late = {}
        started = time.perf_counter()
        uploads = self._worker.result(fetched[1])
        self.seconds.waited += time.perf_counter() - started
        self._at("take")
        return {name: self._copies.arrive(upload) for name, upload in uploads.items()}

    def proceed(self, upcoming: Ids | None) -> None:
        """Apply the update of the step before; fetch the rows of the next `begin`, if known.

        Beside the step: called when the device has work, which this thread is not to delay.
        """
        self._apply_pending()
        if self.delay and upcoming is not None:
            self._fetched = upcoming, self._fetch(upcoming, {})

    def update(self, unions: Rows, lr: float, finite: torch.Tensor | None = None) -> None:
        """Schedule the update by the step's clipped gradients: (ids, gradients) by table.

        `finite`: a bool on the device; False updates nothing, None is True.
        """
        assert self._pending is None  # else it would be lost: `proceed` was not called
        self._steps += 1
        turn = self._steps % 2
        downloads = {}
        for name, (_, gradients) in unions.items():
            downloads[name] = self._copies.download(
                gradients,
                lambda name=name, of=gradients: self._stage.view(  # type: ignore[misc]
                    f"{name} down", turn, tuple(of.shape), of.dtype
                ),
            )
        flag = None
        if finite is not None:
            stage = lambda: self._stage.view("finite", turn, (1,), torch.bool)  # noqa: E731
            flag = self._copies.download(finite.view(1), stage)
        self._at("put")
        ids = {name: ids for name, (ids, _) in unions.items()}

        def job() -> None:
            self._at("update")
            received = {name: one.wait() for name, one in downloads.items()}
            applied = None if flag is None else flag.wait()
            started = time.perf_counter()
            for name, gradients in received.items():
                self.tables[name].update(ids[name], gradients, lr, self._adamw, applied)
                self._at("updated")
            self.seconds.update += time.perf_counter() - started

        self._pending = ids, job
        if not self.delay:
            self._apply_pending()

    def read(self, wanted: Ids) -> dict[str, torch.Tensor]:
        """Rows for evaluation, with every update applied; on the device."""
        self.drain()
        found = {}
        for name, ids in wanted.items():
            width = self.tables[name].width
            rows = self._copies.empty(len(ids) * width, self._dtype).view(len(ids), width)
            self.tables[name].gather_into(ids, rows)
            found[name] = self._copies.arrive(self._copies.upload(rows))
        return found

    def drain(self) -> None:
        """Apply all pending updates."""
        if self._pending is not None:
            ids, _ = self._pending

            def keep() -> Rows:
                """The current values of the rows that the update will change."""
                return {name: (own, self.tables[name].gather(own)) for name, own in ids.items()}

            self._late = self._worker.result(self._worker.do(keep))
            self._apply_pending()
        self._worker.finish()

    @property
    def late(self) -> Rows:
        """After `drain`: rows by table as the next step sees them; empty without delay."""
        return self._late

    def resume(self, late: Rows) -> None:
        """Continue from a checkpoint with these late rows, ids ascending."""
        self._late = late if self.delay else {}
        self._fetched = self._pending = None

    def close(self) -> None:
        """Stop the thread after its current job; drop the others."""
        self._worker.close()

    def _fetch(self, wanted: Ids, late: Rows) -> Future[dict[str, Transfer]]:
        self._fetches += 1
        turn = self._fetches % 2

        def job() -> dict[str, Transfer]:
            self._at("fetch")
            started = time.perf_counter()
            for upload in self._uploads[turn].values():
                upload.wait()  # two fetches ago: its staging memory is reused
            uploads = {}
            for name, ids in wanted.items():
                shape = (len(ids), self.tables[name].width)
                rows = self._stage.view(f"{name} up", turn, shape, self._dtype)
                self.tables[name].gather_into(ids, rows)
                if name in late:
                    _overlay(ids, rows, *late[name])
                self._at("upload")
                uploads[name] = self._copies.upload(rows)
            self._uploads[turn] = uploads
            self.seconds.fetch += time.perf_counter() - started
            return uploads

        return self._worker.do(job)

    def _apply_pending(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            self._worker.do(pending[1])


def _overlay(
    ids: torch.Tensor, rows: torch.Tensor, late: torch.Tensor, weights: torch.Tensor
) -> None:
    """Replace rows by late ones where those are among `ids`; both ascend."""
    if not len(late) or not len(ids):
        return
    at = torch.searchsorted(late, ids).clamp(max=len(late) - 1)
    here = torch.nonzero(late[at] == ids).squeeze(1)
    rows[here] = weights[at[here]].to(rows.dtype)
