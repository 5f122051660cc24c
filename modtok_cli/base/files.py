"""Atomic outputs: complete or absent.

A file or directory is written beside its final path, flushed to disk, and renamed. A killed
run leaves at most a `.NAME.partial-PID` entry, which the next run with the same output
removes. An output that `check_new` found absent does not replace what another process wrote there
meanwhile.
"""

import errno
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, BinaryIO

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.remote import refuse_remote

_MARK = ".partial-"
_STREAMS = (Path("/dev"), Path("/dev/fd"))
_NOREPLACE, _EXCHANGE = 1, 2  # of renameat2
# Outputs of this call that were absent when it checked them.
_NEW: ContextVar[frozenset[Path]] = ContextVar("_NEW", default=frozenset())


def standard_input() -> BinaryIO:
    """Standard input as bytes.

    Raises:
        ModtokError: it is closed.
    """
    if sys.stdin is None:
        raise ModtokError(
            "standard input is closed", remedy="give a file, or redirect standard input"
        )
    return sys.stdin.buffer


def path_text(path: Path) -> str:
    """A path as text for JSON: bytes that are not UTF-8 become escapes such as `\\udcff`."""
    return str(path).encode(errors="backslashreplace").decode()


def is_alive(pid: int) -> bool:
    """Whether a process with this id runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # does not exist, or cannot be changed
            path.unlink()


def _sweep(final: Path) -> None:
    """Remove what killed runs with this output left.

    If a run was killed between moving the old output away and moving the new one in, the old
    one is restored.
    """
    for left in sorted(final.parent.glob(f".{escape(final.name)}{_MARK}*")):
        pid = left.name.rsplit("-", 1)[-1]
        if not pid.isdigit() or int(pid) == os.getpid() or not is_alive(int(pid)):
            if left.name.startswith(f".{final.name}{_MARK}old-") and not final.exists():
                left.replace(final)
            else:
                _remove(left)


def clear(path: Path) -> None:
    """Remove a file or directory if it exists, and what killed runs left of it."""
    _sweep(path)
    _remove(path)


@contextmanager
def one_call() -> Iterator[None]:
    """Keep what `check_new` found until the end of this block: a command, or call of Python."""
    token = _NEW.set(frozenset())
    try:
        yield
    finally:
        _NEW.reset(token)


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether a path exists; what is too long for a name does not."""
    try:
        return Path(path).exists()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return False


def is_vacant(path: Path) -> bool:
    """Whether nothing is there, or an empty directory; a link, to whatever, is something."""
    if path.is_symlink():
        return False
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def check_new(output: Path, *, force: bool = False, flag: str = "-o") -> None:
    """Refuse an output that exists, unless `force`; an empty directory and a pipe are new.

    What another process writes there before this call does is not replaced either.

    Raises:
        UsageError: it exists.
    """
    if force or _is_stream(output):
        return
    if not is_vacant(output):
        raise UsageError(
            "already exists", where=output, remedy=f"choose another {flag}, or pass --force"
        )
    _NEW.set(_NEW.get() | {output.absolute()})


GENERATOR = '<meta name="generator" content="modtok {}">'
"""In the head of a page that a command writes, which the same command replaces."""


def check_page(output: Path, command: str, *, force: bool = False) -> None:
    """As `check_new`; a page that this command wrote is replaced."""
    is_own = False
    if output.is_file():
        with output.open("rb") as stream:
            is_own = GENERATOR.format(command).encode() in stream.read(1 << 12)
    check_new(output, force=force or is_own)


# Suffixes that name a file; other dots are parts of names, as in tokenizer.v2.
_OF_FILES = (
    ".bin", ".bz2", ".counts", ".csv", ".gguf", ".gz", ".html", ".json", ".jsonl", ".md", ".model",
    ".npy", ".npz", ".onnx", ".parquet", ".pdf", ".png", ".pt", ".pth", ".safetensors", ".svg",
    ".tiktoken", ".tsv", ".txt", ".vocab", ".xz", ".zst",
)  # fmt: skip


def check_suffix(file: Path, suffixes: Sequence[str]) -> None:
    """Refuse a file that is named like one of another format, as `-o model.onnx` of a GGUF file.

    Raises:
        UsageError: its suffix is not one of `suffixes`, and names a format.
    """
    if file.suffix.lower() in {*_OF_FILES} - {*suffixes}:
        raise UsageError(
            "names another format",
            where=file,
            remedy=f"choose a name that ends in {' or '.join(suffixes)}",
        )


