"""Locks on directories, held until the end of a block or of the process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modtok_cli.base.errors import ModtokError


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold an exclusive lock on a directory; no lock if it does not exist.

    The lock is on the directory itself, so no file is left behind and a kill releases it.
    A file system without locks is used without.

    Raises:
        ModtokError: another process holds the lock.
    """
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # absent, a file, or no permission: the caller reports it
        yield
        return
    try:
        busy = False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have replaced the directory since it was opened.
            busy = not _is_current(handle, directory)
        except BlockingIOError:
            busy = True
        except OSError:
            pass
        if busy:
            raise ModtokError(
                "is being written by another process",
                where=directory,
                remedy="wait for it to finish, or choose another -o",
            )
        yield
    finally:
        os.close(handle)


def _is_current(handle: int, directory: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), directory.stat())
    except OSError:
        return False
