"""`modtok fairness`: tokens needed for the same content in different languages.

On line-aligned text the parity premium of a language is its number of tokens over the number of
the pivot language (Petrov et al. 2023). Gini and max/min summarize how evenly tokens are
distributed over languages. Also reported: the share of the vocabulary that is used, and of tokens
that only occur as parts of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from modtok_cli.base import parameters
from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.signature import digest, signature
from modtok_cli.measure.aligned import check_aligned
from modtok_cli.measure.candidates import (
    Candidate,
    named,
    open_named,
    pretokenizers_of,
    wants_documents,
    with_each,
)
from modtok_cli.measure.references import references_or_none
from modtok_cli.measure.texts import Text, check_texts, load_texts
from modtok_cli.measure.usage import Basis, Usage, merge_only, ratio, tried, usage
from modtok_cli.text.languages import matching, the_one
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.parameters import AnyTokenizers, ReferenceDirectory
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

DEFAULT_PIVOT = "en"


@public
def fairness(
    tokenizers: AnyTokenizers,
    texts: parameters.Texts,
    *,
    pivot: Annotated[
        str | None,
        Option(
            "Language that premiums are relative to; by default en, else the first language.",
            metavar="LANG",
        ),
    ] = None,
    references: ReferenceDirectory = None,
    language: parameters.Lang = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Compare token counts of languages on parallel text.

    Reads line-aligned text, one file per language. Reports tokens per character, byte and
    word; the premium over a pivot language; Gini coefficient and max/min ratio over
    languages; the share of the vocabulary in use; and the share of tokens that occur only
    as parts of others (junk).

    Rows of kind "language" are followed by one row of kind "tokenizer" per tokenizer.

    Returns:
        One row of kind "language" per tokenizer and language (tokens, premium, per character, byte
        and word, NSL if there are references, tokens used), then one of kind "tokenizer" per
        tokenizer: mean, min, max, max/min and Gini, tokens relative to the first tokenizer,
        vocabulary utilization and merge-only tokens, over the languages measured with all
        tokenizers (`languages`).

    Examples:
        >>> rows = modtok.fairness("tokenizer", ["parallel/en.txt", "parallel/fi.txt"])
        >>> [(row["language"], row["pivot"]) for row in rows if row["kind"] == "language"]
        [('en', 'en'), ('fi', 'en')]

    Raises:
        ModtokError: texts are not line-aligned, or a file is missing, empty or damaged.
        UsageError: two texts in one language, or no text in the pivot language.
    """
    texts, tokenizers = parameters.text_paths(texts), named(tokenizers)
    check_texts(texts)
    opened = open_named(tokenizers, progress)
    reference_set = references_or_none(
        parameters.optional_path(references), tokenizers, opened, progress
    )
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
    _warn_of_lacking(opened, list(by_language), progress)
    labels = list(dict.fromkeys(candidate.label for candidate in opened))
    basis = {text.language: Basis.of(text, reference_set) for text in by_language.values()}
    if reference_set is not None:
        reference_set.warn_of_missing(list(by_language), progress)
    measured: dict[str, dict[str, _Measured]] = {}
    with progress.task("measuring", total=len(labels), unit="tokenizers") as task:
        for label in labels:
            mine = [candidate for candidate in opened if candidate.label == label]
            measured[label] = _measure(mine, by_language, progress)
            task.advance(1)
    rows = {
        label: [_row(label, own, basis[language], pivot) for language in own]
        for label, own in measured.items()
    }
    common = _common(measured, progress)
    totals = [
        _total(
            label,
            {language: own[language] for language in common},
            [row for row in rows[label] if row["language"] in common],
            pivot,
        )
        for label, own in measured.items()
        if common
    ]
    for total in totals:
        total["tokens_relative"] = total["tokens_mean"] / totals[0]["tokens_mean"]
    return [row for lines in rows.values() for row in lines] + totals


def _warn_of_lacking(
    candidates: Sequence[Candidate], languages: Sequence[str], progress: Progress
) -> None:
    """Warn of languages that a tokenizer was not learned from: it is measured on them as well."""
    for candidate in candidates:
        tokenizer = candidate.tokenizer
        known = tokenizer.languages if isinstance(tokenizer, Subtokenizer) else ()
        asked = filter(candidate.fits, languages if known else ())
        if lacking := [name for name in asked if not matching(name, known)]:
            progress.warn(
                f"{candidate.label} has no {', '.join(lacking)}; it is measured on this text with "
                "the tokens of its languages"
            )


def _common(measured: Mapping[str, Mapping[str, _Measured]], progress: Progress) -> list[str]:
    """Languages that every tokenizer was measured on: summaries over other sets do not compare."""
    languages = list(dict.fromkeys(name for own in measured.values() for name in own))
    common = [name for name in languages if all(name in own for own in measured.values())]
    if not common:
        progress.warn("the tokenizers have no language in common: no summary over languages")
    elif len(common) < len(languages):
        progress.warn(
            f"the summary is over the {len(common)} of {len(languages)} languages measured with "
            f"all tokenizers: {', '.join(common)}"
        )
    return common


