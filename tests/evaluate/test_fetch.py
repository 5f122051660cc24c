"""What comes from the hub: its rows, as its datasets hold them, become files that are read."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.evaluate import hub_tasks as hub
from modtok_cli.evaluate.documents import Documents
from modtok_cli.evaluate.fetch_tasks import Fetched, fetch_tasks
from modtok_cli.evaluate.parallel_text import find_parallel
from modtok_cli.evaluate.questions import Folder, Question

# A row of mteb/flores: one column per language.
FLORES = {"eng_Latn": "One\u00a0cat.", "fra_Latn": "Un chat.", "npi_Deva": "एउटा बिरालो।"}
# Of GEM/wiki_lingua.
GEM = {
    "gem_id": "wikilingua_multilingual-test-7", "gem_parent_id": "wikilingua_multilingual-test-7",
    "source_language": "fr", "target_language": "fr",
    "source": "Prenez un bol.\nVersez le lait.", "target": "Faites un bol de lait.",
    "references": ["Faites un bol de lait."],
}  # fmt: skip


def fetch(tasks: list[str], languages: list[str], output: Path, **more: Any) -> Fetched:
    return fetch_tasks(tasks, languages=languages, output=output, **more)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Two datasets in place of the hub, and what was asked of it."""
    calls: list[tuple[Any, ...]] = []
    lines = [{**FLORES, "fra_Latn": f"{number} chats."} for number in (1, 2, 10)]
    flores = pytest.importorskip("datasets").Dataset.from_list(lines)
    summaries = [{**GEM, "gem_id": f"t{n}"} for n in range(3)] + [{**GEM, "target": " "}]

    def rows(dataset: str, split: str, **more: Any) -> Any:
        calls.append((dataset, split, more))
        if more.get("files", "").startswith(("es/", "fr/train", "de/")):
            raise ModtokError("cannot load the dataset (gated)", where=dataset)
        return flores if dataset == "mteb/flores" else summaries

    monkeypatch.setattr(hub, "rows", rows)
    monkeypatch.setattr(hub, "reachable", lambda: True)
    return calls


def test_flores(tmp_path: Path, asked: list[tuple[Any, ...]]) -> None:
    fetched = fetch(["mt"], ["en", "fi", "fr", "xx"], tmp_path)
    assert [(row["language"], row["examples"], row["shots"]) for row in fetched.rows] == [
        ("en", 3, 3),
        ("fr", 3, 3),
    ]
    assert fetched.skipped == ["mt fi: mteb/flores devtest: has no column 'fin_Latn'"]
    with pytest.raises(ModtokError, match="incomplete: mt fi"):
        fetched.require_complete()
    french = tmp_path / "mt" / "devtest" / "fra_Latn.devtest"
    assert french.read_text() == "1 chats.\n2 chats.\n10 chats.\n"
    shots, tests = find_parallel(tmp_path).pair("en", "fr", 2)
    assert [test.target for test in tests] == ["1 chats.", "2 chats.", "10 chats."]
    assert shots[0].source == "One cat."


def test_labels_with_a_script(tmp_path: Path, asked: list[tuple[Any, ...]]) -> None:
    """The script of FLORES' text is the language's; another one is no set, and no other text."""
    assert [row["language"] for row in fetch(["mt"], ["fra_Latn"], tmp_path).rows] == ["fr"]
    with pytest.raises(UsageError, match="no set of mt is in zho_Hant"):
        fetch(["mt"], ["zho_Hant"], tmp_path)


def test_wikilingua(tmp_path: Path, asked: list[tuple[Any, ...]]) -> None:
    fetched = fetch(["sum"], ["fr", "es", "fi"], tmp_path)
    assert [(row["language"], row["examples"]) for row in fetched.rows] == [("fr", 3)]
    assert [line[:7] for line in fetched.skipped] == ["sum es:"]  # WikiLingua has no Finnish
    files = [more["files"] for _, _, more in asked[:3]]
    assert files == ["fr/test/*.parquet", "fr/train/*.parquet", "fr/partial-train/*.parquet"]
    assert not fnmatch("fr/sampled_test/0000.parquet", files[0])
    shots, tests = Documents(tmp_path).of("fr", 3)
    assert [test.name for test in tests] == ["t0", "t1", "t2"]
    assert shots[0].source == "Prenez un bol. Versez le lait."


