"""Builds that are called again, otherwise than before, or with files that nobody thought of."""

import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard

from helpers.crawl import paragraphs, records_of
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.corpus import count, executors, publish
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.build_plan import BuildSettings, make_plan, work_of
from modtok_cli.corpus.build_report import CorpusReport, load_report
from modtok_cli.corpus.count import corpus_count
from modtok_cli.corpus.executors import BuildStage
from modtok_cli.corpus.input_pages import find_files, read_pages
from modtok_cli.text.corpus import write_counts
from modtok_cli.text.reading import Reading

count_shards = partial(corpus_count, executor="local")
PAGES = "".join(" ".join(paragraphs("fi")[n : n + 4]) + "\n" for n in range(0, 12, 4))
SETTINGS = BuildSettings()


def test_what_is_replaced_is_removed_as_it_is(tmp_path: Path) -> None:
    """A directory with what is in it, a file, a link but not where it leads, nothing."""
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "kept").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("kept")
    for name in ("folder", "file", "link", "none"):
        publish._remove(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_files_that_no_build_wrote_are_kept(tmp_path: Path) -> None:
    """Named before the work if the languages are known, else at its end, which is repeated."""
    (tmp_path / "fi.txt").write_text(PAGES, "utf-8")
    output = tmp_path / "data"
    call = {"inputs": [tmp_path / "fi.txt"], "output": output, "workers": 1}
    mine = output / "fi" / "00000.jsonl.zst"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(zstandard.compress(b'{"text": "mine"}\n'))
    foreign = "fi: holds files that modtok did not write; move"
    for languages in (["fi"], None):
        for force, why in ((False, "fi: already exists"), (True, foreign)):
            with pytest.raises(ModtokError, match=why):
                corpus_build(languages=languages, force=force, **call)
        assert mine.is_file()
        assert (work_of(output) / "out").exists() == (languages is None)
    mine.parent.rename(tmp_path / "kept")
    tasks = (work_of(output) / "logs").rglob("completions/*")
    before = {path: path.stat().st_mtime_ns for path in tasks}
    assert corpus_build(force=True, **call).languages[0]["pages"] == 3
    assert {path: path.stat().st_mtime_ns for path in before} == before  # no work was lost
    (output / "corpus.json").unlink()
    corpus_build(force=True, **call)  # also if no report names what a build wrote
    (output / "fi" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=foreign):
        corpus_build(languages=["fi"], force=True, **call)
    with pytest.raises(UsageError, match=r"fi\.txt: is a file, and a directory is written"):
        corpus_build(**call | {"output": tmp_path / "fi.txt"})


def test_damaged_report_is_replaced_by_force(tmp_path: Path) -> None:
    """An empty file comes first, and the corpus goes into the directory it is made from."""
    (tmp_path / "a.txt").write_bytes(b"")
    (tmp_path / "fi.txt").write_text(PAGES, "utf-8")
    output = tmp_path / "data"
    output.mkdir()
    (output / "corpus.json").write_text('{"langua')
    with pytest.raises(UsageError, match="contains a corpus built from other inputs"):
        corpus_build([tmp_path], output=output, workers=1)
    corpus_build([tmp_path], output=output, workers=1, force=True)
    (row,) = load_report(output).languages
    assert (row["language"], row["pages"]) == ("fi", 3)
    said = Silent()
    corpus_build([tmp_path], output=output, workers=1, progress=said)
    assert "already finished" in said.warnings[0]


def test_languages_without_pages_are_reported(tmp_path: Path) -> None:
    """An error if no page is kept at all, again if the call is repeated; the report has reasons."""
    (tmp_path / "fi.txt").write_text(PAGES, "utf-8")
    said, output = Silent(), tmp_path / "data"
    call = {"inputs": [tmp_path / "fi.txt"], "output": output, "workers": 1, "progress": said}
    corpus_build(languages=["fi", "en"], **call)
    assert said.warnings == [f"no page was kept in en; see {output}/corpus.json"]
    for force in (True, False):
        with pytest.raises(
            ModtokError, match=r"kept \(3: other language\); .*check min_characters"
        ):
            corpus_build(languages=["en"], force=force, **call)
    assert load_report(output).dropped[-1]["reason"] == "other language"


def test_a_file_without_a_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "bin.warc.gz").write_bytes(bytes(range(128, 256)) * 20)
    said = r"bin\.warc\.gz:0: no page was read: no WARC record; check the format of the file; "
    with pytest.raises(ModtokError, match=said):
        corpus_build([tmp_path / "bin.warc.gz"], output=tmp_path / "data", workers=1)


