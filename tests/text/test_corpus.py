"""Counting a corpus: one table whatever the order, format, threads, file or pipe; threads."""

from __future__ import annotations

import gzip
import io
import random
import threading
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from tokenizers import Tokenizer, models, pre_tokenizers

from helpers.text_store import text_store
from helpers.tsv_tables import write_tsv
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Silent
from modtok_cli.measure.corpus_stats import stats_of
from modtok_cli.text.corpus import count_corpus, count_languages, write_counts
from modtok_cli.text.counts import CorpusSize, count_documents, merge_counts, split_words
from modtok_cli.text.parallel import read_each
from modtok_cli.text.pretokenizer import UNIGRAM
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import load_counts, save_counts
from modtok_cli.text.workspace import language_files

PARTS = [[f"le mot {n} naïve  est là" for n in range(20 * k)] for k in (1, 2, 3)]


def _encoded(documents):
    return [document.encode() for document in documents]


@pytest.fixture
def files(tmp_path):
    """The same three parts as text, packed JSON, and a count table."""
    text, packed, table = tmp_path / "fr.txt", tmp_path / "fr.jsonl.zst", tmp_path / "fr.counts"
    text.write_text("\n".join(PARTS[0]))
    packed.write_bytes(
        zstandard.compress(b"\n".join(orjson.dumps({"text": each}) for each in PARTS[1]))
    )
    save_counts(count_documents([_encoded(PARTS[2])]), table, "fr")
    return [text, packed, table]


WHOLE = count_documents([_encoded(part) for part in PARTS])


def test_tables_are_not_written_beside_files_of_another_kind(files, tmp_path):
    (tmp_path / "tok").mkdir()
    (tmp_path / "tok" / "manifest.json").touch()
    with pytest.raises(UsageError, match=r"tok: contains other files \(manifest.json\)"):
        write_counts(["fr"], data=tmp_path, output=tmp_path / "tok")
    assert [path.name for path in (tmp_path / "tok").iterdir()] == ["manifest.json"]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_table_does_not_depend_on_order_or_threads(files, threads):
    for seed in range(4):
        random.Random(seed).shuffle(files)
        table = count_corpus(files, threads=threads)
        assert table.fingerprint() == WHOLE.fingerprint()
        assert table.size == WHOLE.size == CorpusSize(120, WHOLE.size.characters, WHOLE.size.bytes)


def test_directories_pipes_and_tsv_count_alike(files, tmp_path, monkeypatch):
    assert count_corpus([tmp_path]).fingerprint() == WHOLE.fingerprint()

    class Stdin:
        buffer = io.BytesIO(gzip.compress("\n".join(chain(*PARTS)).encode()))

    monkeypatch.setattr("sys.stdin", Stdin)
    assert count_corpus(["-"]).fingerprint() == WHOLE.fingerprint()
    (tmp_path / "more").mkdir()
    write_tsv(WHOLE, tmp_path / "more" / "fr.counts.tsv.zst")
    twice = count_corpus([*files, tmp_path / "more" / "fr.counts.tsv.zst"])
    assert list(twice.pairs()) == [(word, 2 * n) for word, n in WHOLE.pairs()]


@pytest.mark.parametrize("threads", [1, 3])
def test_languages(tmp_path, threads):
    files = {}
    for language, part in zip(("sv", "fi", "el"), PARTS, strict=True):
        files[language] = [tmp_path / f"{language}.txt"]
        files[language][0].write_text("\n".join(part))
    counted = count_languages(files, threads=threads)
    assert list(counted) == ["el", "fi", "sv"]
    assert counted["sv"].fingerprint() == count_documents([_encoded(PARTS[0])]).fingerprint()
    merged = merge_counts(list(counted.values()))
    assert merged.fingerprint() == WHOLE.fingerprint()


