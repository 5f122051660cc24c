"""Monolingual references that are made beside a construction."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import ParamSpec

from modtok_cli.construct.words import result_of

P = ParamSpec("P")


class ReferenceTasks:
    """References by language: ready, or in progress in a thread pool.

    Args:
        wanted: without it, `make` does nothing.
        submit: runs a call in the pool.
        waiting: calls that may wait there. More are made in the calling thread, because each
            holds word counts; with 0, all are.
    """

    def __init__(self, wanted: bool, submit: Callable[..., Future[bytes]], waiting: int) -> None:
        self.ready: dict[str, bytes] = {}
        self.wanted = wanted
        self._submit = submit
        self._waiting = waiting
        self._pending: dict[str, tuple[Future[bytes], Callable[[], bytes]]] = {}

    def make(
        self, language: str, make: Callable[P, bytes], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Make the reference of a language in the background."""
        if not self.wanted:
            return
        call = partial(make, *args, **kwargs)
        for finished in [name for name, (future, _) in self._pending.items() if future.done()]:
            self.ready[finished] = self._pending.pop(finished)[0].result()
        if len(self._pending) >= self._waiting:
            self.ready[language] = call()
        else:
            self._pending[language] = self._submit(call), call

    def all(self) -> dict[str, bytes]:
        """Wait for references in progress, make the others, and return all so far."""
        for language, (future, call) in reversed(list(self._pending.items())):
            self.ready[language] = result_of(future, call)
            del self._pending[language]
        return dict(self.ready)