def check_directory(directory: Path) -> None:
    """Refuse a new directory that is named like a file, as `-o fi.json`.

    Raises:
        UsageError: it is, or is a file.
    """
    if directory.is_dir():
        return
    if directory.exists() or directory.suffix.lower() in _OF_FILES:
        verb = "is" if directory.exists() else "names"
        such = "" if directory.exists() else f", such as {directory.stem}"
        raise UsageError(
            f"{verb} a file, and a directory is written",
            where=directory,
            remedy=f"choose another name{such}",
        )


def refuse_others(directory: Path, ours: Callable[[str], bool]) -> None:
    """Refuse to write to a directory that is not such an output, as in `-o .`.

    `ours`: whether an output of this kind can contain an entry of a given name.

    Raises:
        UsageError: `directory` is a file, or contains other entries.
    """
    check_directory(directory)
    if not directory.exists():
        return
    others = sorted(path.name for path in directory.iterdir() if not ours(path.name))
    if others:
        raise UsageError(
            f"contains other files ({', '.join(others[:3])})",
            where=directory,
            remedy="choose a new directory",
        )


def remove_directory(path: Path) -> None:
    """Remove a directory atomically: a killed run leaves all of it or nothing."""
    beside = _prepare(path)
    with writing(path):
        _remove(beside)
        path.replace(beside)
    _remove(beside)


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """A temporary directory; also removes directories of killed runs.

    Raises:
        ModtokError: temporary files cannot be written.
    """
    for left in Path(gettempdir()).glob("modtok-*-*"):
        pid = left.name.split("-")[1]
        with suppress(OSError):  # another run clears it at the same time
            if pid.isdigit() and not is_alive(int(pid)) and left.lstat().st_uid == os.getuid():
                _remove(left)
    place = gettempdir()
    try:
        with TemporaryDirectory(prefix=f"modtok-{os.getpid()}-") as place:
            yield Path(place)
    except OSError as error:
        # An error of a write has no file name, one of opening a file has.
        where = str(error.filename or (place if error.errno == errno.ENOSPC else ""))
        if not where.startswith(place):
            raise
        raise ModtokError(
            f"cannot write: {error.strerror or error}",
            where=where,
            remedy="free space for temporary files, or set TMPDIR to another directory",
        ) from error


@contextmanager
def scratch_beside(final: Path) -> Iterator[Path]:
    """A directory for intermediate files beside an output, for large ones; removed at the end.

    What a killed run leaves is removed by the next one.

    Raises:
        ModtokError: the file system refused.
    """
    # Not a name that writing `final` clears away.
    place = _prepare(final.with_name(f"{final.name}.parts"))
    try:
        with writing(final):
            _remove(place)
            place.mkdir()
            yield place
    finally:
        _remove(place)


