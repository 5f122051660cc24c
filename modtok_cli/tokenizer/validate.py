"""Checks of a modular tokenizer: everything that subsets rely on, on arrays.

Proper: a merge joins tokens that exist before it, and a language that has a token or a
merge has everything it is made of. Then any union of languages is proper as well, since
what comes before in a language comes before in the union.
"""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from modtok_cli.base.arrays import (
    Float64Array,
    Int32Array,
    Int64Array,
    UInt8Array,
    UInt64Array,
)
from modtok_cli.base.membership import Membership
from modtok_cli.tokenizer.vocabulary import BYTE_ORDER, PieceVocabulary, Vocabulary, broken, gather

AnyName = TypeVar("AnyName", str, bytes)

# What the pre-tokenizer `unigram` tells apart: 1 space, 2 digit, 3 other ASCII white space.
_BYTE_KINDS = np.zeros(256, dtype=np.uint8)
_BYTE_KINDS[0x20], _BYTE_KINDS[0x30:0x3A], _BYTE_KINDS[0x09:0x0E] = 1, 2, 3
_PART = 1 << 14
"""Tokens or merges that are checked together: temporary arrays take 30 times their bytes."""
# It becomes a file name, and is written between commas after an "@".
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def check_languages(languages: Sequence[str], where: str) -> None:
    """At least one language, each once, each a name that a file may have."""
    if not languages or len(set(languages)) != len(languages):
        raise broken(where, "languages", "is empty or has a language twice")
    for language in languages:
        if not _LANGUAGE.fullmatch(language):
            raise broken(where, "languages", f"'{language}' is not a valid language name")


def check_vocabulary(vocabulary: Vocabulary, where: str) -> None:
    """Special tokens, then the 256 bytes in order, every spelling different."""
    _check_bytes(vocabulary, where)
    if not vocabulary.distinct:
        _check_distinct(vocabulary, where)


def _check_bytes(vocabulary: Vocabulary, where: str) -> None:
    first = len(vocabulary.specials)
    if len(vocabulary) < first + 256:
        raise broken(where, "vocabulary", f"{len(vocabulary)} tokens cannot hold the 256 bytes")
    if (vocabulary.lengths < 1).any():
        raise broken(where, "vocabulary", "a token is empty")
    start = vocabulary.offsets[first]
    singles = vocabulary.lengths[first : first + 256]
    if (singles != 1).any() or (vocabulary.data[start : start + 256] != BYTE_ORDER).any():
        raise broken(
            where, "vocabulary", f"tokens {first} to {first + 255} are not the 256 bytes in order"
        )


def _check_distinct(vocabulary: Vocabulary, where: str) -> None:
    """Every spelling differs; a special token is spelled as it is, so it may equal another's."""
    if all(special.isascii() for special in vocabulary.specials):  # its text is its spelling
        hashes = np.sort(_hashes(vocabulary))
        if (hashes[1:] != hashes[:-1]).all():
            return
    twice = _twice(vocabulary.spellings())
    if twice is not None:
        raise broken(where, "vocabulary", f"two tokens are spelled '{twice}'")


def _twice(names: Sequence[AnyName]) -> AnyName | None:
    """The first name that is there before; None if all differ."""
    if len(set(names)) == len(names):
        return None
    seen: set[AnyName] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def _hashes(vocabulary: Vocabulary) -> UInt64Array:
    """A number for each token, by its bytes: Σ (byte + 1) · cⁱ modulo 2⁶⁴; no token is empty."""
    longest = int(vocabulary.lengths.max())
    powers = np.multiply.accumulate(np.full(longest, 0x9E3779B97F4A7C15, np.uint64))
    hashes = np.empty(len(vocabulary), dtype=np.uint64)
    for first in range(0, len(vocabulary), _PART):
        offsets = vocabulary.offsets[first : first + _PART + 1]
        data, starts = vocabulary.data[offsets[0] : offsets[-1]], offsets[:-1] - offsets[0]
        within = np.arange(len(data)) - np.repeat(starts, np.diff(offsets))
        terms = (data.astype(np.uint64) + np.uint64(1)) * powers[within]
        hashes[first : first + _PART] = np.add.reduceat(terms, starts)
    return hashes


