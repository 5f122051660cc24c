"""What comes from the hub: its rows, as its datasets hold them, become files that are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.evaluate import fetch_tasks as fetching
from modtok_cli.evaluate import hub
from modtok_cli.evaluate.documents import Documents
from modtok_cli.evaluate.parallel import find_parallel
from modtok_cli.evaluate.questions import Folder, Question

# A row of mteb/flores: one column per language.
FLORES = {"eng_Latn": "One\u00a0cat.", "fra_Latn": "Un chat.", "npi_Deva": "एउटा बिरालो।"}
# A row of facebook/flores, configuration "all".
FACEBOOK = {
    "id": 1, "URL": "https://en.wikinews.org/wiki/A", "domain": "wikinews", "topic": "health",
    "has_image": 0, "has_hyperlink": 0,
    "sentence_eng_Latn": "One\u00a0cat.", "sentence_fra_Latn": "Un chat.",
    "sentence_npi_Deva": "एउटा बिरालो।",
}  # fmt: skip
# Of openlanguagedata/flores_plus: a configuration per language.
FLORES_PLUS = {
    "id": 1, "iso_639_3": "fra", "iso_15924": "Latn", "glottocode": "stan1290",
    "text": "Un chat.", "url": "https://en.wikinews.org/wiki/A", "domain": "wikinews",
    "topic": "health", "has_image": "no", "has_hyperlink": "no", "last_updated": "1.0",
}  # fmt: skip
# Of GEM/wiki_lingua.
GEM = {
    "gem_id": "wikilingua_multilingual-test-7", "gem_parent_id": "wikilingua_multilingual-test-7",
    "source_language": "fr", "target_language": "fr",
    "source": "Prenez un bol.\nVersez le lait.", "target": "Faites un bol de lait.",
    "references": ["Faites un bol de lait."],
}  # fmt: skip
# Of esdurmus/wiki_lingua.
ARTICLE = {
    "url": "https://fr.wikihow.com/lait",
    "article": {
        "section_name": ["A", "B"],
        "document": ["Prenez un bol.", "Versez le lait. "],
        "summary": ["Prenez.", "Versez."],
        "english_url": ["https://www.wikihow.com/Milk"] * 2,
        "english_section_name": ["A", "B"],
    },
}


def fetch(tasks: list[str], languages: list[str], output: Path, **more: Any) -> fetching.Fetched:
    return fetching.fetch_tasks(tasks, languages=languages, output=output, **more)


class FakeHub:
    """Holds datasets, and says which were asked for."""

    def __init__(self, **datasets: list[dict[str, Any]]) -> None:
        self.datasets, self.asked = datasets, list[tuple[Any, ...]]()
        self.configs: set[str] | None = None  # those that exist; None for all

    def rows(self, dataset: str, split: str, **more: Any) -> Iterator[dict[str, Any]]:
        self.asked.append((dataset, split, *sorted(more.items())))
        if self.configs is not None and more.get("config") not in self.configs:
            raise ModtokError("cannot load the dataset (unknown configuration)", where=dataset)
        if dataset.split("/")[0] not in self.datasets:
            raise ModtokError("cannot load the dataset (gated)", where=dataset)
        yield from self.datasets[dataset.split("/")[0]]


Serve = Callable[..., FakeHub]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Puts datasets in place of the hub."""

    def serve(**datasets: list[dict[str, Any]]) -> FakeHub:
        fake = FakeHub(**datasets)
        monkeypatch.setattr(hub, "stream", fake.rows)
        monkeypatch.setattr(hub, "reachable", lambda: True)
        return fake

    return serve


@pytest.mark.parametrize("layout", ["mteb", "facebook"])
def test_flores_columns(tmp_path: Path, layout: str, serve: Serve) -> None:
    """mteb/flores has columns eng_Latn and no ids; facebook/flores sentence_eng_Latn and ids."""
    rows: list[dict[str, Any]]
    if layout == "mteb":
        rows = [{**FLORES, "fra_Latn": f"{number} chats."} for number in (1, 2, 10)]
    else:
        rows = [
            {**FACEBOOK, "id": number, "sentence_fra_Latn": f"{number} chats."}
            for number in (2, 10, 1)
        ]
    source = serve(mteb=rows)
    fetched = fetch(["mt"], ["en", "fr", "xx"], tmp_path)
    assert fetched.skipped == []
    assert [(row["language"], row["examples"], row["shots"]) for row in fetched.rows] == [
        ("en", 3, 3),
        ("fr", 3, 3),
    ]
    assert (tmp_path / "mt" / "devtest" / "fra_Latn.devtest").read_text() == (
        "1 chats.\n2 chats.\n10 chats.\n"
    )
    shots, tests = find_parallel(tmp_path).pair("en", "fr", 2)
    assert [test.target for test in tests] == ["1 chats.", "2 chats.", "10 chats."]
    assert shots[0].source == "One cat."
    assert {asked[0] for asked in source.asked} == {"mteb/flores"}


