"""JSON lines with other fields, CSV, TSV, Parquet, Arrow: each against an obvious reader."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import itertools
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.both_readers import failure
from helpers.both_readers import read as read_both
from helpers.said import Said
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.text import streams
from modtok_cli.text.formats import columns as columns_module
from modtok_cli.text.formats import separated
from modtok_cli.text.readers import is_text, read_documents, read_spans
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import SUFFIXES
from modtok_cli.text.table_files import is_table
from modtok_cli.text.text_format import format_of_name

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
LANGUAGE = st.sampled_from(["fi", "fra_Latn", "eng", None])
ROWS = st.lists(st.tuples(TEXT | st.none(), LANGUAGE), min_size=1, max_size=12)
SHORT = {"fi": "fi", "fra_Latn": "fr-Latn", "eng": "en", None: None}
NUMBERS = itertools.count()


def read(path, **reading):
    """(texts with languages, warnings)."""
    documents, warnings = read_both(path, **reading)
    return [(one.text.decode(), one.language) for one in documents], warnings


def write_json(path, rows):
    lines = [{"id": 1, "body": {"of": text}, "language": name} for text, name in rows]
    path.write_bytes(b"\n".join(map(orjson.dumps, lines)))


def table_of(rows, kind=None):
    kind = kind or pa.string()
    texts, names = [text for text, _ in rows], [name for _, name in rows]
    body = pa.StructArray.from_arrays([pa.array(texts, kind)], ["of"])
    columns = [pa.array(range(len(rows))), pa.array(texts, kind), body, pa.array(names)]
    return pa.table(columns, ["id", "content", "body", "language"])


def write_arrow(path, table, with_index, rows):
    make = pa.ipc.new_file if with_index else pa.ipc.new_stream
    with make(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


def expected(rows, language=None):
    """What `read` gives, by going through the rows."""
    known = [(text, SHORT[name]) for text, name in rows if text is not None]
    return [one for one in known if language is None or (one[1] or "").startswith(language)]


@settings(max_examples=60, deadline=None)
@given(ROWS, st.sampled_from([None, "fi", "fr"]))
def test_json_with_other_fields(tmp_path_factory, rows, language):
    path = tmp_path_factory.getbasetemp() / f"{next(NUMBERS)}.jsonl"
    write_json(path, rows)
    found, warnings = read(path, field="body.of", lang_field="language", language=language)
    assert found == expected(rows, language)
    nulls = sum(text is None for text, _ in rows)
    assert [f"; {nulls} document" in line for line in warnings if "no text" in line] == (
        [True] if nulls else []
    )


@settings(max_examples=60, deadline=None)
@given(ROWS, st.sampled_from([".csv", ".tsv"]), st.sampled_from([None, "fi"]), st.booleans())
def test_csv_and_tsv(tmp_path_factory, rows, suffix, language, small):
    path = tmp_path_factory.getbasetemp() / f"{next(NUMBERS)}{suffix}.gz"
    out = io.StringIO()
    writer = csv.writer(out, delimiter="," if suffix == ".csv" else "\t", lineterminator="\n")
    writer.writerow(["n", "content", "language"])
    filled = [(text or "", name) for text, name in rows]
    for number, (text, name) in enumerate(filled):
        writer.writerow([number, text, name or ""])
    path.write_bytes(gzip.compress(out.getvalue().encode()))
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(streams, "CHUNK", 16)
            patch.setattr(separated, "CHUNK", 8)
        found, _ = read(path, field="content", lang_field="language", language=language)
    assert found == expected(filled, language)


TSV = [
    # (cells as written, texts; None for those of QUOTE_NONE)
    ('1\t"Hello, she said.\n2\tBye, he said"\n3\tc\n', None),
    ('1\t"Hello"\n2\t"Bye", he said.\n', None),
    ('1\tc\n2\tsay "x"\n3\t"Hello"', None),
    ('1\t"Hello"\n2\tBye\n', None),
    ('1\ta\n2\t"Hello\n', None),
    ('1\t"a\nb"\n2\tc\n', ["a\nb", "c"]),
    ('1\t"a ""b"""\n2\t"c\td"\n', ['a "b"', "c\td"]),
    ('1\t"a\nb"\n2\t"a\n""b"""\n', ["a\nb", 'a\n"b"']),
]


