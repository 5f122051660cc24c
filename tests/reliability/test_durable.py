"""What is on disk before a name appears: the order of fsync and rename."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, check_new, one_call, write_bytes


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


def test_what_another_process_wrote_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    def write(place: Path, content: str) -> None:
        if place.suffix:
            write_bytes(place, content.encode())
            return
        with atomic_directory(place) as beside:
            (beside / "part").write_text(content)

    for name in ("file.json", "directory"):
        place, part = tmp_path / name, tmp_path / name / "part"
        with one_call():
            check_new(place)
            with one_call():  # another command, meanwhile
                write(place, "first")
            with pytest.raises(ModtokError, match=f"{name}: was written by another process"):
                write(place, "second")
        assert (part if place.is_dir() else place).read_text() == "first"
        with one_call():
            with pytest.raises(UsageError, match=f"{name}: already exists"):
                check_new(place)
            check_new(place, force=True)
            write(place, "second")
            write(place, "third")
        assert (part if place.is_dir() else place).read_text() == "third"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "file.json"]