@pytest.mark.parametrize("other", [None, [FLORES]])
def test_flores_plus_if_the_first_dataset_lacks_a_language(
    tmp_path: Path, other: list[dict[str, Any]] | None, serve: Serve
) -> None:
    """Not available at all, or without Finnish."""
    rows = [{**FLORES_PLUS, "id": n, "text": f"{n}"} for n in (3, 2)]
    datasets = {"openlanguagedata": rows} | ({"mteb": other} if other else {})
    source = serve(**datasets)
    fetched = fetch(["mt"], ["en", "fi"], tmp_path)
    assert fetched.skipped == []
    assert (tmp_path / "mt" / "dev" / "eng_Latn.dev").read_text() == "2\n3\n"
    configs = [asked[-1] for asked in source.asked if "flores_plus" in asked[0]]
    assert configs == [("config", "eng_Latn"), ("config", "fin_Latn")] * 2


@pytest.mark.parametrize("configs", [{"ekk_Latn", "cmn_Hans"}, {"est_Latn", "zho_Hans"}])
def test_flores_plus_accepts_new_and_old_codes(
    tmp_path: Path, configs: set[str], serve: Serve
) -> None:
    source = serve(openlanguagedata=[FLORES_PLUS])
    source.configs = configs
    assert fetch(["mt"], ["et", "zh"], tmp_path).skipped == []
    names = sorted(path.name for path in (tmp_path / "mt" / "dev").iterdir())
    assert names == ["est_Latn.dev", "zho_Hans.dev"]  # the workspace keeps one code


def test_language_missing_in_flores_is_reported(tmp_path: Path, serve: Serve) -> None:
    serve(mteb=[FLORES])
    fetched = fetch(["mt"], ["en", "fi", "fr"], tmp_path)
    assert [row["language"] for row in fetched.rows] == ["en", "fr"]
    (line,) = fetched.skipped
    assert line.startswith("mt fi: not in mteb/flores")
    assert "flores_plus" in line  # and why the other dataset could not be used


