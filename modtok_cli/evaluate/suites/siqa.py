"""Social IQa: feelings and actions of people, three choices, English."""

from __future__ import annotations

from modtok_cli.evaluate.suite import HubSource, Row, Suite


def convert(row: Row) -> Row:
    """Row of the dataset: `context`, `question`, `answerA` to `answerC`, `label` from 1."""
    return {
        "context": row["context"],
        "question": row["question"],
        "choices": [row["answerA"], row["answerB"], row["answerC"]],
        "answer": int(row["label"]) - 1,
    }


SUITES = (
    Suite(
        task="siqa",
        title="SIQA",
        about="Social IQa: feelings and actions of people, three choices",
        prompt="{Question}: {context} {question}\n{Answer}:",
        shots=5,
        normalization="characters",
        hub=(HubSource("lighteval/siqa", {"en": "en"}, "validation", convert, train="train"),),
        order=80,
    ),
)
