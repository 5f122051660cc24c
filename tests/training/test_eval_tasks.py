"""--eval-tasks: multiple choice on the checkpoints of a run that trains."""

from __future__ import annotations

import importlib.util
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from helpers.metrics import numbers, read_metrics
from helpers.questions import QUESTIONS, lay_out, own_task
from helpers.said import Said
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.training import run_memory as memory
from modtok_cli.training.settings import RunSettings

pytest.importorskip("lm_eval")

from modtok_cli.evaluate import mcq
from modtok_cli.evaluate.evaluate import evaluate_mcq
from modtok_cli.evaluate.questions import McqSettings
from modtok_cli.training.loop import pretrain as train

pretrain = partial(train, tasks=mcq)


@pytest.fixture
def asked(settings: RunSettings, tmp_path: Path) -> RunSettings:
    """A run with questions in French and English, evaluated every two steps."""
    data = tmp_path / "tasks"
    for language in ("en", "fr"):
        lay_out(data, "own", language, **QUESTIONS)
    own_task(data, "characters", shots=0)
    return settings.changed(
        eval_tasks="all", eval_tasks_every=2, eval_tasks_data=data, save_every=4, keep=9
    )  # type: ignore[arg-type]


def test_the_plan_knows_the_batch_of_an_evaluation() -> None:
    assert McqSettings().batch_size == memory._CHOICES


def task_lines(run: Path) -> list[dict[str, Any]]:
    return [line for line in read_metrics(run) if "tasks" in line]


def test_tasks_have_the_scores_of_eval_mcq(asked: RunSettings) -> None:
    notes = Said()
    pretrain(asked, progress=notes)
    run = asked.runs / "it"
    lines = task_lines(run)
    assert [line["step"] for line in lines] == [2, 4, 6]
    for line in lines:
        found = evaluate_mcq(
            run, ["en", "fr"], data=asked.evaluation.eval_tasks_data, step=line["step"]
        )
        expected = {
            result.language: {"own": {n: result.as_row()[n] for n in line["tasks"]["en"]["own"]}}
            for result in found.results
        }
        assert line["tasks"] == orjson.loads(orjson.dumps(expected))
    assert {"value", "n", "chance"} < set(lines[0]["tasks"]["fr"]["own"])
    assert any(note.startswith("step 6: fr accuracy own ") for note in notes.notes)
    assert any("own in el,fi" in note for note in notes.warnings)
    without = asked.changed(eval_tasks=None, eval_tasks_every=None, eval_tasks_data=None)
    pretrain(without.changed(name="without"))  # type: ignore[arg-type]
    others = [line for line in numbers(run) if "tasks" not in line]
    assert others == numbers(asked.runs / "without")


def test_tasks_of_the_last_checkpoint_are_evaluated_on_resume(asked: RunSettings) -> None:
    """A run may be killed after it saved a checkpoint and before the tasks were evaluated."""
    pretrain(asked.changed(eval_tasks_limit=1, eval_tasks_langs=("en",)))
    run = asked.runs / "it"
    for line in task_lines(run):
        assert {name: one["own"]["n"] for name, one in line["tasks"].items()} == {"en": 1}
    expected = numbers(run)
    shutil.rmtree(run / "checkpoints" / "step-00000006")
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"tasks"' not in line or b'"step":2' in line]
    (run / "metrics.jsonl").write_bytes(b"".join(kept))
    plain = RunSettings(runs=asked.runs)
    pretrain(plain, resume=True)
    assert numbers(run) == expected
    pretrain(plain, resume=True)
    assert numbers(run) == expected


def test_a_failed_evaluation_is_a_warning(
    asked: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: Any, **options: Any) -> list[Any]:
        raise ModtokError("a choice is too long")

    notes = Said()
    monkeypatch.setattr(mcq, "evaluate_tasks", failing)
    pretrain(asked, progress=notes)
    assert "step 6: tasks not evaluated: a choice is too long" in notes.warnings
    assert task_lines(asked.runs / "it") == []
    assert read_metrics(asked.runs / "it")[-1]["step"] == 6


def test_tasks_that_cannot_be_evaluated(
    asked: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(message: str, **changes: Any) -> None:
        with pytest.raises(ModtokError, match=message):
            pretrain(asked.changed(**changes))

    refuses("no local task 'other'", eval_tasks="other")
    refuses("no questions: ", eval_tasks_langs="fi")
    refuses("no questions: no questions in .*arc_easy in ", eval_tasks="arc_easy")
    whole = importlib.util.find_spec
    monkeypatch.setattr(
        "modtok_cli.evaluate.mcq.find_spec",
        lambda name: None if name == "lm_eval" else whole(name),
    )
    refuses(r"--eval-tasks: lm_eval is not installed; pip install 'modtok\[eval\]'")
    with pytest.raises(UsageError, match="needs --eval-tasks"):
        pretrain(asked.changed(eval_tasks=None))
    assert not (asked.runs / "it").exists()
