"""Counting, against a plain `Counter`; tables: merging, fingerprints, damage on disk, TSV."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from helpers.tsv_tables import write_tsv
from modtok_cli.base import memory
from modtok_cli.base.arrays import flatten
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.core.text import first_disorder
from modtok_cli.text.corpus import read_tsv
from modtok_cli.text.counts import (
    CorpusSize,
    WordCounter,
    WordCounts,
    count_documents,
    merge_counts,
    split_words,
)
from modtok_cli.text.pretokenizer import BPE, UNIGRAM
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import (
    TableSource,
    check_counts,
    is_table,
    load_counts,
    read_header,
    save_counts,
)

PAIRS = st.lists(
    st.tuples(st.text(min_size=1, max_size=4).map(str.encode), st.integers(1, 1 << 50)), max_size=12
)


@settings(max_examples=100, deadline=None)
@given(st.lists(PAIRS, max_size=6), st.randoms())
def test_tables_of_pairs_and_their_sums(tables, shuffler):
    made = [WordCounts.from_pairs(pairs) for pairs in tables]
    for pairs, table in zip(tables, made, strict=True):
        check_counts(table, "here")
        assert table.size.bytes == sum(len(word) * n for word, n in pairs)
        assert table.size.characters == sum(len(word.decode()) * n for word, n in pairs)
    total = Counter()
    for word, count in chain(*tables):
        total[word] += count
    merged = merge_counts(made)
    shuffler.shuffle(made)
    again = merge_counts(made)
    assert list(merged.pairs()) == sorted(total.items())
    assert merged.words() == sorted(total)
    assert merged.occurrences == sum(total.values())
    assert merged.fingerprint() == again.fingerprint()
    assert merged.size == again.size == sum((table.size for table in made), CorpusSize())


def test_from_pairs_refuses_invalid_entries():
    for pair in [(b"", 1), (b"a", 0), (b"a", -1)]:
        with pytest.raises(ValueError, match="at least 1"):
            WordCounts.from_pairs([pair])


def test_merge_refuses_two_pretokenizers():
    a = WordCounts.from_pairs([(b"a", 1)])
    with pytest.raises(UsageError, match="bpe, unigram"):
        merge_counts([a, WordCounts.from_pairs([(b"a", 1)], UNIGRAM)])


def test_fingerprint_depends_on_words_counts_and_pretokenizer():
    tables = [
        WordCounts.from_pairs(pairs, pretokenizer)
        for pairs in ([], [(b"a", 1)], [(b"a", 2)], [(b"ab", 1)], [(b"a", 1), (b"b", 1)])
        for pretokenizer in (BPE, UNIGRAM)
    ]
    assert len({table.fingerprint() for table in tables}) == len(tables)


TABLE = count_documents([["naïve words, naïve words\n".encode(), b"a\0b"]])
SOURCES = (TableSource("fr.txt", 5, 7),)


def test_save_and_load(tmp_path):
    path = tmp_path / "fr.counts"
    reading = Reading("skip", "a.title", "of")
    save_counts(TABLE, path, "fr", SOURCES, reading)
    loaded = load_counts(path)
    assert list(loaded.pairs()) == list(TABLE.pairs())
    assert (loaded.pretokenizer, loaded.size) == (TABLE.pretokenizer, TABLE.size)
    assert loaded.data.flags.writeable
    header = read_header(path)
    assert (header.language, header.sources, header.reading) == ("fr", SOURCES, reading)
    assert (header.words, header.unique) == (TABLE.occurrences, len(TABLE))


def test_memory_is_checked_before_a_table_is_read(tmp_path, monkeypatch):
    path = tmp_path / "fr.counts"
    save_counts(TABLE, path, "fr")
    monkeypatch.setattr(memory, "available", lambda: 100)
    with pytest.raises(ModtokError, match=r"reading fr\.counts needs about"):
        load_counts(path)


def _edit(path, change_metadata=None, **change_arrays):
    """Write the table again with some of it changed, as a hand or a fault might."""
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        content = json.loads(file.metadata()["modtok"])
    arrays = load_file(path)
    for name, value in change_arrays.items():
        if value is None:
            del arrays[name]
        else:
            arrays[name] = value(arrays[name].copy())
    if change_metadata:
        change_metadata(content)
    save_file(arrays, path, {"modtok": json.dumps(content)})


def _set(index, value):
    def change(array):
        array[index] = value
        return array

    return change


@pytest.mark.parametrize(
    ("arrays", "metadata", "expected"),
    [
        ({"counts": _set(0, 0)}, None, "'counts' holds 0"),
        ({"counts": _set(0, 5)}, None, "'words' says"),
        ({"counts": lambda a: a[:-1]}, None, "'offsets' has"),
        ({"counts": lambda a: a.astype(np.int32)}, None, "'counts' is int32"),
        ({"counts": None}, None, "'counts' is missing"),
        ({"offsets": _set(0, 1)}, None, "'offsets' does not run"),
        ({"offsets": _set(1, 4)}, None, "'offsets' does not ascend"),
        ({"data": _set(0, 255)}, None, "not UTF-8"),
        ({"data": _set(0, 11)}, None, "'data': word 1 does not sort after"),
        ({"data": _set(-1, 97)}, None, "'fingerprint' does not fit"),
        ({}, lambda m: m.update(unique=99), "'unique' says 99"),
        ({}, lambda m: m.update(version=9), "format version 9"),
        ({}, lambda m: m.update(format="x"), "'format'"),
        ({}, lambda m: m.pop("pretokenizer"), "'pretokenizer' is missing"),
        ({}, lambda m: m.update(size={"documents": "x"}), "'size"),
        ({}, lambda m: m.update(size={"documents": float("inf")}), "'size"),
        ({}, lambda m: m.update(sources=[{"nam": 1}]), "'sources"),
        ({}, lambda m: m.update(pattern="x"), "another pattern"),
    ],
)
def test_damage_names_the_problem(tmp_path, arrays, metadata, expected):
    path = tmp_path / "fr.counts"
    save_counts(TABLE, path, "fr")
    _edit(path, metadata, **arrays)
    with pytest.raises(ModtokError) as caught:
        load_counts(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert expected in message
    assert "modtok corpus count" in message
    assert "\n" not in message


def test_truncated_and_other_files_are_refused(tmp_path):
    path = tmp_path / "fr.counts"
    save_counts(TABLE, path, "fr")
    whole = path.read_bytes()
    for content in (b"", whole[:5], whole[:100], whole[:-1], b"word\t3\n" * 10):
        path.write_bytes(content)
        with pytest.raises(ModtokError, match=r"fr\.counts: damaged count table: header"):
            load_counts(path)
    save_file({"x": np.zeros(1)}, path)
    with pytest.raises(ModtokError, match="not a count table"):
        load_counts(path)
    with pytest.raises(ModtokError, match="does not exist"):
        load_counts(tmp_path / "no.counts")


@pytest.mark.parametrize("suffix", ["", ".zst", ".gz"])
@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=20).map(str.encode), max_size=5))
def test_tsv_roundtrip(tmp_path_factory, suffix, documents):
    path = tmp_path_factory.mktemp("tsv") / f"fr.counts.tsv{suffix}"
    table = count_documents([documents])
    write_tsv(table, path)
    again = read_tsv(path)
    assert list(again.pairs()) == list(table.pairs())
    assert (again.size.characters, again.size.bytes) == (table.size.characters, table.size.bytes)
    assert is_table(path)


def test_tsv_of_other_sources(tmp_path):
    path = tmp_path / "fr.counts.tsv"
    path.write_bytes(rb"the" + b"\t5\n the\t2\r\n\nthe\t1\nice cream\t3\nC:\\x\\\\y\t1")
    assert dict(read_tsv(path).pairs()) == {
        b"the": 6, b" the": 2, b"ice": 3, b" cream": 3, b"C": 1, b":\\": 1, b"x": 1, b"\\": 1,
        b"y": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"word", "no tab"),
        (b"\t3", "no word"),
        (b"a\t", "'' is not a count"),
        (b"a\t0", "'0' is not a count"),
        (b"a\t-3", "'-3' is not a count"),
        (b"a\t1.5", "'1.5' is not a count"),
        (b"a\t99999999999999999999", "is not a count"),
        (b"\xff\t3", "not UTF-8"),
    ],
)
def test_tsv_errors_have_the_line(tmp_path, line, expected):
    path = tmp_path / "fr.counts.tsv.gz"
    path.write_bytes(gzip.compress(b"good\t1\n" + line + b"\n"))
    with pytest.raises(ModtokError) as caught:
        read_tsv(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert expected in str(caught.value)


def test_the_first_word_that_is_not_above_the_one_before() -> None:
    for words, place in (
        ([b"a", b"b"], -1), ([b"a", b"a"], 1), ([b"a", b"ab", b"a"], 2), ([b"b", b"a"], 1),
        ([b"\x7f", b"\x80"], -1), ([], -1), ([b"", b""], 1),
    ):  # fmt: skip
        data, offsets = flatten([*words, bytes(8)])
        assert first_disorder(data, offsets[:-1]) == place


def plain(documents: list[bytes]) -> dict[bytes, int]:
    total: Counter[bytes] = Counter()
    for document in documents:
        total.update(split_words(document))
    return dict(sorted(total.items()))


WORDS = st.sampled_from(
    ["a", "b", " a", "ab", "abcdefgh", "abcdefghi", " abcdefghijklmno", " abcdefghijklmnop",
     "abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz" * 3, "\0", "a\0", "\0\0", "é",
     "हिन्दी",
     "\n", "  ", "12345678", "!", "…", "👍🏽"]
)  # fmt: skip


DOCUMENTS = st.lists(st.lists(WORDS, max_size=12).map(lambda w: "".join(w).encode()), max_size=8)


@settings(max_examples=100, deadline=None)
@given(DOCUMENTS)
def test_counts_are_those_of_a_counter(documents):
    table = count_documents([documents] if documents else [])
    assert list(table.pairs()) == list(plain(documents).items())
    text = b"".join(documents).decode()
    assert table.size == CorpusSize(len(documents), len(text), len(text.encode()))


def test_growth_of_table_and_arena():
    """More unique words than the first table holds, short and long, all of them counted."""
    generator = random.Random(3)
    numbers = [generator.randrange(1 << 40) for _ in range(60_000)]
    short = [b"%x" % n for n in numbers]
    long = [b"averyveryverylongword%x" % n for n in numbers[:40_000]]
    letters = bytes.maketrans(b"0123456789", b"ghijklmnop")
    documents = [word.translate(letters) for word in [*short, *long, *short[:1000], *long[:1000]]]
    table = count_documents(documents[i : i + 5000] for i in range(0, len(documents), 5000))
    expected = Counter(documents)
    assert len(table) > 95_000
    assert list(table.pairs()) == sorted(expected.items())


def test_one_enormous_word():
    word = b"x" * 5_000_000
    table = count_documents([[word + b" y", word]])
    assert list(table.pairs()) == [(b" y", 1), (word, 2)]


def test_result_between_additions():
    counter = WordCounter()
    counter.add_documents([b"a"])
    assert dict(counter.result().pairs()) == {b"a": 1}
    counter.add_documents([b"a"])
    assert dict(counter.result().pairs()) == {b"a": 2}


def test_buffer_without_padding_is_refused():
    counter = WordCounter()
    span = np.array([0]), np.array([3])
    with pytest.raises(ValueError, match="64 bytes"):
        counter.add_spans(np.frombuffer(b"abc", dtype=np.uint8), *span)
