"""What commands hand to their public functions, which stand-ins replace, and what they print."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.toy_tokenizers import toy
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_lines
from modtok_cli.cli.commands import generate
from modtok_cli.cli.progress_bar import CommandProgress
from modtok_cli.evaluate import fetch_tasks, hub_tasks
from modtok_cli.evaluate.results import Evaluation, Result, example, read_examples
from modtok_cli.model.vocabularies import sides
from modtok_cli.text.reading import Reading

from .conftest import FakeReport, StandIn

Here = Callable[..., tuple[int, str, str]]
RESULT = Result(
    "mt", "en-fr", "BLEU", 27.04, 26.0, 28.1, 8, 5, "none", "lang", "mt|…", {"tokens": 9}
)


def rest(called: StandIn) -> dict[str, object]:
    return {key: value for key, value in called.kwargs.items() if key != "progress"}


@pytest.fixture
def learn(stand_in: Any) -> StandIn:
    return stand_in("bpe_seq", FakeReport())  # type: ignore[no-any-return]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Every package looks installed but those that a call names."""
    missing: list[str] = []

    def find(name: str, package: str | None = None) -> object:
        return None if name in missing else object()

    monkeypatch.setattr("modtok_cli.base.extras.find_spec", find)
    return missing.extend


def test_options_become_arguments(here: Here, learn: StandIn) -> None:
    status, out, err = here("bpe-seq")
    assert (status, err) == (0, "")
    assert [json.loads(line)["language"] for line in out.splitlines()] == ["en", "fi"]
    assert rest(learn) == {"reading": Reading()}
    assert isinstance(learn.kwargs["progress"], CommandProgress)
    line = "--langs fi,en -k 900 --order given --segmentation fewest-tokens --no-references"
    line += " --special <s> --special </s> --no-default-specials --data text --errors skip --force"
    assert here("bpe-seq", *line.split(), "--json")[0] == 0
    assert rest(learn) == {
        "languages": "fi,en",
        "data": Path("text"),
        "k": 900,
        "order": "given",
        "segmentation": "fewest-tokens",
        "references": False,
        "specials": ["<s>", "</s>"],
        "default_specials": False,
        "reading": Reading("skip"),
        "force": True,
    }


def test_settings_of_a_workspace_are_for_what_is_made_new(
    here: Here, learn: StandIn, stand_in: Any
) -> None:
    """With `k = 16000` in modtok.toml languages of any tokenizer can still be added or removed."""
    Path("modtok.toml").write_text(
        '[default]\nk = 16000\n[bpe-seq]\ntokenizer = "old"\n'
        'special = ["<s>"]\nlangs = ["en"]\noutput = "out"\n'
    )
    new = {"k": 16000, "languages": "en", "specials": ["<s>"], "output": Path("out")}
    for words, expected in (
        ("", new),
        ("--append sv", {"append": "sv", "output": Path("out")}),
        ("--append sv -t t", {"append": "sv", "tokenizer": Path("t")}),
        ("--append sv -t t -o o", {"append": "sv", "tokenizer": Path("t"), "output": Path("o")}),
        # for the function to refuse
        ("--append sv -k 9", {"append": "sv", "k": 9, "output": Path("out")}),
    ):
        assert here("bpe-seq", *words.split())[0] == 0
        assert rest(learn) == {**expected, "reading": Reading()}
    merge = stand_in("bpe_merge", FakeReport())
    assert here("bpe-merge", "--remove", "fi", "-t", "t")[0] == 0
    assert rest(merge) == {"remove": "fi", "tokenizer": Path("t"), "reading": Reading()}


def test_quiet_and_verbose_before_and_after_the_command(here: Here, learn: StandIn) -> None:
    assert "MiB" in here("-v", "bpe-seq")[2]
    assert "MiB" in here("bpe-seq", "--verbose")[2]
    assert here("-q", "bpe-seq", "-v")[2] == ""
    assert here("--quiet", "bpe-seq", "-v")[2] == ""


