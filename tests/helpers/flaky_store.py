"""Object storage in memory whose connections break: flaky://bucket/name."""

from __future__ import annotations

from typing import Any

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class Store(MemoryFileSystem):
    """A store in memory whose connections break: `breaks` of the next requests."""

    protocol = "flaky"
    store: dict[str, Any] = {}  # noqa: RUF012  (of this class alone)
    pseudo_dirs = [""]  # noqa: RUF012
    breaks = 0
    requests = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path.removeprefix("flaky://"))
        return stripped

    @classmethod
    def clear(cls) -> None:
        """Remove everything."""
        cls.store.clear()
        cls.pseudo_dirs[:] = [""]
        cls.breaks = 0

    def _request(self) -> None:
        Store.requests += 1
        if Store.breaks > 0:
            Store.breaks -= 1
            raise ConnectionResetError("the connection was reset")

    def info(self, path: str, **options: Any) -> Any:
        self._request()
        return super().info(path, **options)

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
        self._request()
        data: bytes = super().cat_file(path, start, end, **options)
        if Store.breaks > 0:  # the answer ends early
            Store.breaks -= 1
            return data[: len(data) // 2]
        return data


fsspec.register_implementation("flaky", Store, clobber=True)
