"""CommonSenseQA: five choices, English."""

from __future__ import annotations

from modtok_cli.evaluate.suite import HubSource, Suite
from modtok_cli.evaluate.suites.arc import PROMPT, labelled

SUITES = (
    Suite(
        task="csqa",
        title="CSQA",
        about="CommonSenseQA, five choices",
        prompt=PROMPT,
        shots=5,
        normalization="pmi",
        hub=(HubSource("tau/commonsense_qa", {"en": "en"}, "validation", labelled, train="train"),),
        order=60,
    ),
)
