"""`modtok eval mcq` and `modtok eval bpb` as typed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers.sample import SAMPLE
from modtok_cli.cli.commands.eval_mcq import pivot
from modtok_cli.cli.execute import run
from modtok_cli.cli.main import command_tree
from modtok_cli.evaluate.evaluate import evaluate_mcq

TASKS, TEXT = SAMPLE / "tasks", str(SAMPLE / "parallel" / "fr.txt")


@pytest.fixture(autouse=True)
def workspace(few_steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """runs/latest and tasks/, as the demo has them."""
    for name in ("runs", "tokenizer"):
        (tmp_path / name).symlink_to(few_steps.parents[1] / name)
    shutil.copytree(TASKS / "mcq", tmp_path / "tasks" / "mcq")
    monkeypatch.chdir(tmp_path)


def modtok(line: str) -> int:
    return run(command_tree(), ["eval", *line.split()])


def test_the_latest_run_in_every_language_it_has(few_steps: Path, capsys: Any) -> None:
    assert modtok("mcq -q") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["language"], row["task"]) for row in rows] == [
        (language, task)
        for language in ("el", "en", "fi", "fr")
        for task in ("endings", "facts", "mean")
    ]
    assert {row["infer"] for row in rows} == {"lang"}
    found = evaluate_mcq(few_steps, data=TASKS)
    values = [result.value for result in found.results]
    assert [row["value"] for row in rows] == pytest.approx(values, rel=1e-5)
    assert str(rows[0]["signature"]).startswith("endings|lang:el|data:")


def test_what_is_wrong_is_said_in_a_line(capsys: Any) -> None:
    Path("mine").mkdir()
    Path("mine/code.yaml").write_text("task: code_fr\ndoc_to_text: !function a.b\n")
    own = "mcq --include mine --tasks code_fr --langs fr"
    sw = SAMPLE / "parallel" / "sw.txt"
    for line, status, message in (
        ("mcq --eval-data nowhere", 2, "nowhere: does not exist"),
        ("mcq --tasks facts,,endings", 2, "has an empty entry"),
        ("mcq --infer tgt", 2, "needs a source and a target language"),
        ("mcq --examples tasks", 2, "tasks"),
        ("mcq --include mine --tasks code_fr --langs fr,en", 2, "of the task 'code_fr' is unknown"),
        (own, 1, "--allow-code"),
        (f"{own} --allow-code", 1, "cannot load code_fr"),  # it is read, and there is no a.py
        ("bpb runs/latest", 2, "no text given; as in: modtok eval bpb MODEL fr.txt"),
        ("bpb nowhere.txt runs/latest", 2, "nowhere.txt"),
        (f"bpb {sw} runs/latest", 1, "or use --infer full"),
    ):
        assert modtok(line) == status, line
        said = capsys.readouterr().err
        assert said.startswith("modtok: error: "), line
        assert (message in said, said.count("\n")) == (True, 1), said
    shutil.rmtree("tasks")
    assert modtok("mcq") == 1  # no files and no network
    said = capsys.readouterr().err
    assert (said.count("\n"), "DIR/mcq/<task>/<lang>.jsonl" in said) == (1, True)


def test_the_table_is_languages_by_tasks(few_steps: Path) -> None:
    found = evaluate_mcq(few_steps, ["en", "fr"], data=TASKS)
    lines, columns = pivot(found.results)
    assert [column.heading for column in columns] == ["lang", "endings", "facts", "mean"]
    assert [line["language"] for line in lines] == ["en", "fr", "guessing"]
    assert lines[-1] == {
        "language": "guessing", "endings": "25.0", "facts": "33.3", "mean": "29.2"
    }  # fmt: skip
    result = found.results[0]
    interval = f"({result.low:.1f}–{result.high:.1f})"
    assert lines[0]["endings"] == f"{result.value:.1f} {interval}"


def test_rows_of_bits(capsys: Any) -> None:
    line, sw = "runs/latest --limit 3 --json", SAMPLE / "parallel" / "sw.txt"
    assert modtok(f"bpb {TEXT} {line}") == 0
    assert modtok(f"bpb {sw} {line} --infer full --infer lang --batch-size 2 --plot b.svg") == 1
    out, err = capsys.readouterr()
    assert "wrote b.svg" in err
    rows = [json.loads(each) for each in out.splitlines()]
    assert [(row["infer"], row["documents"]) for row in rows] == [("lang", 3), ("full", 3)]
    assert Path("b.svg").exists()
