"""Vocabularies are spelled as the library does; membership as bits is as an array of bool."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.membership import Membership
from modtok_cli.modular.vocabulary import BYTE_ORDER, Vocabulary, gather, spell, unspell

tokens = st.lists(st.binary(min_size=1, max_size=6), unique=True, max_size=20)


def test_spelling_equals_the_library() -> None:
    assert {spell(bytes([byte])) for byte in range(256)} == set(ByteLevel.alphabet())
    splitter = ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("naïve café\n", " \t\r\n\0", "किताब 👍🏽", "▁"):
        assert spell(text.encode()) == splitter.pre_tokenize_str(text)[0][0]


def test_bytes_are_in_the_order_of_their_visible_characters() -> None:
    assert [spell(bytes([byte])) for byte in BYTE_ORDER.tolist()] == sorted(ByteLevel.alphabet())


@given(st.text(max_size=5))
def test_invalid_spellings_are_refused(text: str) -> None:
    alphabet = set(ByteLevel.alphabet())
    assert (unspell(text) is None) == any(character not in alphabet for character in text)


@given(tokens)
def test_vocabulary_roundtrip(entries: list[bytes]) -> None:
    vocabulary = Vocabulary.from_tokens(("<s>",), entries)
    assert len(vocabulary) == len(entries) + 1
    assert vocabulary.tokens() == [b"<s>", *entries]
    assert [vocabulary.find(entry) for entry in entries] == list(range(1, len(entries) + 1))
    assert vocabulary.find(b"no such token") is None
    assert vocabulary.find(b"<s>") is None or b"<s>" in entries
    again = Vocabulary.from_spellings(("<s>",), vocabulary.spellings(), "here")
    assert again.tokens() == vocabulary.tokens()
    for byte in range(256):
        assert vocabulary.byte_ids[byte] == (vocabulary.find(bytes([byte])) or -1)


@given(tokens.filter(bool), st.lists(st.integers(0, 1000), max_size=30))
def test_gather_and_decode_concatenate(entries: list[bytes], picks: list[int]) -> None:
    ids = [pick % len(entries) for pick in picks]
    vocabulary = Vocabulary.from_tokens((), entries)
    joined = b"".join(entries[i] for i in ids)
    data, offsets = gather(vocabulary.data, vocabulary.offsets, np.array(ids, dtype=np.int64))
    assert data.tobytes() == joined
    assert np.diff(offsets).tolist() == [len(entries[i]) for i in ids]
    assert vocabulary.decode_bytes(ids) == joined


@pytest.mark.parametrize("bad", [-1, 3, 2**40])
def test_id_outside_the_vocabulary_is_an_error(bad: int) -> None:
    vocabulary = Vocabulary.from_tokens((), [b"a", b"b", b"c"])
    with pytest.raises(ModtokError, match=f"token id {bad} is outside the vocabulary of 3"):
        vocabulary.decode_bytes([0, bad])


@pytest.mark.parametrize("bad", ["a b", "€", "", "a\ud800"])
def test_invalid_spelling_names_the_token(bad: str) -> None:
    with pytest.raises(ModtokError, match=r"here: field 'model.vocab': token 2 "):
        Vocabulary.from_spellings(("<s>",), ["<s>", "a", bad, "b"], "here")


@given(st.data(), st.integers(0, 30), st.integers(0, 19), st.integers(0, 2**32))
def test_as_an_array_of_bool(data: st.DataObject, rows: int, columns: int, seed: int) -> None:
    dense = np.random.default_rng(seed).random((rows, columns)) < 0.4
    members = Membership.of(dense)
    assert members.shape == dense.shape
    assert len(members) == rows
    assert np.array_equal(np.asarray(members), dense)
    some = data.draw(st.lists(st.integers(0, rows - 1), max_size=5)) if rows else []
    some = np.array(some, dtype=int)
    few = sorted(data.draw(st.sets(st.integers(0, columns - 1), max_size=5))) if columns else []
    few = np.array(few, dtype=int)
    for key in (
        np.s_[:],
        np.s_[: rows // 2],
        some,
        np.s_[:, few],
        np.s_[: rows // 2, few],
        np.s_[:, columns // 2 :],
    ):
        assert np.array_equal(members[key], dense[key])
        assert members[key].dtype == np.bool_
    for column in few:
        assert np.array_equal(members[:, column], dense[:, column])
        assert np.array_equal(members[some, column], dense[some, column])
        assert np.array_equal(members.ids(column), np.flatnonzero(dense[:, column]))
    for row in some:
        assert np.array_equal(members[row], dense[row])
    assert np.array_equal(members.union(few), dense[:, few].any(axis=1))
    assert members.sizes().tolist() == dense.sum(axis=0).tolist()
    assert members.owners().tolist() == dense.sum(axis=1).tolist()
    assert members.owned(some).tolist() == dense[some].sum(axis=0).tolist()
    assert members.select(few).equals(Membership.of(dense[:, few]))
    by_ids = [np.flatnonzero(column) for column in dense.T]
    assert Membership.of_columns(rows, by_ids, columns).equals(members)


def test_packed_is_the_layout_of_the_file() -> None:
    dense = np.zeros((2, 10), dtype=np.bool_)
    dense[0, [0, 9]] = dense[1, 7] = True
    assert Membership.of(dense).packed().tolist() == [[1, 2], [128, 0]]


def test_a_difference_is_found() -> None:
    members = Membership.everywhere(3, 9)
    assert members.equals(Membership.everywhere(3, 9))
    assert not members.equals(Membership.everywhere(3, 10))
    assert not members.equals(Membership.everywhere(4, 9))
    changed = members[:]
    changed[2, 8] = False
    assert not members.equals(Membership.of(changed))
    with pytest.raises(IndexError):
        members[:, 9]
