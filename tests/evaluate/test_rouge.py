"""ROUGE: the usual package's numbers where it can read, and every script where it cannot."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.evaluate.text_scores import ROUGE, common_subsequence, rouge, words

NATIVE = {
    "te": "తెలుగు భాష చాలా అందమైనది",
    "el": "Η γάτα κοιμάται στον ήλιο",
    "bg": "Котката спи на слънце",
    "ne": "नेपाली भाषामा लेखिएको वाक्य",
    "th": "แมวนอนหลับอยู่กลางแดด",
    "ja": "猫は日向で眠っている",
    "ar": "القطة تنام في الشمس",
}


def package(reference: str, output: str) -> dict[str, float]:
    """What the rouge-score package says."""
    scorer = pytest.importorskip("rouge_score.rouge_scorer")
    found = scorer.RougeScorer(list(ROUGE)).score(reference, output)
    return {name: found[name].fmeasure for name in ROUGE}


ascii_texts = st.lists(
    st.sampled_from(["the", "cat", "Cat", "sat", "on", "3", "it's", "a_b", "-", "x" * 5]),
    max_size=20,
).map(" ".join) | st.text(string.printable, max_size=40)


@settings(deadline=None)
@given(ascii_texts, ascii_texts)
def test_rouge_on_ascii_equals_rouge_score(reference: str, output: str) -> None:
    assert rouge(reference, output) == pytest.approx(package(reference, output), abs=1e-12)


@pytest.mark.parametrize("language", sorted(NATIVE))
def test_rouge_of_a_text_with_itself_is_one_in_every_script(language: str) -> None:
    text = NATIVE[language]
    assert set(rouge(text, text).values()) == {1.0}
    assert rouge(text, "entirely other words")["rouge1"] == 0
    assert 0 < rouge(text, text[: len(text) // 2])["rouge1"] < 1


@pytest.mark.parametrize("language", ["te", "el", "bg", "ne"])
def test_scripts_that_rouge_score_deletes(language: str) -> None:
    """The reason for an implementation of our own."""
    assert set(package(NATIVE[language], NATIVE[language]).values()) == {0.0}


def test_words_keep_marks_with_their_letters() -> None:
    assert words("तर्‍क गर्नु") == ["तर्क", "गर्नु"]  # the joiner inside is dropped
    assert words("E\u0301tat co\u00adop") == ["état", "coop"]
    assert words("ที่นี่") == ["ที่", "นี่"]
    assert words("ΟΔΟΣ οδός") == ["οδος", "οδός"]
    assert words("a\u0301b 3\u20e3") == ["áb", "3\u20e3"]
    assert words("日本のビール1本") == ["日", "本", "の", "ビ", "ー", "ル", "1", "本"]
    assert words(" \u0301") == ["\u0301"]


def plain(a: list[str], b: list[str]) -> int:
    """The table, cell by cell."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            above = max(table[i][j + 1], table[i + 1][j])
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else above
    return table[-1][-1]


short = st.lists(st.sampled_from("abcd"), max_size=80)


@settings(deadline=None)
@given(short, short)
def test_common_subsequence_equals_the_table(a: list[str], b: list[str]) -> None:
    assert common_subsequence(a, b) == plain(a, b)


@settings(deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_scores_are_symmetric_fractions(a: str, b: str) -> None:
    found = rouge(a, b)
    assert all(0 <= value <= 1 for value in found.values())
    assert rouge(b, a) == pytest.approx(found)