def check_merges(vocabulary: Vocabulary, merges: Int32Array, where: str) -> None:
    """Ids in range, results the concatenation of their parts, no pair twice, parts first."""
    base = len(vocabulary.specials) + 256
    if merges.ndim != 2 or merges.shape[1] != 3:
        raise broken(where, "merges", f"shape {merges.shape}, expected (M, 3)")
    if len(merges) == 0:
        if len(vocabulary) > base:
            raise broken(where, "merges", f"none makes token {base}")
        return
    outside = (merges < len(vocabulary.specials)) | (merges >= len(vocabulary))
    outside[:, 2] |= merges[:, 2] < base
    if outside.any():
        raise broken(
            where, "merges", f"merge {_first(outside.any(axis=1))} contains an unknown token id"
        )
    lengths = vocabulary.lengths[merges]
    wrong = lengths[:, 0] + lengths[:, 1] != lengths[:, 2]
    for first in range(0, 0 if wrong.any() else len(merges), _PART):
        some = merges[first : first + _PART]
        parts, _ = gather(vocabulary.data, vocabulary.offsets, some[:, :2].reshape(-1))
        whole, ends = gather(vocabulary.data, vocabulary.offsets, some[:, 2])
        if (parts != whole).any():
            byte = _first(parts != whole)
            wrong[first + np.searchsorted(ends, byte, side="right") - 1] = True
            break
    if wrong.any():
        raise broken(where, "merges", f"merge {_first(wrong)} does not give its result")
    pairs = merges[:, 0].astype(np.int64) << 32 | merges[:, 1]
    ordered = np.sort(pairs)  # ten times as fast as numpy.unique, which hashes
    if (ordered[1:] == ordered[:-1]).any():
        order = np.argsort(pairs, kind="stable")
        again = order[1:][np.diff(pairs[order]) == 0]
        raise broken(
            where, "merges", f"merge {int(again.min())} repeats the pair of an earlier merge"
        )
    first_made = np.where(np.arange(len(vocabulary)) < base, -1, len(merges))
    late = improper_merges(merges, np.arange(len(merges)), first_made)
    if len(late):
        raise broken(where, "merges", f"merge {late[0]} joins a token that is not made before it")
    lacking = first_made == len(merges)
    if lacking.any():
        raise broken(where, "merges", f"none makes token {_first(lacking)}")


def improper_merges(merges: Int32Array, chosen: Int64Array, first: Int64Array) -> Int64Array:
    """The `chosen` merges (ascending ranks) with a part that none before it makes.

    first (V,): -1 for a token that no merge has to make, M for others. Gets the rank of the
    earliest chosen merge that makes the token.
    """
    # Backwards, so that of several merges to one token the earliest is written last.
    first[merges[chosen[::-1], 2]] = chosen[::-1]
    late = (first[merges[chosen, 0]] >= chosen) | (first[merges[chosen, 1]] >= chosen)
    ranks: Int64Array = chosen[late]
    return ranks


def check_token_membership(
    vocabulary: Vocabulary, members: Membership, languages: Sequence[str], where: str
) -> None:
    """Every token is in a language, special tokens and bytes in all; members (V, L)."""
    base = len(vocabulary.specials) + 256
    _check_rows(members, (len(vocabulary), len(languages)), "token_membership", where)
    missing = members.owners()[:base] < len(languages)
    if missing.any():
        row = _first(missing)
        raise broken(where, "token_membership", f"token {row} is not in every language")


