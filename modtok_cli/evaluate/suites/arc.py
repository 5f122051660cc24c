"""ARC: grade-school science questions, easy and challenge set, in English and EU20."""

from __future__ import annotations

from modtok_cli.evaluate.suite import HubSource, Row, Suite
from modtok_cli.evaluate.suites import eu20

# The few-shot examples that OLMES selected from the training split, by id.
EASY = (
    "MCAS_2007_8_5189",
    "Mercury_SC_401169",
    "MCAS_2004_8_27",
    "NYSEDREGENTS_2006_8_10",
    "Mercury_7013388",
)
CHALLENGE = (
    "Mercury_SC_415702",
    "MCAS_2009_5_6516",
    "Mercury_7233695",
    "Mercury_7041615",
    "MCAS_1998_4_3",
)
PROMPT = "{Question}: {question}\n{Answer}:"


def labelled(row: Row) -> Row:
    """Row with `choices` {text, label} and the label of the answer in `answerKey`."""
    choices = row["choices"]
    return {
        "id": str(row["id"]),
        "question": row["question"].strip(),
        "choices": list(choices["text"]),
        "answer": list(choices["label"]).index(row["answerKey"]),
    }


def _sources(config: str, name: str, examples: tuple[str, ...]) -> tuple[HubSource, ...]:
    return (
        HubSource(
            "allenai/ai2_arc",
            {"en": "en"},
            "test",
            labelled,
            train="train",
            config=config,
            examples=examples,
        ),
        HubSource(
            "openGPT-X/arcx",
            eu20.CODES,
            "test",
            labelled,
            train="train",
            files=f"*{name}_{{code}}_{{split}}.jsonl",
            examples=examples,
        ),
    )


SUITES = (
    Suite(
        task="arc_easy",
        title="ARC-E",
        about="ARC, easy set: grade-school science",
        prompt=PROMPT,
        shots=5,
        normalization="characters",
        hub=_sources("ARC-Easy", "easy", EASY),
        order=10,
    ),
    Suite(
        task="arc_challenge",
        title="ARC-C",
        about="ARC, challenge set: grade-school science",
        prompt=PROMPT,
        shots=5,
        normalization="pmi",
        hub=_sources("ARC-Challenge", "challenge", CHALLENGE),
        order=20,
    ),
)
