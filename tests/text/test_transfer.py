"""Copies in object storage are complete or absent, and go on after interruptions."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import fsspec
import orjson
import pytest

from helpers.flaky_store import Store
from modtok_cli.base import remote, transfer
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.transfer import LIST, PENDING, copy

THERE = "flaky://bucket/runs/it"


class Killed(BaseException):
    """Stands for a kill: nothing that modtok catches."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    Store.clear()
    yield fsspec.filesystem("flaky")
    Store.clear()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A directory like a run's."""
    place = tmp_path / "runs" / "it"
    for name, size in (("config.json", 10), ("checkpoints/step-1/a", 50), ("tokenizer/t", 0)):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(bytes(range(size)))
    (place / ".lock").write_text("")
    (place / ".partial-1").mkdir()
    (place / ".partial-1" / "x").write_text("x")
    (place / "latest").symlink_to("checkpoints")
    return place


def contents(place: Path) -> dict[str, bytes]:
    return {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and not any(part.startswith(".") for part in path.relative_to(place).parts)
    }


def test_directories_of_a_store_are_made(run: Path, tmp_path: Path) -> None:
    there = f"file://{tmp_path}/there/it"
    assert copy(run, there)[0]["files"] == 3
    copy(there, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(run)


def test_a_bucket_is_not_made() -> None:
    class Buckets(fsspec.AbstractFileSystem):  # type: ignore[misc]
        def exists(self, path: str, **_: object) -> bool:
            assert path == "typo"
            return False

        def makedirs(self, path: str, exist_ok: bool = False) -> None:
            raise AssertionError(path)

    def put() -> None:
        raise FileNotFoundError(2, "no such bucket")

    with pytest.raises(FileNotFoundError, match="no such bucket"):
        remote._put(Buckets(), "typo/runs/it/config.json", put)


def test_a_file_that_is_not_written_is_an_error(
    store: Store, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(path: remote.RemotePath, file: Path) -> None:
        raise FileNotFoundError(2, "no such file")

    monkeypatch.setattr(remote.RemotePath, "put_file", lost)
    with pytest.raises(ModtokError, match="was not written"):
        copy(run, THERE)
    assert remote.path_of(f"{THERE}/{PENDING}").exists()
    assert not remote.path_of(f"{THERE}/{LIST}").exists()


def test_there_and_back(store: Store, run: Path, tmp_path: Path) -> None:
    (row,) = copy(run, THERE)
    assert row == {"target": THERE, "files": 3, "bytes": 60, "copied": 3}
    assert copy(run, THERE)[0]["copied"] == 0
    (row,) = copy(THERE, tmp_path / "new" / "it")
    assert row["copied"] == 3
    assert contents(tmp_path / "new" / "it") == contents(run)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["it"]
    with pytest.raises(UsageError, match="already exists"):
        copy(THERE, tmp_path / "new" / "it")
    assert store.find("/bucket") == [
        f"/bucket/runs/it/{name}"
        for name in (LIST, "checkpoints/step-1/a", "config.json", "tokenizer/t")
    ]


def test_what_changes_gets_another_name_and_the_old_one_goes(
    store: Store, run: Path, tmp_path: Path
) -> None:
    copy(run, THERE)
    (run / "config.json").write_text("changed")
    (run / "checkpoints/step-2").mkdir()
    (run / "checkpoints/step-2/a").write_text("two")
    shutil.rmtree(run / "checkpoints/step-1")
    assert copy(run, THERE)[0]["copied"] == 2
    names = [path.removeprefix("/bucket/runs/it/") for path in store.find("/bucket")]
    assert [name.partition("@")[0] for name in names] == [
        LIST, "checkpoints/step-2/a", "config.json", "tokenizer/t",
    ]  # fmt: skip
    assert "@" in names[2]
    copy(THERE, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(run)
    (run / "config.json").write_bytes(bytes(range(10)))  # its first content again
    copy(run, THERE)
    copy(THERE, tmp_path / "again")
    assert contents(tmp_path / "again") == contents(run)


@pytest.mark.parametrize("kind", ["first", "update"])
def test_a_kill_at_any_request_leaves_a_whole_copy_or_none(
    store: Store, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(transfer, "_NOTED", -1.0)  # note after every file
    before: dict[str, bytes] = {}
    if kind == "update":
        copy(run, THERE)
        before = contents(run)
        (run / "config.json").write_text("changed")
        (run / "more").write_text("more")
    after, kills = contents(run), 0
    ask = remote.RemotePath._ask
    while True:
        asked = 0

        def dies(self: object, question: object, limit: int = kills) -> object:
            nonlocal asked
            asked += 1
            if asked > limit:
                raise Killed
            return ask(self, question)  # type: ignore[arg-type]

        snapshot = dict(Store.store)
        monkeypatch.setattr(remote.RemotePath, "_ask", dies)
        ended = False
        try:
            copy(run, THERE)
            ended = True
        except Killed:
            pass
        monkeypatch.setattr(remote.RemotePath, "_ask", ask)
        place = tmp_path / f"after-{kills}"
        try:
            copy(THERE, place)
            assert contents(place) in (before, after)
        except ModtokError:  # none
            assert kind == "first"
            assert not store.exists(f"/bucket/runs/it/{LIST}")
        if ended:
            break
        # the next copy finishes it, and leaves nothing else
        copy(run, THERE)
        shutil.rmtree(place, ignore_errors=True)
        copy(THERE, place)
        assert contents(place) == after
        listed = orjson.loads(store.cat_file(f"/bucket/runs/it/{LIST}"))["files"]
        kept = {f"/bucket/runs/it/{file['name']}" for file in listed.values()}
        assert set(store.find("/bucket")) == kept | {f"/bucket/runs/it/{LIST}"}
        Store.store.clear()
        Store.store.update(snapshot)
        kills += 1
    assert kills > 8


def test_an_interrupted_fetch_goes_on(
    store: Store, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy(run, THERE)
    get, fetched = remote.RemotePath.get_file, []

    def dies(self: remote.RemotePath, file: Path) -> None:
        if len(fetched) == 2:
            raise Killed
        fetched.append(self.name)
        get(self, file)

    monkeypatch.setattr(remote.RemotePath, "get_file", dies)
    with pytest.raises(Killed):
        copy(THERE, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    monkeypatch.setattr(remote.RemotePath, "get_file", get)
    assert copy(THERE, tmp_path / "back")[0]["copied"] == 1
    assert contents(tmp_path / "back") == contents(run)
    (tmp_path / "back" / "config.json").write_text("mine")
    copy(THERE, tmp_path / "back", force=True)
    assert contents(tmp_path / "back") == contents(run)
    (tmp_path / "back" / "own.txt").write_text("not in the copy")
    with pytest.raises(UsageError, match=r"not in the copy \(own.txt\)"):
        copy(THERE, tmp_path / "back", force=True)
    assert (tmp_path / "back" / "own.txt").exists()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="already exists"):
        copy(THERE, ".")


def test_a_checkpoint_that_is_removed_meanwhile_is_left_out(
    store: Store, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "bcd":
        (run / "checkpoints" / "step-1" / name).write_text(name)
    put = remote.RemotePath.put_file

    def removes(self: remote.RemotePath, file: Path) -> None:
        put(self, file)
        if self.name == "b":
            shutil.rmtree(run / "checkpoints" / "step-1")

    monkeypatch.setattr(remote.RemotePath, "put_file", removes)
    (row,) = copy(run, THERE)
    assert row["files"] == 2
    copy(THERE, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(run)
    assert not any("checkpoints" in name for name in store.find("/bucket"))


@pytest.mark.parametrize("breaks", [1, 4])
def test_connections_break(store: Store, run: Path, tmp_path: Path, breaks: int) -> None:
    Store.breaks = breaks
    copy(run, THERE)
    Store.breaks = breaks
    copy(THERE, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(run)


def test_what_is_refused(store: Store, run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="between a directory and object storage"):
        copy(run, tmp_path / "x")
    with pytest.raises(UsageError, match="no such directory"):
        copy(tmp_path / "none", THERE)
    with pytest.raises(ModtokError, match="no complete copy"):
        copy(THERE, tmp_path / "x")
    with pytest.raises(UsageError, match="every is for copies to object storage"):
        copy(THERE, tmp_path / "x", every=5)
    store.pipe("/bucket/other/file", b"theirs")
    with pytest.raises(UsageError, match="has files that modtok copy did not write"):
        copy(run, "flaky://bucket/other")
    copy(run, THERE)
    store.pipe("/bucket/runs/it/config.json", b"damaged...")
    with pytest.raises(ModtokError, match=r"config\.json: is not what was copied there"):
        copy(THERE, tmp_path / "x")
    assert not (tmp_path / "x").exists()
    entry = {"name": "a", "bytes": 1, "modified": 1, "sha256": ""}
    wrong = ({"../x": entry}, {"x": {**entry, "name": "/a"}}, {"x": {"name": "a"}}, [])
    for bad in (b"{", *(orjson.dumps({"files": files}) for files in wrong)):
        store.pipe(f"/bucket/runs/it/{LIST}", bad)
        with pytest.raises(ModtokError, match=r"modtok-copy.json: is damaged"):
            copy(THERE, tmp_path / "x")
    assert PENDING not in str(store.find("/bucket"))
