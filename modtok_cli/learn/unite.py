"""Unite vocabularies that were learned independently.

No language depends on another, so that languages can be added and removed freely: the tokens
of the others keep their order, and their subtokenizers stay the same.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from modtok_cli.base.arrays import BoolArray, Int64Array, flatten
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
        members = np.zeros((first, 0), dtype=np.bool_)
        token_counts: TokenCounts = ()
    else:
        learned, token_counts = base
        tokens = [learned.token(i) for i in range(learned.size)]
        languages, members = learned.languages, learned.token_membership
    place = {token: i for i, token in enumerate(tokens[first:], first)}
    new = {token for one in chosen.values() for token in one.tokens} - set(place)
    for token in sorted(new, key=lambda token: (len(token), token)):
        place[token] = len(tokens)
        tokens.append(token)
    wide = np.zeros((len(tokens), len(languages) + len(chosen)), dtype=np.bool_)
    wide[: len(members), : len(languages)] = members
    for column, one in enumerate(chosen.values(), len(languages)):
        ids = np.array([place[token] for token in one.tokens], dtype=np.int64)
        wide[:first, column] = True
        wide[ids, column] = True
        order = np.argsort(ids)
        token_counts = (
            *token_counts,
            np.concatenate([one.token_counts[:first], one.token_counts[first:][order]]),
        )
    return _learned((*languages, *chosen), specials, tokens, wide), token_counts


def part(base: tuple[LearnedMerges, TokenCounts], language: str) -> LanguageTokens:
    """The tokens that one language contributed to a united vocabulary."""
    learned, token_counts = base
    column = learned.languages.index(language)
    first = len(learned.specials) + 256
    ids = np.flatnonzero(learned.token_membership[:, column])[first:]
    tokens = [learned.token(i) for i in ids.tolist()]
    order = sorted(range(len(tokens)), key=lambda i: (len(tokens[i]), tokens[i]))
    return LanguageTokens(
        tuple(tokens[i] for i in order),
        np.concatenate([token_counts[column][:first], token_counts[column][first:][order]]),
    )


def without(
    base: tuple[LearnedMerges, TokenCounts], gone: Sequence[str]
) -> tuple[LearnedMerges, TokenCounts]:
    """T without some languages, and without the tokens that only they have.

    At least one language remains. The remaining tokens keep their order and get new ids.
    """
    learned, token_counts = base
    columns = [i for i, language in enumerate(learned.languages) if language not in gone]
    members = learned.token_membership[:, columns]
    rows = np.flatnonzero(members.any(axis=1))
    tokens = [learned.token(i) for i in rows.tolist()]
    languages = [learned.languages[i] for i in columns]
    return (
        _learned(languages, learned.specials, tokens, members[rows]),
        tuple(token_counts[i] for i in columns),
    )


def _learned(
    languages: Sequence[str], specials: Sequence[str], tokens: Sequence[bytes], members: BoolArray
) -> LearnedMerges:
    return LearnedMerges(
        tuple(languages),
        tuple(specials),
        *flatten(tokens),
        np.zeros((0, 3), dtype=np.int32),
        members,
        np.zeros((0, len(languages)), dtype=np.bool_),
    )
