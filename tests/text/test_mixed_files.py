"""`--field` and `--lang-field` on workspaces: the same words in whatever files they are."""

from __future__ import annotations

import orjson
import pytest

from helpers.text_store import text_store
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.measure.corpus_stats import stats_of
from modtok_cli.text.corpus import count_languages
from modtok_cli.text.reading import Reading
from modtok_cli.text.workspace import language_files

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

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


def test_words_of_mixed_files_are_those_of_plain_ones(plain, mixed):
    assert words(mixed, READING) == words(plain, Reading())
    assert words(mixed, READING, ["fi"]) == words(plain, Reading(), ["fi"])
    with pytest.raises(UsageError, match="no text of language 'zh'"):
        language_files(mixed, ["zh"], Reading(field="content"))


def test_statistics_and_stores_read_their_language(mixed, tmp_path):
    files = language_files(mixed, None, READING)
    rows = stats_of(files, reading=READING)
    assert {row["language"]: row["documents"] for row in rows} == {"fi": 3, "fr": 2, "zh": 1}
    store = text_store("fi", files["fi"], tmp_path / "cache", reading=READING)
    assert [store.document(i).decode() for i in range(3)] == TEXTS["fi"]
    other = text_store("fi", files["fi"], tmp_path / "cache", reading=Reading("skip", "content"))
    assert other.directory != store.directory


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