@pytest.mark.skipif(os.name != "posix", reason="names are bytes there")
def test_name_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"p\xe4ge.txt")
    try:
        odd.write_text(PAGES, "utf-8")
    except OSError:
        pytest.skip("the file system takes no such name")
    with pytest.raises(UsageError, match=r"p.ge\.txt: the name is not UTF-8; rename it"):
        make_plan(find_files([tmp_path]), SETTINGS, tmp_path / "data")
    with pytest.raises(UsageError, match="the name is not UTF-8"):
        make_plan([], SETTINGS, odd)
    data = tmp_path / "data"
    data.mkdir()
    odd.rename(data / os.fsdecode(b"fi.\xe4.txt"))
    with pytest.raises(UsageError, match="the name is not UTF-8"):
        count_shards(["fi"], data=data, output=tmp_path / "counts")


def test_only_the_corpus_itself_is_excluded_from_the_input(tmp_path: Path) -> None:
    inside = tmp_path / "data" / "fi"
    (inside / "raw").mkdir(parents=True)
    for path in (inside / "00000.jsonl.zst", inside / "raw" / "00000.jsonl.zst"):
        path.write_bytes(b"")
    assert find_files([tmp_path], tmp_path / "data") == [inside / "raw" / "00000.jsonl.zst"]
    assert len(find_files([tmp_path], tmp_path / "other")) == 2
    named = [inside / "00000.jsonl.zst"]
    assert find_files(named, tmp_path / "data") == named


def test_retrained_model_makes_another_build(tmp_path: Path) -> None:
    model = tmp_path / "quality.bin"
    model.write_bytes(b"one")
    settings = BuildSettings(quality_model=str(model))
    first = make_plan([], settings, tmp_path / "data")
    assert first.content == make_plan([], settings, tmp_path / "data").content
    model.write_bytes(b"other")
    assert first.key != make_plan([], settings, tmp_path / "data").key


def test_a_kill_that_removes_half_of_a_build_leaves_none_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fi.txt").write_text(PAGES, "utf-8")
    output, tables = tmp_path / "data", tmp_path / "counts"
    remove, run = shutil.rmtree, executors._run_here

    def build(**changed: Any) -> CorpusReport:
        return corpus_build([tmp_path / "fi.txt"], output=output, workers=1, **changed)

    def count(**changed: Any) -> list[dict[str, object]]:
        return count_shards(["fi"], data=tmp_path, output=tables, workers=1, **changed)

    def run_one(stages: Sequence[BuildStage], *how: Any) -> None:
        run(stages[:1], *how)
        raise KeyboardInterrupt

    def remove_half(path: Path, *_: Any, **__: Any) -> None:
        for entry in path.iterdir():
            if entry.name not in ("plan.json", "logs"):
                remove(entry)
        raise KeyboardInterrupt

    for call, other in ((build, {"min_characters": 3}), (count, {"reading": Reading(field="x")})):
        with monkeypatch.context() as patch:
            patch.setattr(executors, "_run_here", run_one)
            with pytest.raises(KeyboardInterrupt):
                call()
            patch.setattr(shutil, "rmtree", remove_half)
            with pytest.raises(KeyboardInterrupt):
                call(force=True, **other)
        call()
    assert len(records_of(output / "fi")) == 3
    assert sorted(path.name for path in tables.iterdir()) == ["fi.counts"]


@pytest.mark.parametrize("texts", [["\n\n"], ["", "\n"], ["\n", "", "\n"]])
def test_language_without_text_is_reported_with_its_files(texts: list[str], tmp_path: Path) -> None:
    (tmp_path / "fi").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "fi" / f"{number}.txt").write_text(text)
    with pytest.raises(ModtokError, match=r"fi.*: language 'fi' has no text; add text"):
        count_shards(["fi"], data=tmp_path, output=tmp_path / "counts", workers=2)
    assert not [*tmp_path.glob("counts/*.counts")]
    (tmp_path / "fi" / "more.txt").write_text("on")
    (row,) = count_shards(["fi"], data=tmp_path, output=tmp_path / "more", workers=2)
    assert row["words"] == 1


def test_text_that_changes_during_counting_is_counted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = tmp_path / "data", tmp_path / "counts"
    data.mkdir()
    (data / "fi.txt").write_text(PAGES, "utf-8")

    def stages(pipelines: Sequence[BuildStage], *_: object, **__: object) -> None:
        (data / "fi.txt").write_text(PAGES * 2, "utf-8")
        for stage in pipelines:
            list(stage.blocks[0].run(rank=0, world_size=1))

    with monkeypatch.context() as patched:
        patched.setattr(count, "run_stages", stages)
        count_shards(data=data, output=out)
    (row,) = write_counts(data=data, output=out)
    assert not row["unchanged"]


def test_byte_order_mark_is_ignored_in_json(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "one"}\r\n{"text": "two"}\r\n')
    first, second = read_pages(tmp_path / "a.jsonl")
    assert (first.data, first.offset, second.data) == (b"one", 0, b"two")