@pytest.mark.parametrize(("cells", "texts"), TSV)
def test_quotes_of_tsv_quote_if_all_do(tmp_path, cells, texts):
    path = tmp_path / "fi.tsv"
    path.write_text("id\ttext\n" + cells)
    found, warnings = read(path)
    plain = [line.split("\t")[1] for line in cells.splitlines()] if texts is None else texts
    assert ([text for text, _ in found], warnings) == (plain, [])
    path.write_text('"id"\t"text"\n1\t"Hello"\n2\t"Bye"\n')
    assert [text for text, _ in read(path)[0]] == ["Hello", "Bye"]


KINDS = [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int16(), pa.string())]


@settings(max_examples=50, deadline=None)
@given(
    ROWS,
    st.sampled_from(["parquet", "stream", "file"]),
    st.sampled_from(KINDS),
    st.sampled_from(["content", "body.of"]),
    st.sampled_from([None, "fi"]),
    st.integers(1, 5),
    st.booleans(),
)
def test_columns(tmp_path_factory, rows, form, kind, field, language, size, small):
    if field == "body.of" and pa.types.is_dictionary(kind):
        kind = pa.string()
    table = table_of(rows, kind)
    path = tmp_path_factory.getbasetemp() / f"{next(NUMBERS)}"
    if form == "parquet":
        path = path.with_suffix(".parquet")
        pq.write_table(table, path, row_group_size=size, use_dictionary=small, compression="zstd")
    else:
        path = path.with_suffix(".arrow")
        write_arrow(path, table, form == "file", size)
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(columns_module, "CHUNK", 8)
        found, warnings = read(path, field=field, lang_field="language", language=language)
    assert found == expected(rows, language)
    assert any("no text in field" in line for line in warnings) == (None in [r[0] for r in rows])