def _one_each(texts: Sequence[Text]) -> dict[str, Text]:
    by_language: dict[str, Text] = {}
    for text in sorted(texts, key=lambda text: text.language):
        if text.language in by_language:
            raise UsageError(
                f"a second text in {text.language}, beside {by_language[text.language].name}",
                where=text.name,
                remedy="pass one text per language, all with the same lines",
            )
        by_language[text.language] = text
    return by_language


def _pivot(wanted: str | None, texts: Mapping[str, Text]) -> str:
    if wanted is None:
        return DEFAULT_PIVOT if DEFAULT_PIVOT in texts else next(iter(texts))
    name = the_one(wanted, list(texts))
    if name is None:
        raise UsageError(
            f"no text in the pivot language '{wanted}'",
            where="--pivot",
            remedy=f"there are: {', '.join(texts)}",
        )
    return name


@dataclass(frozen=True)
class _Measured:
    candidate: Candidate
    usage: Usage
    failed: int


def _measure(
    candidates: Sequence[Candidate], texts: Mapping[str, Text], progress: Progress
) -> dict[str, _Measured]:
    measured: dict[str, _Measured] = {}
    for language, text in texts.items():
        for candidate in candidates:
            if not candidate.fits(language):
                continue
            used = usage(candidate.tokenizer, text, occurrences=True)
            failed = tried(candidate, text, used, progress).failed
            measured[language] = _Measured(candidate, used, failed)
    return measured


def _row(label: str, measured: Mapping[str, _Measured], basis: Basis, pivot: str) -> dict[str, Any]:
    text = basis.text
    mine = measured[text.language]
    tokenizer, tokens = mine.candidate.tokenizer, mine.usage.tokens
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
        "premium": ratio(tokens, at_pivot),
        "nsl": ratio(tokens, basis.reference_tokens),
        "reference_tokens": basis.reference_tokens,
        **basis.relative(tokens),
        "used_tokens": int((occurrences > 0).sum()),
        "measured_on": mine.usage.basis,
        "lossy_lines": mine.failed,
        "signature": signature(
            "fairness",
            tok=tokenizer.signature,
            ref=basis.reference_signature,
            lang=text.language,
            pivot=pivot,
            text=text.counts.fingerprint(),
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
        "size": max(own.candidate.tokenizer.size for own in measured.values()),
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
    signatures = [own.candidate.tokenizer.signature for own in measured.values()]
    total["lossy_lines"] = sum(own.failed for own in measured.values())
    total["signature"] = signature(
        "fairness",
        tok=digest(*(name.encode() for name in signatures)),
        langs="+".join(measured),
        pivot=pivot,
        rows=digest(*(str(row["signature"]).encode() for row in rows)),
    )
    return total


def _vocabulary(measured: Mapping[str, _Measured]) -> dict[str, Any]:
    """Used and merge-only fractions of the tokenizer, or their mean over several tokenizers."""
    by_tokenizer: dict[int, list[_Measured]] = {}
    for own in measured.values():
        by_tokenizer.setdefault(id(own.candidate.tokenizer), []).append(own)
    used, junk = [], []
    for group in by_tokenizer.values():
        tokenizer = group[0].candidate.tokenizer
        together = np.zeros(tokenizer.size, dtype=np.int64)
        for own in group:
            assert own.usage.occurrences is not None
            together += own.usage.occurrences
        ordinary = tokenizer.size
        if isinstance(tokenizer, Subtokenizer):  # no text uses special tokens
            ordinary -= len(tokenizer.vocabulary.specials)
        used.append(float((together > 0).sum()) / ordinary)
        parts = merge_only(tokenizer, together)
        junk.append(None if parts is None else parts / ordinary)
    known = [share for share in junk if share is not None]
    return {
        "utilization": float(np.mean(used)),
        "merge_only": float(np.mean(known)) if len(known) == len(junk) else None,
    }


def gini(values: Sequence[float]) -> float:
    """Gini coefficient: 0 if all values are equal, near 1 if one has everything.

    G = Σ_i Σ_j |x_i − x_j| / (2 n² · mean). For 1, 1, 2: the sum of differences over all
    ordered pairs is 4, the mean 4/3, so G = 4 / (2 · 9 · 4/3) = 1/6.

    >>> round(gini([1, 1, 2]), 4)
    0.1667

    Raises:
        ValueError: there are no values, or a value is negative.
    """
    data = np.sort(np.asarray(values, dtype=np.float64))
    if not len(data) or data[0] < 0:
        raise ValueError("gini needs values that are 0 or more")
    total = float(data.sum())
    if total == 0:
        return 0.0
    n = len(data)
    # The same sum over sorted values, in n instead of n² steps.
    weights = 2 * np.arange(1, n + 1) - n - 1
    return float(weights @ data / (n * total))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean, min, max, max/min and Gini of positive values."""
    low, high = min(values), max(values)
    return {
        "mean": float(np.mean(values)),
        "min": low,
        "max": high,
        "max_min": high / low if low else float("inf"),
        "gini": gini(values),
    }
