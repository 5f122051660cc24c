"""MMLU: exam questions in 57 subjects, in English and EU20."""

from __future__ import annotations

from modtok_cli.evaluate.suite import HubSource, Row, Suite
from modtok_cli.evaluate.suites import eu20
from modtok_cli.evaluate.suites.arc import PROMPT


def convert(row: Row) -> Row:
    """Row of the dataset; the subject becomes the group that few-shot examples are taken from."""
    return {
        "question": row["question"].strip(),
        "choices": list(row["choices"]),
        "answer": int(row["answer"]),
        "group": row.get("subject") or str(row["id"]).split("/")[0],
    }


SUITES = (
    Suite(
        task="mmlu",
        title="MMLU",
        about="exam questions in 57 subjects; few-shot examples are of the same subject",
        prompt=PROMPT,
        shots=5,
        normalization="characters",
        hub=(
            HubSource("cais/mmlu", {"en": "en"}, "test", convert, train="dev", config="all"),
            HubSource(
                "openGPT-X/mmlux",
                eu20.CODES,
                "test",
                convert,
                train="dev",
                files="*_{code}*{split}.jsonl",
            ),
        ),
        order=40,
    ),
)
