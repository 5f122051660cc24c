"""Flat files of token ids hold what encoding each document gives."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.toy_tokenizers import toy
from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.core.text import packed
from modtok_cli.text.text_format import PADDING, Spans
from modtok_cli.tokenizer.encoding import flat_files as module
from modtok_cli.tokenizer.encoding.flat_files import FORMS, NpyFiles, encode_files
from modtok_cli.tokenizer.encoding.lines import decode, encode
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

TEXTS = ["abab cabb", "", "été\nabc\t日本", "a" * 300, " b", "cab " * 50]


@pytest.fixture(scope="module")
def tokenizer() -> Subtokenizer:
    return toy(0).subset(["fi", "el"])


@pytest.fixture
def corpus(tmp_path: Path) -> list[Path]:
    """The texts as JSON lines, with one that the compiled reader leaves, and a plain file."""
    lines = [orjson.dumps({"text": text}) for text in TEXTS]
    lines.insert(2, b'{"text": "\\ud83d\\ude42 ab", "more": [1]}')
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "b.txt").write_bytes("one ab\n\nlast été".encode())
    return [tmp_path / "a.jsonl", tmp_path / "b.txt"]


ALL = [*TEXTS[:2], "🙂 ab", *TEXTS[2:], "one ab", "", "last été"]


def read_npy(directory: Path) -> list[list[int]]:
    ids, offsets = (np.load(directory / f"{name}.npy") for name in ("tokens", "offsets"))
    assert offsets[0] == 0
    assert offsets[-1] == len(ids)
    return [part.tolist() for part in np.split(ids, offsets[1:-1])]


def read_bin(directory: Path) -> list[list[int]]:
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    found = indexed.IndexedDataset(str(directory / "tokens"))
    assert found.document_indices.tolist() == list(range(len(found) + 1))
    size = sum(len(ids) for ids in found) * found[0].itemsize
    assert (directory / "tokens.bin").stat().st_size == size
    return [ids.tolist() for ids in found]


READ = {"npy": read_npy, "bin": read_bin}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("threads", [1, 2])
def test_files_hold_the_ids_of_each_document(
    tokenizer: Subtokenizer, corpus: list[Path], tmp_path: Path, form: str, threads: int
) -> None:
    out = tmp_path / "out"
    facts = encode_files(tokenizer, corpus, out, form, threads=threads)
    expected = [ids.tolist() for ids in tokenizer.encode_batch(ALL)]
    assert READ[form](out) == expected
    assert facts == orjson.loads((out / "tokens.json").read_bytes())
    assert facts["documents"] == len(ALL)
    assert facts["tokens"] == sum(map(len, expected))
    assert facts["bytes"] == sum(len(text.encode()) for text in ALL)
    assert (facts["dtype"], facts["end_of_text"]) == ("uint16", None)


@pytest.mark.parametrize("form", FORMS)
def test_end_of_text_global_ids_and_four_bytes(
    tokenizer: Subtokenizer, corpus: list[Path], tmp_path: Path, form: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("modtok_cli.tokenizer.encoding.flat_files._SMALL", tokenizer.size)
    monkeypatch.setattr("modtok_cli.tokenizer.encoding.flat_files._CHUNK", 4)
    names, ids = tokenizer.global_ids.tolist(), enumerate(tokenizer.vocabulary.tokens())
    end, text = next((i, token.decode()) for i, token in ids if names[i] != i and token.isascii())
    facts = encode_files(
        tokenizer, corpus, tmp_path / "out", form, end_of_text=text, global_ids=True
    )
    batch = tokenizer.encode_batch(ALL)
    expected = [[*tokenizer.global_ids[each].tolist(), names[end]] for each in batch]
    assert READ[form](tmp_path / "out") == expected
    assert (facts["dtype"], facts["end_of_text"]) == ("uint32", names[end])
    assert facts["size"] == toy(0).size > tokenizer.size


def test_any_tokenizer(tokenizer: Subtokenizer, corpus: list[Path], tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {"<e>": 3, "ab": 0, "?": 1, "one": 2}
    library = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.save(str(tmp_path / "words.json"))
    external = open_tokenizer(str(tmp_path / "words.json"))
    assert not isinstance(external, Subtokenizer)
    encode_files(external, corpus[1:], tmp_path / "out", end_of_text="<e>")
    assert read_npy(tmp_path / "out") == [[2, 0, 3], [3], [1, 1, 3]]
    with pytest.raises(UsageError, match="--global-ids is not supported"):
        encode_files(external, corpus, tmp_path / "more", global_ids=True)


def test_counts_ids_and_texts_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abc aab\n\nabc\n")
    (tmp_path / "c.txt").touch()
    (tmp_path / "b.jsonl").write_text('{"text": "caba"}\n')
    tokenizer = toy(3).subset("el")
    for each in (tokenizer, LibraryTokenizer("l", tokenizer.to_json(), "l")):
        lengths = {text: len(each.encode(text)) for text in ("abc aab", "abc", "caba")}
        assert list(encode(tmp_path, each, count=True)) == [
            {"text": str(tmp_path / "a.txt"), "language": None, "documents": 3,
             "tokens": lengths["abc aab"] + lengths["abc"], "bytes": 10},
            {"text": str(tmp_path / "b.jsonl"), "language": None, "documents": 1,
             "tokens": lengths["caba"], "bytes": 4},
            {"text": str(tmp_path / "c.txt"), "language": None, "documents": 0,
             "tokens": 0, "bytes": 0},
        ]  # fmt: skip
    two = [tmp_path / "a.txt", tmp_path / "b.jsonl"]
    rows = [row["ids"].tolist() for row in encode(two, tokenizer, global_ids=True)]
    texts = ("abc aab", "", "abc", "caba")
    assert rows == [tokenizer.global_ids[tokenizer.encode(text)].tolist() for text in texts]
    ids = [tmp_path / "1.ids", tmp_path / "2.ids"]
    for path, some in zip(ids, (rows[:3], rows[3:]), strict=True):
        path.write_text("".join(f"{row}\n" for row in some))
    assert list(decode(ids, tokenizer, global_ids=True)) == [text.encode() for text in texts]
    with pytest.raises(UsageError, match="format: excludes count"):
        encode(tmp_path, tokenizer, count=True, format="npy")


def test_nothing_is_left_of_a_failure_and_nothing_is_lost(
    tokenizer: Subtokenizer, corpus: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    encode_files(tokenizer, corpus, out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    (tmp_path / "bad.txt").write_bytes(b"ab\n\xff\n")
    texts = [*corpus, tmp_path / "bad.txt"]
    with pytest.raises(UsageError, match="already exists"):
        encode_files(tokenizer, texts, out)
    with pytest.raises(ModtokError, match=r"bad\.txt:2"):
        encode_files(tokenizer, texts, out, "bin", force=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    encode_files(tokenizer, corpus, out, "bin", force=True)
    assert sorted(path.name for path in out.iterdir()) == [
        "tokens.bin",
        "tokens.idx",
        "tokens.json",
    ]
    (out / "other").touch()
    with pytest.raises(UsageError, match="other files"):
        encode_files(tokenizer, corpus, out, force=True)
    for wrong in ({"format": "txt"}, {"format": "npy", "end_of_text": "<none>"}):
        with pytest.raises(UsageError, match=r"choose from: npy, bin|no token '<none>'"):
            encode(corpus, tokenizer, output=tmp_path / "new", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


def test_blocks_are_read_a_few_ahead_and_keep_their_order(
    tokenizer: Subtokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0

    def blocks(text: Path, *_: object, **__: object) -> object:
        nonlocal taken
        for number in range(40):
            data = np.frombuffer(b"%02d" % number + PADDING, dtype=np.uint8)
            taken += 1
            yield Spans(data, np.zeros(1, dtype=np.int64), np.full(1, 2, dtype=np.int64))

    ahead = []

    class Watched(NpyFiles):
        def append(self, ids: Int32Array, ends: Int64Array) -> None:
            ahead.append(taken - self.documents)
            super().append(ids, ends)

    monkeypatch.setitem(FORMS, "npy", Watched)
    monkeypatch.setattr(module, "read_spans", blocks)
    (tmp_path / "x.txt").touch()
    encode_files(tokenizer, [tmp_path / "x.txt"], tmp_path / "out", threads=2)
    assert max(ahead) <= 5
    assert [tokenizer.decode(ids) for ids in read_npy(tmp_path / "out")] == [
        f"{number:02}" for number in range(40)
    ]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8))
@settings(deadline=None)
def test_packed_places(places: list[tuple[int, int]]) -> None:
    data = np.arange(60, dtype=np.uint8)
    spans = [(min(place), max(place)) for place in places]
    starts = np.array([start for start, _ in spans], dtype=np.int64)
    stops = np.array([stop for _, stop in spans], dtype=np.int64)
    out, offsets = packed(data, starts, stops)
    assert len(out) >= offsets[-1] + 16
    found = [out[a:b].tolist() for a, b in pairwise(offsets.tolist())]
    assert found == [list(range(start, stop)) for start, stop in spans]