def check_merge_membership(
    vocabulary: Vocabulary,
    merges: Int32Array,
    members: Membership,
    merge_members: Membership,
    languages: Sequence[str],
    where: str,
) -> None:
    """Every language has, with a token or a merge, all that it is made of.

    Shapes: members (V, L) and merge_members (M, L).
    """
    check_token_membership(vocabulary, members, languages, where)
    _check_rows(merge_members, (len(merges), len(languages)), "merge_membership", where)
    size, base = len(vocabulary), len(vocabulary.specials) + 256
    first = np.where(np.arange(size) < base, -1, len(merges))
    for column, language in enumerate(languages):
        chosen, mine = merge_members.ids(column), members[:, column]
        outside = ~mine[merges[chosen]]
        if outside.any():
            rank = chosen[_first(outside.any(axis=1))]
            raise broken(
                where, "merge_membership", f"merge {rank} is in '{language}', a token of it is not"
            )
        late = improper_merges(merges, chosen, first)
        if len(late):
            raise broken(
                where,
                "merge_membership",
                f"'{language}' has merge {late[0]} but no earlier merge for a part of it",
            )
        tokens = np.flatnonzero(mine)
        lacking = tokens[first[tokens] == len(merges)]
        if len(lacking):
            raise broken(
                where,
                "token_membership",
                f"'{language}' has token {lacking[0]} but no merge that makes it",
            )
        first[merges[chosen, 2]] = len(merges)


def check_pieces(vocabulary: Vocabulary, scores: Float64Array | None, where: str) -> None:
    """Check a Unigram vocabulary.

    Special tokens, the 256 bytes in order, at least one piece; pieces different, whole
    characters, none crosses a word boundary of the pre-tokenizer; scores finite.
    """
    if not isinstance(vocabulary, PieceVocabulary):
        raise broken(where, "vocabulary", "is not a vocabulary of pieces")
    first = vocabulary.first
    if len(vocabulary) <= first:
        raise broken(where, "vocabulary", "has no pieces")
    if not vocabulary.specials:
        raise broken(where, "specials", "no special token for unknown characters")
    _check_bytes(vocabulary, where)
    data, starts = vocabulary.data, vocabulary.offsets[first:-1]
    try:
        data[vocabulary.offsets[first] :].tobytes().decode()
    except UnicodeDecodeError as error:
        raise broken(where, "vocabulary", "a piece is not UTF-8") from error
    if ((data[starts] & 0xC0) == 0x80).any():
        raise broken(where, "vocabulary", "a piece begins within a character")
    crossing = _crossing(data, vocabulary.offsets, first)
    if crossing is not None:
        text = vocabulary.token_bytes(crossing).decode()
        raise broken(where, "vocabulary", f"piece {text!r} crosses a word boundary")
    twice = _twice(vocabulary.tokens()[first:])
    if twice is not None:
        raise broken(where, "vocabulary", f"the piece {twice.decode()!r} occurs twice")
    if scores is None or scores.shape != (len(vocabulary),) or not np.isfinite(scores).all():
        raise broken(where, "scores", "not a finite number for every token")


def _crossing(data: UInt8Array, offsets: Int64Array, first: int) -> int | None:
    """The first piece in which a word of the pre-tokenizer `unigram` would end, None if in none."""
    kinds = _BYTE_KINDS[data]
    before, after = kinds[:-1], kinds[1:]
    cut = (before == 2) | (after == 2)
    cut |= (before != after) & ((after == 1) | (after == 3) | (before == 3))
    inside = np.zeros(len(data) + 1, dtype=np.bool_)
    inside[1:-1] = cut
    inside[offsets] = False
    inside[: offsets[first]] = False
    if not inside.any():
        return None
    return int(np.searchsorted(offsets, int(np.argmax(inside)), side="right")) - 1


def _check_rows(members: Membership, shape: tuple[int, int], name: str, where: str) -> None:
    """The shape, and that every row belongs to a language."""
    if members.shape != shape:
        raise broken(where, name, f"shape {members.shape}, expected {shape}")
    lone = ~members.planes.any(axis=0)
    if lone.any():
        row = _first(lone)
        raise broken(where, name, f"row {row} belongs to no language")


def _first(mask: Any) -> int:
    """Index of the first true entry of a (N,) bool array."""
    return int(np.argmax(mask))