@pytest.mark.parametrize(
    ("line", "missing", "said"),
    [
        (
            "corpus build x",
            "datatrove fastwarc",
            "datatrove, fastwarc; pip install 'modtok[corp",
        ),
        ("corpus count --executor local", "datatrove", "datatrove; pip install 'modtok[corpus]'"),
        ("eval mt", "sacrebleu", "this command requires sacrebleu; pip install 'modtok[eval]'"),
        ("eval mt", "sacrebleu torch", "torch, sacrebleu; pip install 'modtok[lm,eval]'"),
    ],
)
def test_what_is_not_installed_is_named(
    here: Here, installed: Callable[..., None], line: str, missing: str, said: str
) -> None:
    installed(missing.split())
    status, out, err = here(*line.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_a_plot_without_matplotlib_fails_first(
    here: Here, stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = stand_in("nsl", [])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in ("x.png", "x.svg"):
        status, _, err = here("nsl", "x.txt", "--plot", name)
        assert status == 2
        assert "unlike --plot -, requires matplotlib; pip install 'modtok[plot]'" in err
    assert not called.args
    assert "a report requires matplotlib" in here("report")[2]


def test_corpus_build(here: Here, stand_in: Any) -> None:
    bad = [{"source": "a.warc.gz:17", "reason": "damaged", "detail": ""}]
    kept = {"kept": True, "language": "fi", "pages": 2}
    report = SimpleNamespace(output=Path("data"), bad=bad, rows=lambda: [kept])
    called = stand_in("corpus_build", report)
    line = "--executor slurm --executor-option partition=cpu --executor-option time=1:00:00"
    status, out, err = here("corpus", "build", "a.warc.gz", "b", *line.split())
    assert (status, json.loads(out)) == (0, kept)
    assert "1 invalid record is listed in data/corpus.json, first: a.warc.gz:17 (damaged)" in err
    assert called.kwargs["inputs"] == ["a.warc.gz", "b"]
    assert called.kwargs["executor_options"] == {"partition": "cpu", "time": "1:00:00"}


def test_evaluations(here: Here, installed: Any, stand_in: Any) -> None:
    evaluation = Evaluation(
        results=[RESULT], examples=[example("mt", "en-fr", "1", {}, output="a", reference="b")]
    )
    done = stand_in("evaluate_mt", evaluation)
    line = "eval mt r --eval-data d --examples e.jsonl --json"
    status, out, _ = here(*line.split())
    assert (status, json.loads(out)) == (0, RESULT.as_row())
    assert json.loads(out)["tokens"] == 9
    assert done.kwargs.pop("processes").count == 1
    del done.kwargs["progress"], done.kwargs["kept"]
    assert done.kwargs == {"models": ["r"], "data": Path("d")}
    assert [row["id"] for row in read_examples(Path("e.jsonl"))] == ["1"]
    for said, wrong in {
        ".: is a directory": "--examples . --force",
        "e.jsonl: already exists": "--examples e.jsonl",
        "--examples e.jsonl: is --eval-data too and would be lost": "--eval-data e.jsonl "
        "--examples e.jsonl",
        "--examples e.svg: is --plot too and would be lost": "--plot e.svg --examples e.svg",
    }.items():
        status, _, err = here("eval", "mt", *wrong.split())
        assert (status, err.split(";")[0]) == (2, f"modtok: error: {said}")
    assert here("eval", "mt", "--plot", "m.svg")[0] == 0
    assert "<svg" in Path("m.svg").read_text()
    assert here("eval", "mt", "--plot", "m.txt")[0] == 2
    evaluation.skipped = ["tasks/mt has no text in de"]
    status, out, err = here("eval", "mt", "--plot", "-")
    assert (status, json.loads(out)) == (1, RESULT.as_row())
    assert "mt: BLEU" in err
    assert err.endswith("\nmodtok: error: incomplete: tasks/mt has no text in de\n")


def test_compare(here: Here, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setitem(sys.modules, "lm_eval", None)  # only models need it, on either side
    for two in (("a.jsonl", "."), (".", "a.jsonl")):
        status, _, err = here("eval", "compare", *two)
        assert (status, "requires lm_eval" in err) == (2, True)
    assert here("eval", "compare", "a.jsonl", "b.jsonl", "--json")[0] == 0


def test_fetch(
    here: Here, installed: Any, stand_in: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, err = here("eval", "fetch")
    assert status == 2
    assert "no languages given; as in: modtok eval fetch --langs en,fr" in err
    hub_tasks.reachable.cache_clear()
    status, _, err = here("eval", "fetch", "mt", "--langs", "en,fr")
    hub_tasks.reachable.cache_clear()
    assert (status, err.count("\n")) == (1, 1)
    assert "the hub cannot be reached; provide parallel text as DIR/mt/dev" in err
    toy(languages=("en", "fi")).save(workspace / "tokenizer")
    asked: list[object] = []
    monkeypatch.setattr(hub_tasks, "reachable", lambda: True)
    monkeypatch.setitem(fetch_tasks._SETS, "mt", lambda *given: asked.append(given[1]) or [])
    status, _, err = here("eval", "fetch", "mt")
    assert (status, err.count("\n")) == (2, 1)
    assert "no set of mt is in en, fi; use codes such as fr" in err
    assert asked == [["en", "fi"]]
    row = {"task": "mt", "language": "fr", "examples": 1012, "shots": 997, "source": "flores"}

    def require_complete() -> None:
        raise ModtokError("incomplete: sum fr: cannot load the dataset")

    fetched = SimpleNamespace(rows=(row,), require_complete=require_complete)
    stand_in("fetch_tasks", fetched)
    status, out, err = here("eval", "fetch", "--json")
    assert (status, json.loads(out)) == (1, row)
    assert "incomplete: sum fr" in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("slice runs/a -o s", "runs/a: does not exist"),
        ("slice runs/a --langs fr", "no output directory given"),
        ("slice runs/a --langs fr --in en -o s", "--langs conflicts with --in and --out"),
        ("slice s --append fi --langs fr", "--append adds languages to both sides"),
        ("slice s --append fi", "s: does not exist"),
        ("slice runs/a --langs fr,,en -o s", "has an empty entry"),
        ("slice draft --langs fr --head list.txt -o s", "not for drafts (--head)"),
        ("generate", "no prompt given"),
        ("generate --gpus 2 hello", "--gpus: one prompt is not shared; leave it out"),
        ("cost --model 3b", "model size '3b' does not exist"),
        ("cost nowhere", "nowhere: does not exist"),
        ("generate nowhere/ hello", "nowhere: does not exist"),
        ("generate nowhere/", "no prompt given"),
        ("bpe-seq -k 300 --special <a>,<b>", "--special '<a>' --special '<b>'; in modtok.toml ['"),
        ("cost --time tokenizer", "--time needs a text"),
        ("eval bpb", "MODEL_OR_TEXT is missing"),
        ("cost -t tokenizer@each", "depends on the text"),
        ("corpus build a.png", "a.png: unknown file format"),
        ("corpus build missing.warc", "missing.warc: does not exist"),
        ("corpus build -", "a pipe cannot be read again"),
        ("corpus build a.jsonl --langs x9", "'x9' is not a language code"),
        ("corpus build a.jsonl --filters url,x", "--filters: expected names of url, gopher"),
        ("corpus build a.jsonl --lang-threshold 1.5", "expected a number of at least 0"),
        ("corpus build a.jsonl --quality-top 0.5", "no quality model"),
        ("corpus build a.jsonl --lang-model no.bin", "no.bin: does not exist"),
        ("corpus build a.jsonl --lang-model a.jsonl", "a.jsonl: not a fastText model"),
        ("corpus build a.jsonl --executor slurm", "Slurm needs partition and time"),
        ("corpus build a.jsonl --executor-option a=b", "--executor-option requires slurm or ray"),
        ("corpus build a.jsonl --executor-option a", "expected KEY=VALUE, got 'a'"),
        ("corpus build x --executor-option a=b --executor-option a=c", "a is given twice"),
        ("corpus count --workers 2", "no tasks without --executor: omit --workers"),
        ("corpus stats b.jsonl --lang fi", "b.jsonl:1: no field 'text'; choose one with --field: "),
        ("corpus stats b.jsonl --lang fi --field a..b", "--field: 'a..b' is not the name of a fie"),
    ],
)
def test_wrong_usage(here: Here, installed: Any, line: str, said: str) -> None:
    Path("a.png").write_bytes(b"")
    Path("a.jsonl").write_text('{"text": "x"}\n')
    Path("b.jsonl").write_text('{"content": "x"}\n')
    status, out, err = here(*line.split())
    assert (status in (1, 2), out, err.count("\n")) == (True, "", 1), err
    assert said in err
    assert not Path("data").exists()


def test_sides() -> None:
    assert sides("fr,en", None, None) == (["fr", "en"], None)
    assert sides(None, "en", "fr") == (["en"], ["fr"])
    assert sides(None, None, "fr") == (["full"], ["fr"])
    assert sides(None, None, None) == (None, None)
    with pytest.raises(UsageError):
        sides("fr", None, "fr")


ROW = {
    "prompt": "Il", "text": " était", "languages": ["fr"], "output_languages": ["fr"],
    "routed": True, "lead": 12.5, "prompt_tokens": 1, "tokens": 2, "reason": "length",
    "looks_like": "it", "own_tokens": 1,
}  # fmt: skip


class Generator:
    """In place of a model: says what it is told to say."""

    made: tuple[Any, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        type(self).made = (args, kwargs)

    def answer(self, prompts: Any, options: Any, listener: Any) -> list[dict[str, Any]]:
        if listener is not None:
            listener(0, " ét")
            listener(0, "ait")
        return [{**ROW, "prompt": prompts[0].text, "options": options.__dict__}]


def test_generate(here: Here, monkeypatch: pytest.MonkeyPatch, installed: Any) -> None:
    monkeypatch.setattr(generate, "Generator", Generator)
    status, out, err = here("generate", "--langs", "auto", "il/elle")  # no name of the hub
    assert (status, out) == (0, " était\n")
    assert "fr (identified, by a margin of 12.5 bits); 1 prompt tokens, 2 new tokens" in err
    assert "looks like it, which needs 1 prompt tokens with its own subtokenizer" in err
    assert Generator.made[0] == (Path("runs/latest"), ["auto"], None)
    options = {
        "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "min_p": 0.1, "stop": ["x"], "seed": 3,
    }  # fmt: skip
    line = "s --max-tokens 5 --temperature 0.5 --top-p 0.9 --min-p 0.1 --stop x --seed 3"
    status, out, _ = here("generate", *line.split(), "--references", "r", "--json", "Il")
    assert (status, json.loads(out)["options"]) == (0, options)
    assert Generator.made[1]["references"] == Path("r")
    for model in (["s"], []):
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO()))
        assert here("generate", *model, "-")[:2] == (0, "")  # as many answers as lines


def test_export(here: Here, installed: Any, stand_in: Any) -> None:
    facts = {"bytes": 10, "vocabulary": 600, "tokenizer": "gpt-2", "lines": 4, "different": 1}
    reports = [
        SimpleNamespace(output=Path(f"gguf/{name}.gguf"), languages=(name,), **facts)
        for name in ("fi", "fr")
    ]
    call = stand_in("export", reports[0])
    status, out, err = here("export", "s", "--json")
    assert (status, json.loads(out)["output"]) == (0, "gguf/fi.gguf")
    assert "3 of 4 probe lines have the same ids" in err
    assert "gguf/fi.gguf" in here("export", "s", "--table")[1]
    call.answer = reports
    status, out, err = here("export", "s", "--each", "--table")
    assert status == 0
    for name in ("fi", "fr"):
        assert re.search(rf"\b{name} +600 +10 B +gguf/{name}\.gguf", out), out
        assert f"wrote gguf/{name}.gguf" in err
