"""Vocabulary rows in host memory: fetched a step ahead, updated while the device computes.

What each step sees. Let U(t) be the update by the gradients of step t, and T(t) the tables
after U(1) … U(t), in this order, T(t) = T(0) for t < 1. With delay D a step t computes with
rows of T(t - 1 - D): D = 0 is ordinary training; with D = 1 the rows lack exactly the update
of the step before, whether they were active in it or not. The backbone is not delayed.

All work on the tables is done by one thread, one job after the other. With D = 1, at the
beginning of step t, it is given U(t - 1) and then the fetching of the rows of step t + 1; with
D = 0 the fetching of the rows of step t behind U(t - 1). So no row is lost or updated twice,
and none is read while it is written: there is one order, and it is the reference's.

Evaluation and checkpoints see T(t): `drain` applies U(t) at once and keeps the rows of
T(t - 1) that U(t) changed, the *late* rows. A checkpoint holds both: a run that goes on from
it fetches the rows of step t + 1 out of T(t) with the late ones laid over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.pretrain.rows.copies import Copies, Download, Upload
from modtok_cli.pretrain.rows.host_memory import Mates
from modtok_cli.pretrain.rows.microbatch import GatheredRows, MicroBatch, wanted_rows
from modtok_cli.pretrain.rows.table import AdamW, RowTable

Result = TypeVar("Result")
Unions = Mapping[str, tuple[torch.Tensor, torch.Tensor]]
# Rows by table: ids (n,) and weights (n, d) float32.
Rows = dict[str, tuple[torch.Tensor, torch.Tensor]]
Hook = Callable[[str], None]


@dataclass
class _Fetched:
    """Rows of a step on their way: which microbatches they are for, and by table."""

    micros: Sequence[MicroBatch]
    uploads: Future[dict[str, Upload]]


@dataclass
class _Update:
    """What a step leaves for the host to do, by table, and the rate.

    Of each table come the ids of all active rows, and ids and gradients of those that this
    process is to update.
    """

    downloads: dict[str, Download]
    rate: float


@dataclass
class Seconds:
    """Where time went: on the host's thread by kind of work, and of the step waiting for it."""

    fetch: float = 0.0
    update: float = 0.0
    waited: float = 0.0


