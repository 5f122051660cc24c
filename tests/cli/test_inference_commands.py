"""slice, generate, export and cost: what they hand on, and what they refuse."""

from __future__ import annotations

import json
import re
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from modtok_cli.base.errors import UsageError
from modtok_cli.inference.vocabularies import sides


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked of the machine."""
    for command in ("slice", "generate", "export", "cost"):
        module = import_module(f"modtok_cli.cli.commands.{command}")
        monkeypatch.setattr(module, "require_models", lambda: None)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("slice runs/a -o s", "no languages given"),
        ("slice runs/a --langs fr", "no output directory given"),
        ("slice runs/a --langs fr --in en -o s", "--langs conflicts with --in and --out"),
        ("slice s --append fi --langs fr", "--append adds languages to both sides"),
        ("slice runs/a --langs fr,,en -o s", "has an empty entry"),
        ("slice draft --langs fr --head list.txt -o s", "is for slices without --head"),
        ("generate", "no prompt given"),
        ("generate --gpus 2 hello", "--gpus: one prompt is not shared; leave it out"),
        ("generate --in fr, hello", "--in 'fr,' has an empty entry"),
        ("cost --model 3b", "model size '3b' does not exist"),
        ("cost nowhere", "nowhere: does not exist"),
        ("generate nowhere/ hello", "nowhere: does not exist"),
        ("generate nowhere/", "no prompt given"),
        ("cost --time tokenizer", "--time needs a text"),
        ("eval bpb", "MODEL_OR_TEXT is missing"),
        ("cost -t tokenizer@each", "depends on the text"),
    ],
)
def test_wrong_usage(here: Any, line: str, said: str) -> None:
    status, out, err = here(*line.split())
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_sides() -> None:
    assert sides("fr,en", None, None) == (["fr", "en"], None)
    assert sides(None, "en", "fr") == (["en"], ["fr"])
    assert sides(None, None, "fr") == (["full"], ["fr"])
    assert sides(None, None, None) == (None, None)
    with pytest.raises(UsageError):
        sides("fr", None, "fr")


ROW = {
    "prompt": "Il",
    "text": " était",
    "languages": ["fr"],
    "output_languages": ["fr"],
    "routed": True,
    "lead": 12.5,
    "prompt_tokens": 1,
    "tokens": 2,
    "reason": "length",
    "looks_like": "it",
    "own_tokens": 1,
}


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


def test_generate(here: Any, monkeypatch: pytest.MonkeyPatch, room: None) -> None:
    module = import_module("modtok_cli.cli.commands.generate")
    monkeypatch.setattr(module, "Generator", Generator)
    status, out, err = here("generate", "--langs", "auto", "Il")
    assert (status, out) == (0, " était\n")
    assert "fr (identified, by a margin of 12.5 bits); 1 prompt tokens, 2 new tokens" in err
    assert "looks like it, which needs 1 prompt tokens with its own subtokenizer" in err
    assert Generator.made[0] == (Path("runs/latest"), ["auto"], None)
    line = (
        "generate s --max-tokens 5 --temperature 0.5 --top-p 0.9 --min-p 0.1 --stop x "
        "--seed 3 --batch-size 2 --references r --json"
    )
    status, out, _ = here(*line.split(), "Il")
    assert status == 0
    assert json.loads(out)["options"] == {
        "max_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.9,
        "min_p": 0.1,
        "stop": ["x"],
        "seed": 3,
    }
    assert Generator.made[1]["references"] == Path("r")


def test_export(here: Any, room: None, stand_in: Any, workspace: Path) -> None:
    report = types.SimpleNamespace(
        output=Path("m.gguf"),
        bytes=10,
        vocabulary=600,
        tokenizer="gpt-2",
        lines=4,
        different=1,
        languages=("fr",),
    )
    call = stand_in("modtok_cli.inference.export.export", "export", report)
    (workspace / "fr.txt").write_text("un\ndeux\n")
    line = "export s --format gguf --probe fr.txt --inexact --dtype float32 --json"
    status, out, err = here(*line.split())
    assert (status, json.loads(out)["output"]) == (0, "m.gguf")
    assert "3 of 4 probe lines have the same ids" in err
    assert call.kwargs["model"] == Path("s")
    assert (call.kwargs["probe"], call.kwargs["inexact"]) == (["fr.txt"], True)
    assert call.kwargs["dtype"] == "float32"


def test_export_of_several_sets_prints_their_sizes(here: Any, room: None, stand_in: Any) -> None:
    facts = {"bytes": 10, "vocabulary": 600, "tokenizer": "gpt-2", "lines": 4, "different": 1}
    reports = [
        types.SimpleNamespace(output=Path(f"gguf/{name}.gguf"), languages=(name,), **facts)
        for name in ("fi", "fr")
    ]
    call = stand_in("modtok_cli.inference.export.export", "export", reports)
    status, out, err = here("export", "s", "--each", "--table")
    assert status == 0
    for name in ("fi", "fr"):
        assert re.search(rf"\b{name} +600 +10 B +gguf/{name}\.gguf", out), out
        assert f"wrote gguf/{name}.gguf" in err
    assert call.kwargs["each"] is True


def test_cost_is_the_papers_table(here: Any) -> None:
    status, out, _ = here("cost", "--model", "1b", "--model", "30b", "--tied", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [round(100 * row["saved"]) for row in rows] == [0, 31, 0, 5]
