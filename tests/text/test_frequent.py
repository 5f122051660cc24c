"""Words that are learned from where others are left out, from a table in memory and on disk."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.text import frequent
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.frequent import StoredCounts, frequent_words
from modtok_cli.text.table_files import save_counts

words = st.dictionaries(st.binary(min_size=1, max_size=4), st.integers(1, 5), min_size=1)


def followers(pairs: list[tuple[bytes, int]]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for word, count in pairs:
        for a, b in pairwise(word):
            found[a, b] = found.get((a, b), 0) + count
    return found


def entries(table: Int64Array) -> dict[tuple[int, int], int]:
    return {(int(at) >> 8, int(at) & 255): int(table[at]) for at in np.flatnonzero(table)}


@settings(deadline=None, max_examples=examples(60))
@given(words, st.integers(1, 6), st.integers(1, 6))
def test_every_word_is_kept_or_left_out(counted: dict[bytes, int], least: int, weight: int) -> None:
    found = frequent_words(WordCounts.from_pairs(counted.items()), least, weight)
    kept = dict(found.counts.pairs())
    assert kept.keys() >= {word for word in counted if counted[word] >= max(least, weight)}
    assert all(counted[word] >= least for word in kept)
    assert kept == {word: max(counted[word], weight) for word in kept}
    rare = [(word, count) for word, count in counted.items() if word not in kept]
    assert found.left_out.words == len(rare)
    assert found.left_out.occurrences == sum(count for _, count in rare)
    assert found.left_out.bytes == sum(len(word) * count for word, count in rare)
    assert entries(found.missing) == followers(rare)
    assert entries(found.excess) == followers(
        [(word, kept[word] - counted[word]) for word in kept if kept[word] > counted[word]]
    )
    assert found.counts.size.bytes == sum(len(word) * count for word, count in counted.items())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """10,000 words that occur once, 1,000 twice, 100 three times: 12,300 occurrences."""
    pairs = [
        (f" w{count}-{number}".encode(), count)
        for count, number_of in ((1, 10_000), (2, 1000), (3, 100))
        for number in range(number_of)
    ]
    save_counts(WordCounts.from_pairs(pairs), tmp_path / "fi.counts", "fi")
    return tmp_path / "fi.counts"


@pytest.mark.parametrize(
    ("room", "weight"), [(11_100, 1), (11_099, 2), (6100, 2), (6099, 3), (1000, 13), (500, 25)]
)
def test_as_many_words_as_fit(
    table: Path, room: int, weight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With weight 3 are expected: 10,000 / 3 + 1000 × 2 / 3 + 100."""
    monkeypatch.setattr(frequent, "_WINDOW", 20_000)
    stored = StoredCounts(table, lambda words, size: words <= room)
    assert stored.sample_weight == weight
    found = stored.read()
    assert len(found.counts) == pytest.approx(stored.words, rel=0.1)
    assert len(found.counts.data) == pytest.approx(stored.bytes, rel=0.1)
    assert found.counts.occurrences == pytest.approx(12_300, rel=0.1)
    assert len(found.counts) + found.left_out.words == 11_100
    every = StoredCounts(table, lambda words, size: True).read().counts
    assert len(every) == 11_100
    whole = frequent_words(every, 1, weight)
    assert whole.counts.fingerprint() == found.counts.fingerprint()
    assert whole.left_out == found.left_out
    assert np.array_equal(whole.missing, found.missing)
    assert np.array_equal(whole.excess, found.excess)


def test_a_threshold_by_hand(table: Path) -> None:
    stored = StoredCounts(table, lambda words, size: words <= 1000, 2)
    assert (stored.min_count, stored.sample_weight, stored.words) == (2, 3, 766)
    assert set(stored.read().counts.counts.tolist()) == {3}


def test_a_threshold_above_all_weights(table: Path, tmp_path: Path) -> None:
    """Words that occur as often still need memory."""
    pairs = [(b"a", 70_000), (b"bb", 200_000), (b"c", 5)]
    save_counts(WordCounts.from_pairs(pairs), tmp_path / "en.counts", "en")
    stored = StoredCounts(tmp_path / "en.counts", lambda words, size: True, 70_000)
    assert (stored.words, stored.bytes) == (2, 3)
    assert list(stored.read().counts.pairs()) == pairs[:2]
    assert StoredCounts(table, lambda words, size: True, 70_000).words == 0


def test_nothing_fits(table: Path) -> None:
    with pytest.raises(UsageError, match="--memory"):
        StoredCounts(table, lambda words, size: False)
