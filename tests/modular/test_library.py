"""The extracted file in the `tokenizers` library gives what our encoder gives."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from helpers.toy_tokenizers import ALPHABET, LANGUAGES, toy
from modtok_cli.modular.subtokenizer import Subtokenizer


def library(subset: Subtokenizer) -> Tokenizer:
    loaded = Tokenizer.from_buffer(subset.to_json())
    # As in ours, a special token written in a text is text.
    loaded.encode_special_tokens = True
    return loaded


def agree(subset: Subtokenizer, theirs: Tokenizer, texts: list[str]) -> None:
    ours = subset.encode_batch(texts)
    for text, ids, encoding in zip(
        texts, ours, theirs.encode_batch(texts, add_special_tokens=False), strict=True
    ):
        assert ids.tolist() == encoding.ids, text
        assert theirs.decode(encoding.ids, skip_special_tokens=False) == text


TOY = toy(11, merges_each=80)
PAIRS = {
    languages: (TOY.subset(languages), library(TOY.subset(languages)))
    for languages in [
        *((language,) for language in LANGUAGES),
        ("en", "fr"),
        ("fi", "fr", "el"),
        LANGUAGES,
    ]
}


@given(
    st.sampled_from(list(PAIRS)),
    st.text(
        st.one_of(
            st.sampled_from(sorted(set(ALPHABET.decode()))),
            st.characters(exclude_categories=["Cs"]),
        ),
        max_size=80,
    ),
)
@settings(deadline=None, max_examples=300)
def test_any_text(languages: tuple[str, ...], text: str) -> None:
    agree(*PAIRS[languages], [text])


def test_library_keeps_ids_and_special_tokens() -> None:
    subset, theirs = PAIRS[("en", "fr")]
    assert theirs.get_vocab_size() == subset.size
    assert theirs.token_to_id("<s>") == 0
    theirs = Tokenizer.from_buffer(subset.to_json())
    assert theirs.encode("a<s>b").ids == subset.encode("a<s>b", specials=True).tolist()
