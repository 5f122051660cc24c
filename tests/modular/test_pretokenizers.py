"""Every kind of tokenizer with every pre-tokenizer: ours gives the ids of the library."""

from __future__ import annotations

from itertools import product
from typing import Any

import orjson
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.made_tokenizers import of_pieces
from helpers.toy_tokenizers import toy
from modtok_cli.modular.formats.hugging_face import LibraryTokenizer
from modtok_cli.modular.open import open_bytes
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.text.pretokenizer import pretokenizers

from .test_fewest_tokens import random_parts, united

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
