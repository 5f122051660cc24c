"""The workspace of jobs and copies of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from helpers import jobs


@contextmanager
def workspaces(base: Path | None = None, **parts: bool) -> Iterator[tuple[Path, Path]]:
    """The workspace, made where it is missing, and a directory for copies."""
    with tempfile.TemporaryDirectory() as scratch:
        base = (base or Path(scratch) / "base").absolute()
        if not base.exists():
            base.mkdir(parents=True)
            jobs.workspace(base, **parts)
        yield base, Path(scratch)


def fresh(base: Path, place: Path, by: Any = os.link) -> Path:
    """A copy; by default what it only reads is linked. Runs record where their text is."""
    shutil.rmtree(place, ignore_errors=True)
    ignored = shutil.ignore_patterns(".tmp")
    shutil.copytree(base, place, copy_function=by, symlinks=True, ignore=ignored)
    return place


@contextmanager
def small(place: Path, spare: int, base: Path) -> Iterator[None]:
    """A workspace on a file system with so many bytes to spare."""
    size = sum(-(-f.stat().st_size // 4096) * 4096 + 4096 for f in base.rglob("*") if f.is_file())
    place.mkdir(parents=True, exist_ok=True)
    options = f"size={size + 64 * 4096}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
    try:
        subprocess.run(["cp", "-a", f"{base}/.", str(place)], check=True)
        (place / ".tmp").mkdir(exist_ok=True)
        free = os.statvfs(place)
        filler = max(0, free.f_bavail * free.f_frsize - spare)
        (place / ".filler").write_bytes(bytes(filler))
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
