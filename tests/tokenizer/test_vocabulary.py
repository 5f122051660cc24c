"""Vocabularies, membership as bits, subsets of T and what is invalid in them."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel

from helpers.toy_tokenizers import LANGUAGES, rebuilt, toy
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.membership import Membership
from modtok_cli.learn.merges import byte_order
from modtok_cli.text.pretokenizer import find_pretokenizer
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.segmenters.fewest_tokens import FewestTokens
from modtok_cli.tokenizer.segmenters.merges import Merges
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.vocabulary import BYTE_ORDER, Vocabulary, gather, spell, unspell

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
    vocabulary = Vocabulary.from_tokens(("<é s>",), entries)
    assert len(vocabulary) == len(entries) + 1
    assert vocabulary.tokens() == ["<é s>".encode(), *entries]
    assert vocabulary.spellings() == ["<é s>", *map(spell, entries)]
    assert [vocabulary.find(entry) for entry in entries] == list(range(1, len(entries) + 1))
    assert vocabulary.find(b"no such token") is None
    assert vocabulary.find("<é s>".encode()) is None
    again = Vocabulary.from_spellings(("<é s>",), vocabulary.spellings(), "here")
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


@pytest.fixture(scope="module")
def tokenizer() -> ModularTokenizer:
    return toy(5)


@pytest.mark.parametrize("languages", [("fr",), ("en", "el"), ("fi", "fr", "el"), LANGUAGES])
def test_subset_is_the_union_in_order_of_t(
    tokenizer: ModularTokenizer, languages: tuple[str, ...]
) -> None:
    subset = tokenizer.subset(languages)
    columns = [LANGUAGES.index(language) for language in languages]
    tokens = [i for i, row in enumerate(tokenizer.token_membership[:, columns]) if row.any()]
    ranks = [i for i, row in enumerate(tokenizer.merge_membership[:, columns]) if row.any()]
    assert subset.global_ids.tolist() == tokens
    assert subset.size == len(tokens)
    local = {index: i for i, index in enumerate(tokens)}
    expected = [local.get(i, -1) for i in range(tokenizer.size)]
    assert subset.local_of_global.tolist() == expected
    assert subset.global_ids.dtype == subset.local_of_global.dtype == np.int32
    assert subset.merge_ranks.tolist() == ranks
    assert subset.merges.tolist() == [
        [local[i] for i in tokenizer.merges[r].tolist()] for r in ranks
    ]
    whole = tokenizer.vocabulary.tokens()
    assert subset.vocabulary.tokens() == [whole[i] for i in tokens]
    assert subset.languages == languages


def test_order_and_spelling_of_codes_do_not_matter(tokenizer: ModularTokenizer) -> None:
    asked = tokenizer.subset(["fr", "en", "fr"])
    assert asked.languages == ("en", "fr")
    assert tokenizer.subset(["fra_Latn", "eng"]).to_json() == asked.to_json()
    assert tokenizer.subset(iter(["en", "fr"])).signature == asked.signature


def test_unknown_language_error_lists_languages(tokenizer: ModularTokenizer) -> None:
    with pytest.raises(UsageError, match=r"no language 'sv'.*it has: en, fi, fr, el"):
        tokenizer.subset(["fr", "sv"])
    with pytest.raises(UsageError, match=r"did you mean 'fr'\?"):
        tokenizer.subset(["frr"])
    with pytest.raises(UsageError, match="languages is empty"):
        tokenizer.subset([])


def test_extracted_file_has_provenance(tokenizer: ModularTokenizer) -> None:
    subset = tokenizer.subset(["el", "fi"])
    document = json.loads(subset.to_json())
    assert document["model"]["modtok"] == {
        "format": 1,
        "languages": ["fi", "el"],
        "parent": tokenizer.signature,
        "pretokenizer": "bpe",
        "segmentation": "merges",
    }
    assert list(document["model"]["vocab"].values()) == list(range(subset.size))
    assert [token["content"] for token in document["added_tokens"]] == ["<s>", "</s>"]
    assert subset.to_json() == toy(5).subset(["fi", "el"]).to_json()


def test_every_violation_is_found_when_a_tokenizer_is_made() -> None:
    good = toy(5)
    base = len(good.vocabulary.specials) + 256
    merges, members = good.merges.copy(), good.token_membership[:]
    of_merges = good.merge_membership[:]
    last = len(merges) - 1

    def swapped(rank: int, place: int, value: int) -> np.ndarray:
        copy = merges.copy()
        copy[rank, place] = value
        return copy

    tall = int(np.flatnonzero((merges[:, :2] >= base).any(axis=1) & (of_merges.sum(axis=1) > 1))[0])
    part = int(merges[tall, :2].max())
    column = int(np.flatnonzero(of_merges[tall])[-1])
    without_part = members.copy()
    without_part[part, column] = False
    without_maker = of_merges.copy()
    without_maker[merges[:, 2] == part, column] = False
    no_byte = members.copy()
    no_byte[base - 1, 0] = False
    nobody = of_merges.copy()
    nobody[0] = False
    upside_down = merges[::-1].copy()
    sizes = good.vocabulary.lengths[merges[:, 2]]
    rank = next(rank for rank in range(last) if sizes[rank] == sizes[rank + 1])
    assert merges[rank, 2] != merges[rank + 1, 2]
    cases: list[tuple[dict[str, object], str]] = [
        ({"languages": ()}, "field 'languages'"),
        ({"languages": ("en", "en", "fr", "el")}, "field 'languages'"),
        ({"languages": ("en", "../x", "fr", "el")}, "'../x' is not a valid language name"),
        ({"merges": swapped(last, 2, base - 1)}, f"merge {last} contains an unknown token id"),
        ({"merges": swapped(3, 0, 10**6)}, "merge 3 contains an unknown token id"),
        ({"merges": swapped(2, 0, 0)}, "merge 2 contains an unknown token id"),
        (
            {"merges": swapped(rank, 2, merges[rank + 1, 2])},
            f"merge {rank} does not give its result",
        ),
        ({"merges": np.vstack([merges[:5], merges[:1], merges[6:]])}, "pair of an earlier merge"),
        ({"merges": upside_down}, "not made before it"),
        ({"merges": merges[:, :2]}, "expected (M, 3)"),
        ({"merges": merges[:0]}, f"none makes token {base}"),
        ({"token_membership": without_part}, "a token of it is not"),
        ({"merge_membership": without_maker}, "no earlier merge for a part"),
        ({"token_membership": no_byte}, f"token {base - 1} is not in every language"),
        ({"merge_membership": nobody}, "row 0 belongs to no language"),
        ({"token_membership": members[:-1]}, "field 'token_membership': shape"),
        ({"token_membership": np.ones_like(members)}, "but no merge that makes it"),
    ]
    for changes, message in cases:
        with pytest.raises(ModtokError) as caught:
            rebuilt(good, **changes)
        assert message in str(caught.value)
        assert str(caught.value).startswith("here: field ")


def test_special_token_with_the_spelling_of_a_byte_is_refused() -> None:
    with pytest.raises(ModtokError, match="two tokens are spelled 'a'"):
        toy(1, specials=("a",))


def test_arrays_are_locked() -> None:
    tokenizer = toy(5)
    vocabulary = tokenizer.vocabulary
    for array in (
        tokenizer.merges,
        tokenizer.token_membership.planes,
        tokenizer.merge_membership.planes,
        vocabulary.data,
        vocabulary.offsets,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[-1] = array[0]


def test_everything_that_decides_ids_changes_the_signature() -> None:
    """Of a subset; each variant differs from the first in one thing."""
    one, two = find_pretokenizer("bpe"), find_pretokenizer("gpt2")
    byte, tokens = [bytes([each]) for each in byte_order()], [b"ab", b"abc", b"bc"]
    specials = ("<|a|>", "<|b|>")

    def at(token: bytes) -> int:
        return byte.index(token) + 2

    rows = [[at(b"a"), at(b"b"), 258], [258, at(b"c"), 259], [at(b"b"), at(b"c"), 260]]
    merges = np.array(rows, dtype=np.int32)
    words = Vocabulary.from_tokens(specials, [*byte, *tokens])
    scores = np.linspace(-9, -1, len(words))
    segmenters = [
        Merges(words, one, merges),
        Merges(words, two, merges),
        Merges(words, one, merges[[0, 2, 1]]),
        Merges(words, one, merges[:2]),
        Merges(Vocabulary.from_tokens(specials[::-1], [*byte, *tokens]), one, merges),
        Merges(replace(words, specials=specials[:1]), one, merges),
        Merges(Vocabulary.from_tokens(specials, [*byte, b"ab", b"abd", b"bc"]), one, merges),
        Merges(Vocabulary.from_tokens(specials, [*byte, b"ab", b"ab", b"cbc"]), one, merges),
        FewestTokens(words, one, scores),
        FewestTokens(words, two, scores),
        FewestTokens(words, one, scores + (np.arange(len(scores)) == 260)),
    ]
    signatures = [Subtokenizer(segmenter).signature for segmenter in segmenters]
    assert len({*signatures}) == len(segmenters)
    assert signatures == [Subtokenizer(each, name="x", languages=["fi"]).signature
                          for each in segmenters]  # fmt: skip


def test_everything_that_decides_a_subset_changes_the_signature_of_t(
    tokenizer: ModularTokenizer,
) -> None:
    members = tokenizer.token_membership
    masks = [members[:, column] for column in range(len(LANGUAGES))]
    masks[0] = masks[0] | (np.arange(tokenizer.size) == tokenizer.size - 1)
    masks[1] = masks[1] | (np.arange(tokenizer.size) == tokenizer.size - 1)
    more = Membership.of_columns(tokenizer.size, masks, len(masks))
    ranks = tokenizer.merge_membership
    all_merges = Membership.of_columns(
        len(ranks), [np.ones(len(ranks), dtype=np.bool_)] * len(masks), len(masks)
    )
    found = {tokenizer.signature}
    for name, value in {
        "languages": tuple(reversed(LANGUAGES)),
        "token_membership": more,
        "merge_membership": all_merges,
        "merges": tokenizer.merges[::-1],
        "pretokenizer": find_pretokenizer("gpt2"),
    }.items():
        changed, segmenter = copy(tokenizer), copy(tokenizer.segmenter)
        vars(changed).pop("signature", None)
        vars(changed)["segmenter"] = segmenter
        vars(changed if name in vars(changed) else segmenter)[name] = value
        found.add(changed.signature)
    assert len(found) == 6
