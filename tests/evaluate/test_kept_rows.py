"""Several models and modes in one call; rows that results/ has are not computed again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import write_lines
from modtok_cli.base.option import parameters_of
from modtok_cli.cli.execute import run as run_command
from modtok_cli.cli.main import command_tree
from modtok_cli.evaluate import evaluate
from modtok_cli.evaluate.compare import compare
from modtok_cli.evaluate.evaluate import evaluate_bpb, evaluate_mcq, evaluate_mt, evaluate_sum
from modtok_cli.evaluate.results import Kept
from modtok_cli.model.slice.run_source import open_run
from modtok_cli.model.slice.slice import slice as slice_model

TASKS, TEXT = SAMPLE / "tasks", SAMPLE / "parallel" / "fr.txt"
SHORT: dict[str, Any] = {"limit": 1, "max_tokens": 2, "shots": 0}
CALLS: dict[str, Callable[..., Any]] = {
    "mcq": lambda model, **more: evaluate_mcq(
        model, **{"languages": "fr", "tasks": "facts", "data": TASKS, "limit": 2, **more}
    ),
    "mt": lambda model, **more: evaluate_mt(
        model, **{"pairs": "en-fr", "data": TASKS, **SHORT, **more}
    ),
    "sum": lambda model, **more: evaluate_sum(
        model, **{"languages": "fr", "data": TASKS, **SHORT, **more}
    ),
    "bpb": lambda model, **more: evaluate_bpb(model, **{"texts": TEXT, "limit": 2, **more}),
}
# Another value of each option that changes a score; the others do not, or choose the cells.
CHANGED = {
    "mcq": {"infer": "full", "shots": 1, "limit": 3, "dtype": "bfloat16"},
    "mt": {"infer": "full", "shots": 1, "limit": 2, "dtype": "bfloat16",
           "max_tokens": 3, "lowercase": True},
    "sum": {"infer": "full", "shots": 1, "limit": 2, "dtype": "bfloat16",
            "max_tokens": 3},
    "bpb": {"infer": "full", "limit": 3, "dtype": "bfloat16"},
}  # fmt: skip
UNCHANGING = {
    "models", "step", "texts", "languages", "language", "pairs", "tasks", "data", "batch_size",
    "columns", "include", "allow_code", "tokenizer", "processes", "kept", "reading",
    "errors", "field", "lang_field",
}  # fmt: skip


def saved(place: Path, rows: list[dict[str, Any]]) -> Kept:
    place.mkdir(exist_ok=True)
    write_lines(place / "eval.jsonl", rows)
    return Kept(place)


_MODEL = "checkpoint|dtype:float32|bos:end-of-text"
_CODE = "torch|transformers"
# Digests and versions are left out.
SIGNED = {
    "mcq": f"facts|lang:fr|data|shots:2|infer:lang:fr|{_MODEL}|{_CODE}|lm-eval|modtok"
    "|metric:acc_pmi|norm:pmi",
    "mt": f"mt|lang:en-fr|data|shots:0|infer:lang:en,fr|{_MODEL}|most:2|among:el,en,fi,fr|case:own"
    f"|{_CODE}|sacrebleu|modtok|metric:BLEU|norm:none|sacrebleu",
    "sum": f"sum|lang:fr|data|shots:0|infer:lang:fr|{_MODEL}|most:2|among:el,en,fi,fr|case:own"
    f"|{_CODE}|sacrebleu|modtok|metric:rouge1|norm:words",
    "bpb": f"bpb|lang:fr|data|shots:0|infer:lang:fr|{_MODEL}|{_CODE}|modtok",
}


@pytest.mark.parametrize("kind", CALLS)
def test_every_option_that_changes_a_score_is_in_the_signature(
    few_steps: Path, tmp_path: Path, kind: str
) -> None:
    options = set(parameters_of(getattr(evaluate, f"evaluate_{kind}")))
    assert options == set(CHANGED[kind]) | (options & UNCHANGING), "a new option: which is it?"
    model = tmp_path / "runs" / "it"
    shutil.copytree(few_steps, model)
    first = CALLS[kind](model)
    signed = re.sub(r"(?<=\|)([a-z-]+):(?:[0-9a-f]{12}|it@\S+?|\d+\.[^|]+|#[^|]+)(?=\||$)", r"\1",
                    first.rows[0]["signature"])  # fmt: skip
    assert signed == SIGNED[kind]
    kept = saved(tmp_path / "results", first.rows)
    again = CALLS[kind](model, kept=kept, batch_size=3)
    assert again.rows == orjson.loads(orjson.dumps(first.rows))
    assert (kept.reused, again.examples) == (1, [])
    signatures = {row["signature"] for row in first.rows}
    for name, value in CHANGED[kind].items():
        found = CALLS[kind](model, kept=kept, **{name: value})
        assert not signatures & {row["signature"] for row in found.rows}, name
        assert found.examples, name
    assert kept.reused == 1


def test_weights_as_they_are(few_steps: Path, tmp_path: Path) -> None:
    """A slice that was trained further, or saved in another dtype, is another model."""
    part = slice_model(few_steps, "fr", output=tmp_path / "fr").output
    plain = tmp_path / "plain"  # as transformers saves it: without what modtok says
    shutil.copytree(part, plain)
    (plain / "modtok.json").unlink()
    for model in (part, plain):
        more: dict[str, Any] = {} if model == part else {"language": "fr"}
        kept = saved(tmp_path / "results", CALLS["bpb"](model, **more).rows)
        assert CALLS["bpb"](model, kept=kept, **more).examples == []
        weights = load_file(model / "model.safetensors")
        weights["model.norm.weight"] = weights["model.norm.weight"] * 1.01
        save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
        assert CALLS["bpb"](model, kept=kept, **more).examples
        assert kept.reused == 1
        half = {name: tensor.to(torch.bfloat16) for name, tensor in weights.items()}
        save_file(half, model / "model.safetensors", metadata={"format": "pt"})
        kept = saved(tmp_path / "results", CALLS["bpb"](model, **more).rows)
        config = json.loads((model / "config.json").read_text())
        config["rope_theta"] = config["rope_parameters"]["rope_theta"] = 77.0
        (model / "config.json").write_text(json.dumps(config))
        assert CALLS["bpb"](model, kept=kept, **more).examples


def test_several_models_and_modes(few_steps: Path, tmp_path: Path) -> None:
    part = slice_model(few_steps, "fr", output=tmp_path / "fr").output
    found = CALLS["mcq"]([few_steps, part], infer=["lang", "full"])
    assert [(row["run"], row["infer"]) for row in found.rows] == [("it", "lang"), ("it", "full"),
                                                                  ("fr", "lang")]  # fmt: skip
    assert [line.partition(": ")[0] for line in found.skipped] == [f"{part} --infer full"]
    labels = ("step", "sampling", "p", "seed")
    assert [found.rows[0][name] for name in labels] == [12, "sub:1", 0.5, 0]
    assert found.rows[0]["recipe"] == found.rows[1]["recipe"] != found.rows[2]["recipe"]
    with pytest.raises(UsageError, match="unknown inference mode 'no'"):
        CALLS["mcq"](few_steps, infer=["no", "nein"])


def test_a_recipe_is_all_but_the_seed(few_steps: Path, tmp_path: Path) -> None:
    run = tmp_path / "it"
    shutil.copytree(few_steps, run)
    content = json.loads((run / "config.json").read_text())

    def recipe(table: str, **changes: Any) -> str:
        config = content["config"] | {table: content["config"][table] | changes}
        (run / "config.json").write_text(json.dumps(content | {"config": config}))
        return str(open_run(run).labels()["recipe"])

    own = recipe("init", seed=5)
    assert own == recipe("init") == recipe("evaluation", keep=9) == recipe("parallelism", gpus=2)
    others = {recipe("data", errors="skip"), recipe("data", chat_template="chatml"),
              recipe("shape", rope_theta=7.0), recipe("parallelism", offload_delay=1),
              recipe("schedule", steps=99)}  # fmt: skip
    assert len({own, *others}) == 6


def test_a_call_goes_on_where_it_stopped(
    few_steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    line = ["eval", "mt", str(few_steps), "--eval-data", str(TASKS), "--pairs", "en-fr,fr-en"]
    line += ["--limit", "1", "--max-tokens", "2", "--infer", "lang", "--infer", "full", "--json"]
    from modtok_cli.evaluate import generation

    real, made, most = generation.generate_set, [], [2]

    def stopped(*arguments: Any) -> Any:
        if len(made) == most[0]:
            raise KeyboardInterrupt
        made.append(arguments[2].language)
        return real(*arguments)

    monkeypatch.setattr(generation, "generate_set", stopped)
    for _ in range(2):  # the second time it goes on from the first
        assert run_command(command_tree(), line) == 130
        made[1:] = []
    (left,) = (tmp_path / "results").iterdir()
    assert left.name.startswith("eval-mt-unfinished-")
    assert len(left.read_bytes().splitlines()) == 3 * 3
    made[:], most[0] = [], 99
    assert "repeat the command to continue" in capsys.readouterr().err
    assert run_command(command_tree(), line) == 0
    assert made == ["fr-en"]
    captured = capsys.readouterr()
    rows = [json.loads(row) for row in captured.out.splitlines()]
    assert len(rows) == 4 * 3
    assert "3 evaluations come from results/" in captured.err
    (kept,) = (tmp_path / "results").iterdir()
    assert [json.loads(row) for row in kept.read_bytes().splitlines()] == rows
    assert run_command(command_tree(), line) == 0  # nothing is left to do
    assert made == ["fr-en"]
    again = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    assert again == rows
    # Examples are not in results/, and --no-keep reads nothing from there.
    assert run_command(command_tree(), [*line, "--no-keep"]) == 0
    assert made == ["fr-en", *["en-fr", "fr-en"] * 2]


def test_two_models_are_compared(few_steps: Path, tmp_path: Path, capsys: Any) -> None:
    part = slice_model(few_steps, "en,fr", output=tmp_path / "en-fr").output
    rows = compare(
        few_steps, part, tasks="facts,mt,sum", languages="fr", pairs="en-fr", texts=TEXT,
        data=TASKS, infer=None, limit=1,
    )  # fmt: skip
    assert {row["task"] for row in rows} == {"facts", "mt", "sum", "bpb"}
    assert {next(iter(row)) for row in rows} == {"verdict"}
    (bits,) = (row for row in rows if row["task"] == "bpb")
    assert bits["n"] == 1
    line = ["eval", "compare", str(few_steps), str(few_steps), str(TEXT), "--limit", "3"]
    assert run_command(command_tree(), [*line, "--table"]) == 0
    assert "no difference shown" in capsys.readouterr().out
    with pytest.raises(UsageError, match="nothing to compare the models on"):
        compare(few_steps, part, data=TASKS, languages="fr")
    write_lines(tmp_path / "a.jsonl", [])
    with pytest.raises(UsageError, match="two files are given: omit tasks"):
        compare(tmp_path / "a.jsonl", tmp_path / "a.jsonl", tasks="facts")
    with pytest.raises(UsageError, match="is a model, and the other is a file"):
        compare(few_steps, tmp_path / "a.jsonl", texts=TEXT)