def test_errors_are_passed_on(tmp_path):
    path = tmp_path / "fr.txt"
    path.write_bytes(b"good\nb\xffd\n")
    with pytest.raises(ModtokError, match=r"fr\.txt:2"):
        count_corpus([path])
    progress = Silent()
    assert count_corpus([path], reading=Reading("skip"), progress=progress).words() == [b"good"]
    assert len(progress.warnings) == 1
    replaced = count_corpus([path], reading=Reading("replace"))
    assert "b\ufffdd".encode() == b"".join(split_words("b\ufffdd".encode()))
    assert sorted(replaced.words()) == sorted([b"good", *split_words("b\ufffdd".encode())])


def test_progress_reaches_its_total(files):
    class Task:
        def advance(self, amount=1):
            seen.append(amount)

    class Watching(Silent):
        def task(self, label, total, unit):
            from contextlib import nullcontext

            assert unit == "B"
            totals.append(total)
            return nullcontext(Task())

    seen: list[float] = []
    totals: list[float] = []
    count_corpus(files, progress=Watching())
    assert sum(seen) == totals[0] == sum(path.stat().st_size for path in files)


# write_counts


@pytest.fixture
def data(tmp_path):
    directory = tmp_path / "data"
    directory.mkdir()
    for language, part in zip(("fr", "fi"), PARTS, strict=False):
        (directory / f"{language}.txt").write_text("\n".join(part))
    return directory


def _write(data, **options):
    progress = Silent()
    notes: list[str] = []
    progress.note = notes.append
    rows = write_counts(data=data, output=data.parent / "counts", progress=progress, **options)
    return {row["language"]: row for row in rows}, notes


def test_write_counts_is_resumable(data):
    rows, notes = _write(data)
    assert not notes
    assert list(rows) == ["fi", "fr"]
    table = load_counts(Path(rows["fr"]["path"]))
    assert table.fingerprint() == count_documents([_encoded(PARTS[0])]).fingerprint()
    assert (rows["fr"]["documents"], rows["fr"]["unique_words"]) == (20, len(table))
    assert rows["fr"]["words"] == table.occurrences

    stamp = Path(rows["fr"]["path"]).stat().st_mtime_ns
    again, notes = _write(data)
    assert "unchanged: fi, fr" in notes[0]
    assert {**rows["fr"], "unchanged": True} == again["fr"]
    assert Path(rows["fr"]["path"]).stat().st_mtime_ns == stamp

    with open(data / "fi.txt", "a") as file:
        file.write("\nmore")
    third, notes = _write(data)
    assert "unchanged: fr" in notes[0]
    assert not third["fi"]["unchanged"]
    assert third["fi"]["documents"] == rows["fi"]["documents"] + 1

    forced, notes = _write(data, force=True)
    assert not notes
    assert not forced["fr"]["unchanged"]
    other, _ = _write(data, reading=Reading("replace"))
    assert not other["fr"]["unchanged"]


def test_write_counts_replaces_a_damaged_table(data):
    rows, _ = _write(data)
    path = Path(rows["fr"]["path"])
    whole = path.read_bytes()
    path.write_bytes(whole[:50])
    rows, _ = _write(data)
    assert (rows["fr"]["unchanged"], rows["fi"]["unchanged"]) == (False, True)
    assert path.read_bytes() == whole


def test_finished_tables_stay_when_another_fails(data):
    (data / "sv.txt").write_bytes(b"\xff")
    with pytest.raises(ModtokError, match=r"sv\.txt:1"):
        _write(data, threads=1)
    assert sorted(path.name for path in (data.parent / "counts").iterdir()) == [
        "fi.counts",
        "fr.counts",
    ]
    (data / "sv.txt").write_bytes(b"ord")
    rows, _ = _write(data)
    assert [row["unchanged"] for row in rows.values()] == [True, True, False]


