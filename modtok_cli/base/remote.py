"""Paths in object storage (s3://, gs://, az://, hf://, …) that text is read from, by fsspec.

A `RemotePath` answers what readers ask a path: whether it exists, what is in it, its size, its
content. Nothing is written there. fsspec finds credentials as the tools of each store do;
the package of a store (s3fs, gcsfs, adlfs) is installed apart.
"""

import io
import os
import re
import stat
import time
from collections.abc import Callable, Generator
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path, PosixPath
from typing import Any, TypeVar

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.signature import digest

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/+(?P<rest>[^/].*)", re.DOTALL)
_TRIES, _SECONDS = 6, 30.0
_BLOCK = 8 << 20
"""Bytes of a request."""
_NONE = (FileNotFoundError, NotADirectoryError)
_MISSING, _DENIED = (404, 410), (401, 403)
"""Status of HTTP."""
# Fields of what stores tell about a file.
_TIMES = ("LastModified", "mtime", "last_modified")
_VERSIONS = ("ETag", "etag", "blob_id", "Last-Modified")
_DOWNLOAD = "download it, and name the copy"
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
            remedy="write to a directory here, and copy it, with rclone for example",
        )


class RemotePath(PosixPath):
    """A file or directory in object storage."""

    def __str__(self) -> str:
        text = super().__str__()
        match = _URL.fullmatch(text)  # not of a part, as relative_to gives it
        if not match:
            return text
        root = "/" if match["scheme"] == "file" else ""
        return f"{match['scheme']}://{root}{match['rest']}"

    def __fspath__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[Callable[..., Path], tuple[str]]:
        return path_of, (str(self),)

    def _ask(self, question: Callable[[Any, str], T]) -> T:
        """The answer of the store, asked again when the connection breaks.

        Raises:
            ModtokError: it cannot be reached, or refuses.
        """
        store, name = _store(str(self))
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
        """Size and time of change. Where the store has none, the time is a digest of the version.

        Raises:
            FileNotFoundError: there is no such file.
            ModtokError: the store does not know its size.
        """
        found = self._info()
        if found is None:
            raise FileNotFoundError(2, "no such file", str(self))
        is_file = found["type"] != "directory"
        if is_file and found.get("size") is None:
            raise ModtokError("its server does not tell its size", where=self, remedy=_DOWNLOAD)
        when = next(filter(None, map(found.get, _TIMES)), 0)
        version = next(filter(None, map(found.get, _VERSIONS)), None)
        if not when and version is not None:
            when = int(digest(str(version).encode()), 16) / 1e9
        seconds = when.timestamp() if isinstance(when, datetime) else float(when)
        mode = stat.S_IFREG if is_file else stat.S_IFDIR
        size, times = int(found.get("size") or 0), 3 * [int(seconds)]
        precise = {"st_mtime": seconds, "st_mtime_ns": int(seconds * 1e9)}
        return os.stat_result((mode, 0, 0, 1, 0, 0, size, *times), precise)

    def samefile(self, other_path: str | os.PathLike[str]) -> bool:
        """Whether another path has the same address."""
        return str(self) == str(path_of(other_path))

    def iterdir(self) -> Generator["RemotePath", None, None]:
        """The entries of a directory."""
        yield from map(self._of, self._ask(lambda store, name: store.ls(name, detail=False)))

    def rglob(self, pattern: str, **_: Any) -> Generator["RemotePath", None, None]:
        """Files below it whose names match."""
        below = map(self._of, self._ask(lambda store, name: store.find(name)))
        yield from (path for path in below if fnmatchcase(path.name, pattern))

    def _of(self, name: str) -> "RemotePath":
        scheme = str(self).partition(":")[0]
        return RemotePath(name if is_remote(name) else f"{scheme}://{name.strip('/')}")

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
            if len(data) > end - self._at:
                what = "its server does not send parts of a file"
                raise ModtokError(what, where=self._path, remedy=_DOWNLOAD)
            if len(data) != end - self._at:
                raise ConnectionError(f"{len(data)} of {end - self._at} bytes came")
            return data

        data = self._path._ask(read)
        buffer[: len(data)] = data
        self._at = end
        return len(data)


def _store(url: str) -> tuple[Any, str]:
    """The file system of a URL, which fsspec keeps, and the name that it has there."""
    from fsspec.core import url_to_fs

    try:
        store, name = url_to_fs(url)
    except (ImportError, ValueError) as error:
        scheme = url.partition(":")[0]
        known = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
        remedy = f"pip install {known[scheme]}" if scheme in known else "check the address"
        raise UsageError(f"{scheme}:// cannot be read ({error})", remedy=remedy) from error
    return store, name


def _again(ask: Callable[[], T], path: Path) -> T:
    """The answer, asked again for half a minute if the store cannot be reached."""
    began = time.monotonic()
    for attempt in range(_TRIES):
        try:
            return ask()
        except ModtokError:
            raise
        except Exception as failure:  # each store has errors of its own
            error = _reason(failure)
            if error is None:
                raise
            refused = isinstance(error, PermissionError) or getattr(error, "status", 0) in _DENIED
            if refused or attempt + 1 == _TRIES or time.monotonic() - began > _SECONDS:
                what = "access is denied" if refused else "cannot be reached"
                what += f": {str(error) or type(error).__name__}"
                remedy = "check the address, the credentials and the network"
                raise ModtokError(what, where=path, remedy=remedy) from error
            time.sleep(2.0**attempt / 2)
    raise AssertionError


def _reason(error: Exception) -> Exception | None:
    """Why a request failed; None if there is nothing at the address.

    fsspec raises FileNotFoundError for any failed HTTP request; its cause tells them apart.
    """
    cause = error.__cause__
    if not isinstance(error, _NONE):
        return error
    if not isinstance(cause, Exception) or isinstance(cause, _NONE):
        return None
    is_other = getattr(cause, "status", 404) not in _MISSING
    return cause if is_other or isinstance(cause, OSError) else None
