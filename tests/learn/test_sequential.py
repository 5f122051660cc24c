"""The compiled loop against Algorithm 2 written out slowly."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from helpers.examples import examples
from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.learn import merges as state
from modtok_cli.learn.sequential import SequentialLearner, learn_plain
from modtok_cli.reference import sequential_bpe
from modtok_cli.reference.sequential_bpe import SequentialBpe
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.readers import read_documents
from modtok_cli.tokenizer.vocabulary import spell

# Few letters make many overlaps, runs and equal counts: where mistakes would be.
letters = st.text(alphabet="aaab c", min_size=1, max_size=9).map(str.encode)
some_bytes = st.binary(min_size=1, max_size=6)
# Parts of characters of scripts with and without spaces.
unspaced_words = st.lists(
    st.sampled_from([b"a", b" ", *(part.encode() for part in "のท日कᄀខ"), b"\xe0", b"\xb8\x81"]),
    min_size=1,
    max_size=8,
).map(b"".join)
corpora_of = [
    st.lists(
        st.dictionaries(words, st.integers(1, 12), min_size=1, max_size=9), min_size=1, max_size=4
    )
    for words in (letters | some_bytes, unspaced_words)
]


def table(words: dict[bytes, int]) -> WordCounts:
    return WordCounts.from_pairs(words.items())


def compare(corpora: list[dict[bytes, int]], extra: int, passes: int, max_unspaced: int) -> None:
    k = 258 + extra
    settings = {"passes": passes, "max_unspaced": max_unspaced}
    learner = SequentialLearner(k, ("<a>", "<b>"), **settings)  # type: ignore[arg-type]
    slow = SequentialBpe(k, specials=2, **settings)  # type: ignore[arg-type]
    for number, words in enumerate(corpora):
        learner.add(f"l{number}", table(words))
        slow.add(f"l{number}", words)
    result = learner.result()
    tokens = [result.token(i) for i in range(2, result.size)]
    assert tokens == slow.tokens
    merges = [(result.token(a), result.token(b)) for a, b, _ in result.merges]
    assert merges == slow.merges
    for merge, (_, _, joined) in zip(merges, result.merges, strict=True):
        assert result.token(joined) == merge[0] + merge[1]
    for column, language in enumerate(result.languages):
        mine = {tokens[i - 2] for i in np.flatnonzero(result.token_membership[:, column]) if i > 1}
        assert mine == slow.vocabularies[language]
        kept = [merges[m] for m in np.flatnonzero(result.merge_membership[:, column])]
        assert set(kept) == slow.merge_sets[language]
        # Properness: in T's order, every part is a byte or the result of an earlier merge.
        made: set[bytes] = set()
        for left, right in kept:
            assert all(len(part) == 1 or part in made for part in (left, right))
            made.add(left + right)
        assert made == {token for token in mine if len(token) > 1}


def test_real_text_with_any_least_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """More words: the table grows and drops rows, and lists are moved."""
    counts = count_corpus([SAMPLE / "data" / "fi.jsonl"])
    expected = learn_plain(counts, 900).merges.merges
    used = int(state.least_count(counts.counts, 900))
    for floor in {1, 5, 300} - {used}:
        monkeypatch.setattr(state, "least_count", lambda counts, k, floor=floor: np.int64(floor))
        assert np.array_equal(learn_plain(counts, 900).merges.merges, expected)


@settings(deadline=None, max_examples=examples(180))
@given(
    st.one_of(corpora_of),
    st.integers(0, 20),
    st.integers(1, 3),
    st.sampled_from([0, 1, 2, 3, 4, 16]),
    st.sampled_from([None, 1, 2, 9, 10**6]),
)
def test_equals_the_paper(
    corpora: list[dict[bytes, int]], extra: int, passes: int, most: int, floor: int | None
) -> None:
    """Also where the least count of a pair that has a row is guessed too high."""
    with pytest.MonkeyPatch.context() as patch:
        if floor is not None:
            patch.setattr(state, "least_count", lambda counts, k: np.int64(floor))
        compare(corpora, extra, passes, most)


def test_a_language_equals_the_library() -> None:
    """No tie makes a difference: both take the smaller ids."""
    path, specials = SAMPLE / "data" / "fr.jsonl", ("<|endoftext|>", "<|pad|>")
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(BPE.pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        special_tokens=list(specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(
        (document.text.decode() for document in read_documents(path)), trainer
    )
    theirs = [tuple(merge) for merge in orjson.loads(library.to_str())["model"]["merges"]]
    ours = learn_plain(count_corpus([path]), 1500, specials).merges
    names = list(map(spell, ours.strings()))
    assert [(names[a], names[b]) for a, b, _ in ours.merges] == theirs


def test_long_run_of_one_character() -> None:
    """A word of 100,000 equal letters: the run is walked once per merge, not once per place."""
    tokens = learn_plain(table({b"a" * 100_000: 1}), 256 + 8).merges.strings()
    assert list(map(len, tokens[256:])) == [2**i for i in range(1, 9)]


def test_counts_beyond_32_bits() -> None:
    """Pair counts are 64-bit: here (a, b) has 2**33 and (c, d) wins over it by one."""
    words = {b"ab": 2**33, b"cd": 2**33 + 1}
    assert learn_plain(table(words), 257).merges.strings()[256] == b"cd"


def test_wrong_settings() -> None:
    for arguments, said in (
        ({"k": 200}, "-k"),
        ({"k": 300, "passes": 0}, "--passes"),
        ({"k": 300, "specials": ("a", "a")}, "--special"),
        ({"k": 300, "specials": ("<s>",), "start": SequentialLearner(300).result()}, "other spec"),
    ):
        with pytest.raises(UsageError, match=said):
            SequentialLearner(**arguments)  # type: ignore[arg-type]


def test_the_reference_shows_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    sequential_bpe.main()
    lines = capsys.readouterr().out.splitlines()
    assert "  merge 't' + 'he' (5 times)" in lines
    assert "  adopt 'he', 'the', 'othe', 'other' (1 times)" in lines
    assert lines[-1] == "mother in de: 'm' 'other'"
