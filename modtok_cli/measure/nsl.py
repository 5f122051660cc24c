"""`modtok nsl`: number of tokens of a text relative to monolingual tokenizers.

NSL (normalized sequence length) of a tokenizer on a text in language l is its number of tokens
divided by that of the reference tokenizer trained on l alone (equation 1 of the paper).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.signature import signature
from modtok_cli.measure.candidates import (
    Candidate,
    Spec,
    open_named,
    pretokenizers_of,
    with_each,
)
from modtok_cli.measure.morphology import Alignment, Morphemes, align
from modtok_cli.measure.references import find_references
from modtok_cli.measure.texts import check_texts, load_texts
from modtok_cli.measure.usage import Basis, fitting, ratio, usage
from modtok_cli.modular.protocol import Tokenizer
from modtok_cli.text.reading import Reading


def nsl(
    tokenizers: Sequence[Spec],
    texts: Sequence[Path | str],
    *,
    references: Path | None = None,
    morphemes: Path | None = None,
    language: str | None = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Measure tokenizers on texts, per language.

    Args:
        tokenizers: opened tokenizers, arguments of `modular.open.open_tokenizer`, or `DIR@each` for
            the subtokenizer of the text's language.
        texts: files, directories or `-`.
        references: directory of `<lang>.json`; by default the tokenizer's own, then the
            workspace's.
        morphemes: file or directory with segmented words, see `morphology`; adds the measures of
            token against morpheme boundaries.
        language: language of all texts; by default that of each document.

    Returns:
        One row per text, language and tokenizer: tokens, reference_tokens, nsl (None without a
        reference), tokens per character (code point), byte (UTF-8) and word (see `word_total`),
        whether it was measured on "words" (word counts, exact) or line by line on "text", and the
        signature.

    Raises:
        ModtokError: a file is missing or damaged, or no language has a reference.
    """
    check_texts(texts)
    segmented = Morphemes(morphemes, language) if morphemes is not None else None
    opened = open_named(tokenizers, progress)
    reference_set = find_references(references, tokenizers, opened)
    loaded = load_texts(
        texts,
        language=language,
        references=reference_set,
        keep_documents=any(candidate.tokenizer.pretokenizer is None for candidate in opened),
        reading=reading,
        progress=progress,
        pretokenizers=pretokenizers_of(opened, tokenizers),
    )
    present = sorted({text.language for text in loaded})
    opened = with_each(opened, tokenizers, present, progress)
    missing = [name for name in present if name not in reference_set.languages]
    if missing and len(missing) == len(present):
        reference_set[missing[0]]  # raises with the list of references
    reference_set.warn_of_missing(missing, progress)

    basis = {id(text): Basis.of(text, reference_set) for text in loaded}
    return [
        _row(candidate, basis[id(text)], segmented)
        for text, candidate in fitting(loaded, opened, progress)
    ]


def _row(candidate: Candidate, basis: Basis, segmented: Morphemes | None) -> dict[str, Any]:
    text = basis.text
    used = usage(candidate.tokenizer, text)
    return {
        "tokenizer": candidate.label,
        "size": candidate.tokenizer.size,
        "text": text.name,
        "language": text.language,
        "nsl": ratio(used.tokens, basis.reference_tokens),
        "tokens": used.tokens,
        "reference_tokens": basis.reference_tokens,
        **basis.relative(used.tokens),
        "measured_on": used.basis,
        **_boundaries(candidate.tokenizer, text.language, segmented),
        "signature": signature(
            "nsl",
            [
                ("tok", candidate.tokenizer.signature),
                ("ref", basis.reference_signature),
                ("lang", text.language),
                ("text", text.counts.fingerprint()),
                *([("morph", segmented.fingerprint(text.language))] if segmented else []),
            ],
        ),
    }


def _boundaries(
    tokenizer: Tokenizer, language: str, segmented: Morphemes | None
) -> dict[str, float | int | None]:
    """Fields about morpheme boundaries; None in a language without segmented words."""
    if segmented is None:
        return {}
    words = segmented.of(language)
    if words is None:
        return dict.fromkeys(Alignment(0, 0, 0, 0, 0, 0).as_row())
    return align(tokenizer, words, language).as_row()
