"""Unite vocabularies that were learned independently.

No language depends on another, so that languages can be added and removed freely: the tokens
of the others keep their order, and their subtokenizers stay the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Int64Array, flatten
from modtok_cli.base.membership import Membership
from modtok_cli.learn.merges import LearnedMerges, byte_order
from modtok_cli.learn.prune import LanguageTokens

TokenCounts = tuple[Int64Array, ...]


def unite(
    chosen: Mapping[str, LanguageTokens],
    specials: Sequence[str],
    base: tuple[LearnedMerges, TokenCounts] | None = None,
) -> tuple[LearnedMerges, TokenCounts]:
    """T, and per language how often its text uses each of its tokens.

    Order of T: special tokens, the 256 bytes, all others by length and bytes, independent of
    the order of the languages. With a `base`: its tokens with their ids, then the new ones.

    >>> fi = LanguageTokens((b"aa",), np.zeros(257, dtype=np.int64))
    >>> en = LanguageTokens((b"ab", b"aab"), np.zeros(258, dtype=np.int64))
    >>> t, _ = unite({"fi": fi, "en": en}, ())
    >>> [t.token(i) for i in range(256, t.size)], t.token_membership[256:].tolist()
    ([b'aa', b'ab', b'aab'], [[True, False], [False, True], [False, True]])
    """
    first = len(specials) + 256
    if base is None:
        tokens = [text.encode() for text in specials] + [bytes([byte]) for byte in byte_order()]
        languages: tuple[str, ...] = ()
        columns: list[Int64Array] = []
        token_counts: TokenCounts = ()
    else:
        learned, token_counts = base
        tokens = [learned.token(i) for i in range(learned.size)]
        languages = learned.languages
        columns = [learned.token_membership.ids(i) for i in range(len(languages))]
    place = {token: i for i, token in enumerate(tokens[first:], first)}
    new = {token for one in chosen.values() for token in one.tokens} - set(place)
    for token in sorted(new, key=lambda token: (len(token), token)):
        place[token] = len(tokens)
        tokens.append(token)
    for one in chosen.values():
        ids = np.array([place[token] for token in one.tokens], dtype=np.int64)
        order = np.argsort(ids)
        columns.append(np.concatenate([np.arange(first), ids]))
        token_counts = (
            *token_counts,
            np.concatenate([one.token_counts[:first], one.token_counts[first:][order]]),
        )
    return _learned((*languages, *chosen), specials, tokens, columns), token_counts


def without(
    base: tuple[LearnedMerges, TokenCounts], gone: Sequence[str]
) -> tuple[LearnedMerges, TokenCounts]:
    """T without some languages, and without the tokens that only they have.

    At least one language remains. The remaining tokens keep their order and get new ids.
    """
    learned, token_counts = base
    columns = [i for i, language in enumerate(learned.languages) if language not in gone]
    members = learned.token_membership
    kept = members.union(columns)
    rows = np.flatnonzero(kept)
    tokens = [learned.token(i) for i in rows.tolist()]
    languages = [learned.languages[i] for i in columns]
    return (
        _learned(languages, learned.specials, tokens, [members[kept, i] for i in columns]),
        tuple(token_counts[i] for i in columns),
    )


def _learned(
    languages: Sequence[str],
    specials: Sequence[str],
    tokens: Sequence[bytes],
    members: Sequence[npt.NDArray[Any]],
) -> LearnedMerges:
    """`members`: what selects the tokens of each language."""
    return LearnedMerges(
        tuple(languages),
        tuple(specials),
        *flatten(tokens),
        np.zeros((0, 3), dtype=np.int32),
        Membership.of_columns(len(tokens), members, len(languages)),
        Membership.everywhere(0, len(languages)),
    )
