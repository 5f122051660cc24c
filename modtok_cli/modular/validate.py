"""Is a modular tokenizer proper? Every promise that subsets rely on, checked on arrays.

Proper: a merge joins tokens that exist before it, and a language that has a token or a
merge has everything it is made of. Then any union of languages is proper as well, since
what comes before in a language comes before in the union.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import ModtokError
from modtok_cli.learn.fewest_tokens import FEWEST_TOKENS
from modtok_cli.modular.vocabulary import BYTE_ORDER, Vocabulary, gather
from modtok_cli.text.pretokenizer import UNIGRAM, pretokenizers

if TYPE_CHECKING:
    from modtok_cli.modular.tokenizer import ModularTokenizer

Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

# It becomes a file name, and stands between commas after an "@".
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def validate(tokenizer: ModularTokenizer, where: str, *, distinct: bool = False) -> None:
    """Hold a tokenizer to every promise of `ModularTokenizer`.

    `distinct`: tokens are known to differ, since they were the keys of a JSON object.

    Raises:
        ModtokError: the first promise that is broken; names `where` and the field.
    """
    if tokenizer.scheme not in pretokenizers():
        known = ", ".join(pretokenizers())
        raise _broken(where, "scheme", f"'{tokenizer.scheme}' is none of {known}")
    languages = tokenizer.languages
    if not languages or len(set(languages)) != len(languages):
        raise _broken(where, "languages", "has none, or one of them twice")
    for language in languages:
        if not _LANGUAGE.fullmatch(language):
            raise _broken(where, "languages", f"'{language}' is no name for a language")
    if tokenizer.segmentation == UNIGRAM:
        from modtok_cli.modular.piece_vocabulary import check_pieces

        check_pieces(tokenizer.vocabulary, tokenizer.scores, where)
        _check_own_pieces(tokenizer, where)
        return
    check_vocabulary(tokenizer.vocabulary, where, distinct=distinct)
    if tokenizer.segmentation == FEWEST_TOKENS:
        _check_token_counts(tokenizer, where)
        if not len(tokenizer.merges):
            _check_own_pieces(tokenizer, where)
            return
    check_merges(tokenizer.vocabulary, tokenizer.merges, where)
    _check_membership(tokenizer, where)


def check_vocabulary(vocabulary: Vocabulary, where: str, *, distinct: bool = False) -> None:
    """Special tokens, then the 256 bytes in order, every spelling different.

    Raises:
        ModtokError: names `where` and the field.
    """
    first = len(vocabulary.specials)
    if len(vocabulary) < first + 256:
        raise _broken(where, "vocabulary", f"{len(vocabulary)} tokens cannot hold the 256 bytes")
    if (vocabulary.lengths < 1).any():
        raise _broken(where, "vocabulary", "an empty token")
    start = vocabulary.offsets[first]
    singles = vocabulary.lengths[first : first + 256]
    if (singles != 1).any() or (vocabulary.data[start : start + 256] != BYTE_ORDER).any():
        raise _broken(
            where, "vocabulary", f"tokens {first} to {first + 255} are not the 256 bytes in order"
        )
    if distinct:
        return
    names = vocabulary.spellings()
    if len(set(names)) != len(names):
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _broken(where, "vocabulary", f"two tokens are spelled '{twice}'")


def check_merges(vocabulary: Vocabulary, merges: Ids, where: str) -> None:
    """Ids in range, results the concatenation of their parts, no pair twice, parts first.

    Raises:
        ModtokError: names `where` and the merge.
    """
    base = len(vocabulary.specials) + 256
    if merges.ndim != 2 or merges.shape[1] != 3:
        raise _broken(where, "merges", f"shape {merges.shape}, expected (M, 3)")
    if len(merges) == 0:
        if len(vocabulary) > base:
            raise _broken(where, "merges", f"none makes token {base}")
        return
    outside = (merges < len(vocabulary.specials)) | (merges >= len(vocabulary))
    outside[:, 2] |= merges[:, 2] < base
    if outside.any():
        raise _broken(where, "merges", f"merge {_first(outside.any(axis=1))} holds no token's id")
    lengths = vocabulary.lengths[merges]
    wrong = lengths[:, 0] + lengths[:, 1] != lengths[:, 2]
    if not wrong.any():
        parts, _ = gather(vocabulary.data, vocabulary.offsets, merges[:, :2].reshape(-1))
        whole, ends = gather(vocabulary.data, vocabulary.offsets, merges[:, 2])
        if (parts != whole).any():
            byte = _first(parts != whole)
            wrong[np.searchsorted(ends, byte, side="right") - 1] = True
    if wrong.any():
        raise _broken(where, "merges", f"merge {_first(wrong)} does not give its result")
    pairs = merges[:, 0].astype(np.int64) << 32 | merges[:, 1]
    ordered = np.sort(pairs)  # ten times as fast as numpy.unique, which hashes
    if (ordered[1:] == ordered[:-1]).any():
        order = np.argsort(pairs, kind="stable")
        again = order[1:][np.diff(pairs[order]) == 0]
        raise _broken(where, "merges", f"merge {int(again.min())} joins the pair of an earlier one")
    given = np.arange(len(vocabulary)) < base
    late = improper_merges(merges, np.arange(len(merges)), given)
    if len(late):
        raise _broken(where, "merges", f"merge {late[0]} joins a token that is not made before it")
    made = np.zeros(len(vocabulary), dtype=np.bool_)
    made[:base] = True
    made[merges[:, 2]] = True
    if not made.all():
        raise _broken(where, "merges", f"none makes token {_first(~made)}")


def improper_merges(
    merges: Ids, chosen: npt.NDArray[np.int64], given: Mask
) -> npt.NDArray[np.int64]:
    """Those of the `chosen` merges (ascending ranks) with a part that none before it makes.

    given (V,) bool: tokens that no merge has to make, special tokens and bytes.
    """
    first = np.where(given, -1, len(merges))
    # Backwards, so that of several merges to one token the earliest is written last.
    first[merges[chosen[::-1], 2]] = chosen[::-1]
    late = (first[merges[chosen, 0]] >= chosen) | (first[merges[chosen, 1]] >= chosen)
    found: npt.NDArray[np.int64] = chosen[late]
    return found


def _check_membership(tokenizer: ModularTokenizer, where: str) -> None:
    size, base = tokenizer.size, len(tokenizer.vocabulary.specials) + 256
    merges, members = tokenizer.merges, tokenizer.token_membership
    given = np.arange(size) < base
    width = len(tokenizer.languages)
    for name, mask, rows in (
        ("token_membership", members, size),
        ("merge_membership", tokenizer.merge_membership, len(merges)),
    ):
        if mask.shape != (rows, width):
            raise _broken(where, name, f"shape {mask.shape}, expected {(rows, width)}")
        if not mask.any(axis=1).all():
            raise _broken(where, name, f"row {_first(~mask.any(axis=1))} belongs to no language")
    if not members[:base].all():
        row = _first(~members[:base].all(axis=1))
        raise _broken(where, "token_membership", f"token {row} is not in every language")
    for column, language in enumerate(tokenizer.languages):
        chosen = np.flatnonzero(tokenizer.merge_membership[:, column])
        outside = ~members[merges[chosen], column]
        if outside.any():
            rank = chosen[_first(outside.any(axis=1))]
            raise _broken(
                where, "merge_membership", f"merge {rank} is in '{language}', a token of it is not"
            )
        late = improper_merges(merges, chosen, given)
        if len(late):
            raise _broken(
                where,
                "merge_membership",
                f"'{language}' has merge {late[0]} but no earlier merge for a part of it",
            )
        made = np.zeros(size, dtype=np.bool_)
        made[:base] = True
        made[merges[chosen, 2]] = True
        lacking = members[:, column] & ~made
        if lacking.any():
            raise _broken(
                where,
                "token_membership",
                f"'{language}' has token {_first(lacking)} but no merge that makes it",
            )


def _check_token_counts(tokenizer: ModularTokenizer, where: str) -> None:
    """Uses of a least-token tokenizer: one number for every token of every language."""
    members, token_counts = tokenizer.token_membership, tokenizer.token_counts
    if token_counts is None or len(token_counts) != len(tokenizer.languages):
        raise _broken(where, "token_counts", "not there for every language")
    for column, language in enumerate(tokenizer.languages):
        expected = int(members[:, column].sum()) if members.ndim == 2 else -1
        if token_counts[column].shape != (expected,):
            found = f"{len(token_counts[column])} numbers for {expected} tokens"
            raise _broken(where, "token_counts", f"'{language}' has {found}")
        if (token_counts[column] < 0).any():
            raise _broken(where, "token_counts", f"'{language}' has a negative number")
    # The sum of any set of languages must fit `learn.least.likelihoods`.
    if sum(int(row.max(initial=0)) for row in token_counts) >= 1 << 62:
        raise _broken(where, "token_counts", "the numbers are too large to add up")


def _check_own_pieces(tokenizer: ModularTokenizer, where: str) -> None:
    """Membership without merges: everything in a language, a piece in every language."""
    members, width = tokenizer.token_membership, len(tokenizer.languages)
    base = len(tokenizer.vocabulary.specials) + 256
    if members.shape != (tokenizer.size, width):
        shape = (tokenizer.size, width)
        raise _broken(where, "token_membership", f"shape {members.shape}, expected {shape}")
    if len(tokenizer.merges) or len(tokenizer.merge_membership):
        raise _broken(where, "merges", "there are some, where there should be none")
    if not members.any(axis=1).all():
        row = _first(~members.any(axis=1))
        raise _broken(where, "token_membership", f"row {row} belongs to no language")
    if not members[:base].all():
        row = _first(~members[:base].all(axis=1))
        raise _broken(where, "token_membership", f"token {row} is not in every language")
    if tokenizer.segmentation == UNIGRAM and not members[base:].any(axis=0).all():
        language = tokenizer.languages[_first(~members[base:].any(axis=0))]
        raise _broken(where, "token_membership", f"'{language}' has no pieces")


def _first(mask: Any) -> int:
    """Index of the first true entry of a (N,) bool array."""
    return int(np.argmax(mask))


def _broken(where: str, name: str, what: str) -> ModtokError:
    return ModtokError(f"field '{name}': {what}", where=where)
