"""Inference vocabularies by name, for a language and for a pair."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from modtok_cli.base.errors import UsageError
from modtok_cli.evaluate.modes import Infer, infer_vocabularies, modes_of, vocabularies_of

RUN = ["el", "en", "fr"]


@pytest.mark.parametrize(
    ("mode", "expected", "name"),
    [
        ("lang", Infer(("en", "fr")), "en,fr"),
        ("full", Infer("full"), "full"),
        ("full-lang", Infer("full", ("en",)), "full>en"),
        ("src", Infer(("fr",)), "fr"),
        ("tgt", Infer(("en",)), "en"),
        ("src+tgt", Infer(("en", "fr")), "en,fr"),
        ("src|tgt", Infer(("fr",), ("en",), crossed=True), "fr|en"),
        ("el,en", Infer(("el", "en")), "el,en"),
        ("fra_Latn, EN", Infer(("en", "fr")), "en,fr"),
    ],
)
def test_of_a_pair(mode: str, expected: Infer, name: str) -> None:
    found = infer_vocabularies(mode, RUN, ("fr", "en"))
    assert found == expected
    assert str(found) == name
    assert not infer_vocabularies(mode, RUN, ("fr", "fr")).crossed


@pytest.mark.parametrize(
    ("mode", "what"),
    [
        ("all", "unknown inference mode 'all': the model has el,en,fr"),
        ("en,xx", "unknown language 'xx'"),
        ("en,,fr", "unknown language ''"),
        ("", "unknown inference mode ''"),
        *((mode, "needs a source and a target language") for mode in ("src", "tgt", "src|tgt")),
    ],
)
def test_unknown_modes(mode: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        infer_vocabularies(mode, RUN, ["fr"])


def test_modes_and_languages_are_named_by_labels() -> None:
    source: Any = SimpleNamespace(all_languages=RUN, whole=False, sides=None, mode="lang")
    assert list(vocabularies_of(source, None, ["FRA", "en_Latn"])) == ["fr", "en"]
    with pytest.raises(UsageError, match="--langs contains 'fr' twice"):
        vocabularies_of(source, None, ["fr", "FR"])
    assert modes_of(["FRA,en", "fr,en", "src|tgt"]) == ["fr,en", "src|tgt"]
    assert modes_of(None) == modes_of(()) == [None]
    with pytest.raises(UsageError, match="--infer is empty"):
        modes_of("")


def test_language_missing_in_the_run() -> None:
    said = "unknown language 'sw': the model has el,en,fr; use its languages, or --infer full"
    for option, own in {"--langs": ["sw"], "--pairs": ["en", "sw"]}.items():
        with pytest.raises(UsageError, match=f"^{option}: {said}$"):
            infer_vocabularies("lang", RUN, own)
    with pytest.raises(UsageError, match=r"^--infer: unknown language 'sw'"):
        infer_vocabularies("en,sw", RUN, ["en"])
    assert infer_vocabularies("full", RUN, ["sw"]) == Infer("full")