def test_interrupted_fetch_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    """Killed after the first directory: the same call keeps it and continues."""
    texts = serve(mteb=[FLORES], GEM=[GEM])

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setitem(fetching._FETCHERS, "sum", killed)
        with pytest.raises(KeyboardInterrupt):
            fetch(["mt", "sum"], ["en", "fr"], tmp_path)
    with pytest.raises(UsageError, match="already exists"):
        fetch(["mt", "sum"], ["en"], tmp_path)  # another call
    texts.asked.clear()
    fetched = fetch(["mt", "sum"], ["en", "fr"], tmp_path)
    assert {asked[0] for asked in texts.asked} == {"GEM/wiki_lingua"}
    assert [row["task"] for row in fetched.rows] == ["sum", "sum"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mt", "sum"]
    with pytest.raises(UsageError, match="already exists"):
        fetch(["mt", "sum"], ["en", "fr"], tmp_path)  # finished


def test_wikilingua_by_gem(tmp_path: Path, serve: Serve) -> None:
    rows = [{**GEM, "gem_id": f"t{n}"} for n in range(3)] + [{**GEM, "target": " "}]
    source = serve(GEM=rows)
    fetched = fetch(["sum"], ["fr", "fi"], tmp_path)
    patterns = [dict(asked[2:])["files"] for asked in source.asked]
    assert patterns == ["fr/test/*.parquet", "fr/train/*.parquet"]
    assert not fnmatch("fr/sampled_test/0000.parquet", patterns[0])
    assert fetched.skipped == []  # WikiLingua has no Finnish
    assert [row["source"] for row in fetched.rows] == ["GEM/wiki_lingua"]
    shots, tests = Documents(tmp_path).of("fr", 3)
    assert [test.name for test in tests] == ["t0", "t1", "t2"]
    assert shots[0].source == "Prenez un bol. Versez le lait."


def test_wikilingua_by_articles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    monkeypatch.setattr(hub, "SHOWN", 2)
    rows = [{**ARTICLE, "url": f"u{n}"} for n in range(5)]
    source = serve(esdurmus=rows)
    fetch(["sum"], ["fr"], tmp_path)
    assert source.asked[-1] == ("esdurmus/wiki_lingua", "train", ("config", "french"))
    shots, tests = Documents(tmp_path).of("fr", 2)
    assert [row.name for row in (*shots, *tests)] == ["u0", "u1", "u2", "u3", "u4"]
    assert (tests[0].source, tests[0].target) == (
        "Prenez un bol. Versez le lait.",
        "Prenez. Versez.",
    )


def test_unknown_columns_are_an_error(tmp_path: Path, serve: Serve) -> None:
    serve(GEM=[{"text": "a"}])
    fetched = fetch(["sum"], ["fr"], tmp_path)
    assert "has no columns 'source' and 'target'" in fetched.skipped[0]
    assert not (tmp_path / "sum").exists()
    with pytest.raises(ModtokError, match="incomplete: sum fr: "):
        fetched.require_complete()
    serve(openlanguagedata=[{"id": 1}, {"id": 2}])
    assert "eng_Latn dev: has no column 'text'" in fetch(["mt"], ["en"], tmp_path).skipped[0]


def test_long_splits_of_gem_have_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(name: str, split: str, files: str, **_: str) -> Iterator[dict[str, Any]]:
        if files != "fr/partial-train/*.parquet":
            raise ModtokError("cannot load the dataset", where=files)
        yield from ({"gem_id": f"{number}"} for number in range(3))

    monkeypatch.setattr(hub, "stream", stream)
    assert [row["gem_id"] for row in hub._gem_rows("fr", "train")] == ["0", "1", "2"]
    with pytest.raises(ModtokError, match="fr/partial-test"):
        list(hub._gem_rows("fr", "test"))


def test_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    def give(source: Any, language: str, **more: Any) -> tuple[list[Question], list[Question]]:
        if source.dataset == "ybisk/piqa" or language == "fi":
            raise ModtokError("cannot load the dataset", where=source.dataset)
        shown = [Question("0", "Why?", ("a", "b"), 0)] if source.train else []
        return [Question("1", f"In {language}?", ("a", "b"), 1)], shown

    monkeypatch.setattr(hub, "questions", give)
    serve()
    fetched = fetch(["mcq"], ["en", "fi", "sw"], tmp_path)
    folder = Folder(tmp_path)
    assert folder.of("xcopa", "en") is None
    assert folder.of("xcopa", "sw") is not None
    assert "arc_easy" in folder.tasks
    asked, shown = Question("1", "In en?", ("a", "b"), 1), Question("0", "Why?", ("a", "b"), 0)
    assert folder.of("arc_easy", "en") == ([asked], [shown])
    assert folder.of("arc_easy", "fi") is None
    assert any(line.startswith("arc_easy fi: ") for line in fetched.skipped)


def test_fetch_writes_whole_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    (tmp_path / "mt").mkdir()
    (tmp_path / "mt" / "mine.txt").write_text("keep")
    source = serve(mteb=[FLORES])
    with pytest.raises(UsageError, match="already exists; pass force"):
        fetch(["mt"], ["en", "fr"], tmp_path)
    assert source.asked == []
    with monkeypatch.context() as patch:
        patch.setitem(fetching._FETCHERS, "mt", lambda *_: {"a": b"", "a/b": b""})  # after a file
        with pytest.raises(ModtokError, match="cannot write"):
            fetch(["mt"], ["en", "fr"], tmp_path, force=True)
    assert (tmp_path / "mt" / "mine.txt").read_text() == "keep"
    fetch(["mt"], ["en", "fr"], tmp_path, force=True)
    assert not (tmp_path / "mt" / "mine.txt").exists()


@pytest.mark.parametrize("tasks", [["mt"], ["mcq", "sum"]])
def test_missing_network_is_a_one_line_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: list[str]
) -> None:
    monkeypatch.setattr(hub, "reachable", lambda: False)
    with pytest.raises(ModtokError, match="the hub cannot be reached") as told:
        fetch(tasks, ["en"], tmp_path)
    for task in fetching.TASKS:
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
        return [FLORES]

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert list(hub.stream("mteb/flores", "dev")) == [FLORES]
    list(hub.stream("GEM/wiki_lingua", "test", files="fr/*.parquet", revision="refs/x"))
    assert calls[0] == ("mteb/flores", None, {"split": "dev", "streaming": True})
    assert calls[1][1]["data_files"] == "hf://datasets/GEM/wiki_lingua@refs/x/fr/*.parquet"

    def refuse(*args: Any, **more: Any) -> None:
        raise ConnectionError("no\nroute")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(ModtokError, match=r"mteb/flores dev: cannot load the dataset \(no route\)"):
        list(hub.stream("mteb/flores", "dev"))
