"""Derivations of tokens against a replay in plain Python, and what closing under them gives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from modtok_cli.modular.adopted.tokenizer_file import (
    GIVEN,
    UNREACHED,
    closed,
    derivation,
    prune,
    symbols_of,
)

Rows = list[tuple[str, str]]


@st.composite
def vocabularies(draw: st.DrawFn) -> tuple[dict[str, int], Rows]:
    """Tokens over three letters, and merges between them in any order, several for a token."""
    names = ["a", "b", "c"]
    for _ in range(draw(st.integers(1, 12))):
        name = draw(st.sampled_from(names)) + draw(st.sampled_from(names))
        if len(name) <= 8 and name not in names:
            names.append(name)
    ids = {name: index for index, name in enumerate(names)}
    splits = [
        (name[:cut], name[cut:])
        for name in names
        for cut in range(1, len(name))
        if name[:cut] in ids and name[cut:] in ids
    ]
    chosen = draw(st.permutations(splits))
    return ids, chosen[: draw(st.integers(0, len(chosen)))]


def replay(text: str, rows: Rows) -> tuple[list[str], list[int]]:
    """Tokens of a text, and the ranks of the merges that were applied."""
    symbols, applied = list(text), []
    while True:
        found = [
            (rows.index(pair), at) for at, pair in enumerate(pairwise(symbols)) if pair in rows
        ]
        if not found:
            return symbols, applied
        rank, at = min(found)
        symbols[at : at + 2] = ["".join(rows[rank])]
        applied.append(rank)


def arrays(ids: dict[str, int], rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    merges = np.array([[ids[a], ids[b], ids[a + b]] for a, b in rows], np.int32).reshape(-1, 3)
    flat, offsets = symbols_of(list(ids), ids, fallback=False)
    return merges, derivation(flat, offsets, np.arange(len(ids), dtype=np.int32), merges)


@settings(max_examples=examples(80))
@given(vocabularies(), st.text("abc", max_size=12), st.data())
def test_derivations_are_those_of_the_replay(made, text: str, data: st.DataObject) -> None:
    ids, rows = made
    merges, ranks = arrays(ids, rows)
    for name, index in ids.items():
        symbols, applied = replay(name, rows)
        expected = UNREACHED if symbols != [name] else applied[-1] if applied else GIVEN
        assert ranks[index] == expected
    # The tokens of a text, closed, give the same tokens without all other tokens and merges.
    whole = replay(text, rows)[0]
    mask = np.zeros(len(ids), dtype=np.bool_)
    mask[[ids[name] for name in whole]] = True
    mask[data.draw(st.lists(st.integers(0, len(ids) - 1), max_size=3))] = True
    kept = closed(mask, ranks, merges)
    left = [rows[rank] for rank in np.flatnonzero(kept[merges].all(axis=1))]
    assert replay(text, left)[0] == whole
    for name, index in ids.items():
        if kept[index] and ranks[index] >= 0:
            assert replay(name, left)[0] == [name]


def test_symbols_of_characters_without_a_token_are_bytes() -> None:
    ids = {"a": 0, "<0xC3>": 1, "<0xA9>": 2}
    flat, offsets = symbols_of(["aé", "", "ü", "a"], ids, fallback=True)
    # "ü" lacks the token of its second byte.
    assert flat.tolist() == [0, 1, 2, -1, 0]
    assert offsets.tolist() == [0, 3, 3, 4, 5]


def test_pruning_removes_what_costs_least() -> None:
    ids = {name: index for index, name in enumerate(["a", "b", "c", "ab", "abc", "cc"])}
    merges, ranks = arrays(ids, [("a", "b"), ("ab", "c"), ("c", "c")])
    counts = np.array([5, 5, 1, 3, 2, 4])
    pieces = np.where(ranks >= 0, 2, 0)
    everything = np.ones(6, dtype=np.bool_)

    def left(size: int, loss: int) -> list[str]:
        kept = prune(everything, counts, ranks, merges, pieces, size, loss)
        return [name for name, index in ids.items() if kept[index]]

    assert left(6, 100) == ["a", "b", "c", "ab", "abc", "cc"]
    assert left(5, 100) == ["a", "b", "c", "ab", "cc"]
    # Its two occurrences passed to "ab", which is now used 5 times: "cc" is next.
    assert left(4, 100) == ["a", "b", "c", "ab"]
    assert left(0, 100) == ["a", "b", "c"]
    assert left(0, 1) == ["a", "b", "c", "ab", "abc", "cc"]
    assert left(0, 6) == ["a", "b", "c", "ab"]
