"""Summaries: prompts within the context, and ROUGE: the usual package's where it can read."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.evaluate.documents import Documents
from modtok_cli.evaluate.evaluate import evaluate_sum
from modtok_cli.evaluate.generation import TASKS, encode, pieces_of, prompt_limit, prompt_of
from modtok_cli.evaluate.models import Models
from modtok_cli.evaluate.modes import Infer
from modtok_cli.evaluate.results import mean_interval
from modtok_cli.evaluate.task_files import Example
from modtok_cli.evaluate.text_scores import ROUGE, rouge, words
from modtok_cli.model.load import open_model


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


@pytest.mark.parametrize("infer", ["lang", "full-lang"])
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
    model = Models(open_model(few_steps)).of(Infer(("fr",)))
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


def test_what_is_not_read_is_refused_with_files_of_the_language(tmp_path: Path) -> None:
    (tmp_path / "de.tsv").write_text("Text\tSumme\n")
    wanted = r"; provide documents as DIR/sum/de\.jsonl and DIR/sum/de\.train\.jsonl, "
    with pytest.raises(
        ModtokError, match=f"LANG.jsonl .also .gz or .zst., and no others are read{wanted}"
    ):
        Documents(tmp_path, ["de"])
    with pytest.raises(UsageError, match=f"is a file; a directory of .jsonl files is read{wanted}"):
        Documents(tmp_path / "de.tsv", ["de"])


# --- ROUGE ---


def package(reference: str, output: str) -> dict[str, float]:
    """What the rouge-score package says."""
    scorer = pytest.importorskip("rouge_score.rouge_scorer")
    found = scorer.RougeScorer(list(ROUGE)).score(reference, output)
    return {name: found[name].fmeasure for name in ROUGE}


ascii_texts = st.lists(
    st.sampled_from(["the", "cat", "Cat", "sat", "on", "3", "it's", "a_b", "-", "x" * 5]),
    max_size=20,
).map(" ".join) | st.text(string.printable, max_size=40)


@given(ascii_texts, ascii_texts)
def test_rouge_on_ascii_equals_rouge_score(reference: str, output: str) -> None:
    assert rouge(reference, output) == pytest.approx(package(reference, output), abs=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        "తెలుగు భాష చాలా అందమైనది",
        "Η γάτα κοιμάται στον ήλιο",
        "नेपाली भाषामा लेखिएको वाक्य",
        "แมวนอนหลับอยู่กลางแดด",
        "猫は日向で眠っている",
        "القطة تنام في الشمس",
    ],
)
def test_rouge_of_a_text_with_itself_is_one_in_every_script(text: str) -> None:
    assert set(rouge(text, text).values()) == {1.0}
    assert rouge(text, "entirely other words")["rouge1"] == 0
    assert 0 < rouge(text, text[: len(text) // 2])["rouge1"] < 1


def test_words_keep_marks_with_their_letters() -> None:
    assert words("तर्‍क गर्नु") == ["तर्क", "गर्नु"]  # the joiner inside is dropped
    assert words("E\u0301tat co\u00adop") == ["état", "coop"]
    assert words("ที่นี่") == ["ที่", "นี่"]
    assert words("ΟΔΟΣ οδός") == ["οδος", "οδός"]
    assert words("a\u0301b 3\u20e3") == ["áb", "3\u20e3"]
    assert words("日本のビール1本") == ["日", "本", "の", "ビ", "ー", "ル", "1", "本"]
    assert words(" \u0301") == ["\u0301"]


def test_rouge_by_hand() -> None:
    assert rouge("తెలుగు cat sat", "TELUGU sat cat") == {
        "rouge1": 2 / 3,
        "rouge2": 0,
        "rougeL": 1 / 3,
    }
    assert rouge("", "") == dict.fromkeys(ROUGE, 0.0)
