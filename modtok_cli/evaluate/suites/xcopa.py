"""XCOPA: the more plausible cause or effect, two choices, in 11 languages.

The prompt is that of lm-eval: the premise without its full stop, and "because" or "so" in the
language.
"""

from __future__ import annotations

from functools import partial

from modtok_cli.evaluate.suite import HubSource, Row, Suite

# because, so
WORDS = {
    "et": ("sest", "seetõttu"),
    "ht": ("poukisa", "donk sa"),
    "id": ("karena", "maka"),
    "it": ("perché", "quindi"),
    "qu": ("imataq", "chaymi"),
    "sw": ("kwa sababu", "kwa hiyo"),
    "ta": ("காரணமாக", "எனவே"),
    "th": ("เพราะ", "ดังนั้น"),
    "tr": ("çünkü", "bu yüzden"),
    "vi": ("bởi vì", "vì vậy"),
    "zh": ("因为", "所以"),
}


def convert(row: Row, language: str) -> Row:
    """Row of the dataset: `premise`, `question` (cause or effect), `choice1`, `choice2`, …"""
    word = WORDS[language][("cause", "effect").index(row["question"])]
    choices = (row["choice1"], row["choice2"])
    return {
        "question": f"{row['premise'].strip()[:-1]} {word}",
        "choices": [choice[0].lower() + choice[1:] for choice in choices],
        "answer": int(row["label"]),
    }


SUITES = (
    Suite(
        task="xcopa",
        title="XCOPA",
        about="cause or effect of an event, two choices",
        prompt="{question}",
        shots=0,
        normalization="none",
        hub=tuple(
            HubSource(
                "cambridgeltl/xcopa",
                {language: language},
                "test",
                partial(convert, language=language),
                train="validation",
                config="{code}",
            )
            for language in WORDS
        ),
        order=210,
        in_mean=False,
    ),
)