def test_empty_file_among_others_is_skipped(tmp_path, data):
    """As of a directory: shards that a filter left nothing of."""
    parts = [tmp_path / "fr" / name for name in ("a.txt", "b.txt", "c.jsonl.zst", "d.txt.gz")]
    parts[0].parent.mkdir()
    parts[0].write_text("un deux\n")
    parts[1].touch()
    parts[2].write_bytes(zstandard.compress(b""))
    parts[3].write_bytes(gzip.compress(b""))
    alone = count_corpus(parts[:1])
    for found in (
        count_corpus(parts),
        count_corpus(parts, threads=2),
        count_corpus([tmp_path / "fr"]),
        count_languages({"fr": parts})["fr"],
    ):
        assert list(found.pairs()) == list(alone.pairs())
    (stats,) = stats_of({"fr": parts})
    assert (stats["documents"], stats["words"]) == (1, 2)
    mixed = tmp_path / "fr.jsonl"
    mixed.write_text('{"text": "un deux", "lang": "fr"}\n')
    with pytest.raises(ModtokError, match="no text; choose the field of the languages with --lang"):
        stats_of({"fr": [mixed]}, reading=Reading(lang_field="langage"))
    for several in (parts[1:], [parts[1]]):
        with pytest.raises(ModtokError, match="no text"):
            stats_of({"fr": several})
        for threads in (1, 2):
            with pytest.raises(ModtokError, match="no text"):
                count_corpus(several, threads=threads)


def test_write_counts_refuses(data):
    (data / "sv.txt").write_text("\n\n")
    with pytest.raises(ModtokError, match="language 'sv' has no text"):
        _write(data, languages=["sv"])
    save_counts(WHOLE, data / "de.counts", "de")
    with pytest.raises(UsageError, match="overwrite its own input"):
        write_counts(["de"], data=data, output=data)
    with pytest.raises(UsageError, match=r"de\.counts: counted with pre-tokenizer 'bpe', expected"):
        count_corpus([data / "de.counts"], pretokenizer=UNIGRAM)
    rows = write_counts(["fr"], data=data, output=data)
    assert write_counts(["fr"], data=data, output=data)[0]["unchanged"]
    assert rows[0]["documents"] == 20


# corpus_stats


def test_stats(data):
    files = {name: [data / f"{name}.txt"] for name in ("fi", "fr")}
    before = stats_of(files, samples=3)
    files["fi"][0].write_text("\n".join(reversed(PARTS[1])))
    assert stats_of(files, samples=3) == before
    files["fi"][0].write_text("ä" * 1000)
    assert stats_of(files, samples=4)[0]["samples"] == ("ä" * 200,)


