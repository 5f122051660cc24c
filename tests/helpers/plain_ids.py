"""Ids without compiled kernels, also where numba is loaded."""

from __future__ import annotations

from modtok_cli.modular import plain
from modtok_cli.modular.subtokenizer import Subtokenizer


def plain_ids(subset: Subtokenizer, texts: list[str]) -> list[list[int]] | None:
    """Ids of each text; None if they need the kernels."""
    encoded = [text.encode() for text in texts]
    found = plain.encode(encoded, subset.pretokenizer, subset.segmenter._plain)
    return None if found is None else [ids.tolist() for ids in found]
