"""Locks on directories, held until the end of a block or of the process."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modtok_cli.base.errors import ModtokError


@contextmanager
def locked(directory: Path, *, seconds: float = 0) -> Iterator[None]:
    """Hold an exclusive lock on a directory; no lock if it does not exist.

    Raises:
        ModtokError: another process holds the lock, also after `seconds`.
    """
    until = time.monotonic() + seconds
    while True:
        with alone(directory, absent=True) as is_alone:
            if is_alone:
                yield
                return
        if time.monotonic() >= until:
            raise ModtokError(
                "is being written by another process",
                where=directory,
                remedy="wait for it to finish, or choose another -o",
            )
        time.sleep(0.1)


@contextmanager
def alone(directory: Path, *, absent: bool = False) -> Iterator[bool]:
    """Whether no other process is in this block with this directory; `absent` if there is none.

    The lock is on the directory itself, so no file is left behind and a kill releases it.
    A file system without locks is used without.
    """
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:  # absent, a file, or no permission
        if not (absent or isinstance(error, FileNotFoundError)):
            raise
        yield absent
        return
    is_alone = True
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have replaced the directory since it was opened.
            is_alone = os.path.samestat(os.fstat(handle), directory.stat())
        except (BlockingIOError, FileNotFoundError):
            is_alone = False
        except OSError:
            pass
        yield is_alone
    finally:
        os.close(handle)
