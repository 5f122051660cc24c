"""`modtok origin`: the languages that the tokens of a text belong to.

Text in a source language L, tokenized by T or by a union, uses tokens that the subtokenizer of L
does not have. They are classified by the languages they belong to (the paper's appendix on
inserted tokens).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from modtok_cli.base.arrays import BoolArray, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.option import option_of
from modtok_cli.base.parameters import Lang, Texts, text_paths
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.signature import signature
from modtok_cli.measure.references import references_or_none
from modtok_cli.measure.texts import check_texts, load_texts
from modtok_cli.measure.usage import usage
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import home_of, opened
from modtok_cli.tokenizer.parameters import AnyTokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer


def shares(
    occurrences: Int64Array, membership: BoolArray, languages: Sequence[str], source: str
) -> dict[str, Any]:
    """Return fractions of a text's tokens that are outside V_L, by membership.

    `exclusive`: by language, tokens of exactly this other language. `member`: by language, tokens
    of this language and perhaps others. `several`: tokens of two or more other languages. outside
    = several + Σ exclusive.

    Shapes: occurrences (V,) int64; membership (V, L) bool, columns as `languages`.

    For an English text with 8 tokens of en, 1 of fi and 1 of both fi and sv: outside 0.2,
    exclusive fi 0.1, member fi 0.2 and sv 0.1, several 0.1.
    """
    total = int(occurrences.sum())
    own = membership[:, list(languages).index(source)]
    outside = np.where(own, 0, occurrences)
    owners = membership.sum(axis=1)
    alone = np.where(owners == 1, outside, 0)
    others = [(column, name) for column, name in enumerate(languages) if name != source]
    return {
        "outside": float(outside.sum()) / total,
        "several": float(outside[owners > 1].sum()) / total,
        "exclusive": {name: float(alone @ membership[:, i]) / total for i, name in others},
        "member": {name: float(outside @ membership[:, i]) / total for i, name in others},
    }


OriginTokenizer = Annotated[AnyTokenizer, option_of(AnyTokenizer, default="tokenizer")]


@public
def origin(
    tokenizer: OriginTokenizer,
    texts: Texts,
    *,
    language: Lang = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Show the languages of the tokens of a text.

    For a text tokenized with the full vocabulary or a union of languages: the share of tokens
    that are not in the subtokenizer of its language, and the languages of these tokens. The
    tokenizer is a modular directory, or DIR@fr,en for a union.

    Returns:
        One row per text and language: tokens, `outside` (share of tokens that the language's own
        subtokenizer lacks), `exclusive` and `member` (language to share), `several`, and the
        signature. Texts in other languages are skipped with a warning.

    Examples:
        >>> 0 < modtok.origin("tokenizer", "parallel/fi.txt")[0]["outside"] < 0.2
        True

    Raises:
        UsageError: the tokenizer is not a modular directory.
        ModtokError: a text is missing, empty or damaged, or none is in a language of the tokenizer.
    """
    texts = text_paths(texts)
    check_texts(texts)
    subset, home = _opened(tokenizer)
    modular = ModularTokenizer.load(home)
    loaded = load_texts(
        texts,
        language=language,
        references=references_or_none(None, [subset]),
        keep_documents=False,
        reading=reading,
        progress=progress,
        pretokenizers=[subset.pretokenizer],
    )
    columns = [modular.languages.index(name) for name in subset.languages]
    membership = modular.token_membership[subset.global_ids][:, columns]
    rows = []
    with progress.task("measuring", total=len(loaded), unit="texts") as task:
        for text in loaded:
            task.advance(1)
            if text.language not in subset.languages:
                progress.warn(f"{text.name}: skipped, {subset.name} does not have {text.language}")
                continue
            used = usage(subset, text, occurrences=True)
            if not used.tokens:
                continue
            assert used.occurrences is not None
            rows.append(
                {
                    "tokenizer": subset.name,
                    "size": subset.size,
                    "languages": list(subset.languages),
                    "text": text.name,
                    "language": text.language,
                    "tokens": used.tokens,
                    **shares(used.occurrences, membership, subset.languages, text.language),
                    "measured_on": used.basis,
                    "signature": signature(
                        "origin",
                        tok=subset.signature,
                        of=modular.signature,
                        lang=text.language,
                        text=text.counts.fingerprint(),
                    ),
                }
            )
    if not rows:
        raise ModtokError(
            "no text is in a language of the tokenizer",
            where=subset.name,
            remedy=f"the tokenizer has: {', '.join(subset.languages)}",
        )
    return rows


def _opened(tokenizer: OriginTokenizer) -> tuple[Subtokenizer, Path]:
    """Return the subset, and the directory with the languages of its tokens."""
    subset = opened(tokenizer)
    home = home_of(subset)
    if home is None or not isinstance(subset, Subtokenizer):
        raise UsageError(
            "expected a modular tokenizer, whose tokens belong to languages",
            where=subset.name,
            remedy="pass a modular directory, or DIR@fr,en",
        )
    return subset, home
