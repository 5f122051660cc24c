"""Read a whole file whose size is checked first: devices and huge files are errors."""

import errno
import mmap
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.memory import check_memory

LARGEST = 1 << 30
"""Most bytes of a file that is read whole, unless the caller knows better."""


def read_file(
    path: Path,
    *,
    largest: int = LARGEST,
    factor: int = 1,
    remedy: str | None = None,
) -> bytes:
    """Content of a regular file or a pipe.

    Args:
        path: The file.
        largest: Most bytes to read.
        factor: Bytes of memory that a byte of the file needs when it is used.
        remedy: What to do about a file that cannot be read, for the error.

    Raises:
        ModtokError: it does not exist, cannot be read, is a device, or is too large.
    """
    where = str(path)
    try:
        with path.open("rb") as stream:
            state = os.fstat(stream.fileno())
            if stat.S_ISREG(state.st_mode):
                if state.st_size > largest:
                    raise _too_large(where, state.st_size, largest)
                check_memory(
                    state.st_size * factor, f"reading {path.name}", "use a machine with more memory"
                )
            elif not (stat.S_ISFIFO(state.st_mode) or stat.S_ISSOCK(state.st_mode)):
                raise ModtokError(
                    "is a device, not a file", where=where, remedy="name a file or use a pipe"
                )
            return read_stream(stream, where, largest=largest)
    except OSError as error:
        raise ModtokError(_why(error), where=where, remedy=remedy) from error


def map_file(path: Path, *, largest: int, remedy: str | None = None) -> bytes | mmap.mmap:
    """Content of a regular file, mapped into memory: pages are read when they are used.

    A file that is replaced keeps its content here; one that is truncated in place ends the
    process.

    Raises:
        ModtokError: it does not exist, cannot be read, is a device, or has more than `largest`
            bytes.
    """
    where = str(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would block
            raise ModtokError("is not a regular file", where=where, remedy=remedy)
        with path.open("rb") as stream:
            state = os.fstat(stream.fileno())
            if state.st_size > largest:
                raise _too_large(where, state.st_size, largest)
            if not state.st_size:  # which cannot be mapped
                return b""
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ModtokError(_why(error), where=where, remedy=remedy) from error


def _why(error: OSError) -> str:
    is_there = not isinstance(error, FileNotFoundError)
    return f"cannot read: {error.strerror}" if is_there else "does not exist"


def read_object(path: Path, *, largest: int = LARGEST) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        ModtokError: it cannot be read, or is something else.
    """
    try:
        content = orjson.loads(read_file(path, largest=largest))
    except ValueError as error:
        raise ModtokError(f"is not JSON ({error})", where=path) from error
    if not isinstance(content, dict):
        raise ModtokError("is not a JSON object", where=path)
    check_depth(content, str(path))
    return content


def read_toml(path: Path, *, largest: int = 1 << 20) -> dict[str, Any]:
    """The content of a TOML file that the user wrote, in UTF-8 with or without a mark.

    Raises:
        UsageError: it cannot be read, has more than `largest` bytes, or is something else; names
            the line.
    """
    try:
        data = read_bounded(path, largest=largest)
    except OSError as error:
        raise UsageError(_why(error), where=path) from error
    import tomllib  # slow, and most directories have no settings

    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UsageError("not UTF-8", where=path, remedy="save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:
        line = re.search(r"line (\d+)", str(error))
        where = f"{path}:{line[1]}" if line else path
        what = re.sub(r" \(at .*\)$", "", str(error))
        if isinstance(error, RecursionError):
            what = "nested too deeply"
        elif not isinstance(error, tomllib.TOMLDecodeError):
            what = "an integer has too many digits"
        raise UsageError(f"invalid TOML: {what}", where=where, remedy="correct the file") from error


def check_depth(parsed: object, where: str) -> None:
    """Refuse parsed JSON that `orjson` does not write: it reads 1,024 levels and writes 254.

    Raises:
        ModtokError: it has more levels.
    """
    try:
        orjson.dumps(parsed)
    except orjson.JSONEncodeError as error:
        raise ModtokError("JSON nested too deeply", where=where) from error


def read_bounded(path: Path, *, largest: int = LARGEST) -> bytes:
    """Content of a regular file, as `Path.read_bytes` gives it.

    Raises:
        OSError: it cannot be read, is a device or a pipe, or has more than `largest` bytes.
    """
    if not (stat.S_ISREG(path.stat().st_mode) or path.is_dir()):  # opening a pipe would block
        raise OSError(errno.ENODEV, "is a device or a pipe, not a file", str(path))
    with path.open("rb") as stream:
        state = os.fstat(stream.fileno())
        content = stream.read(largest + 1) if state.st_size <= largest else None
        if content is None or len(content) > largest:
            raise OSError(errno.EFBIG, f"has more than {largest:,} bytes", str(path))
        return content


def read_stream(stream: BinaryIO, where: str, *, largest: int = LARGEST) -> bytes:
    """The rest of a stream, at most `largest` bytes.

    Raises:
        ModtokError: it has more.
    """
    parts = []
    size = 0
    while part := stream.read(min(1 << 24, largest + 1 - size)):
        parts.append(part)
        size += len(part)
        if size > largest:
            raise _too_large(where, None, largest)
    return b"".join(parts)


def _too_large(where: str, size: int | None, largest: int) -> ModtokError:
    length = "has more" if size is None else f"has {size:,}"
    return ModtokError(
        f"expected at most {largest:,} bytes, it {length}",
        where=where,
        remedy="check that this is the file you mean",
    )
