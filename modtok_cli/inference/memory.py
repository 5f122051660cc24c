"""`modtok memory`: parameters, the share of the vocabulary, and the KV cache.

Arithmetic over shapes: no weights are read, torch is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from modtok_cli.architectures.shape import Shape
from modtok_cli.architectures.sizes import PAPER, sizes
from modtok_cli.base.errors import UsageError

PAPER_VOCABULARIES = {"256k": 256_000, "24k": 24_000}


def memory(
    vocabularies: Mapping[str, int] | None = None,
    *,
    models: Mapping[str, Shape] | None = None,
    tied: bool = False,
    tokens_per_character: Mapping[str, Mapping[str, float]] | None = None,
    number_bytes: int = 2,
) -> list[dict[str, Any]]:
    """Parameters and cache of each tokenizer at each model size.

    Args:
        vocabularies: name → number of tokens; the others are compared with the first. By default
            the paper's 256,000 and 24,000.
        models: name → shape; by default the paper's six sizes.
        tied: whether input and output embeddings are one table.
        tokens_per_character: language → name → value, for the cache per character.
        number_bytes: bytes of a number, 2 for bfloat16.

    Returns:
        A row for each size and tokenizer (and language, if any): parameters, those of the
        vocabulary and their share, `saved` (share of all parameters, compared with the first
        tokenizer), bytes, kv_bytes_per_token, and with text kv_bytes_per_character and kv_saved.

    Raises:
        UsageError: no tokenizer.
    """
    counts = dict(PAPER_VOCABULARIES if vocabularies is None else vocabularies)
    if not counts:
        raise UsageError("no tokenizer given", remedy="give one with -t")
    if models is None:
        models = sizes(PAPER)
    first = next(iter(counts))
    rows: list[dict[str, Any]] = []
    for scale, shape in models.items():
        shape = replace(shape, tied=tied)
        whole = shape.parameters + shape.table_parameters(counts[first])
        cache = shape.kv_bytes_per_token(number_bytes)
        for name, size in counts.items():
            own = shape.table_parameters(size)
            row = {
                "model": scale,
                "width": shape.hidden_size,
                "layers": shape.layers,
                "tokenizer": name,
                "vocabulary": size,
                "tied": tied,
                "parameters": shape.parameters + own,
                "vocabulary_parameters": own,
                "share": own / (shape.parameters + own),
                "saved": 1 - (shape.parameters + own) / whole,
                "bytes": (shape.parameters + own) * number_bytes,
                "kv_bytes_per_token": cache,
            }
            if not tokens_per_character:
                rows.append(row)
            for language, figures in (tokens_per_character or {}).items():
                if name in figures:
                    rows.append(row | _with_text(language, figures, name, first, cache))
    return rows


def _with_text(
    language: str, figures: Mapping[str, float], name: str, first: str, cache: int
) -> dict[str, Any]:
    base = figures.get(first)
    return {
        "language": language,
        "tokens_per_character": figures[name],
        "kv_bytes_per_character": figures[name] * cache,
        "kv_saved": None if not base else 1 - figures[name] / base,
    }


def choose_models(names: Sequence[str] | None) -> dict[str, Shape]:
    """Shapes by name; None for the paper's sizes.

    Raises:
        UsageError: a name is unknown.
    """
    return sizes(names or PAPER)
