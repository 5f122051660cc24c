"""PIQA: physical commonsense, two choices, English. OLMES begins the prompt with "Goal:"."""

from __future__ import annotations

from modtok_cli.evaluate.suite import HubSource, Row, Suite


def convert(row: Row) -> Row:
    """Row of the dataset: `goal`, `sol1`, `sol2`, `label`."""
    return {
        "question": row["goal"].strip(),
        "choices": [row["sol1"], row["sol2"]],
        "answer": int(row["label"]),
    }


SUITES = (
    Suite(
        task="piqa",
        title="PIQA",
        about="physical commonsense, two choices",
        prompt="Goal: {question}\n{Answer}:",
        shots=5,
        normalization="characters",
        hub=(HubSource("baber/piqa", {"en": "en"}, "validation", convert, train="train"),),
        order=70,
    ),
)
