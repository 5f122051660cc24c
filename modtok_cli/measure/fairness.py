"""`modtok fairness`: tokens needed for the same content in different languages.

On line-aligned text the parity premium of a language is its number of tokens divided by that of
the pivot language (Petrov et al. 2023). Gini and max/min summarize how evenly tokens are
distributed over languages. Also reported: the share of the vocabulary that is used, and of tokens
that only occur as parts of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.signature import digest, signature
from modtok_cli.measure.aligned import check_aligned
from modtok_cli.measure.candidates import (
    Candidate,
    Spec,
    open_named,
    pretokenizers_of,
    wants_documents,
    with_each,
)
from modtok_cli.measure.inequality import spread
from modtok_cli.measure.nsl import word_total
from modtok_cli.measure.references import References, references_or_none
from modtok_cli.measure.texts import Text, check_texts, load_texts
from modtok_cli.measure.usage import Usage, merge_only, round_trip, specials_of, usage
from modtok_cli.text.reading import Reading

DEFAULT_PIVOT = "en"


def fairness(
    tokenizers: Sequence[Spec],
    texts: Sequence[Path | str],
    *,
    pivot: str | None = None,
    references: Path | None = None,
    language: str | None = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Measure tokenizers on the same lines in several languages.

    Args:
        tokenizers: opened tokenizers, arguments of `modular.open.open_tokenizer`, or `DIR@each`.
        texts: line-aligned texts, each in one language.
        pivot: language that premiums are relative to; by default English, else the first one.
        references: directory of monolingual tokenizers for the NSL; by default the tokenizer's own
            or the workspace's. Without any there is no NSL.
        language: language of a single text whose name does not contain it.

    Returns:
        One row of kind "language" per tokenizer and language (tokens, premium, per character, byte
        and word, NSL, tokens used), then one of kind "tokenizer" per tokenizer: mean, min, max,
        max/min and Gini, vocabulary utilization and merge-only tokens, over the languages that all
        tokenizers have (`languages`).

    Raises:
        ModtokError: texts are not line-aligned, or a file is missing, empty or damaged.
        UsageError: a language occurs twice, or there is no text in the pivot language.
    """
    check_texts(texts)
    opened = open_named(tokenizers, progress)
    reference_set = references_or_none(references, tokenizers, opened, progress)
    loaded = load_texts(
        texts,
        language=language,
        references=reference_set,
        keep_documents=wants_documents(opened, texts),
        reading=reading,
        progress=progress,
        pretokenizers=pretokenizers_of(opened, tokenizers),
    )
    by_language = _one_each(loaded)
    pivot = _pivot(pivot, by_language)
    check_aligned(by_language, pivot, progress)
    opened = with_each(opened, tokenizers, sorted(by_language), progress)
    labels = list(dict.fromkeys(candidate.label for candidate in opened))
    basis = {text.language: _Basis.of(text, reference_set) for text in by_language.values()}
    if reference_set is not None:
        reference_set.warn_of_missing(list(by_language), progress)
    measured: dict[str, dict[str, _Measured]] = {}
    with progress.task("measuring", total=len(labels), unit="tokenizers") as task:
        for label in labels:
            mine = [candidate for candidate in opened if candidate.label == label]
            measured[label] = _measure(mine, by_language, progress)
            task.advance(1)
    rows = {
        label: [
            _row(label, found, basis[language], by_language[language], pivot) for language in found
        ]
        for label, found in measured.items()
    }
    common = _common(measured, progress)
    totals = [
        _total(
            label,
            {language: found[language] for language in common},
            [row for row in rows[label] if row["language"] in common],
            pivot,
        )
        for label, found in measured.items()
        if common
    ]
    return [row for lines in rows.values() for row in lines] + totals


def _common(measured: Mapping[str, Mapping[str, _Measured]], progress: Progress) -> list[str]:
    """Languages that every tokenizer was measured on: summaries over other sets do not compare."""
    languages = list(dict.fromkeys(name for found in measured.values() for name in found))
    common = [name for name in languages if all(name in found for found in measured.values())]
    if not common:
        progress.warn("the tokenizers have no language in common: no summary over languages")
    elif len(common) < len(languages):
        progress.warn(
            f"the summary is over the {len(common)} of {len(languages)} languages that all "
            f"tokenizers have: {', '.join(common)}"
        )
    return common


def _one_each(texts: Sequence[Text]) -> dict[str, Text]:
    found: dict[str, Text] = {}
    for text in sorted(texts, key=lambda text: text.language):
        if text.language in found:
            raise UsageError(
                f"a second text in {text.language}, beside {found[text.language].name}",
                where=text.name,
                remedy="pass one text per language, all with the same lines",
            )
        found[text.language] = text
    return found


def _pivot(wanted: str | None, texts: Mapping[str, Text]) -> str:
    if wanted is None:
        return DEFAULT_PIVOT if DEFAULT_PIVOT in texts else next(iter(texts))
    from modtok_cli.text.labels import the_one

    name = the_one(wanted, list(texts))
    if name is None:
        raise UsageError(
            f"no text in the pivot language '{wanted}'",
            where="--pivot",
            remedy=f"there are: {', '.join(texts)}",
        )
    return name