@pytest.mark.parametrize("encoding", [None, "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_rows_are_numbered_over_batches(tmp_path, monkeypatch, encoding):
    """Also with encodings that give no dictionary."""
    monkeypatch.setattr(columns_module, "CHUNK", 64)
    path, texts = tmp_path / "a.parquet", [f"text {number}" for number in range(50)]
    kind = {"use_dictionary": False, "column_encoding": {"text": encoding}} if encoding else {}
    pq.write_table(pa.table({"text": texts}), path, row_group_size=7, **kind)
    told: list[float] = []
    found = list(read_documents(path, advance=told.append))
    assert [(each.text.decode(), each.line) for each in found] == list(
        zip(texts, range(1, 51), strict=True)
    )
    assert sum(told) == path.stat().st_size
    assert len(told) > 5


def test_invalid_utf8_in_columns_and_cells(tmp_path):
    raw = [b"good", b"a \xff b", b"\xc3", b"\xa9", b"last"]  # two halves of a character
    kept, skipped = ["good", "a \ufffd b", "\ufffd", "\ufffd", "last"], ["good", "last"]
    pq.write_table(pa.table({"text": pa.array(raw, pa.binary())}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_bytes(b"text\n" + b"\n".join(raw))
    halves = pa.table({"text": pa.array(raw[2:4], pa.binary())})  # together they are UTF-8
    pq.write_table(halves, tmp_path / "b.parquet")
    assert failure(tmp_path / "b.parquet").startswith(":1: not UTF-8 (byte 0xc3 at column 1)")
    for name, line in (("a.parquet", 2), ("a.csv", 3)):
        path = tmp_path / name
        assert failure(path).startswith(f":{line}: not UTF-8 (byte 0xff at column 3)")
        found, warnings = read(path, errors="replace")
        assert [text for text, _ in found] == kept
        assert warnings == [
            f"{path}:{line}: not UTF-8; 3 documents read with U+FFFD for invalid bytes"
        ]
        assert [text for text, _ in read(path, errors="skip")[0]] == skipped


def test_null_and_missing_text_is_skipped_and_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "a"}\n{"text": null}\n\n{"t": 1}\n{"text": "b"}')
    found, warnings = read(path)
    assert [text for text, _ in found] == ["a", "b"]
    assert warnings == [f"{path}:2: no text in field 'text'; 2 documents skipped"]
    path.write_bytes(b'{"a": {"b": "x"}}\n{"a": null}\n{"a": {}}\n{"a.b": "y"}\n{"a": "z"}')
    found, warnings = read(path, field="a.b")
    assert [text for text, _ in found] == ["x", "y"]
    assert "; 3 documents skipped" in warnings[0]


def test_wrong_field_names_those_there_are(tmp_path):
    rows = [("a", "fi"), ("b", "fi")]
    write_json(tmp_path / "a.jsonl", rows)
    (tmp_path / "a.csv").write_text("id,body,language\n1,a,fi\n")
    pq.write_table(table_of(rows).select(["id", "body", "language"]), tmp_path / "a.parquet")
    write_arrow(tmp_path / "a.arrow", table_of(rows).select(["id", "body"]), False, 9)
    for name in ("a.jsonl", "a.csv", "a.parquet", "a.arrow"):
        message = failure(tmp_path / name)
        assert message.startswith(":1: no field 'text'; choose one with --field: id, body")
    # Not only at the end of a large file.
    path = tmp_path / "b.jsonl"
    path.write_bytes(b'{"content": "a"}\n' * 1001 + b"not JSON")
    assert "no field 'text'" in failure(path)


def test_the_only_field_with_text_is_taken_and_said(tmp_path):
    def line(row):
        return orjson.dumps(row).decode()

    text = "Il \u00e9tait une fois un roi qui aimait le th\u00e9 noir."
    rows = [{"id": f"n{number}", "body": f"{text} {number}"} for number in range(3)]
    (tmp_path / "a.jsonl").write_text("".join(f"{line(row)}\n" for row in rows))
    lines = "".join(f"{row['id']},{row['body']}\n" for row in rows)
    (tmp_path / "a.csv").write_text(f"id,body\n{lines}")
    for name in ("a.jsonl", "a.csv"):
        heard = Said()
        found = [each.text.decode() for each in read_documents(tmp_path / name, progress=heard)]
        assert found == [row["body"] for row in rows], name
        (note,) = heard.notes
        assert "has no field 'text'; 'body' is the only one with text, and is read" in note
    # Two with text, a field that is there later, a field that was named: nothing is guessed.
    both = {"title": text, "body": text}
    for content, field in (([both, both], "text"), ([rows[0]], "content")):
        (tmp_path / "b.jsonl").write_text("".join(f"{line(row)}\n" for row in content))
        with pytest.raises(ModtokError, match=f"no field '{field}'; choose one with --field"):
            list(read_documents(tmp_path / "b.jsonl", Reading(field=field)))
    (tmp_path / "b.jsonl").write_text(f"{line(rows[0])}\n" + line({"text": "x"}) + "\n")
    assert [each.text for each in read_documents(tmp_path / "b.jsonl")] == [b"x"]
    (tmp_path / "b.csv").write_text(f"{text}\n{text}\n")  # no header
    with pytest.raises(ModtokError, match="no field 'text'"):
        list(read_documents(tmp_path / "b.csv"))


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.csv", "text,n\na,1\nb\n", ":3: 1 cells under a header of 2"),
        ("a.csv", "text,n\na,1,2\n", ":2: 3 cells under a header of 2"),
        ("a.csv", 'text\nx\n"open\n\n', ":3: not CSV"),
        ("a.csv", 'text\n"a"b\n', ":2: not CSV"),
        ("a.csv", "text\na\rb\n", ":2: not CSV"),
        ("a.csv", "text,text\na,b\n", ":1: two columns 'text'"),
        ("a.csv", "text;lang\nx\n", ":1: cells are separated by semicolons, not by commas; write"),
        ("a.csv", "id;content\nx\n", ":1: cells are separated by semicolons, not by commas; write"),
        ("a.csv", "text\tlang, long\nx\n", ":1: cells are separated by tabs, not by commas; write"),
        ("a.tsv", "text;lang\tx\nx\n", ":1: cells are separated by semicolons, not by tabs; write"),
    ],
)
def test_invalid_csv(tmp_path, name, content, what):
    path = tmp_path / name
    path.write_bytes(content.encode())
    assert failure(path).startswith(what)


def test_types_that_are_not_text(tmp_path):
    for kind, values in ((pa.int64(), [1]), (pa.list_(pa.string()), [["a"]])):
        table = pa.table({"text": pa.array(values, kind)})
        pq.write_table(table, tmp_path / "a.parquet")
        write_arrow(tmp_path / "a.arrow", table, True, 1)
        for name in ("a.parquet", "a.arrow"):
            assert "not a string" in failure(tmp_path / name)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_damaged_columns_are_one_line(tmp_path, name):
    path, table = tmp_path / name, table_of([("some text " * 40, "fi")] * 50)
    if name == "a.parquet":
        pq.write_table(table, path, use_dictionary=False)
    else:
        write_arrow(path, table, False, 20)
    whole, rng, refused = path.read_bytes(), np.random.default_rng(3), 0
    for case in range(60):
        data = bytearray(whole)
        if case % 2:
            del data[int(rng.integers(len(data))) :]
        else:
            for place in rng.integers(len(data), size=4):
                data[place] = rng.integers(256)
        path.write_bytes(data)
        try:
            list(read_documents(path, Reading(field="content")))
        except ModtokError:
            assert re.match(r"(:\d+)?: ", failure(path, field="content"))
            refused += 1
    assert refused >= 25


@pytest.mark.parametrize("size", [1, 2])  # of the texts, of the languages
def test_damaged_offsets_of_columns_are_one_line(tmp_path, size):
    path = tmp_path / "a.arrow"
    write_arrow(path, pa.table({"text": ["a", "b", "c"], "lang": ["en", "fi", "fi"]}), False, 9)
    offsets = (np.arange(4, dtype="<i4") * size).tobytes()
    whole = path.read_bytes()
    assert whole.count(offsets) == 1
    for wrong in ([0, size, 0, 3], [0, size, -4, 3], [0, 1 << 30, 2, 3]):
        path.write_bytes(whole.replace(offsets, np.array(wrong, dtype="<i4").tobytes()))
        assert "damaged Arrow file" in failure(path)


_READ_ALL = """
import sys
from pathlib import Path
from modtok_cli.base.errors import ModtokError
from modtok_cli.text.readers import read_documents
whole, path = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
for place in range(whole.rindex(b"PAR1") - 8 - int(sys.argv[3]), len(whole)):
    path.write_bytes(whole[:place] + bytes([(whole[place] + 4) % 256]) + whole[place + 1 :])
    try:
        list(read_documents(path))
    except ModtokError:
        continue
"""


def test_damaged_footer_of_parquet_does_not_end_the_process(tmp_path):
    """`pyarrow` calls `terminate` for a wrong list of sizes if one asks for a column's."""
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["A house.", None], "lang": ["en", "fi"]})
    pq.write_table(table, path, store_schema=False)
    footer = int.from_bytes(path.read_bytes()[-8:-4], "little")
    words = [sys.executable, "-c", _READ_ALL, path, tmp_path / "b.parquet", str(footer)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_compressed_arrow_and_pipes_are_refused(tmp_path):
    path = tmp_path / "a.arrow"
    table = pa.table({"text": ["a" * 1000]})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table)
    assert "compressed Arrow files are not read" in failure(path)
    names = [f"a{suffix}{packed}" for suffix in (".arrow", ".parquet") for packed in SUFFIXES]
    assert not any(format_of_name(Path(name)) for name in names)


