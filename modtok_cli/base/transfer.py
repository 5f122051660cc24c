"""`modtok copy`: an output to object storage and back, whole or not at all.

A copy has the files of a directory under their names, and a list of them (`LIST`) that is written
last: what the list names is there and does not change. A file that has changed gets a new name,
with its digest; the old one is removed after the new list is there. What an interrupted copy has
done is noted (`PENDING`), so that the next one goes on.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_file, fsync_directory, remove_directory
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import FilePath, Force
from modtok_cli.base.progress import SILENT, Progress, Task
from modtok_cli.base.public import public
from modtok_cli.base.remote import RemotePath, path_of

LIST, PENDING = ".modtok-copy.json", ".modtok-copy.pending.json"
_NOTED = 20.0
"""Seconds between two notes of what was done."""


@dataclass(frozen=True)
class Copied:
    """A file of a copy: the name of its object, bytes, time of change (ns), SHA-256."""

    name: str
    bytes: int
    modified: int
    sha256: str


Files = dict[str, Copied]


@public
def copy(
    source: Annotated[
        FilePath, Option("Directory, or the address of a copy.", argument=True, metavar="SOURCE")
    ],
    target: Annotated[
        FilePath, Option("Address, or a new directory.", argument=True, metavar="TARGET")
    ],
    *,
    every: Annotated[
        int | None,
        Option("Copy again every N seconds, for a run that trains.", metavar="N", low=1),
    ] = None,
    force: Force = False,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Copy a corpus, tokenizer, run or slice to object storage, or back.

    One of both is an address such as s3://bucket/runs/it. A copy there is complete or absent: a
    list of its files is written last. Copying again sends what has changed, and what an
    interrupted copy lacks. Hidden files and links are left out.

    Returns:
        A row: `target`, its `files` and `bytes`, and how many files were `copied`.

    Examples:
        >>> modtok.copy("tokenizer", "memory://bucket/tokenizer")[0]["copied"] > 3
        True

    Raises:
        UsageError: not exactly one address, no directory, or `target` exists here.
        ModtokError: the store cannot be reached, or there is no complete copy.
    """
    here, there = path_of(source), path_of(target)
    if isinstance(here, RemotePath) == isinstance(there, RemotePath):
        raise UsageError(
            "copies between a directory and object storage",
            remedy="as in: modtok copy runs/it s3://bucket/runs/it",
        )
    if isinstance(here, RemotePath):
        if every is not None:
            raise UsageError("--every is for copies to object storage")
        return [_fetch(here, there, force, progress)]
    assert isinstance(there, RemotePath)
    while True:
        row = _send(here, there, progress)
        if every is None:
            return [row]
        progress.note(f"{there}: {row['copied']} of {row['files']} files were new")
        time.sleep(every)


def _row(target: Path, files: Files, copied: int) -> dict[str, Any]:
    size = sum(file.bytes for file in files.values())
    return {"target": str(target), "files": len(files), "bytes": size, "copied": copied}


def _read(place: RemotePath) -> tuple[Files, set[str]] | None:
    """The files of a list, and names of objects that may be there beside them; None without one.

    Raises:
        ModtokError: it is damaged.
    """
    if not place.exists():
        return None
    try:
        content = orjson.loads(place.read_bytes())
        files = {str(name): Copied(**fields) for name, fields in content["files"].items()}
        others = {str(name) for name in content.get("others", ())}
        for path in (*files, *(file.name for file in files.values()), *others):
            parts = PurePosixPath(path).parts
            if not parts or path.startswith("/") or ".." in parts or "\\" in path:
                raise ValueError(f"name {path!r}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModtokError(f"is damaged ({error})", where=place) from error
    return files, others


def _write(place: RemotePath, files: Files, others: Iterable[str] = ()) -> None:
    listed = {name: asdict(file) for name, file in sorted(files.items())}
    content = {"format": 1, "files": listed, "others": sorted(others)}
    place.put_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))


def _local_files(directory: Path) -> Iterator[tuple[str, Path, int]]:
    """Name, path and size of each file; a run may remove some meanwhile."""
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory)
        if path.is_symlink() or any(part.startswith(".") for part in relative.parts):
            continue
        with suppress(FileNotFoundError):
            if path.is_file():
                yield relative.as_posix(), path, path.stat().st_size


