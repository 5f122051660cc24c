"""`modtok eval mcq` as typed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from helpers.sample import SAMPLE
from helpers.small_run import small_run
from modtok_cli.cli.commands.eval_mcq import pivot
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.run import run
from modtok_cli.evaluate.evaluate import evaluate_mcq

TASKS = SAMPLE / "tasks"


@pytest.fixture(scope="session")
def few_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Greek, English, Finnish, French."""
    return small_run(tmp_path_factory)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")


@pytest.fixture
def workspace(few_steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """runs/latest and tasks/, as the demo has them."""
    root = few_steps.parent.parent
    for name in ("runs", "tokenizer"):
        (tmp_path / name).symlink_to(root / name)
    shutil.copytree(TASKS / "mcq", tmp_path / "tasks" / "mcq")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def modtok(*words: str) -> int:
    return run(command_tree(), ["eval", "mcq", *words])


def rows_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_latest_run_in_every_language_it_has(
    workspace: Path, few_steps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert modtok("-q") == 0
    rows = rows_of(capsys)
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


def test_languages_without_questions_end_in_1(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(workspace / "tasks", "other")
    for path in Path("other").rglob("f[ir].jsonl"):
        path.unlink()
    assert modtok("--langs", "en,fi,fr", "--data", "other") == 1
    said = capsys.readouterr()
    assert [json.loads(line)["language"] for line in said.out.splitlines()] == ["en"] * 3
    assert "incomplete: " in said.err
    assert "mcq/endings in fi,fr" in said.err.replace("\n", " ")


def test_what_is_wrong_is_said_in_a_line(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert modtok("--data", "nowhere") == 2
    assert modtok("--tasks", "facts,,endings") == 2
    assert modtok("--infer", "tgt") == 2
    assert modtok("--examples", "tasks") == 2
    assert modtok("--include", "nowhere", "--tasks", "mine", "--langs", "fr,en") == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 5
    assert all(line.startswith("modtok: error: ") for line in said)
    (workspace / "mine").mkdir()
    (workspace / "mine" / "code.yaml").write_text("task: code_fr\ndoc_to_text: !function a.b\n")
    own = ("--include", "mine", "--tasks", "code_fr", "--langs", "fr")
    assert modtok(*own) == 1
    assert "--allow-code" in capsys.readouterr().err.splitlines()[-1]
    assert modtok(*own, "--allow-code") == 1  # it is read, and there is no a.py
    capsys.readouterr()
    shutil.rmtree(workspace / "tasks")
    assert modtok() == 1  # no files and no network
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert all(line.startswith("modtok: error: ") for line in said)
    assert "DIR/mcq/<task>/<lang>.jsonl" in said[-1]


def test_the_table_is_languages_by_tasks(few_steps: Path) -> None:
    found = evaluate_mcq(few_steps, ["en", "fr"], data=TASKS)
    lines, columns = pivot(found.results)
    assert [column.heading for column in columns] == ["lang", "endings", "facts", "mean"]
    assert [line["language"] for line in lines] == ["en", "fr", "guessing"]
    assert lines[-1] == {
        "language": "guessing", "endings": "25.0", "facts": "33.3", "mean": "29.2"
    }  # fmt: skip
    result = found.results[0]
    assert result.low is not None
    assert result.high is not None
    interval = f"({result.low:.1f}–{result.high:.1f})"
    assert lines[0]["endings"] == f"{result.value:.1f} {interval}"
