"""Learned merges as arrays of a journal, and back, with every check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.construct.journal import Arrays
from modtok_cli.learn.merges import LearnedMerges
from modtok_cli.text.languages import is_language


def merges_to_arrays(learned: LearnedMerges) -> dict[str, npt.NDArray[Any]]:
    """The arrays of learned merges; languages and special tokens are stored elsewhere."""
    return {
        "token_data": learned.token_data,
        "token_offsets": learned.token_offsets,
        "merges": learned.merges,
        "token_membership": learned.token_membership.astype(np.uint8),
        "merge_membership": learned.merge_membership.astype(np.uint8),
    }


def merges_from_arrays(
    arrays: Arrays, languages: Sequence[str], specials: Sequence[str]
) -> LearnedMerges:
    """Learned merges from `merges_to_arrays`.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: the arrays are not valid; the
            the core trusts shapes, types and ids.
    """
    learned = LearnedMerges(
        tuple(languages),
        tuple(specials),
        arrays["token_data"],
        arrays["token_offsets"],
        arrays["merges"],
        arrays["token_membership"].astype(np.bool_),
        arrays["merge_membership"].astype(np.bool_),
    )
    if not (all(map(is_language, languages)) and _is_valid(learned)):
        raise ValueError("the arrays are not those of learned merges")
    return learned


def _is_valid(learned: LearnedMerges) -> bool:
    """Whether shapes and types are those of `LearnedMerges`, and all ids in the vocabulary."""
    offsets, merges, languages = learned.token_offsets, learned.merges, len(learned.languages)
    kinds = (
        (learned.token_data, np.uint8, 1),
        (offsets, np.int64, 1),
        (merges, np.int32, 2),
        (learned.token_membership, np.bool_, 2),
        (learned.merge_membership, np.bool_, 2),
    )
    if any(array.dtype != kind or array.ndim != rank for array, kind, rank in kinds):
        return False
    size = len(offsets) - 1
    return (
        size >= len(learned.specials) + 256
        and offsets[0] == 0
        and offsets[-1] == len(learned.token_data)
        and bool((offsets[1:] >= offsets[:-1]).all())
        and merges.shape[1] == 3
        and bool(((merges >= 0) & (merges < size)).all())
        and learned.token_membership.shape == (size, languages)
        and learned.merge_membership.shape == (len(merges), languages)
    )