def _send(source: Path, target: RemotePath, progress: Progress) -> dict[str, Any]:
    if not source.is_dir():
        raise UsageError("no such directory", where=source)
    listed, pending = _read(target / LIST), _read(target / PENDING)
    if listed is None and pending is None and target.exists() and any(target.rglob("*")):
        raise UsageError(
            "has files that modtok copy did not write", where=target, remedy="choose another name"
        )
    sending = _Sending(target, listed[0] if listed else {}, *(pending or ({}, set())))
    found = list(_local_files(source))
    # Whatever an interrupted copy leaves has a name that is noted before.
    sending.note(name for name, *_ in found)
    with progress.task("copying", sum(size for *_, size in found), "B") as task:
        for name, path, size in found:
            with suppress(FileNotFoundError):
                sending.send(name, path)
            task.advance(size)
    for name, path, _ in found:
        if not path.exists():  # of a checkpoint that the run has removed
            sending.now.pop(name, None)
        elif name not in sending.now:
            raise ModtokError("was not written", where=target / name, remedy="repeat the command")
    copied = sending.finish()
    return _row(target, sending.now, copied)


class _Sending:
    """The files of a copy: as the list has them (`before`), sent by an interrupted one, and now."""

    def __init__(self, target: RemotePath, before: Files, sent: Files, others: set[str]) -> None:
        self.target, self.before, self.sent, self.now = target, before, sent, Files()
        self._names = {file.name for file in before.values()}
        self._others = others | self._names | {file.name for file in sent.values()}
        self._noted = time.monotonic()

    def note(self, names: Iterable[str] = ()) -> None:
        """Write what is done, and the names that objects may get."""
        self._others |= {*names} | {file.name for file in self.now.values()}
        _write(self.target / PENDING, {**self.sent, **self.now}, self._others)
        self._noted = time.monotonic()

    def send(self, name: str, path: Path) -> None:
        """Send a file, unless it is there."""
        status = path.stat()
        size, modified = status.st_size, status.st_mtime_ns
        there = [files[name] for files in (self.before, self.sent) if name in files]
        same = [each for each in there if (each.bytes, each.modified) == (size, modified)]
        if not same:
            with path.open("rb") as content:
                found = hashlib.file_digest(content, "sha256").hexdigest()
            same = [
                Copied(each.name, size, modified, found) for each in there if each.sha256 == found
            ]
        if same:
            self.now[name] = same[0]
            return
        place = name
        if name in self._names:  # what the list names stays until another list is there
            place = f"{name}@{found[:12]}"
            self.note([place])
        (self.target / place).put_file(path)
        if path.stat().st_mtime_ns != modified:  # it grew meanwhile
            self.send(name, path)
            return
        self.now[name] = Copied(place, size, modified, found)
        if time.monotonic() - self._noted > _NOTED:
            self.note()

    def finish(self) -> int:
        """Write the list and remove what it does not name; how many files were sent."""
        if self.now != self.before:
            _write(self.target / LIST, self.now)
        for old in self._others - {file.name for file in self.now.values()}:
            (self.target / old).remove()
        (self.target / PENDING).remove()
        known = {file.sha256 for files in (self.before, self.sent) for file in files.values()}
        return sum(file.sha256 not in known for file in self.now.values())


def _fetch(source: RemotePath, target: Path, force: bool, progress: Progress) -> dict[str, Any]:
    listed = _read(source / LIST)
    if listed is None:
        raise ModtokError(
            "no complete copy", where=source, remedy="copy it there: modtok copy DIR ADDRESS"
        )
    if target.exists() and not force:
        raise UsageError("already exists", where=target, remedy="choose another, or pass --force")
    files, _ = listed
    target = target.absolute()
    others = [
        path.relative_to(target).as_posix()
        for path in (target.rglob("*") if target.is_dir() else ())
        if path.is_file() and path.relative_to(target).as_posix() not in files
    ]
    if others or target.is_file():
        raise UsageError(
            f"has files that are not in the copy ({', '.join(sorted(others)[:3]) or 'a file'})",
            where=target,
            remedy="choose another directory",
        )
    # What was fetched before an interruption stays beside the target.
    parts = target.with_name(f".{target.name}.copying")
    copied = 0
    with progress.task("copying", sum(file.bytes for file in files.values()), "B") as task:
        for name, file in files.items():
            copied += _fetched(source, file, parts / name, task)
    for path in [path for path in parts.rglob("*") if path.is_file()]:
        if path.relative_to(parts).as_posix() not in files:
            path.unlink()
    if target.exists():
        remove_directory(target)
    parts.replace(target)
    fsync_directory(target.parent)
    return _row(target, files, copied)


def _fetched(source: RemotePath, file: Copied, path: Path, task: Task) -> bool:
    """Fetch a file, unless it is there."""
    if path.is_file() and path.stat().st_size == file.bytes and _digest(path) == file.sha256:
        task.advance(file.bytes)
        return False
    with atomic_file(path) as beside:
        (source / file.name).get_file(beside)
        if _digest(beside) != file.sha256:
            raise ModtokError(
                "is not what was copied there",
                where=source / file.name,
                remedy="copy it there again, or repeat this if it was being copied",
            )
    task.advance(file.bytes)
    return True


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
