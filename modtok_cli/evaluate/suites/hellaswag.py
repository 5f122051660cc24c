"""HellaSwag: the most plausible continuation of a scene or of instructions, in English and EU20."""

from __future__ import annotations

import re

from modtok_cli.evaluate.suite import HubSource, Row, Suite
from modtok_cli.evaluate.suites import eu20


def convert(row: Row) -> Row:
    """Row of the dataset: `activity_label`, `ctx_a`, `ctx_b`, `endings`, `label`."""
    text = f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"
    return {
        "question": without_marks(text),
        "choices": [without_marks(ending) for ending in row["endings"]],
        "answer": int(row["label"]),
    }


def without_marks(text: str) -> str:
    """Remove the bracketed marks of WikiHow's pages.

    >>> without_marks(" How to knit. [title] Take wool. [step] Knit.")
    'How to knit. Take wool. Knit.'
    """
    text = re.sub(r"\.? \[title\]", ".", text.strip())
    return re.sub(r" {2,}", " ", re.sub(r"\[.*?\]", "", text)).strip()


SUITES = (
    Suite(
        task="hellaswag",
        title="HellaSwag",
        about="continuation of a scene or of instructions",
        prompt="{question}",
        shots=0,
        normalization="characters",
        hub=(
            HubSource("Rowan/hellaswag", {"en": "en"}, "validation", convert, train="train"),
            HubSource(
                "openGPT-X/hellaswagx",
                eu20.CODES,
                "validation",
                convert,
                train="train",
                files="*_{code}_{split}.jsonl",
            ),
        ),
        order=30,
    ),
)
