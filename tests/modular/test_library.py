"""The extracted file in the `tokenizers` library gives what our encoder gives."""

from __future__ import annotations

import random
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from helpers.sample import SHARED, needs_shared
from helpers.toy_tokenizers import ALPHABET, LANGUAGES, NASTY, slow_encode, toy
from modtok_cli.learn.sequential import SequentialLearner
from modtok_cli.modular.inspect import check_subsets
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.counts import count_documents


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


@pytest.mark.parametrize("languages", list(PAIRS), ids=",".join)
def test_nasty_texts(languages: tuple[str, ...]) -> None:
    agree(*PAIRS[languages], NASTY)


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


@pytest.fixture(scope="module")
def real() -> tuple[ModularTokenizer, dict[str, list[str]]]:
    """Five languages of three scripts on a few hundred lines each; other lines to encode."""
    folder = SHARED / "data" / "ntrex"
    lines: dict[str, list[str]] = {}
    learner = SequentialLearner(1500, ("<|endoftext|>",))
    for language in ("el", "en", "fi", "ne", "te"):
        with open(folder / f"{language}.txt", encoding="utf-8", newline="\n") as handle:
            lines[language] = [line.rstrip("\n") for line in islice(handle, 600)]
        learned_from = [line.encode() for line in lines[language][:500]]
        learner.add(language, count_documents([learned_from]))
    learned = learner.result()
    return ModularTokenizer.from_learned(learned, algorithm="bpe-seq", k=1500), lines


@needs_shared
def test_real_text_on_singles_and_random_subsets(
    real: tuple[ModularTokenizer, dict[str, list[str]]],
) -> None:
    tokenizer, lines = real
    rng = random.Random(3)
    sets = [{language} for language in tokenizer.languages]
    sets += [set(rng.sample(tokenizer.languages, rng.randint(2, 5))) for _ in range(12)]
    for languages in sets:
        subset = tokenizer.subset(languages)
        texts = [line for language in lines for line in lines[language][480:520]]
        agree(subset, library(subset), texts)
        text = " ".join(lines[min(languages)][500:503])
        assert subset.encode(text).tolist() == slow_encode(subset, text)


@needs_shared
def test_learned_tokenizer_is_sound(real: tuple[ModularTokenizer, dict[str, list[str]]]) -> None:
    report = check_subsets(real[0], samples=30)
    assert report.sound
    assert {len(subset.languages) for subset in report.subsets} == {1, 2, 3, 4, 5}


@needs_shared
def test_token_lengths_are_those_of_the_text(
    real: tuple[ModularTokenizer, dict[str, list[str]]],
) -> None:
    tokenizer, lines = real
    for language, some in lines.items():
        counts = count_documents([[line.encode() for line in some]])
        subset = tokenizer.subset([language])
        total = sum(len(ids) for ids in subset.encode_batch(some))
        assert int(subset.token_lengths(counts) @ counts.counts) == total
        ids = np.concatenate(subset.encode_batch(some))
        occurrences = np.bincount(ids, minlength=subset.size)
        assert (subset.token_occurrences(counts) == occurrences).all()
