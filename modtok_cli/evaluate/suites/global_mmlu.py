"""Global MMLU: MMLU in 42 languages, partly translated by professionals.

Prompt, shots and normalization are those of MMLU; lm-eval shows the choices and scores letters.
"""

from __future__ import annotations

from modtok_cli.evaluate.suite import HubSource, Row, Suite
from modtok_cli.evaluate.suites.arc import PROMPT

LANGUAGES = (
    "am", "ar", "bn", "cs", "de", "el", "en", "es", "fa", "fil", "fr", "ha", "he", "hi", "id", "ig",
    "it", "ja", "ko", "ky", "lt", "mg", "ms", "ne", "nl", "ny", "pl", "pt", "ro", "ru", "si", "sn",
    "so", "sr", "sv", "sw", "te", "tr", "uk", "vi", "yo", "zh",
)  # fmt: skip


def convert(row: Row) -> Row:
    """Row of the dataset: `subject`, `question`, `option_a` to `option_d`, `answer` (a letter)."""
    return {
        "id": str(row["sample_id"]),
        "question": row["question"].strip(),
        "choices": [str(row[f"option_{letter}"]) for letter in "abcd"],
        "answer": "ABCD".index(row["answer"]),
        "group": row["subject"],
    }


SUITES = (
    Suite(
        task="global_mmlu",
        title="Global MMLU",
        about="MMLU in 42 languages; few-shot examples are of the same subject",
        prompt=PROMPT,
        shots=5,
        normalization="characters",
        hub=(
            HubSource(
                "CohereLabs/Global-MMLU",
                {language: language for language in LANGUAGES},
                "test",
                convert,
                train="dev",
                config="{code}",
            ),
        ),
        order=230,
        in_mean=False,
    ),
)
