"""XNLI: natural language inference in 15 languages.

The prompt is that of XGLM as in lm-eval: "premise, right?" with the continuations "Yes, hypothesis"
(entailment), "Also, hypothesis" (neutral) and "No, hypothesis" (contradiction), in the language.
"""

from __future__ import annotations

from functools import partial

from modtok_cli.evaluate.suite import HubSource, Row, Suite

# right?, yes, also, no
WORDS = {
    "ar": ("صحيح", "نعم", "لذا", "رقم"),
    "bg": ("правилно", "да", "така", "не"),
    "de": ("richtig", "Ja", "Auch", "Nein"),
    "el": ("σωστός", "Ναί", "Έτσι", "όχι"),
    "en": ("right", "Yes", "Also", "No"),
    "es": ("correcto", "Sí", "Asi que", "No"),
    "fr": ("correct", "Oui", "Aussi", "Non"),
    "hi": ("सही", "हाँ", "इसलिए", "नहीं"),
    "ru": ("правильно", "Да", "Так", "Нет"),
    "sw": ("sahihi", "Ndiyo", "Hivyo", "Hapana"),
    "th": ("ถูกต้อง", "ใช่", "ดังนั้น", "ไม่"),
    "tr": ("doğru", "Evet", "Böylece", "Hayır"),
    "ur": ("صحیح", "جی ہاں", "اس لئے", "نہیں"),
    "vi": ("đúng", "Vâng", "Vì vậy", "Không"),
    "zh": ("正确", "是的", "所以", "不是的"),
}


def convert(row: Row, language: str) -> Row:
    """Row of the dataset: `premise`, `hypothesis`, `label` (0 entailment, 1 neutral)."""
    right, *answers = WORDS[language]
    return {
        "question": f"{row['premise']}, {right}?",
        "choices": [f"{answer}, {row['hypothesis']}" for answer in answers],
        "answer": int(row["label"]),
    }


SUITES = (
    Suite(
        task="xnli",
        title="XNLI",
        about="natural language inference, three choices",
        prompt="{question}",
        shots=0,
        normalization="none",
        hub=tuple(
            HubSource(
                "facebook/xnli",
                {language: language},
                "validation",
                partial(convert, language=language),
                train="test",  # the training split has 393,000 rows
                config="{code}",
            )
            for language in WORDS
        ),
        order=200,
        in_mean=False,
    ),
)
