"""CommonSenseQA: five choices, English."""

from __future__ import annotations

from modtok_cli.evaluate.suite import HubSource, Suite
from modtok_cli.evaluate.suites.arc import PROMPT, labelled

# The few-shot examples that OLMES selected from the training split, by id.
EXAMPLES = (
    "61fe6e879ff18686d7552425a36344c8",
    "02e821a3e53cb320790950aab4489e85",
    "23505889b94e880c3e89cff4ba119860",
    "a76403b4921a9281b6ee2a7241a5ec9f",
    "6dc921840aa1e5dda3333b79007f630b",
)

SUITES = (
    Suite(
        task="csqa",
        title="CSQA",
        about="CommonSenseQA, five choices",
        prompt=PROMPT,
        shots=5,
        normalization="pmi",
        hub=(
            HubSource(
                "tau/commonsense_qa",
                {"en": "en"},
                "validation",
                labelled,
                train="train",
                examples=EXAMPLES,
            ),
        ),
        order=60,
    ),
)