@pytest.mark.parametrize("texts", [1, 3000])
def test_memory_for_a_row_group_is_bounded(tmp_path, texts):
    path = tmp_path / "a.parquet"
    names = pa.array(np.arange(3000, dtype=np.int32) % texts)
    values = [f"{number} " + "x" * 20_000 for number in range(texts)]
    array = pa.DictionaryArray.from_arrays(names, values).cast(pa.string())
    pq.write_table(pa.table({"text": array}), path, write_batch_size=16)
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        total = sum(int((spans.stops - spans.starts).sum()) for spans in read_spans(path))
    finally:
        pa.set_memory_pool(before)
    assert total > 60_000_000 > 3 * pool.max_memory()


def test_bombs_stay_bounded(tmp_path):
    path = tmp_path / "a.csv.bz2"
    path.write_bytes(bz2.compress(b'text\n"' + b"a\n" * (1 << 20)))
    tracemalloc.start()
    assert "field larger than field limit" in failure(path, longest=1 << 18)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "parquet", "csv"])
def test_too_long_documents_are_skipped_and_counted(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    texts = ["a", "x" * (1 << 21), "y" * (1 << 20), "b", "x" * (1 << 21)]
    if suffix == "parquet":
        pq.write_table(pa.table({"text": texts}), path)
    else:
        form = '{"text": "%s"}' if suffix == "jsonl" else "%s"
        header = ["text"] * (suffix == "csv")
        path.write_text("\n".join([*header, *(form % text for text in texts)]))
    assert failure(path, longest=1 << 19).startswith(f":{3 if suffix == 'csv' else 2}: ")
    told = Silent()
    reading = Reading("skip", longest=1 << 19)
    if suffix == "csv":  # a line may be part of a row
        assert "JSON lines" in failure(path, errors="skip", longest=1 << 19)
        return
    found = read_documents(path, reading, progress=told)
    assert [(each.text, each.line) for each in found] == [(b"a", 1), (b"b", 4)]
    assert told.warnings == [f"{path}:2: more than 524,288 bytes; 3 documents skipped"]


def test_files_without_a_format_in_the_name(tmp_path):
    (tmp_path / "fr.gz").write_bytes(gzip.compress(b"un\ndeux\n"))
    (tmp_path / "fi.bz2").write_bytes(bz2.compress(b'{"text": "yksi"}\n'))
    (tmp_path / "en.json.gz").write_bytes(gzip.compress(b'{"text": "one"}\n'))
    found = [read(tmp_path / name)[0][0][0] for name in ("fr.gz", "fi.bz2", "en.json.gz")]
    assert found == ["un", "yksi", "one"]
    assert not is_text(tmp_path / "fr.tar.gz")
    assert not is_text(tmp_path / "corpus.json")


def test_a_name_tells_a_word_table_from_text(tmp_path):
    for name in ("fr.tsv", "fr.tsv.gz", "fr.b.tsv", "counts.tsv"):
        assert (is_text(Path(name)), is_table(name)) == (True, False)
    for name in ("fr.counts", "fr.counts.tsv", "fr.counts.tsv.zst"):
        assert (is_text(Path(name)), is_table(name)) == (False, True)
    # A sentence and its label is no word and its count.
    (tmp_path / "fr.tsv").write_text("Tout va bien.\t1\nRien ne va.\t0\n")
    assert failure(tmp_path / "fr.tsv").startswith(":1: no header; begin the file with names")


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".csv", ".tsv", ".txt.gz"])
def test_utf_16_is_named(tmp_path, suffix, order):
    path, text = tmp_path / f"fr{suffix}", "\ufefftext\tb\nun\tdeux\n".encode(f"utf-16-{order}")
    path.write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
    assert failure(path).startswith(": is UTF-16; convert it")


