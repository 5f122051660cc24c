"""Files as people write them, and hours that must not be lost to one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.questions import QUESTIONS, lay_out
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_lines
from modtok_cli.base.progress import SILENT
from modtok_cli.cli.commands.eval_mcq import all_local
from modtok_cli.cli.evaluation_output import emit_evaluation, writing_examples
from modtok_cli.evaluate import hub, mcq
from modtok_cli.evaluate.compare import compare
from modtok_cli.evaluate.documents import Documents, read_documents
from modtok_cli.evaluate.evaluate import evaluate_mt, evaluate_sum
from modtok_cli.evaluate.questions import Folder, read_questions
from modtok_cli.evaluate.results import (
    Evaluation,
    Result,
    example,
    read_examples,
)
from modtok_cli.evaluate.suite import read_suite, suites

BOM = b"\xef\xbb\xbf"
ROW = {"question": "Two?", "choices": ["1", "2"], "answer": "2"}


def put(path: Path, *rows: Any, end: bytes = b"\n", mark: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(mark + b"".join(json.dumps(row).encode() + end for row in rows))
    return path


def test_names_of_questions_are_unique(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of one name would be refused by compare, in the very file that was kept."""
    path = put(tmp_path / "a.jsonl", ROW | {"id": 7}, ROW | {"id": 7}, ROW | {"id": None}, ROW)
    assert [row.name for row in read_questions(path)] == ["7", "7 (line 2)", "3", "4"]
    arc = {"choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "A", "id": "x"}
    monkeypatch.setattr(hub, "_rows", lambda *_: [arc | {"question": text} for text in "12"])
    found, _ = hub.questions(suites()["arc_easy"].hub[0], "en")
    assert [row.name for row in found] == ["x", "x (line 2)"]
    document = {"document": "a", "summary": "b", "id": None}
    path = put(tmp_path / "b.jsonl", document, document)
    assert [row.name for row in read_documents(path)] == ["1", "2"]


def test_files_from_other_editors(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", ROW, ROW, end=b"\r\n", mark=BOM)
    assert len(read_questions(path)) == 2
    path = put(tmp_path / "b.jsonl", {"document": "a", "summary": "b"}, end=b"\r\n", mark=BOM)
    assert read_documents(path)[0].target == "b"
    path = put(tmp_path / "c.jsonl", example("a", "b", "1", {"acc": 1.0}), mark=BOM)
    assert read_examples(path)[0]["id"] == "1"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('prompt: "{question.x}"', "'prompt' may only contain the placeholders question, context"),
        ('prompt: "{question:>99999999}"', "'prompt' may only contain"),
        ('prompt: "{question!r}"', "'prompt' may only contain"),
        ('prompt: "{"', "'prompt' may only contain"),
        ('prompt: "\\ud800"', "'prompt' may only|invalid YAML"),
        ("shots: 2026-13-45", "invalid YAML"),
        ("title: 3", "'title' must be a string"),
        ("hub: 3", "unknown field 'hub'"),
        ("about: " + "[" * 3000, "invalid YAML"),
    ],
)
def test_damaged_task_is_a_one_line_error(tmp_path: Path, change: str, said: str) -> None:
    path = tmp_path / "task.yaml"
    sound = {"task": "own", "prompt": '"{question}"', "shots": "1", "normalization": "none"}
    name, _, value = change.partition(": ")
    text = "".join(f"{key}: {what}\n" for key, what in (sound | {name: value}).items())
    path.write_text(text)
    with pytest.raises(ModtokError, match=said) as caught:
        read_suite(path)
    assert str(path) in str(caught.value)


def test_all_texts_are_validated_before_generation(
    few_steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modtok_cli.evaluate.generation.generate", None)  # nothing is written
    for name, count in (("en", 9), ("fi", 9), ("fr", 8)):
        text = "".join(f"line {number}\n" for number in range(count))
        (tmp_path / f"{name}.txt").write_text(text)
    with pytest.raises(ModtokError, match="they differ from this line on"):
        evaluate_mt(few_steps, "en-fi,en-fr", data=tmp_path, max_tokens=2)
    put(tmp_path / "en.jsonl", *[{"document": "a", "summary": "b"}] * 9)
    put(tmp_path / "fr.jsonl", {"document": "a", "summary": ""})
    with pytest.raises(ModtokError, match=r"fr\.jsonl:1: the summary is empty"):
        evaluate_sum(few_steps, ["en", "fr"], data=tmp_path, max_tokens=2)


def test_language_code_that_is_a_word_is_reported_missing(tmp_path: Path) -> None:
    """Norwegian is "no", and so begins "no questions"."""
    data = lay_out(tmp_path, "hellaswag", "fr", **QUESTIONS)
    settings = mcq.McqSettings()
    own, _ = mcq.tasks_of(settings.tasks, data)
    _, skipped = mcq._collect_jobs(own, ["fr", "fi", "no"], data, settings, SILENT)
    assert skipped[-1] == "no questions in no"


def test_scores_and_examples_are_written_independently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = Evaluation(examples=[example("a", "b", "1", {"acc": 1.0})])
    with (
        pytest.raises(BrokenPipeError),
        writing_examples(tmp_path / "e.jsonl", evaluation.examples),
    ):
        raise BrokenPipeError
    assert len(read_examples(tmp_path / "e.jsonl")) == 1
    given: list[Any] = []
    monkeypatch.setattr(
        "modtok_cli.cli.evaluation_output.emit_tables", lambda rows, *_, **__: given.extend(rows)
    )
    result = Result("mt", "a-b", "BLEU", 1.0, None, None, 1, 0, "none", "lang", "mt|x")
    evaluation.results.append(result)
    (tmp_path / "taken").mkdir()
    with pytest.raises(ModtokError, match="cannot write"):
        emit_evaluation(None, evaluation, "", tmp_path / "taken", json=True)  # type: ignore[arg-type]
    assert len(given) == 1


def test_local_tasks_do_not_use_the_network(tmp_path: Path) -> None:
    data = lay_out(tmp_path, "own", "fr", **QUESTIONS)
    assert all_local(data, None)
    assert all_local(data, ["own", "piqa"])
    assert not all_local(data, ["own", "lambada_openai"])


def test_nothing_to_compare_is_an_error(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", [example("a", "b", "1", {})])
    with pytest.raises(ModtokError, match="a: contains no scores and no translations"):
        compare(tmp_path / "a", tmp_path / "a")
    for wrong in ({"output": 3}, {"scores": {"acc": 1e308}}):
        put(tmp_path / "b", example("mt", "a-b", "1", {"acc": 1.0}) | wrong)
        with pytest.raises(ModtokError, match="not an example with"):
            read_examples(tmp_path / "b")


def test_two_files_of_one_language_are_an_error(tmp_path: Path) -> None:
    for name in ("en.jsonl", "eng.jsonl"):
        put(tmp_path / "sum" / name, {"document": "a", "summary": "b"})
        put(tmp_path / "mcq" / "task" / name, ROW)
    with pytest.raises(UsageError, match=r"en\.jsonl and eng\.jsonl are both language 'en'"):
        Documents(tmp_path / "sum")
    with pytest.raises(UsageError, match=r"en\.jsonl and eng\.jsonl are both language 'en'"):
        Folder(tmp_path).has("task", "en")