def test_stats_of_a_table_and_of_tokens(data):
    table, words = data / "sv.counts", str(data / "words.json")
    save_counts(WHOLE, table, "sv")
    (row,) = stats_of({"sv": [table]})
    assert (row["documents"], row["duplicates"]) == (120, None)
    assert row["words"] == WHOLE.occurrences
    library = Tokenizer(models.WordLevel({"?": 0, "mot": 1}, unk_token="?"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.save(words)
    (row,) = stats_of({"fr": [data / "fr.txt"]}, tokenizer=words)
    assert row["tokens"] == sum(len(text.split()) for text in PARTS[0])
    with pytest.raises(ModtokError, match="uses a pre-tokenizer without word counts"):
        stats_of({"sv": [table]}, tokenizer=words)


# `--field` and `--lang-field`: the same words in whatever files they are


TEXTS = {"fi": ["yksi kaksi", "kolme", "kolme"], "fr": ["un deux", "trois"], "zh": ["一 二"]}


CODES = {"fi": "fin_Latn", "fr": "fra", "zh": "zh"}


READING = Reading(field="content", lang_field="language")


@pytest.fixture
def plain(tmp_path):
    (tmp_path / "plain").mkdir()
    for language, texts in TEXTS.items():
        (tmp_path / "plain" / f"{language}.txt").write_text("\n".join(texts), encoding="utf-8")
    return tmp_path / "plain"


@pytest.fixture
def mixed(tmp_path):
    """French in a file of its own, the rest in Parquet and JSON lines; one row is of no language"""
    directory = tmp_path / "mixed"
    (directory / "crawl").mkdir(parents=True)
    rows = [
        {"content": text, "language": CODES[name], "text": "not this"}
        for name in ("zh", "fi")
        for text in TEXTS[name]
    ]
    table = pa.Table.from_pylist([*rows[:2], {"content": "?", "language": None}])
    pq.write_table(table, directory / "crawl" / "part-0.parquet")
    french = [{"content": text, "language": "fr"} for text in TEXTS["fr"]]
    for name, those in (("crawl/part-1.jsonl", rows[2:]), ("fr.jsonl", french)):
        (directory / name).write_bytes(b"\n".join(map(orjson.dumps, those)))
    (directory / "README.txt").write_text("not a document with fields\n")
    return directory


def words(data, reading, languages=None):
    counted = count_languages(language_files(data, languages, reading), reading=reading)
    return {name: dict(table.pairs()) for name, table in counted.items()}


def test_words_of_mixed_files_are_those_of_plain_ones(plain, mixed, tmp_path):
    assert words(mixed, READING) == words(plain, Reading())
    assert words(mixed, READING, ["fi"]) == words(plain, Reading(), ["fi"])
    with pytest.raises(UsageError, match="no text of language 'zh'"):
        language_files(mixed, ["zh"], Reading(field="content"))
    files = language_files(mixed, None, READING)["fi"]
    store = text_store("fi", files, tmp_path / "cache", reading=READING)
    assert [store.document(i).decode() for i in range(3)] == TEXTS["fi"]


def test_documents_without_a_language_are_reported_once_per_reading(mixed):
    progress = Silent()
    count_languages(language_files(mixed, ["fi"], READING), reading=READING, progress=progress)
    assert progress.warnings == [
        f"{mixed}/crawl/part-0.parquet:3: no language in field 'language'; 1 document skipped"
    ]


def test_a_missing_field_of_the_language_is_named(mixed):
    (mixed / "fr.jsonl").unlink()
    wrong = Reading(field="content", lang_field="lang")
    with pytest.raises(ModtokError, match="no document has a language in field 'lang'; choose"):
        language_files(mixed, None, wrong)


DEADLINE = 60.0


def each(read: Callable, items: list[str], threads: int) -> list[str]:
    return read_each(read, items, files=[], label="reading", threads=threads, progress=SILENT)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    assert each(lambda item, advance: item * 2, list("dacb"), threads) == ["dd", "aa", "cc", "bb"]


def test_pending_items_are_cancelled() -> None:
    begun = []
    failed = threading.Event()

    def read(item: int, advance: Callable[[int], None]) -> int:
        begun.append(item)
        if item == 1:
            failed.set()
            raise ModtokError("damaged")
        failed.wait(DEADLINE)
        while True:  # until it is stopped
            advance(0)
            time.sleep(0.001)

    items = list(range(50))
    with pytest.raises(ModtokError, match="damaged"):
        read_each(read, items, files=[], label="reading", threads=2, progress=SILENT)
    # The thread that failed may take up one more before the others are called off.
    assert len(begun) <= 3


def test_first_of_several_failures_in_order_is_raised() -> None:
    """The second item would go on for a minute, and is stopped when the third fails."""
    under_way = threading.Event()

    def read(item: str, advance: Callable[[int], None]) -> str:
        if item == "c":
            under_way.wait(DEADLINE)
            raise ModtokError("c is damaged")
        until = time.monotonic() + DEADLINE
        try:
            while item == "b" and time.monotonic() < until:
                advance(0)
                under_way.set()
                time.sleep(0.001)
        except BaseException:
            raise ModtokError("b is damaged") from None
        return item

    with pytest.raises(ModtokError, match="b is damaged"):
        each(read, ["a", "b", "c"], 3)