def test_directory_that_datasets_saved(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = {"text": ["un", None, "deux"], "label": [0, 1, 0]}
    datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / "fr")
    write_arrow(tmp_path / "fr" / "cache-1f2e.arrow", pa.table({"text": ["no"]}), False, 1)
    assert [text for text, _ in read(tmp_path / "fr")[0]] == ["un", "deux"]


def test_settings_of_reading():
    for wrong, said in (
        ({"field": "a..b"}, "--field"),
        ({"lang_field": "text"}, "--lang-field"),
        ({"errors": "ignore"}, "strict, replace or skip"),
    ):
        with pytest.raises(UsageError, match=said):
            Reading(**wrong)
    assert Reading(lang_field="x").of("fra_Latn").language == "fr-Latn"
    assert Reading().of("fr").language is None


@pytest.mark.parametrize("name", ["text", "lang", "url", "b"])
def test_two_columns_of_one_name_are_refused(tmp_path, name):
    text = pa.array(["a"])
    nested = pa.StructArray.from_arrays([text, text], names=["b", name])
    table = pa.table([text, text, text, nested, text], names=["text", "lang", "url", "a", name])
    reading = Reading(field="a.b" if name == "b" else "text", source_fields=("source", "url"))
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    for suffix in ("parquet", "arrow"):
        with pytest.raises(ModtokError, match=f"a.{suffix}:1: two columns '{name}'"):
            list(read_documents(tmp_path / f"a.{suffix}", reading))
