"""Text in object storage: the same results as from files, also when connections break."""

from __future__ import annotations

import io
import pickle
import re
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest

from helpers.flaky_store import Store
from helpers.sample import SAMPLE
from modtok_cli.base import remote
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, write_bytes
from modtok_cli.base.remote import RemotePath, path_of
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.corpus.count import corpus_count
from modtok_cli.corpus.input_pages import find_files, read_pages
from modtok_cli.measure.nsl import nsl
from modtok_cli.text.readers import read_documents, text_files
from modtok_cli.text.workspace import language_files

DATA = SAMPLE / "data"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The sample's text in flaky://bucket/data, without waiting between requests."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(remote, "_BLOCK", 1000)
    Store.clear()
    made = fsspec.filesystem("flaky")
    for file in DATA.iterdir():
        made.pipe(f"/bucket/data/{file.name}", file.read_bytes())
    yield made
    Store.store.clear()


def test_a_path_is_a_url_and_stays_one() -> None:
    path = path_of("s3://bucket/data//fi.jsonl.zst")
    assert isinstance(path, RemotePath)
    assert str(path) == "s3://bucket/data/fi.jsonl.zst" == str(pickle.loads(pickle.dumps(path)))
    assert (path.name, path.suffix, str(path.parent)) == (
        "fi.jsonl.zst", ".zst", "s3://bucket/data",
    )  # fmt: skip
    assert isinstance(path.parent / "en.txt", RemotePath)
    assert path_of(path) is path
    assert path.resolve() == path.absolute() == path
    for plain in ("data/fi.txt", "/data/s3:/x", "C:/x", "-", "a:b"):
        assert type(path_of(plain)) is type(Path(plain))


def test_files_of_a_store(store: Store) -> None:
    data = path_of("flaky://bucket/data")
    assert data.is_dir()
    assert not data.is_file()
    assert not (data / "none").exists()
    names = sorted(path.name for path in DATA.iterdir())
    assert sorted(path.name for path in data.iterdir()) == names
    assert [str(file) for file in text_files("flaky://bucket/data")] == [
        f"flaky://bucket/data/{name}" for name in names
    ]
    found, there = language_files(data, ["fi"]), language_files(DATA, ["fi"])
    assert [path.name for path in found["fi"]] == [path.name for path in there["fi"]]
    assert found["fi"][0].stat().st_size == there["fi"][0].stat().st_size
    with pytest.raises(FileNotFoundError):
        (data / "none").stat()


@pytest.mark.parametrize("breaks", [0, 1, 3, 5])
def test_documents_are_those_of_the_file(store: Store, breaks: int) -> None:
    expected = list(read_documents(DATA / "fi.jsonl"))
    path = path_of("flaky://bucket/data/fi.jsonl")
    Store.requests, Store.breaks = 0, breaks
    found = list(read_documents(path))
    assert [each.text for each in found] == [each.text for each in expected]
    assert Store.breaks == 0
    assert Store.requests > breaks + 2


def test_a_store_that_cannot_be_reached_is_one_line(store: Store) -> None:
    Store.breaks = 10**6
    with pytest.raises(ModtokError, match=r"^flaky://bucket/data/fi.jsonl: cannot be reached: the"):
        list(read_documents("flaky://bucket/data/fi.jsonl"))
    Store.breaks = 0
    with pytest.raises(ModtokError, match=r"none.txt: does not exist"):
        list(read_documents("flaky://bucket/none.txt"))
    with pytest.raises(UsageError, match=r"nowhere:// cannot be read"):
        text_files("nowhere://bucket/fi.txt")


def test_a_store_that_refuses_is_one_line_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Store, path: str, **options: Any) -> Any:
        self._request()
        raise PermissionError("Forbidden")  # as s3fs: without a number, unlike the system's

    monkeypatch.setattr(Store, "info", refuse)
    Store.requests = 0
    line = r"^flaky://bucket/data: access is denied: Forbidden; check the address, the credentials"
    with pytest.raises(ModtokError, match=line):
        language_files(path_of("flaky://bucket/data"), ["fi"])
    assert Store.requests == 1


def test_a_version_stands_for_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """hf:// has no times: text that was replaced by as many bytes is noticed all the same."""
    known: dict[str, Any] = {"type": "file", "size": 7}
    monkeypatch.setattr(Store, "info", lambda self, path, **options: dict(known))
    path = path_of("flaky://bucket/data/fi.txt")
    assert path.stat().st_mtime_ns == 0
    for field in ("Last-Modified", "blob_id"):  # the first of a web server without ETag
        known[field] = "Sun, 29 Nov 2026 06:00:00 GMT"
        before = path.stat()
        assert 0 < before.st_mtime_ns == path.stat().st_mtime_ns
        known[field] = "Sun, 29 Nov 2026 06:00:01 GMT"
        assert path.stat().st_mtime_ns != before.st_mtime_ns
    known["size"] = None
    with pytest.raises(ModtokError, match="does not tell its size; download it"):
        path.open()


