"""Every format of text, and everything that can be wrong with it."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import lzma
import os
import random
import re
import threading
from functools import partial

import orjson
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.both_readers import failure, read
from modtok_cli.base.errors import ModtokError
from modtok_cli.text import streams
from modtok_cli.text.readers import read_batches, read_documents, text_files
from modtok_cli.text.text_format import Document

TEXTS = ["un", "deux  mots", "", "tab\there", "cr\r", "\x85\u2028 not a line end", "नमस्ते\0 👍"]
LINES = "".join(f"{text}\n" for text in TEXTS).encode()
JSON = b"".join(orjson.dumps({"text": text, "lang": "fra_Latn"}) + b"\n" for text in TEXTS)
# With a checksum, as the zstd program writes it: without one, damage may go unseen.
PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    ".bz2": bz2.compress,
    ".xz": partial(lzma.compress, preset=0),  # the default takes seconds for megabytes
}


def texts(path, errors="strict") -> list[bytes]:
    return [document.text for document in read(path, errors)[0]]


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize(
    ("suffix", "content"), [(".txt", LINES), (".jsonl", JSON), (".jsonl", b"\n " + JSON)]
)
def test_formats(tmp_path, monkeypatch, suffix, content, packing):
    """By the name of a file, and by the content of standard input."""
    path = tmp_path / f"fr{suffix}{packing}"
    path.write_bytes(PACK[packing](content))
    assert texts(path) == [text.encode() for text in TEXTS]
    language = "fr-Latn" if suffix == ".jsonl" else None
    lines = enumerate(TEXTS, 1 + content.startswith(b"\n"))
    expected = [Document(text.encode(), language, n) for n, text in lines]
    assert list(read_documents(path)) == expected
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert list(read_documents("-")) == expected


def test_named_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(zstandard.compress(JSON),))
    writer.start()
    assert [d.text for d in read_documents(path)] == [text.encode() for text in TEXTS]
    writer.join()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(blacklist_characters="\n", codec="utf-8")), min_size=1))
def test_any_text_roundtrips_in_both_formats(tmp_path_factory, documents):
    directory = tmp_path_factory.mktemp("any")
    encoded = [document.encode() for document in documents]
    end = b"\n" * (not encoded[-1] or len(encoded) % 2)  # of the last line, or none
    (directory / "a.txt").write_bytes(b"\n".join(encoded) + end)
    assert texts(directory / "a.txt") == encoded
    (directory / "a.jsonl").write_bytes(
        b"\r\n".join(orjson.dumps({"text": text}) for text in documents)
    )
    assert texts(directory / "a.jsonl") == encoded


def test_batches_and_lines_over_many_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "CHUNK", 100)
    monkeypatch.setattr(streams, "_READ", 64)
    lines = [b"x" * (n % 300) for n in range(1000)]
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    documents = list(read_documents(path))
    assert [d.text for d in documents] == lines
    assert [d.line for d in documents] == list(range(1, 1001))
    assert len(list(read_batches(path))) > 100


def test_directory_is_read_sorted_and_hidden_files_are_not(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("b/2.txt", "b/1.jsonl", "a.txt", "c.devtest"):
        content = orjson.dumps({"text": name}) if "json" in name else name.encode()
        (tmp_path / name).write_bytes(content + b"\n")
    (tmp_path / ".hidden.txt").write_text("no\n")
    (tmp_path / "README.md").write_text("no\n")
    (tmp_path / "empty.txt").touch()
    assert texts(tmp_path) == [b"a.txt", b"b/1.jsonl", b"b/2.txt", b"c.devtest"]


def test_several_frames_and_members(tmp_path):
    for suffix in [".gz", ".bz2", ".xz", ".zst"]:
        path, pack = tmp_path / f"a.txt{suffix}", PACK[suffix]
        padding = b"" if suffix == ".zst" else b"\0" * 10
        path.write_bytes(pack(b"one\ntw") + pack(b"o\n") + pack(b"three") + padding)
        assert texts(path) == [b"one", b"two", b"three"]
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    path.write_bytes(zstandard.compress(b"one\n") + skippable + zstandard.compress(b"two"))
    assert texts(path) == [b"one", b"two"]


def test_progress_counts_compressed_bytes(tmp_path):
    path = tmp_path / "a.txt.zst"
    path.write_bytes(zstandard.compress(os.urandom(1 << 20).hex().encode()))
    told: list[float] = []
    list(read_documents(path, advance=told.append))
    assert sum(told) == path.stat().st_size
    assert len(told) > 1


# What is wrong with the file, or the name


def test_no_such_text(tmp_path):
    assert "does not exist" in failure(tmp_path / "no.txt")
    with pytest.raises(ModtokError, match="a directory, not a file"):
        list(streams.read_chunks(tmp_path))
    (tmp_path / "a.docx").write_text("x")
    assert re.search(r"name it .*\.txt.*and give -", failure(tmp_path / "a.docx"))
    with pytest.raises(ModtokError, match="no text in this directory"):
        text_files(tmp_path)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.zst", "a.txt.gz"])
def test_empty_file(tmp_path, name):
    path = tmp_path / name
    path.touch()
    assert "holds no text" in failure(path)


@pytest.mark.parametrize("suffix", ["zst", "gz", "bz2", "xz"])
def test_truncated(tmp_path, suffix):
    path = tmp_path / f"a.txt.{suffix}"
    lines = b"".join(os.urandom(500).hex().encode() + b"\n" for _ in range(2500))
    packed = PACK[f".{suffix}"](lines)
    for cut in (-1, -200, 20):
        path.write_bytes(packed[:cut])
        got: list[bytes] = []
        with pytest.raises(ModtokError, match="truncated") as caught:
            got.extend(document.text for document in read_documents(path))
        assert got == lines.split(b"\n")[: len(got)]  # nothing before the damage is lost
        assert str(caught.value).startswith(f"{path}:{len(got) + 1}: ")
        assert len(got) > 1500 or cut == 20  # a block of bzip2 is 900 kB


@pytest.mark.parametrize("suffix", ["zst", "gz", "bz2", "xz"])
def test_damaged_or_not_compressed(tmp_path, suffix):
    path = tmp_path / f"a.txt.{suffix}"
    packed = bytearray(PACK[f".{suffix}"](os.urandom(5000).hex().encode()))
    packed[2000:2100] = bytes(100)
    for content in (bytes(packed), b"plain text\n", PACK[f".{suffix}"](b"x\n") + b"rubbish" * 9):
        path.write_bytes(content)
        assert re.search("damaged|truncated", failure(path))


BROKEN = b"good\nbad \xff\xc3 here\n\xed\xa0\x80\ncut \xe0\xa4\nlast\n"


@pytest.mark.parametrize("packing", PACK)
def test_invalid_utf8(tmp_path, packing):
    path = tmp_path / f"a.txt{packing}"
    path.write_bytes(PACK[packing](BROKEN))
    message = failure(path)
    assert message.startswith(":2: not UTF-8 (byte 0xff at column 5)")
    assert "--errors replace" in message
    replaced, warnings = read(path, "replace")
    whole = BROKEN.decode(errors="replace").encode().split(b"\n")[:-1]
    assert [document.text for document in replaced] == whole
    assert warnings == [f"{path}:2: not UTF-8; 3 documents read with U+FFFD for invalid bytes"]
    left, warnings = read(path, "skip")
    assert [(document.text, document.line) for document in left] == [(b"good", 1), (b"last", 5)]
    assert warnings == [f"{path}:2: not UTF-8; 3 documents skipped"]


@pytest.mark.parametrize(
    ("line", "what", "replaced"),
    [
        (b'{"text": "a \xff b"}', "not UTF-8", "a \ufffd b"),
        (rb'{"text": "a \ud800 b"}', "a lone surrogate", "a \ufffd b"),
        (rb'{"text": "\udc00\ud83d\udc4d"}', "a lone surrogate", "\ufffd👍"),
    ],
)
def test_invalid_characters_in_json(tmp_path, line, what, replaced):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "good"}\n' + line + b"\n")
    message = failure(path)
    assert message.startswith(":2: ")
    assert what in message
    assert texts(path, "replace") == [b"good", replaced.encode()]
    left, warnings = read(path, "skip")
    assert [document.text for document in left] == [b"good"]
    assert "1 document skipped" in warnings[0]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b'{"text": "a"', "not JSON"),
        (b'{"text": "a"} x', "not JSON"),
        (b"plain", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b'{"text": 3}', "field 'text' is int"),
        (b'{"text": ["a"]}', "field 'text' is list"),
        (b"[" * 100_000, "JSON nested too deeply"),
        (b'{"text": "a", "score": nan}', "not JSON"),
    ],
)
def test_invalid_json(tmp_path, line, what):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "good"}\n\n' + line + b"\n" + line + b"\n")
    for errors in ("strict", "replace"):
        message = failure(path, errors)
        assert message.startswith(":3: ")
        assert what in message
        assert message.endswith("or pass --errors skip")
    left, (said,) = read(path, "skip")
    assert [document.text for document in left] == [b"good"]
    assert f"a.jsonl:3: {what}" in said
    assert said.endswith("2 documents skipped")
    path.write_bytes(line + b"\n")  # all of it: another file or field was meant
    assert what in failure(path, "skip")


def test_numbers_that_are_not_finite_are_null(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"n": NaN, "text": "a"}\n{"text": "b", "n": [-Infinity, 1e999]}\n{"text": NaN}\n'
    )
    found, warnings = read(path)
    assert [document.text for document in found] == [b"a", b"b"]
    assert warnings == [f"{path}:3: no text in field 'text'; 1 document skipped"]


def test_language_field(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "a"}\n{"text": "b", "lang": "swa"}\n{"text": "c", "lang": null}')
    assert [d.language for d in read_documents(path)] == [None, "sw", None]
    path.write_bytes(b'{"text": "a", "lang": 3}')
    with pytest.raises(ModtokError, match=r"a\.jsonl:1: field 'lang'"):
        list(read_documents(path))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "a\n\ufeffb\n"),
        ("a.jsonl", '{"text": "a"}\n{"text": "\ufeffb"}\n'),
        ("a.csv", "text,n\na,1\n\ufeffb,2\n"),
        ("a.tsv", "text\tn\na\t1\n\ufeffb\t2\n"),
    ],
)
def test_byte_order_mark_begins_no_word(tmp_path, monkeypatch, name, content):
    """It is no text at the beginning of a file; elsewhere it is."""
    data = ("\ufeff" + content).encode()
    expected = [b"a", "\ufeffb".encode()]
    (tmp_path / name).write_bytes(data)
    assert texts(tmp_path / name) == expected
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
    assert texts(tmp_path / f"{name}.gz") == expected
    if name.endswith((".txt", ".jsonl")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert [document.text for document in read_documents("-")] == expected


@pytest.mark.parametrize("suffix", PACK)
def test_files_that_are_read_in_turn(tmp_path, monkeypatch, suffix) -> None:
    """Threads count several languages at once: no file may see the state of another."""
    monkeypatch.setattr(streams, "CHUNK", 1 << 14)
    monkeypatch.setattr(streams, "_READ", 1 << 14)
    contents = [random.Random(seed).randbytes(1 << 18).hex().encode() for seed in range(2)]
    paths = [tmp_path / f"{seed}.txt{suffix}" for seed in range(2)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(PACK[suffix](content))
    pieces = [[], []]
    for turn in itertools.zip_longest(*map(streams.read_chunks, paths), fillvalue=b""):
        for piece, into in zip(turn, pieces, strict=True):
            into.append(piece)
    assert [b"".join(into) for into in pieces] == contents
    assert min(map(len, pieces)) > 2
