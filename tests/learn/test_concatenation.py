"""Naive concatenation against lists of strings put together by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.handmade_tokenizers import Merge, global_merges, write_plain, write_ranks
from modtok_cli.base.errors import UsageError
from modtok_cli.construct.bpe_concat import bpe_concat
from modtok_cli.learn.concatenation import concatenate
from modtok_cli.modular.open import open_bytes


def slow(parts: list[list[Merge]]) -> tuple[list[bytes], list[Merge]]:
    """Tokens and merges: the first's, then of each other one what is not there yet."""
    tokens: list[bytes] = []
    merges: list[Merge] = []
    for part in parts:
        for left, right in part:
            if left + right not in tokens:
                tokens.append(left + right)
            if (left, right) not in merges:
                merges.append((left, right))
    return tokens, merges


@st.composite
def proper_merges(draw: st.DrawFn) -> list[Merge]:
    """Each merge joins bytes or results of earlier merges."""
    pool = [b"a", b"b", b"c"]
    merges: list[Merge] = []
    for _ in range(draw(st.integers(0, 8))):
        pair = (draw(st.sampled_from(pool)), draw(st.sampled_from(pool)))
        if pair not in merges:
            merges.append(pair)
            pool.append(pair[0] + pair[1])
    return merges


@given(st.lists(proper_merges(), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_equals_the_slow_twin(parts: list[list[Merge]]) -> None:
    whole = concatenate([global_merges(part, ("<s>", "</s>")) for part in parts])
    tokens = whole.strings()
    expected_tokens, expected_merges = slow(parts)
    assert tokens[258:] == expected_tokens
    merges = [(tokens[left], tokens[right]) for left, right, _ in whole.merges.tolist()]
    assert merges == expected_merges
    assert all(tokens[r] == tokens[a] + tokens[b] for a, b, r in whole.merges.tolist())


def test_a_token_becomes_unreachable(tmp_path: Path) -> None:
    """With ab first, "abc" is [ab, c] though abc is in the vocabulary; the other way it is one."""
    first = write_plain(tmp_path / "1.json", [(b"a", b"b")])
    second = write_plain(tmp_path / "2.json", [(b"b", b"c"), (b"a", b"bc")])
    one, other = bpe_concat([first, second]), bpe_concat([second, first])
    lengths = [len(open_bytes(made.data, "x", "x").encode("abc")) for made in (one, other)]
    assert lengths == [2, 1]
    assert (one.size, one.unreached) == (259, 1)
    assert (other.size, other.unreached) == (259, 0)


def test_incompatible_tokenizers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to concatenate"):
        concatenate([])
    with pytest.raises(UsageError, match="different special tokens: none; <s>"):
        concatenate([global_merges([]), global_merges([], ("<s>",))])
    plain = write_plain(tmp_path / "1.json", [])
    with pytest.raises(UsageError, match="expected two or more"):
        bpe_concat([plain])
    with pytest.raises(UsageError, match="not a byte-level BPE tokenizer of modtok"):
        bpe_concat([plain, write_ranks(tmp_path / "r.tiktoken", [])])
