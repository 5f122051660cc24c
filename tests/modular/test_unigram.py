"""Unigram as artefact: three encoders agree on every subset, nothing is lost, files round-trip."""

from __future__ import annotations

import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.made_tokenizers import of_pieces
from helpers.plain_ids import plain_ids
from helpers.toy_tokenizers import toy
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.learn.pieces import UNKNOWN
from modtok_cli.modular.open import open_bytes
from modtok_cli.modular.subtokenizer import Subtokenizer

SPECIALS = (UNKNOWN, "<|endoftext|>")
ALPHABET = "ab é1▁\n\t👍x"


TOKENIZER = of_pieces(
    {
        " ": (-2.0, "pqr"),
        "a": (-2.5, "p"),
        " a": (-3.0, "pq"),
        "ab": (-3.5, "p"),
        "b": (-3.0, "q"),
        "ba": (-4.5, "qr"),
        "  ": (-3.5, "r"),
        "é": (-6.0, "r"),
        "aé": (-5.0, "p"),
        "1": (-3.0, "pr"),
        " ab": (-5.5, "q"),
        "👍x": (-7.0, "p"),
    },
    "pqr",
    SPECIALS,
)
SUBSETS = ["pqr", "p", "q", "r", "pq", "pr", "qr"]

pieces = st.dictionaries(
    st.text("ab é👍x", min_size=1, max_size=4).filter(
        lambda text: " " not in text[1:] or not text.strip()
    ),
    st.tuples(st.integers(-64, -1).map(lambda n: n / 4), st.sampled_from(SUBSETS)),
    min_size=1,
    max_size=15,
).map(lambda found: {**found, " ": (-2.0, "pqr")})
# The library takes the name of a special token in a text for that token; hypothesis tries strings
# of the source such as "<unk>".
text = (st.text(ALPHABET, max_size=12) | st.text(max_size=8)).filter(
    lambda text: not any(name in text for name in SPECIALS)
)
texts = st.lists(text, max_size=8)


def libraries(tokenizer: Subtokenizer) -> tuple[tokenizers.Tokenizer, object]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.to_model())
    return tokenizers.Tokenizer.from_buffer(tokenizer.to_json()), processor


@settings(max_examples=examples(50), deadline=None)
@given(pieces, st.sampled_from(SUBSETS), texts)
def test_three_encoders_agree_and_are_lossless(
    found: dict[str, tuple[float, str]], subset: str, samples: list[str]
) -> None:
    ours = of_pieces(found, "pqr", SPECIALS).subset(list(subset))
    assert plain_ids(ours, samples) == [ids.tolist() for ids in ours.encode_batch(samples)]
    library, processor = libraries(ours)
    for text, ids in zip(samples, ours.encode_batch(samples), strict=True):
        assert ours.decode(ids) == text
        assert ours.encode(text).tolist() == ids.tolist()
        assert library.encode(text).ids == ids.tolist()
        assert library.decode(ids.tolist(), skip_special_tokens=False) == text
        assert processor.encode(text) == ids.tolist()
        # SentencePiece decodes NUL and all else; an empty text is an empty list there.
        assert processor.decode(ids.tolist()) == text or text == ""


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({}, "no pieces"),
        ({"a": (-1.0, "pq")}, "'r' has no pieces"),
        ({"a": (-1.0, "")}, "belongs to no language"),
        ({"a b": (-1.0, "pqr")}, "crosses a word boundary"),
        ({"a1": (-1.0, "pqr")}, "crosses a word boundary"),
        ({"a\n": (-1.0, "pqr")}, "crosses a word boundary"),
        ({"a": (float("nan"), "pqr")}, "scores"),
    ],
)
def test_invalid_unigram_vocabularies(found: dict[str, tuple[float, str]], message: str) -> None:
    with pytest.raises(ModtokError, match=message):
        of_pieces(found, "pqr")


def test_damaged_model_and_merges() -> None:
    data = TOKENIZER.full().to_model()
    for damaged in (data[:-200], data[:40], b"\xff" * 40):
        with pytest.raises(ModtokError, match=r"SentencePiece model|unknown kind of tokenizer"):
            open_bytes(damaged, "x.model", "x.model")
    with pytest.raises(UsageError, match="merges"):
        toy().full().to_model()