class _Worker:
    """One thread that does jobs in order; after one that fails it does no others."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "offload")
        self._failure: BaseException | None = None
        self._last: Future[Any] | None = None

    def do(self, job: Callable[[], Result]) -> Future[Result]:
        def guarded() -> Result:
            self.check()
            try:
                return job()
            except BaseException as error:
                self._failure = error
                raise

        self.check()
        self._last = future = self._pool.submit(guarded)
        return future

    def finish(self) -> None:
        """Wait for all jobs given so far."""
        if self._last is not None:
            self.result(self._last)

    def result(self, future: Future[Result]) -> Result:
        try:
            return future.result()
        except Exception:
            self.check()
            raise

    def check(self) -> None:
        if self._failure is not None:
            name = type(self._failure).__name__
            raise ModtokError(
                f"the rows in host memory could not be updated ({name}: {self._failure})",
                remedy="the last checkpoint is whole: go on from it with --resume",
            ) from self._failure

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


@dataclass
class _Stage:
    """Staging memory by name, made larger as needed, two turns of each."""

    copies: Copies
    _held: dict[tuple[str, int], torch.Tensor] = field(default_factory=dict)

    def view(
        self, name: str, turn: int, shape: tuple[int, ...], dtype: torch.dtype
    ) -> torch.Tensor:
        count = 1
        for length in shape:
            count *= length
        held = self._held.get((name, turn))
        if held is None or len(held) < count or held.dtype != dtype:
            # A quarter more than asked: sets of languages differ, and pinning is slow.
            held = self._held[name, turn] = self.copies.empty(count + count // 4, dtype)
        return held[:count].view(shape)


class OffloadedRows:
    """The tables' rows as a step takes them and gives gradients back.

    Calls come from one thread, for each step `begin` and then `update`; `hook` is called with
    the name of each point where work changes hands, for tests that delay it there.
    """

    def __init__(
        self,
        tables: dict[str, RowTable],
        dtype: torch.dtype,
        adamw: AdamW,
        copies: Copies,
        *,
        delay: int = 1,
        mates: Mates | None = None,
        hook: Hook | None = None,
    ) -> None:
        self.tables, self.delay = tables, delay
        self.seconds = Seconds()
        self._dtype, self._adamw, self._copies = dtype, adamw, copies
        self._mates = mates or Mates()
        self._at: Hook = hook or (lambda point: None)
        self._worker = _Worker()
        self._stage = _Stage(copies)
        self._fetches, self._steps = 0, 0
        self._uploads: list[dict[str, Upload]] = [{}, {}]
        self._fetched: _Fetched | None = None
        self._pending: _Update | None = None
        self._late: Rows = {}

    def begin(
        self, micros: Sequence[MicroBatch], coming: Sequence[MicroBatch] | None = None
    ) -> dict[str, GatheredRows]:
        """Rows for a step over `micros`; `coming` are those of the next call, if known.

        Raises:
            ModtokError: an update failed.
        """
        fetched, self._fetched = self._fetched, None
        if fetched is None or fetched.micros is not micros:
            fetched = self._fetch(micros, self._late)
        self._late = {}
        if self._pending is not None:
            self._apply(self._pending)
            self._pending = None
        if self.delay and coming is not None:
            self._fetched = self._fetch(coming, {})
        started = time.perf_counter()
        uploads = self._worker.result(fetched.uploads)
        self.seconds.waited += time.perf_counter() - started
        self._at("take")
        active = {}
        for name, upload in uploads.items():
            ids, rows = self._copies.arrive(upload)
            active[name] = GatheredRows(ids, rows.requires_grad_(True))
        return active

    def update(self, unions: Unions, rate: float) -> None:
        """Take the step's gradients, clipped: (ids, gradients) by table; the host applies them."""
        self._steps += 1
        turn = self._steps % 2
        downloads = {}
        for name, (ids, gradients) in unions.items():
            sent = (ids, ids, gradients)
            if self._mates.mates > 1:
                own = self.tables[name].is_own(ids)
                sent = (ids, ids[own], gradients[own])

            def stage(i: int, name: str = name, sent: Sequence[torch.Tensor] = sent) -> Any:
                shape, dtype = tuple(sent[i].shape), sent[i].dtype
                return self._stage.view(f"{name} down {i}", turn, shape, dtype)

            downloads[name] = self._copies.download(sent, stage)
        self._at("put")
        self._pending = _Update(downloads, rate)
        if not self.delay:
            self._apply(self._pending)
            self._pending = None

    def read(self, micros: Sequence[MicroBatch]) -> dict[str, GatheredRows]:
        """Rows to evaluate with, of the tables with every update in them."""
        self.drain()
        found = {}
        for name, ids in wanted_rows(self.tables, micros, host=True).items():
            device = micros[0].inputs.device
            rows = self.tables[name].gather(ids, self._dtype)
            found[name] = GatheredRows(ids.to(device), rows.to(device))
        return found

    def drain(self) -> None:
        """Bring the tables up to date: every update of a step that is done is in them.

        With mates all of them call it.
        """
        if self._pending is not None:
            pending = self._pending
            self._late = self._worker.result(self._worker.do(lambda: self._keep(pending)))
            self._apply(pending)
            self._pending = None
        self._worker.finish()

    @property
    def late(self) -> Rows:
        """After `drain`: rows by table as the next step is to see them; none without delay."""
        return self._late

    def resume(self, late: Rows) -> None:
        """Go on from a checkpoint that held these late rows, ids ascending."""
        self._late = late if self.delay else {}
        self._fetched = self._pending = None

    def meet(self) -> None:
        """Wait for the mates, where the memory they share is changed otherwise than by steps."""
        self._mates.meet()

    def close(self) -> None:
        """End the thread; what it has begun is finished, the rest is dropped."""
        self._worker.close()

    def _fetch(self, micros: Sequence[MicroBatch], late: Rows) -> _Fetched:
        self._fetches += 1
        turn = self._fetches % 2

        def job() -> dict[str, Upload]:
            self._at("fetch")
            started = time.perf_counter()
            for upload in self._uploads[turn].values():
                upload.settle()  # of two fetches ago: its staging memory is used again
            uploads = {}
            for name, ids in wanted_rows(self.tables, micros, host=True).items():
                shape = (len(ids), self.tables[name].width)
                rows = self._stage.view(f"{name} up", turn, shape, self._dtype)
                self.tables[name].gather_into(ids, rows)
                if name in late:
                    _lay_over(ids, rows, *late[name])
                self._at("upload")
                held = self._stage.view(f"{name} ids", turn, (len(ids),), ids.dtype)
                uploads[name] = self._copies.upload([held.copy_(ids), rows.detach()])
            self._uploads[turn] = uploads
            self.seconds.fetch += time.perf_counter() - started
            return uploads

        return _Fetched(micros, self._worker.do(job))

    def _apply(self, update: _Update) -> None:
        def job() -> None:
            self._at("update")
            received = {name: one.wait() for name, one in update.downloads.items()}
            self._mates.meet()  # nobody still reads rows of the version before
            started = time.perf_counter()
            for name, (_, ids, gradients) in received.items():
                self.tables[name].update(ids, gradients, update.rate, self._adamw)
                self._at("updated")
            self.seconds.update += time.perf_counter() - started
            self._mates.meet()  # all shares of the rows are written

        self._worker.do(job)

    def _keep(self, update: _Update) -> Rows:
        """The rows that an update will change, as they are."""
        kept = {}
        for name, download in update.downloads.items():
            ids = download.wait()[0].clone()
            kept[name] = (ids, self.tables[name].gather(ids))
        return kept


def _lay_over(
    ids: torch.Tensor, rows: torch.Tensor, late: torch.Tensor, weights: torch.Tensor
) -> None:
    """Put late rows in the place of newer ones, where they are among `ids`; both ascend."""
    if not len(late) or not len(ids):
        return
    at = torch.searchsorted(late, ids).clamp(max=len(late) - 1)
    here = torch.nonzero(late[at] == ids).squeeze(1)
    rows[here] = weights[at[here]].to(rows.dtype)
