"""PIQA: physical commonsense, two choices, English."""

from __future__ import annotations

from modtok_cli.evaluate.suite import HubSource, Row, Suite
from modtok_cli.evaluate.suites.arc import PROMPT


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
        prompt=PROMPT,
        shots=5,
        normalization="characters",
        hub=(HubSource("baber/piqa", {"en": "en"}, "validation", convert, train="train"),),
        order=70,
    ),
)