@pytest.mark.parametrize(
    ("task", "language", "config", "columns"),
    [("xlsum", "sw", "swahili", "id text summary"),
     ("eurlexsum", "fi", "finnish", "celex_id reference summary")],
)  # fmt: skip
def test_other_summaries(
    task: str, language: str, config: str, columns: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    calls = []

    def rows(dataset: str, split: str, *, files: str, first: int | None, **_: Any) -> Any:
        calls.append((dataset, files, first))
        row = dict(zip(columns.split(), ("7", f"The {split}\nof it.", "It."), strict=True))
        return [row, {**row, "summary": ""}]

    monkeypatch.setattr(hub, "rows", rows)
    monkeypatch.setattr(hub, "reachable", lambda: True)
    fetched = fetch([task], [language, "xx"], tmp_path)
    (row,) = fetched.rows
    assert (row["task"], row["language"], row["examples"], row["shots"]) == (task, language, 1, 1)
    assert {call[0] for call in calls} == {row["source"]}
    assert [call[1:] for call in calls] == [
        (f"{config}/test/*.parquet", None), (f"{config}/train/*.parquet", 100)
    ]  # fmt: skip
    shots, tests = Documents(tmp_path / task).of(language, 1)
    assert (shots[0].source, tests[0].source) == ("The train of it.", "The test of it.")


def test_unknown_columns_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "reachable", lambda: True)
    monkeypatch.setattr(hub, "rows", lambda *_, **__: [{"text": "a"}])
    (line,) = fetch(["sum"], ["fr"], tmp_path).skipped
    assert "has no columns 'gem_id', 'source' and 'target'" in line
    assert not (tmp_path / "sum").exists()


def test_the_same_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[Any, ...]]
) -> None:
    """Killed between the shots and the examples of French: English stays, French comes again."""
    fetch(["mt"], ["en"], tmp_path)
    (tmp_path / "mt" / "dev" / "fra_Latn.dev").write_text("cut")
    english = tmp_path / "mt" / "devtest" / "eng_Latn.devtest"
    english.write_text("mine\n")
    said = Silent()
    fetched = fetch(["mt"], ["en", "fr"], tmp_path, progress=said)
    assert [row["language"] for row in fetched.rows] == ["fr"]
    assert (tmp_path / "mt" / "dev" / "fra_Latn.dev").read_text() != "cut"
    assert english.read_text() == "mine\n"
    assert len(fetch(["mt"], ["en", "fr"], tmp_path, force=True).rows) == 2
    assert english.read_text() != "mine\n"


def test_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def give(source: Any, language: str, **more: Any) -> tuple[list[Question], list[Question]]:
        if source.dataset == "ybisk/piqa" or language == "fi":
            raise ModtokError("cannot load the dataset", where=source.dataset)
        shown = [Question("0", "Why?", ("a", "b"), 0)] if source.train else []
        return [Question("1", f"In {language}?", ("a", "b"), 1)], shown

    monkeypatch.setattr(hub, "questions", give)
    monkeypatch.setattr(hub, "reachable", lambda: True)
    fetched = fetch(["mcq"], ["en", "fi", "sw"], tmp_path)
    folder = Folder(tmp_path)
    assert folder.of("xcopa", "en") is None
    assert folder.of("xcopa", "sw") is not None
    asked, shown = Question("1", "In en?", ("a", "b"), 1), Question("0", "Why?", ("a", "b"), 0)
    assert folder.of("arc_easy", "en") == ([asked], [shown])
    assert folder.of("arc_easy", "fi") is None
    assert any(line.startswith("arc_easy fi: ") for line in fetched.skipped)


@pytest.mark.parametrize("tasks", [["mt"], ["mcq", "sum"], ["xlsum"]])
def test_missing_network_is_a_one_line_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: list[str]
) -> None:
    monkeypatch.setattr(hub, "reachable", lambda: False)
    with pytest.raises(ModtokError, match="the hub cannot be reached") as told:
        fetch(tasks, ["en"], tmp_path)
    for task in ("mcq", "mt", "sum", "xlsum"):
        assert (f"DIR/{task}/" in str(told.value)) == (task in tasks)
    assert "\n" not in str(told.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="unknown task 'news'"):
        fetch(["news"], ["en"], tmp_path)


def test_arguments_of_load_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    calls: list[tuple[Any, ...]] = []

    def load(*args: Any, **more: Any) -> list[dict[str, Any]]:
        calls.append((*args, more))
        return [FLORES] * 9

    monkeypatch.setattr(datasets, "load_dataset", load)
    datasets.enable_progress_bars()
    assert hub.rows("mteb/flores", "dev") == [FLORES] * 9
    assert datasets.are_progress_bars_disabled()
    place = {"files": "fr/*.parquet", "revision": "refs/x"}
    assert hub.rows("GEM/wiki_lingua", "test", **place, first=2) == [FLORES] * 2
    assert calls[0] == ("mteb/flores", None, {"split": "dev", "streaming": False})
    assert calls[1][1] == {
        "data_files": "hf://datasets/GEM/wiki_lingua@refs/x/fr/*.parquet", "split": "train",
        "streaming": True,
    }  # fmt: skip

    def refuse(*args: Any, **more: Any) -> None:
        raise ValueError("no\nconfig")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(ModtokError, match=r"flores dev: cannot load the dataset \(no config\)"):
        hub.rows("mteb/flores", "dev")
