"""Summaries: prompts within the context, ROUGE of what was written, files that are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.evaluate.documents import Documents, read_documents
from modtok_cli.evaluate.evaluate import evaluate_sum
from modtok_cli.evaluate.generation import (
    TASKS,
    encode,
    pieces_of,
    prompt_limit,
    prompt_of,
)
from modtok_cli.evaluate.models import Infer, Models
from modtok_cli.evaluate.results import mean_interval
from modtok_cli.evaluate.task_files import Example
from modtok_cli.evaluate.text_scores import rouge
from modtok_cli.inference.load import open_source


def written(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def short(count: int) -> list[dict[str, str]]:
    return [
        {"id": f"n{i}", "document": f"Le chat numéro {i} dort.", "summary": f"Il dort {i} fois."}
        for i in range(count)
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    written(tmp_path / "sum" / "fr.jsonl", *short(12)[5:])
    written(tmp_path / "sum" / "fra_Latn.train.jsonl", *short(3))
    written(tmp_path / "sum" / "en.jsonl", *short(9))
    return tmp_path


@pytest.mark.parametrize("infer", ["lang", "full", "full-lang", "fr,en"])
def test_scores_are_the_means_of_the_examples(few_steps: Path, data: Path, infer: str) -> None:
    settings = {"infer": infer, "shots": 2, "max_tokens": 10}
    found = evaluate_sum(few_steps, ["fr", "en"], data=data, **settings)
    assert found.skipped == []
    for result in found.results:
        rows = [row for row in found.examples if row["language"] == result.language]
        values = [row["scores"][result.metric] for row in rows]
        assert result.value == pytest.approx(100 * np.mean(values))
        assert (result.low, result.high) == mean_interval(values)
        assert (result.n, result.infer) == (len(rows), infer)
    for row in found.examples:
        expected = rouge(row["reference"], row["output"])
        assert {name: row["scores"][name] for name in expected} == expected
        assert 0 <= row["scores"]["in language"] <= 1
        assert "\n" not in row["output"]
    # en has no training file: five rows are kept for shots.
    assert [r["id"] for r in found.examples if r["language"] == "en"] == ["n5", "n6", "n7", "n8"]


def test_long_document_is_truncated_at_its_end(few_steps: Path) -> None:
    model = Models(open_source(few_steps)).of(Infer(("fr",)))
    text = Example("1", "La ville est belle et le chat dort. " * 60, "Oui.")
    found = prompt_of(TASKS["sum"], model, [text], text, max_tokens=32)
    assert (found.cut, found.shots) == (True, 0)
    assert (
        prompt_limit(model, 32) - 8
        <= len(found.rows)
        <= prompt_limit(model, 32)
        == model.context - 32
    )
    told = model.tokenizer_in.decode(found.rows[1:])
    assert told.endswith("\nTL;DR:")
    assert text.source.startswith(told.removesuffix("\nTL;DR:"))
    fitting = Example("2", "Le chat dort.", "Oui.")
    assert prompt_of(TASKS["sum"], model, [], fitting, max_tokens=32).rows == tuple(
        encode(model, pieces_of(TASKS["sum"], fitting, whole=False), crossed=False)
    )


def test_languages_without_documents_are_listed(few_steps: Path, data: Path) -> None:
    settings = {"shots": 1, "max_tokens": 2, "limit": 1}
    found = evaluate_sum(few_steps, data=data, **settings)  # all of the run: el, en, fi, fr
    assert {result.language for result in found.results} == {"en", "fr"}
    assert [line[:18] for line in found.skipped] == ["no documents in el", "no documents in fi"]
    with pytest.raises(ModtokError, match="incomplete: "):
        found.require_complete()
    for wrong in (["de"], ["fr", "fr"]):
        with pytest.raises(UsageError):
            evaluate_sum(few_steps, wrong, data=data, **settings)
    with pytest.raises(UsageError, match="needs a source and a target"):
        evaluate_sum(few_steps, ["fr"], data=data, infer="src|tgt")


def test_layouts(tmp_path: Path) -> None:
    lists = {"article": {"document": ["Boil  water.", "Add\ntea."], "summary": ["Make", "tea."]}}
    gem = {"gem_id": "x", "source": "Boil water.", "target": "Make tea."}
    path = written(tmp_path / "en.jsonl", lists, gem, {"document": "a", "summary": "b", "id": 7})
    assert read_documents(path) == [
        Example("1", "Boil water. Add tea.", "Make tea."),
        Example("2", "Boil water.", "Make tea."),
        Example("7", "a", "b"),
    ]
    again = written(tmp_path / "fr.jsonl", *[{"document": "a", "summary": "b", "id": 1}] * 2)
    assert [row.name for row in read_documents(again)] == ["1", "1 (line 2)"]
    assert Documents(tmp_path).languages == ["en", "fr"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "invalid JSON"),
        ("[]", 'no text in "document"'),
        ('{"document": "a"}', 'no text in "summary"'),
        ('{"document": "a", "summary": " \\n"}', "the summary is empty"),
        ('{"document": [], "summary": "a"}', "the document is empty"),
        ('{"document": [1], "summary": "a"}', 'no text in "document"'),
    ],
)
def test_invalid_rows_name_file_and_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "fr.jsonl"
    path.write_text('{"document": "a", "summary": "b"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(ModtokError, match=f"fr.jsonl:2: .*{said}") as told:
        read_documents(path)
    assert told.value.exit_code == 1


def test_missing_documents_list_the_layout(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ModtokError, match=r"DIR/sum/fr\.train\.jsonl"):
            Documents(place)
    written(tmp_path / "fr.jsonl", *short(3))
    with pytest.raises(ModtokError, match="too few rows in fr for 5 shots"):
        Documents(tmp_path).of("fr", 5)