@dataclass(frozen=True)
class _Basis:
    """Divisors of a text's numbers."""

    reference_tokens: int | None
    reference_signature: str
    words: int
    fingerprint: str

    @classmethod
    def of(cls, text: Text, references: References | None) -> _Basis:
        tokens, name = None, "none"
        if references is not None and text.language in references.languages:
            reference = references[text.language].tokenizer
            tokens, name = usage(reference, text).tokens, reference.signature
        return cls(tokens, name, word_total(text.counts), text.counts.fingerprint())


@dataclass(frozen=True)
class _Measured:
    candidate: Candidate
    usage: Usage
    failed: int


def _measure(
    candidates: Sequence[Candidate], texts: Mapping[str, Text], progress: Progress
) -> dict[str, _Measured]:
    """Language -> usage of the tokenizer for its text."""
    found: dict[str, _Measured] = {}
    for language, text in texts.items():
        for candidate in candidates:
            if not candidate.fits(language):
                continue
            used = usage(candidate.tokenizer, text, occurrences=True)
            tried = round_trip(candidate.tokenizer, text)
            if tried.failed:
                progress.warn(
                    f"{candidate.label} is not lossless on {text.name}: {tried.failed} of "
                    f"{tried.lines} tested lines changed, the first is line {tried.first}"
                )
            found[language] = _Measured(candidate, used, tried.failed)
    return found


def _ratio(a: float, b: float | None) -> float | None:
    return a / b if b else None


def _row(
    label: str, measured: Mapping[str, _Measured], basis: _Basis, text: Text, pivot: str
) -> dict[str, Any]:
    mine = measured[text.language]
    tokenizer, tokens, size = mine.candidate.tokenizer, mine.usage.tokens, text.counts.size
    occurrences = mine.usage.occurrences
    assert occurrences is not None
    at_pivot = measured[pivot].usage.tokens if pivot in measured else None
    return {
        "kind": "language",
        "tokenizer": label,
        "size": tokenizer.size,
        "text": text.name,
        "language": text.language,
        "pivot": pivot,
        "tokens": tokens,
        "premium": _ratio(tokens, at_pivot),
        "nsl": _ratio(tokens, basis.reference_tokens),
        "reference_tokens": basis.reference_tokens,
        "documents": size.documents,
        "characters": size.characters,
        "bytes": size.bytes,
        "words": basis.words,
        "tokens_per_character": _ratio(tokens, size.characters),
        "tokens_per_byte": _ratio(tokens, size.bytes),
        "tokens_per_word": _ratio(tokens, basis.words),
        "used_tokens": int((occurrences > 0).sum()),
        "measured_on": mine.usage.basis,
        "lossy_lines": mine.failed,
        "signature": signature(
            "fairness",
            [
                ("tok", tokenizer.signature),
                ("ref", basis.reference_signature),
                ("lang", text.language),
                ("pivot", pivot),
                ("text", basis.fingerprint),
            ],
        ),
    }


def _total(
    label: str,
    measured: Mapping[str, _Measured],
    rows: Sequence[Mapping[str, Any]],
    pivot: str,
) -> dict[str, Any]:
    total: dict[str, Any] = {
        "kind": "tokenizer",
        "tokenizer": label,
        "size": max(found.candidate.tokenizer.size for found in measured.values()),
        "languages": list(measured),
        "pivot": pivot,
    }
    for name, key in (
        ("tokens", "tokens"),
        ("per_character", "tokens_per_character"),
        ("per_byte", "tokens_per_byte"),
        ("nsl", "nsl"),
    ):
        values = [row[key] for row in rows if row[key] is not None]
        for what, value in (spread(values) if values else {}).items():
            total[f"{name}_{what}"] = value
    worst = max(rows, key=lambda row: row["tokens"])
    total["premium_max"] = worst["premium"]
    total["premium_max_language"] = worst["language"]
    total |= _vocabulary(measured)
    signatures = [found.candidate.tokenizer.signature for found in measured.values()]
    total["lossy_lines"] = sum(found.failed for found in measured.values())
    total["signature"] = signature(
        "fairness",
        [
            (
                "tok",
                digest(*(name.encode() for name in signatures)),
            ),
            ("langs", "+".join(measured)),
            ("pivot", pivot),
            ("rows", digest(*(str(row["signature"]).encode() for row in rows))),
        ],
    )
    return total


def _vocabulary(measured: Mapping[str, _Measured]) -> dict[str, Any]:
    """Used and merge-only fractions of the tokenizer, or their mean over several tokenizers."""
    by_tokenizer: dict[int, list[_Measured]] = {}
    for found in measured.values():
        by_tokenizer.setdefault(id(found.candidate.tokenizer), []).append(found)
    used, junk = [], []
    for group in by_tokenizer.values():
        tokenizer = group[0].candidate.tokenizer
        together = np.zeros(tokenizer.size, dtype=np.int64)
        for found in group:
            assert found.usage.occurrences is not None
            together += found.usage.occurrences
        ordinary = tokenizer.size - specials_of(tokenizer)
        used.append(float((together > 0).sum()) / ordinary)
        parts = merge_only(tokenizer, together)
        junk.append(None if parts is None else parts / ordinary)
    known = [share for share in junk if share is not None]
    return {
        "utilization": float(np.mean(used)),
        "merge_only": float(np.mean(known)) if len(known) == len(junk) else None,
    }