def fsync_directory(path: Path) -> None:
    """Make renames within `path` durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _prepare(final: Path) -> Path:
    refuse_remote(final)
    with writing(final):
        final.parent.mkdir(parents=True, exist_ok=True)
    _sweep(final)
    return final.parent / f".{final.name}{_MARK}{os.getpid()}"


@contextmanager
def writing(final: Path, beside: Path | None = None) -> Iterator[None]:
    """Name `final` in errors of the file system; if the block fails, remove `beside`."""
    try:
        yield
    except BaseException as error:
        if beside is not None:
            _remove(beside)
        cause = error if isinstance(error, OSError) else _system_error(error)
        if cause is None:
            raise
        raise _cannot_write(final, cause) from error


def denied(error: BaseException) -> ModtokError | None:
    """The message for a missing permission or a read-only file system; None for other errors."""
    numbers = (errno.EACCES, errno.EPERM, errno.EROFS)
    if not isinstance(error, OSError) or error.errno not in numbers or not error.filename:
        return None
    path = Path(os.fsdecode(error.filename))
    is_secret = path.exists() and not os.access(path, os.R_OK)
    is_secret = is_secret or not os.access(path.parent, os.X_OK)
    if error.errno == errno.EROFS or not is_secret:
        return _cannot_write(path, error)
    return ModtokError(f"cannot read: {error.strerror}", where=path, remedy="check its permissions")


def _cannot_write(final: Path, error: OSError) -> ModtokError:
    what, remedy = f"cannot write: {error.strerror or error}", "choose another path"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        above = next((path for path in final.parents if path.is_file()), None)
        what = f"cannot write: {above} is a file, not a directory" if above else what
    elif error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        remedy = "free space or choose another path"
    return ModtokError(what, where=final, remedy=f"nothing was changed; {remedy}")


def _system_error(error: BaseException) -> OSError | None:
    """The system error that a Rust library wrapped in an exception of its own."""
    number = re.search(r"\(os error (\d{1,3})\)", str(error))
    if isinstance(error, ModtokError) or number is None:
        return None
    return OSError(int(number[1]), os.strerror(int(number[1])))


def _is_stream(path: Path) -> bool:
    """Whether it is a pipe or device, which must not be replaced by a file.

    Also `/dev/stdout`, whatever it links to: otherwise the link would be replaced.
    """
    if path.parent in _STREAMS or path.is_relative_to("/proc"):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def _into(stream: Path) -> Iterator[Path]:
    """Yield a path to write to; on success its content is written to a pipe or device."""
    with scratch_directory() as scratch:
        yield scratch / "content"
        try:
            stream.write_bytes((scratch / "content").read_bytes())
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _cannot_write(stream, error) from error


@contextmanager
def atomic_file(final: Path) -> Iterator[Path]:
    """Yield a path to write to; on success it becomes `final`, on failure it is removed.

    The content of a pipe or device is written to it.

    Raises:
        ModtokError: the file system refused (full, read-only, no permission).
    """
    final = Path(final)
    if _is_stream(final):
        with _into(final) as content:
            yield content
        return
    beside = _prepare(final)
    with writing(final, beside):
        yield beside
        with open(beside, "rb") as handle:
            os.fsync(handle.fileno())
        _publish(beside, final)


def _publish(beside: Path, final: Path) -> None:
    """Rename `beside` to `final`, which it replaces unless `final` is new in this call."""
    place = final.absolute()
    is_new = place in _NEW.get() and (beside.is_dir() or not final.is_dir())
    try:
        if is_new and beside.is_dir():
            beside.rename(final)  # not onto a directory with files
        elif not (is_new and _renamed(beside, final, _NOREPLACE)):
            if is_new and final.exists():
                raise FileExistsError
            beside.replace(final)
    except OSError as error:
        if not is_new or not final.exists():
            raise
        raise ModtokError(
            "was written by another process meanwhile",
            where=final,
            remedy="choose another output, or pass --force to replace it",
        ) from error
    _NEW.set(_NEW.get() - {place})  # from here on it is this call's own
    fsync_directory(final.parent)


def _renamed(one: Path, other: Path, flag: int) -> bool:
    """Rename by Linux's renameat2; False if the kernel or the file system cannot.

    Raises:
        FileExistsError: with `_NOREPLACE`, `other` is there.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    here = -100  # AT_FDCWD
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # a C library from before 2018
        return False
    if rename(here, os.fsencode(one), here, os.fsencode(other), flag) == 0:
        return True
    if ctypes.get_errno() == errno.EEXIST:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(other))
    return False


def write_bytes(final: Path, data: bytes) -> None:
    """Write `data` to `final` atomically."""
    with atomic_file(final) as beside:
        beside.write_bytes(data)


def write_lines(final: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows to `final` as lines of JSON, atomically."""
    import orjson

    option = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    with atomic_file(final) as beside, beside.open("wb") as file:
        file.writelines(orjson.dumps(row, option=option) for row in rows)


@contextmanager
def atomic_directory(final: Path) -> Iterator[Path]:
    """Yield an empty directory to fill; on success it replaces `final`.

    An existing directory remains until the new one is complete and durable; then the two are
    exchanged and the old one is removed.

    Raises:
        ModtokError: the file system refused (full, read-only, no permission).
    """
    final = Path(final)
    beside = _prepare(final)
    old = final.parent / f".{final.name}{_MARK}old-{os.getpid()}"
    with writing(final, beside):
        _remove(beside)
        beside.mkdir()
        yield beside
        for path in sorted(beside.rglob("*")):
            if path.is_file():
                with open(path, "rb") as handle:
                    os.fsync(handle.fileno())
            else:
                fsync_directory(path)
        fsync_directory(beside)
        replaces = os.path.lexists(final) and final.absolute() not in _NEW.get()
        if replaces and _renamed(beside, final, _EXCHANGE):
            fsync_directory(final.parent)
            _remove(beside)
            return
        if replaces:
            final.replace(old)
        try:
            _publish(beside, final)
        except BaseException:
            if old.exists():
                old.replace(final)
            raise
        _remove(old)
