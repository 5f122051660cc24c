"""The tokens of a language, and unions of them, by their definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from modtok_cli.base.errors import UsageError
from modtok_cli.learn import prune
from modtok_cli.learn.merges import GlobalMerges
from modtok_cli.learn.prune import choose_tokens, choose_with_superwords
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.reference import pruning
from modtok_cli.reference.superwords import frequent_sequences
from modtok_cli.text.counts import WordCounts, count_documents, merge_counts, split_words
from modtok_cli.text.pretokenizer import BPE, PHRASES

WORDS = st.dictionaries(
    st.text("aab é日▁", min_size=1, max_size=5).map(str.encode), st.integers(1, 9), min_size=1,
    max_size=7,
)  # fmt: skip
SPECIALS = ("<|a|>", "<|b|>")


def wide(counts: WordCounts, extra: int) -> GlobalMerges:
    return learn_plain(counts, 258 + extra, SPECIALS).merges


@settings(max_examples=examples(60), deadline=None)
@given(WORDS, st.integers(0, 14), st.integers(0, 9), st.booleans(), st.sampled_from([0, 1, 2]))
def test_tokens_are_those_of_the_definition(
    words: dict[bytes, int], extra: int, kept: int, whole: bool, limit: int
) -> None:
    counts = WordCounts.from_pairs(words.items())
    merges, k = wide(counts, extra), 258 + kept
    tokens = merges.strings()
    base, candidates = tokens[2:258], tokens[258:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prune, "JOINED", 64)  # four joins, not k / 8
        chooser = prune._Chooser(counts, tokens[:258], 2, k, max_unspaced=limit)
        joined = pruning.joins(words, base, candidates, k // 64, limit)
        assert chooser.with_joins(candidates) == [*candidates, *joined]
        try:
            found = choose_tokens(counts, merges, k, whole_characters=whole, max_unspaced=limit)
        except UsageError:
            singles = {c for word in candidates for c in word.decode(errors="ignore")}
            assert whole
            assert sum(ord(each) > 127 for each in singles) > kept
            return
    expected = pruning.chosen(words, base, candidates, kept, k // 64, whole, limit)
    assert list(found.tokens) == expected
    used = pruning.used(words, [*base, *expected])
    assert found.token_counts.tolist() == [0, 0, *(used[token] for token in [*base, *expected])]


PHRASE = st.sampled_from(["ab ab ba", "ab ab", "ba ab ab", "abc ba ab", "a b"])
GROUPS = st.lists(st.lists(PHRASE, min_size=1, max_size=9), min_size=1, max_size=5)


@settings(max_examples=examples(40), deadline=None)
@given(GROUPS, st.integers(2, 12), st.integers(2, 10), st.integers(1, 4))
def test_superwords_are_those_of_the_definition(
    texts: list[list[str]], extra: int, kept: int, most: int
) -> None:
    documents = [[phrase.encode() for phrase in group] for group in texts]
    groups = [count_documents([group], PHRASES) for group in documents]
    counts = merge_counts([count_documents([group]) for group in documents])
    merges, k, most = wide(counts, extra), 258 + kept, min(most, kept // 2)
    found = choose_with_superwords(counts, groups, merges, k, most)
    tokens = merges.strings()

    def sequences(some: Sequence[Mapping[bytes, int]], number: int) -> list[bytes]:
        words = [{tuple(split_words(one, BPE)): n for one, n in each.items()} for each in some]
        return frequent_sequences(words, number)

    phrases = [dict(group.pairs()) for group in groups]
    expected = pruning.with_superwords(
        dict(counts.pairs()), phrases, sequences, tokens[2:258], tokens[258:], kept, most,
        lambda number: (k - number) // prune.JOINED,
    )  # fmt: skip
    assert list(found.tokens) == expected
    used = pruning.used(pruning.total(phrases), [*tokens[2:258], *expected])
    assert found.token_counts.tolist()[258:] == [used[token] for token in expected]
