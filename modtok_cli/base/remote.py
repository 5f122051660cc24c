"""Paths in object storage (s3://, gs://, az://, hf://, …) that text is read from, by fsspec.

A `RemotePath` answers what readers ask a path: whether it exists, what is in it, its size, its
content. It is read-only. fsspec finds credentials as the tools of each store do; the package of a
store (s3fs, gcsfs, adlfs) is installed apart.
"""

import io
import os
import re
import stat
import time
from collections.abc import Callable, Generator
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PosixPath
from typing import Any, TypeVar

from modtok_cli.base.errors import ModtokError, UsageError

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/+(?P<rest>[^/].*)", re.DOTALL)
_TRIES, _SECONDS = 6, 30.0
_BLOCK = 8 << 20
"""Bytes of a request."""
_NONE = (FileNotFoundError, NotADirectoryError)
T = TypeVar("T")


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a URL, also one that was a `Path` in between (s3:/bucket/key)."""
    return _URL.fullmatch(os.fspath(path)) is not None


def path_of(path: str | os.PathLike[str]) -> Path:
    """A path: of a URL such as s3://bucket/fi.jsonl.zst a `RemotePath`.

    >>> str(path_of("s3://bucket//data/fi.txt")), type(path_of("data/fi.txt")).__name__
    ('s3://bucket/data/fi.txt', 'PosixPath')
    """
    if isinstance(path, RemotePath):
        return path
    return RemotePath(path) if is_remote(path) else Path(path)


def refuse_remote(output: str | os.PathLike[str]) -> None:
    """Refuse an output in object storage.

    Raises:
        UsageError: it is.
    """
    if is_remote(output):
        raise UsageError(
            "is in object storage, which modtok only reads",
            where=path_of(output),
            remedy="write to a directory here, and copy it there",
        )


class RemotePath(PosixPath):
    """A file or directory in object storage."""

    def __str__(self) -> str:
        text = super().__str__()
        match = _URL.fullmatch(text)  # not of a part, as relative_to gives it
        return f"{match['scheme']}://{match['rest']}" if match else text

    def __fspath__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[Callable[..., Path], tuple[str]]:
        return path_of, (str(self),)

    @property
    def _scheme(self) -> str:
        return str(self).partition(":")[0]

    def _ask(self, question: Callable[[Any, str], T]) -> T:
        """The answer of the store, asked again when the connection breaks.

        Raises:
            ModtokError: it cannot be reached, or refuses.
        """
        store, name = _store(self._scheme), str(self).partition("://")[2]
        return _again(lambda: question(store, name), self)

    def _info(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._ask(lambda store, name: store.info(name))
        except _NONE:
            return None
        return found

    def exists(self, **_: Any) -> bool:
        """Whether there is such a file, or a file below it."""
        return self._info() is not None

    def is_dir(self, **_: Any) -> bool:
        """Whether there are files below it."""
        found = self._info()
        return found is not None and found["type"] == "directory"

    def is_file(self, **_: Any) -> bool:
        """Whether it is a file."""
        found = self._info()
        return found is not None and found["type"] == "file"

    def is_symlink(self) -> bool:
        """Never."""
        return False

    def stat(self, **_: Any) -> os.stat_result:
        """Size and time of change; the time is 0 where the store has none."""
        found = self._info()
        if found is None:
            raise FileNotFoundError(2, "no such file", str(self))
        when = next((found[key] for key in ("LastModified", "mtime", "last_modified")
                     if found.get(key)), 0)  # fmt: skip
        seconds = when.timestamp() if isinstance(when, datetime) else float(when or 0)
        mode = stat.S_IFDIR if found["type"] == "directory" else stat.S_IFREG
        size, times = int(found.get("size") or 0), 3 * [int(seconds)]
        precise = {"st_mtime": seconds, "st_mtime_ns": int(seconds * 1e9)}
        return os.stat_result((mode, 0, 0, 1, 0, 0, size, *times), precise)

    def iterdir(self) -> Generator["RemotePath", None, None]:
        """What is directly in it."""
        yield from map(self._of, self._ask(lambda store, name: store.ls(name, detail=False)))

    def rglob(self, pattern: str, **_: Any) -> Generator["RemotePath", None, None]:
        """Files below it whose names match."""
        below = map(self._of, self._ask(lambda store, name: store.find(name)))
        yield from (path for path in below if fnmatchcase(path.name, pattern))

    def _of(self, name: str) -> "RemotePath":
        return RemotePath(f"{self._scheme}://{name.strip('/')}")

    def absolute(self) -> "RemotePath":
        """Itself."""
        return self

    def resolve(self, strict: bool = False) -> "RemotePath":
        """Itself."""
        return self

    def open(self, mode: str = "rb", *_: Any, **__: Any) -> Any:
        """Its content, a seekable stream of bytes that goes on after a broken connection."""
        if mode != "rb":
            raise ModtokError("is in object storage, which is read only", where=self)
        size = self.stat().st_size
        return io.BufferedReader(_Stream(self, size), _BLOCK)

    def read_bytes(self) -> bytes:
        """All of its content."""
        with self.open() as file:
            content: bytes = file.read()
        return content


class _Stream(io.RawIOBase):
    """Reads a file by ranges; each request is made again when the connection breaks."""

    def __init__(self, path: RemotePath, size: int) -> None:
        self._path, self._size, self._at = path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0

        def read(store: Any, name: str) -> bytes:
            data: bytes = store.cat_file(name, start=self._at, end=end)
            if len(data) != end - self._at:
                raise ConnectionError(f"{len(data)} of {end - self._at} bytes came")
            return data

        data = self._path._ask(read)
        buffer[: len(data)] = data
        self._at = end
        return len(data)


@cache
def _store(scheme: str) -> Any:
    """The file system of a scheme."""
    import fsspec

    try:
        return fsspec.filesystem(scheme)
    except (ImportError, ValueError) as error:
        known = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
        remedy = f"pip install {known[scheme]}" if scheme in known else "check the address"
        raise UsageError(f"{scheme}:// cannot be read ({error})", remedy=remedy) from error


def _again(ask: Callable[[], T], path: Path) -> T:
    """The answer, asked again for half a minute if the store cannot be reached."""
    began = time.monotonic()
    for attempt in range(_TRIES):
        try:
            return ask()
        except (*_NONE, PermissionError, ModtokError):
            raise
        except Exception as error:  # each store has errors of its own
            if attempt + 1 == _TRIES or time.monotonic() - began > _SECONDS:
                what = f"cannot be reached: {str(error) or type(error).__name__}"
                remedy = "check the address, the credentials and the network"
                raise ModtokError(what, where=path, remedy=remedy) from error
            time.sleep(2.0**attempt / 2)
    raise AssertionError
