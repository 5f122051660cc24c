"""A build with the layout of FineWeb-2: the same records, as Parquet files of its columns."""

import shutil
from contextlib import chdir
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.crawl import http, page, paragraphs, record, records_of
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.corpus import build, parts
from modtok_cli.corpus.build import corpus_build
from modtok_cli.text.readers import read_documents
from modtok_cli.text.workspace import language_files

SETTINGS = {"language_threshold": 0.25, "workers": 1, "shard_bytes": 1}
NEAR = {"near_duplicates": True}
PARQUET = SETTINGS | NEAR | {"layout": "fineweb-2"}
COLUMNS = {
    "text": "string",
    "id": "string",
    "url": "string",
    "date": "string",
    "file_path": "string",
    "language": "string",
    "language_score": "double",
    "language_script": "string",
    "minhash_cluster_size": "int64",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WARC file with Finnish and Greek pages, a text file with one in Finnish, and builds."""
    place = tmp_path_factory.mktemp("fineweb")
    (place / "crawl").mkdir()
    pages = [
        record(http(page(paragraphs("fi")[n : n + 4])), f"http://fi.example/{n}") for n in (0, 4)
    ]
    pages.append(record(http(page(paragraphs("el")[:4])), "http://el.example/"))
    (place / "crawl" / "a.warc").write_bytes(b"".join(pages))
    (place / "crawl" / "b.txt").write_text(" ".join(paragraphs("fi")[8:12]), "utf-8")
    with chdir(place):
        corpus_build(["crawl"], output=Path("json"), **SETTINGS, **NEAR)
        corpus_build(["crawl"], output=Path("data"), **PARQUET)
    return place


def files(data: Path) -> dict[str, bytes]:
    paths = [*data.glob("*/*/*.parquet"), data / "corpus.json"]
    return {str(path.relative_to(data)): path.read_bytes() for path in paths}


def test_records_are_those_of_the_other_layout(place: Path) -> None:
    assert sorted(files(place / "data")) == [
        "corpus.json",
        "ell_Grek/train/000_00000.parquet",
        "fin_Latn/train/000_00000.parquet",
        "fin_Latn/train/000_00001.parquet",
    ]
    for folder, language in (("ell_Grek", "el"), ("fin_Latn", "fi")):
        tables = [
            pq.read_table(path) for path in sorted((place / "data" / folder).rglob("*.parquet"))
        ]
        for table in tables:
            assert {field.name: str(field.type) for field in table.schema} == COLUMNS
        rows = [row for table in tables for row in table.to_pylist()]
        expected = records_of(place / "json" / language)
        assert len(rows) == len(expected)
        for row, one in zip(rows, expected, strict=True):
            for name in ("text", "url", "date", "minhash_cluster_size"):
                assert row[name] == one[name]
            assert row["file_path"] == one["source"].rsplit(":", 1)[0]
            assert (row["language"], row["language_script"]) == tuple(folder.split("_"))
            assert row["language_score"] == one["lang_score"]
            # Lines of text have no identifier but their place.
            assert row["id"] == one["source"] if one["url"] is None else "<urn:uuid:" in row["id"]


def test_readers_find_the_languages(place: Path) -> None:
    found = language_files(place / "data")
    assert sorted(found) == ["el", "fi"]
    texts = [one.text.decode() for path in found["fi"] for one in read_documents(path)]
    assert texts == [one["text"] for one in records_of(place / "json" / "fi")]


def test_force_replaces_the_folders_of_the_old_build_only(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    theirs = Path("other/swe_Latn/train/000_00000.parquet")
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine")
    corpus_build(["crawl"], output=Path("other"), **PARQUET)
    with pytest.raises(UsageError, match="corpus built from other inputs or settings"):
        corpus_build(["crawl"], output=Path("other"), **SETTINGS)
    corpus_build(["crawl/b.txt"], languages=["fi"], output=Path("other"), force=True, **PARQUET)
    there = sorted(path.name for path in Path("other").iterdir())
    assert there == [".corpus-build", "corpus.json", "fin_Latn", "swe_Latn"]
    assert theirs.read_text() == "mine"
    corpus_build(["crawl/b.txt"], output=Path("other"), force=True, **SETTINGS)
    there = sorted(path.name for path in Path("other").iterdir())
    assert there == [".corpus-build", "corpus.json", "fi", "swe_Latn"]


def test_rows_are_written_whenever_enough_text_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "BUFFER_BYTES", 100)
    settings = build.BuildSettings(None, None, 0.4, 5.0, 200, "model", None, None)
    one = {"lang_score": 0.9, "quality": 0.5, "url": None, "date": None, "record": None}
    texts = {"sr": ["ноћ " * 20, "noć " * 10], "zh": ["夜" * 50]}
    with parts.FineWebWriters(tmp_path, 7, settings) as writers:
        for language, of in texts.items():
            for number, text in enumerate(of):
                writers.write(language, one | {"text": text, "source": f"a:b.txt:{number}"})
        assert not list(tmp_path.rglob("*.parquet"))
    written = {
        path.parent.parent.name: pq.ParquetFile(path)
        for path in tmp_path.rglob("000_00007.parquet")
    }
    assert sorted(written) == ["srp_Cyrl", "srp_Latn", "zho_Hani"]
    assert written["srp_Cyrl"].metadata.num_row_groups == 1
    row = written["srp_Cyrl"].read().to_pylist()[0]
    assert (row["file_path"], row["id"], row["quality_score"]) == ("a:b.txt", "a:b.txt:0", 0.5)
    assert "minhash_cluster_size" not in row
    failing = parts.FineWebWriters(tmp_path / "no", 0, settings)
    failing.write("sr", one | {"text": "ноћ " * 100, "source": "a:0"})
    failing.__exit__(RuntimeError, RuntimeError(), None)
    assert not list((tmp_path / "no").rglob("*.parquet*"))


def test_force_keeps_a_downloaded_folder(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(place)
    shutil.copytree("data", tmp_path / "data")
    downloaded = tmp_path / "data" / "fin_Latn" / "train" / "000_00000.parquet"
    table = pq.read_table(downloaded)
    pq.write_table(table.append_column("dump", pa.array(["CC"] * len(table))), downloaded)
    before = downloaded.read_bytes()
    call = {"inputs": ["crawl/b.txt"], "output": tmp_path / "data", "languages": ["fi"]}
    with pytest.raises(ModtokError, match="fin_Latn: holds files that modtok did not write"):
        corpus_build(force=True, **call, **PARQUET)
    assert downloaded.read_bytes() == before
    downloaded.parent.parent.rename(tmp_path / "kept")
    corpus_build(force=True, **call, **PARQUET)
    assert pq.read_table(downloaded).num_rows == 1
