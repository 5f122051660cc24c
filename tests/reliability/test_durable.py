"""What is on disk before a name appears: the order of fsync and rename."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modtok_cli.base.files import atomic_directory, write_bytes


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is written to disk or renamed, in order."""
    made: list[str] = []
    real = Path.replace

    def fsync(handle: int) -> None:
        made.append(f"fsync {Path(f'/proc/self/fd/{handle}').readlink().name}")

    def rename(self: Path, target: Path) -> Path:
        made.append(f"rename to {target.name}")
        return real(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
    return made


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path: Path, calls: list[str]) -> None:
    write_bytes(tmp_path / "a.json", b"{}")
    written, renamed, durable = calls
    assert written.startswith("fsync ")
    assert written != "fsync a.json"
    assert (renamed, durable) == ("rename to a.json", f"fsync {tmp_path.name}")


def test_a_directory_and_its_files_are_on_disk_before_it_has_its_name(
    tmp_path: Path, calls: list[str]
) -> None:
    with atomic_directory(tmp_path / "d") as beside:
        (beside / "in").mkdir()
        (beside / "in" / "one").write_bytes(b"1")
        (beside / "two").write_bytes(b"2")
    renamed = calls.index("rename to d")
    before = calls[:renamed]
    assert {"fsync one", "fsync two", "fsync in", f"fsync {beside.name}"} <= set(before)
    assert calls[renamed + 1 :] == [f"fsync {tmp_path.name}"]
