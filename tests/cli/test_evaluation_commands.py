"""eval mt, sum, compare and fetch: what they hand on, what they print, how they end."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from helpers.toy_tokenizers import toy
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import write_lines
from modtok_cli.evaluate import fetch_tasks
from modtok_cli.evaluate.results import Evaluation, Result, example, read_examples

RESULT = Result(
    "mt", "en-fr", "BLEU", 27.04, 26.0, 28.1, 8, 5, "none", "lang", "mt|…", {"tokens": 9}
)
SHARED = "--infer full --shots 3 --batch-size 2 --max-tokens 9 --limit 4 --step 7 -t t"


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch, stand_in: Any) -> Any:
    """Puts an answer in the place of a public function, which would import torch."""
    monkeypatch.setattr("modtok_cli.base.extras.find_spec", lambda name, package=None: object())
    return lambda name, answer: stand_in("modtok_cli.evaluate.evaluate", name, answer)


def told() -> Evaluation:
    rows = [example("mt", "en-fr", "1", {}, output="a", reference="b")]
    return Evaluation(results=[RESULT], examples=rows)


def test_mt(here: Any, room: Any) -> None:
    done = room("evaluate_mt", told())
    line = f"eval mt r --pairs en-fr --data d --lowercase --examples e.jsonl {SHARED} --json"
    status, out, _ = here(*line.split())
    assert (status, json.loads(out)) == (0, RESULT.as_row())
    assert json.loads(out)["tokens"] == 9
    assert done.kwargs.pop("processes").count == 1
    del done.kwargs["progress"], done.kwargs["kept"]
    assert done.kwargs == {
        "models": ["r"], "pairs": "en-fr", "data": Path("d"), "infer": ["full"], "shots": 3,
        "max_tokens": 9, "batch_size": 2, "limit": 4, "lowercase": True, "step": 7,
        "tokenizer": Path("t"),
    }  # fmt: skip
    assert [row["id"] for row in read_examples(Path("e.jsonl"))] == ["1"]
    for said, wrong in {
        ".: is a directory": "--examples . --force",
        "e.jsonl: already exists": "--examples e.jsonl",
        "--examples e.jsonl: is --data too and would be lost": "--data e.jsonl --examples e.jsonl",
        "--examples e.svg: is --plot too and would be lost": "--plot e.svg --examples e.svg",
    }.items():
        status, _, err = here("eval", "mt", *wrong.split())
        assert (status, err.split(";")[0]) == (2, f"modtok: error: {said}")
    assert here("eval", "mt")[0] == 0
    assert set(done.kwargs) == {"processes", "progress", "kept"}  # the function has the defaults


def test_pictures(here: Any, room: Any) -> None:
    room("evaluate_mt", told())
    room("evaluate_sum", told())
    assert here("eval", "mt", "--plot", "m.svg")[0] == 0
    assert "<svg" in Path("m.svg").read_text()
    status, _, err = here("eval", "sum", "--plot", "-")
    assert (status, "mt: BLEU" in err) == (0, True)
    assert here("eval", "mt", "--plot", "m.txt")[0] == 2


def test_missing_parts_are_reported_after_the_present_ones(here: Any, room: Any) -> None:
    evaluation = told()
    evaluation.skipped = ["tasks/mt has no text in de"]
    room("evaluate_mt", evaluation)
    status, out, err = here("eval", "mt", "--pairs", "en-fr,en-de")
    assert status == 1
    assert json.loads(out) == RESULT.as_row()
    assert err == "modtok: error: incomplete: tasks/mt has no text in de\n"


def test_what_is_not_installed_is_named(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {"sacrebleu"}
    monkeypatch.setattr(
        "modtok_cli.base.extras.find_spec", lambda name: None if name in hidden else object()
    )
    status, _, err = here("eval", "mt")
    assert status == 2
    assert "this command requires sacrebleu; pip install 'modtok[eval]'" in err
    hidden |= {"torch", "transformers"}
    _, _, err = here("eval", "mt")
    assert "requires torch, transformers, sacrebleu; pip install 'modtok[lm,eval]'" in err


def test_a_plot_without_matplotlib_fails_first(here, stand_in, monkeypatch) -> None:
    called = stand_in("modtok_cli.measure.nsl", "nsl", [])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = here("nsl", "x.txt", "--plot", "x.png")
    assert status == 2
    assert "plot in .png, unlike .svg, requires matplotlib; pip install 'modtok[plot]'" in err
    assert not called.args


def test_compare(here: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, values in (("a.jsonl", [0, 1, 0]), ("b.jsonl", [1, 1, 1])):
        rows = [example("arc", "en", str(i), {"acc": value}) for i, value in enumerate(values)]
        write_lines(workspace / name, rows)
    status, out, _ = here("eval", "compare", "a.jsonl", "b.jsonl", "--json")
    row = json.loads(out)
    assert status == 0
    assert (row["metric"], row["n"], round(row["difference"], 1)) == ("acc", 3, 66.7)
    assert row["signature"].startswith("compare|task:arc|lang:en|metric:acc|")
    status, _, err = here("eval", "compare", "a.jsonl", "c.jsonl")
    said = "c.jsonl: does not exist; check the name, or give - to read a pipe\n"
    assert (status, err) == (2, f"modtok: error: {said}")
    write_lines(workspace / "c.jsonl", rows[:2])
    status, _, err = here("eval", "compare", "a.jsonl", "c.jsonl")
    assert status == 1
    assert "c.jsonl: has no example 2 of arc en" in err
    monkeypatch.setitem(sys.modules, "lm_eval", None)  # only models need it, on either side
    for sides in (("a.jsonl", "."), (".", "a.jsonl")):
        status, _, err = here("eval", "compare", *sides)
        assert (status, "requires lm_eval" in err) == (2, True)
    assert here("eval", "compare", "a.jsonl", "b.jsonl", "--json")[0] == 0


class Fetched:
    rows = ({"task": "mt", "language": "fr", "examples": 1012, "shots": 997, "source": "flores"},)

    def require_complete(self) -> None:
        raise ModtokError("incomplete: sum fr: cannot load the dataset")


def test_fetch(here: Any, room: Any, stand_in: Any) -> None:
    done = stand_in("modtok_cli.evaluate.fetch_tasks", "fetch_tasks", Fetched())
    status, out, err = here(
        "eval", "fetch", "mt", "sum", "--langs", "fr,en", "-o", "there", "--force", "--json"
    )
    assert (status, json.loads(out)) == (1, Fetched.rows[0])
    assert "incomplete: sum fr" in err
    assert (done.kwargs["tasks"], done.kwargs["languages"]) == (["mt", "sum"], "fr,en")
    assert (done.kwargs["output"], done.kwargs["force"]) == (Path("there"), True)


def test_fetch_needs_languages(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modtok_cli.base.extras.find_spec", lambda name, package=None: object())
    status, _, err = here("eval", "fetch")
    assert status == 2
    assert "no languages given; as in: modtok eval fetch --langs en,fr" in err


def test_fetch_takes_the_languages_of_the_tokenizer(
    here: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(languages=("en", "fi")).save(workspace / "tokenizer")
    asked: list[Any] = []
    monkeypatch.setattr(fetch_tasks.hub, "reachable", lambda: True)
    for task in fetch_tasks.TASKS:
        fetch = partial(lambda task, _, languages, *__: asked.append((task, languages)), task)
        monkeypatch.setitem(fetch_tasks._FETCHERS, task, fetch)
    assert here("eval", "fetch")[0] == 0
    assert {task for task, _ in asked} == {"mcq", "mt", "sum"}
    assert all(languages == ["en", "fi"] for _, languages in asked)


def test_fetch_without_network(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from modtok_cli.evaluate import hub

    hub.reachable.cache_clear()
    try:
        status, out, err = here("eval", "fetch", "mt", "--langs", "en,fr")
    finally:
        hub.reachable.cache_clear()
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert "the hub cannot be reached; provide parallel text as DIR/mt/dev" in err
