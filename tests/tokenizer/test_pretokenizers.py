"""Every kind of tokenizer with every pre-tokenizer, and superwords: the ids of the library."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import orjson
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from helpers.examples import examples
from helpers.made_tokenizers import of_pieces
from helpers.toy_tokenizers import toy
from modtok_cli.core.binding import PADDING
from modtok_cli.core.text import split
from modtok_cli.learn.fewest_tokens import file_scores
from modtok_cli.learn.merges import byte_order
from modtok_cli.reference import splitting, superwords
from modtok_cli.reference.encoding import search
from modtok_cli.text.counts import split_words
from modtok_cli.text.pretokenizer import BPE, PHRASES, pretokenizers
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.open import open_bytes
from modtok_cli.tokenizer.segmenters.chunks import has_several_words, may_span_words, splitter_of
from modtok_cli.tokenizer.segmenters.fewest_tokens import FewestTokens
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.vocabulary import Vocabulary

from .test_scored import random_parts, united

# Words of `unigram` begin with all their spaces, and its digits are apart: tokens across them.
ACROSS = ["a", " ", "  ", "a ", " a", "  a", "1", "11", "1a", "a1", " 1", "!", "!a", "\u0301"]


def merges_json() -> bytes:
    tokenizer = toy(merges_each=60)
    document = orjson.loads(tokenizer.full().to_json())
    # Merges that join what one of the pre-tokenizers keeps apart.
    vocabulary, merges = document["model"]["vocab"], document["model"]["merges"]
    for left, right in (("1", "1"), ("Ġ", "Ġ"), ("ĠĠ", "a"), ("a", "1"), ("!", "a"), ("Ġ", "a")):
        if left in vocabulary and right in vocabulary and left + right not in vocabulary:
            vocabulary[left + right] = len(vocabulary)
            merges.append([left, right])
    return orjson.dumps(document)


FILES = {
    "merges": merges_json(),
    "fewest tokens": united(random_parts(1)).full().to_json(),
    "unigram": of_pieces(
        dict.fromkeys(["a", " ", "  ", " a", "  a", "b", "1", "!"], (-2.0, "en")), ["en"]
    )
    .full()
    .to_json(),
}


def opened(kind: str, name: str) -> tuple[Any, Any]:
    """Our tokenizer of a file of that kind with that pre-tokenizer, and the library's."""
    document = orjson.loads(FILES[kind])
    byte_level = kind != "unigram"
    document["pre_tokenizer"] = pretokenizers()[name].to_json(byte_level=byte_level)
    data = orjson.dumps(document)
    library = tokenizers.Tokenizer.from_buffer(data)
    library.encode_special_tokens = True
    return open_bytes(data, "x", "x"), library


COMBINATIONS = {pair: opened(*pair) for pair in product(FILES, pretokenizers())}


def test_ours_opens_what_it_can_split() -> None:
    for (kind, name), (ours, _) in COMBINATIONS.items():
        # Pieces may not reach across words, which only `unigram` promises.
        expected = LibraryTokenizer if kind == "unigram" != name else Subtokenizer
        assert type(ours) is expected, (kind, name)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(ACROSS) | st.text(max_size=4), max_size=20).map("".join))
@example("a  b 11 2\u0301 !a  ")
def test_ids_are_those_of_the_library(text: str) -> None:
    for pair, (ours, library) in COMBINATIONS.items():
        expected = library.encode(text, add_special_tokens=False).ids
        assert ours.encode(text).tolist() == expected, pair
        assert [ids.tolist() for ids in ours.encode_batch([text, "", text])] == [
            expected,
            [],
            expected,
        ], pair


# Letters, a mark, symbols, numbers, white space of one to three bytes, letters of two and three.
LETTERS = "ab\u0301,!' \n\t1٣é漢\u2003"
PHRASED = st.text(LETTERS, max_size=40)
# Of any bytes of a text: tokens may begin and end within a character.
TOKEN = st.builds(
    lambda text, start, size: text.encode()[start:][:size],
    st.text(LETTERS, min_size=2, max_size=7),
    st.integers(0, 2),
    st.integers(2, 12),
).filter(lambda token: len(token) > 1)


def segmenter(tokens: list[bytes], seed: int = 0) -> FewestTokens:
    """Bytes and some tokens, with likelihoods of all kinds."""
    single = [bytes([byte]) for byte in byte_order()]
    more = sorted(set(tokens))
    vocabulary = Vocabulary.from_tokens(("<|end|>",), [*single, *more])
    likelihood = np.random.default_rng(seed).integers(0, 4, len(vocabulary))
    return FewestTokens(vocabulary, PHRASES, file_scores(likelihood, 1))


def by_phrase(rules: FewestTokens, text: bytes) -> list[int]:
    """The definition: a search over each phrase, in plain Python."""
    first = len(rules.vocabulary.specials)
    scores = rules.scores - rules.scores[first:].min()
    tokens = rules.vocabulary.tokens()
    pieces = {tokens[i]: (i, scores[i]) for i in range(first, len(tokens))}
    phrases = splitting.split(PHRASES.pattern, text)
    return [token for phrase in phrases for token in search(phrase, pieces, each=1)]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(TOKEN, max_size=30), PHRASED, st.integers(0, 3))
@example([b" of the", b" of", b" the", b"ese"], "one of these, of the 3 of  the of the", 0)
def test_ids_are_those_of_the_definition_and_of_the_library(
    tokens: list[bytes], text: str, seed: int
) -> None:
    rules = segmenter(tokens, seed)
    expected = by_phrase(rules, text.encode())
    assert rules.encoder.text(text.encode()).tolist() == expected
    library = Tokenizer.from_str(rules.to_json({}).decode())
    assert library.encode(text, add_special_tokens=False).ids == expected


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(TOKEN, max_size=12), PHRASED)
@example([b" of the", "é ".encode()], "one of the é  two 3 of the")
def test_chunks_end_where_no_token_matches_across(tokens: list[bytes], text: str) -> None:
    data = np.frombuffer(text.encode() + bytes(PADDING), dtype=np.uint8)
    ends = set(split(data, splitter_of(tokens)).tolist())
    at = 0
    for phrase in split_words(text.encode(), PHRASES):
        expected = {0}
        for chunk in superwords.chunks(split_words(phrase, BPE), tokens):
            expected.add(max(expected) + len(chunk))
        # Never within one of these; the filter may leave several of them together.
        assert {end - at for end in ends if at < end <= at + len(phrase)} <= expected
        at += len(phrase)
        assert at in ends


@settings(max_examples=examples(100), deadline=None)
@given(TOKEN, PHRASED, PHRASED)
@example("\u0301a".encode(), "!", "")
@example("\u0301a".encode()[1:], "!", "")
def test_only_tokens_that_may_span_words_have_the_end_of_a_word_inside(
    token: bytes, before: str, after: str
) -> None:
    text = before.encode() + token + after.encode()
    begin = len(before.encode())
    at = 0
    for phrase in split_words(text, PHRASES):
        for number, word in enumerate(split_words(phrase, BPE)):
            if number and begin < at < begin + len(token):
                assert may_span_words(token)
            at += len(word)


@settings(max_examples=examples(100), deadline=None)
@given(st.text(LETTERS, min_size=1, max_size=8))
@example("  a")
def test_a_token_has_several_words_if_it_is_split(text: str) -> None:
    token = text.encode()
    assert has_several_words(token) == (len(split_words(token, BPE)) > 1)
