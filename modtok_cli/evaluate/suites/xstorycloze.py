"""XStoryCloze: the fifth sentence of a story, two choices, in 11 languages."""

from __future__ import annotations

from modtok_cli.evaluate.suite import HubSource, Row, Suite

LANGUAGES = ("ar", "en", "es", "eu", "hi", "id", "my", "ru", "sw", "te", "zh")


def convert(row: Row) -> Row:
    """Row of the dataset: `input_sentence_1` to `_4`, `sentence_quiz1`, `sentence_quiz2`, …"""
    return {
        "id": str(row["story_id"]),
        "question": " ".join(row[f"input_sentence_{number}"] for number in range(1, 5)),
        "choices": [row["sentence_quiz1"], row["sentence_quiz2"]],
        "answer": int(row["answer_right_ending"]) - 1,
    }


SUITES = (
    Suite(
        task="xstorycloze",
        title="XStoryCloze",
        about="end of a story, two choices",
        prompt="{question}",
        shots=0,
        normalization="none",
        hub=(
            HubSource(
                "juletxara/xstory_cloze",
                {language: language for language in LANGUAGES},
                "eval",
                convert,
                train="train",
                config="{code}",
            ),
        ),
        order=220,
        in_mean=False,
    ),
)