class Ranges(SimpleHTTPRequestHandler):
    """Files of the sample; with `serves_parts`, also parts of them. With `status`, an error."""

    serves_parts = True
    status = 0

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        """Answer."""
        if self.status:
            self.send_error(self.status)
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        file = Path(self.translate_path(self.path))
        if not (wanted and file.is_file() and self.serves_parts):
            super().do_GET()
            return
        data = file.read_bytes()[int(wanted[1]) : int(wanted[2]) + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def web() -> Iterator[str]:
    """Address of a server of the sample."""
    pytest.importorskip("aiohttp")
    handler = partial(Ranges, directory=str(SAMPLE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_stores_whose_names_are_addresses(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_BLOCK", 1000)
    expected = [each.text for each in read_documents(DATA / "fi.jsonl")]
    address = f"{web}/data/fi.jsonl"
    assert [each.text for each in read_documents(address)] == expected
    monkeypatch.setattr(Ranges, "serves_parts", False)
    message = "does not send parts of a file; download it"
    with path_of(address).open("rb") as file, pytest.raises(ModtokError, match=message):
        file.read(10)
    with pytest.raises(ModtokError, match="does not exist"):
        list(read_documents(f"{web}/data/none.txt"))


def test_a_web_server_that_fails_is_not_a_missing_file(
    web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    assert not path_of(f"{web}/none.txt").exists()
    assert not waits
    for status, what in ((403, "access is denied: 403"), (503, "cannot be reached: 503")):
        monkeypatch.setattr(Ranges, "status", status)
        with pytest.raises(ModtokError, match=rf"/fi\.txt: {what}, message="):
            path_of(f"{web}/fi.txt").exists()
        assert bool(waits) == (status == 503)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/fi.txt"
        with pytest.raises(ModtokError, match="cannot be reached: Cannot connect to host"):
            path_of(url).exists()


def test_learning_counting_and_measuring(store: Store, tmp_path: Path) -> None:
    Store.breaks = 2

    def learned(name: str, languages: str, data: Path | str, references: bool = False) -> bytes:
        bpe_seq(languages, data=data, output=tmp_path / name, k=400, references=references)
        return (tmp_path / name / "arrays.safetensors").read_bytes()

    far = learned("far", "en,fi", "flaky://bucket/data")
    assert far == learned("near", "en,fi", DATA)
    corpus_count("fi", data="flaky://bucket/data", output=tmp_path / "counts")
    store.pipe("/bucket/counts/fi.counts", (tmp_path / "counts" / "fi.counts").read_bytes())
    counted = learned("counted", "fi", "flaky://bucket/counts")
    assert counted == learned("measured", "fi", DATA, references=True)
    store.pipe("/bucket/parallel/fi.txt", (SAMPLE / "parallel" / "fi.txt").read_bytes())
    texts = ("flaky://bucket/parallel/fi.txt", SAMPLE / "parallel" / "fi.txt")
    rows = [nsl(f"{tmp_path}/measured", [text])[0] | {"text": ""} for text in texts]
    assert rows[0] == rows[1]


def test_pages_and_columns(store: Store, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>Hei maailma</p>", encoding="utf-8")
    store.pipe("/bucket/web/page.html", (tmp_path / "page.html").read_bytes())
    (found,) = find_files(["flaky://bucket/web"])
    assert [page.data for page in read_pages(found)] == [b"<p>Hei maailma</p>"]
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"text": ["Hei", "maailma"]})
    for name in ("fi.parquet", "fi.arrow"):
        if name.endswith("parquet"):
            parquet.write_table(table, tmp_path / name)
        else:
            with pyarrow.ipc.new_stream(str(tmp_path / name), table.schema) as stream:
                stream.write_table(table)
        store.pipe(f"/bucket/{name}", (tmp_path / name).read_bytes())
        Store.breaks = 1
        found_texts = [each.text for each in read_documents(f"flaky://bucket/{name}")]
        assert found_texts == [b"Hei", b"maailma"]


def test_outputs_are_local(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"object storage, which modtok only reads"):
        write_bytes(Path("flaky://bucket/x"), b"")
    with pytest.raises(UsageError, match=r"object storage"), atomic_directory(path_of("s3://b/x")):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_stream_is_sought(store: Store) -> None:
    content = (DATA / "fi.jsonl").read_bytes()
    with path_of("flaky://bucket/data/fi.jsonl").open("rb") as file:
        assert file.seek(-7, io.SEEK_END) == len(content) - 7
        assert file.read() == content[-7:]
        file.seek(1500)
        assert file.read(2000) == content[1500:3500]
        assert file.tell() == 3500
