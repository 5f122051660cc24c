"""Unigram and fewest tokens: encoders agree, languages come and go, libraries run the files."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import orjson
import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.made_tokenizers import of_pieces, unigram
from helpers.plain_ids import plain_ids
from helpers.toy_tokenizers import ALPHABET, toy
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.core.segment import trie_of
from modtok_cli.learn.fewest_tokens import EACH, likelihoods
from modtok_cli.learn.pieces import UNKNOWN
from modtok_cli.learn.prune import LanguageTokens
from modtok_cli.learn.unite import unite
from modtok_cli.tokenizer.comparison import diff
from modtok_cli.tokenizer.encoding import encoder as encoder_module
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_bytes
from modtok_cli.tokenizer.subset_check import check_single, check_subsets
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

SPECIALS = ("<|x|>", "<|y|>")
FIRST = len(SPECIALS) + 256
NAMES = ("en", "fi", "fr", "sv")


def chosen(tokens: list[bytes], seed: int) -> LanguageTokens:
    """What a language contributes, with token_counts between nothing and very much."""
    rng = random.Random(seed)
    token_counts = [rng.choice([0, 1, 2, 50, 51, 10**6, 2**50]) for _ in range(FIRST + len(tokens))]
    token_counts[: len(SPECIALS)] = [0] * len(SPECIALS)
    ordered = tuple(sorted(tokens, key=lambda token: (len(token), token)))
    return LanguageTokens(ordered, np.array(token_counts, dtype=np.int64))


def united(
    parts: dict[str, LanguageTokens], base: ModularTokenizer | None = None
) -> ModularTokenizer:
    start = None if base is None else (base.learned(), base.token_counts)
    learned, token_counts = unite(parts, SPECIALS, start)
    return ModularTokenizer.from_learned(
        learned, algorithm="bpe-merge", k=300, token_counts=token_counts
    )


def random_parts(seed: int, size: int = 40) -> dict[str, LanguageTokens]:
    rng = random.Random(seed)
    pool = [bytes(rng.choice(ALPHABET) for _ in range(rng.randint(2, 5))) for _ in range(3 * size)]
    pool = sorted(set(pool))
    return {name: chosen(rng.sample(pool, size), i) for i, name in enumerate(NAMES)}


short = st.text(" abé1😀", max_size=6)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(short.map(str.encode).filter(lambda t: len(t) > 1), unique=True, max_size=12),
        min_size=2,
        max_size=3,
    ),
    st.lists(short, max_size=5),
    st.integers(0, 99),
)
def test_three_encoders_agree_on_every_subset(
    tokens: list[list[bytes]], texts: list[str], seed: int
) -> None:
    parts = {name: chosen(own, seed) for name, own in zip(NAMES, tokens, strict=False)}
    tokenizer = united(parts)
    for size in range(1, len(parts) + 1):
        for names in combinations(parts, size):
            subset = tokenizer.subset(names)
            library = tokenizers.Tokenizer.from_buffer(subset.to_json())
            assert plain_ids(subset, texts) == [ids.tolist() for ids in subset.encode_batch(texts)]
            for text in texts:
                ours = subset.encode(text).tolist()
                assert ours == library.encode(text, add_special_tokens=False).ids
                assert subset.decode(ours) == library.decode(ours) == text


def test_token_counts_of_a_set_are_sums() -> None:
    parts = random_parts(5)
    subset = united(parts).subset(["fi", "fr"])
    assert subset.scores is not None
    total = dict.fromkeys(range(subset.size), 0)
    for name in ("fi", "fr"):
        places = map(subset.vocabulary.find, parts[name].tokens)
        for place, count in zip([*range(FIRST), *places], parts[name].token_counts, strict=True):
            total[place] += int(count)
    expected = likelihoods(np.array([*total.values()])) - EACH
    assert subset.scores[len(SPECIALS) :].tolist() == expected[len(SPECIALS) :].tolist()


def test_the_scores_say_what_it_is() -> None:
    """The library drops what it does not know."""
    subset = united(random_parts(3)).subset(["fi", "en"])
    saved = tokenizers.Tokenizer.from_buffer(subset.to_json()).to_str().encode()
    assert b"modtok" not in saved
    anew = open_bytes(saved, "x", "x")
    assert isinstance(anew, Subtokenizer)
    assert anew.signature == subset.signature


def test_merges_are_kept_for_appending(tmp_path: Path) -> None:
    by_merges = toy(4)
    token_counts = [np.arange(n) for n in by_merges.token_membership.sizes()]
    tokenizer = ModularTokenizer.from_learned(
        by_merges.learned(), algorithm="bpe-seq", k=300, token_counts=token_counts
    )
    tokenizer.save(tmp_path / "tok")
    loaded = ModularTokenizer.load(tmp_path / "tok")
    assert (loaded.learned().merges == by_merges.merges).all()
    assert loaded.merge_membership.equals(by_merges.merge_membership)
    assert len(loaded.subset(["fi"]).merges) == 0
    found = diff(by_merges, loaded)
    assert found.segmentations == ("merges", "fewest-tokens")
    assert found.lines() == ["segmentation: merges → fewest-tokens"]


def test_other_token_counts_are_a_difference() -> None:
    """They decide ties, and the signatures differ: "no difference" would not be true."""
    parts = random_parts(3)
    one = united(parts)
    name = next(iter(parts))
    token_counts = parts[name].token_counts.copy()
    token_counts[-2:] += 1
    other = united({**parts, name: LanguageTokens(parts[name].tokens, token_counts)})
    assert one.signature != other.signature
    assert diff(one, one).empty
    assert diff(one, other).rescored == 2


def test_unused_tokens_are_no_error() -> None:
    parts = {"en": LanguageTokens((b"ab", b"abc"), np.array([0] * 2 + [1] * 256 + [0, 5]))}
    tokenizer = united(parts)
    report = check_subsets(tokenizer)
    assert report.sound
    assert [subset.unused for subset in report.subsets] == [(FIRST,)]
    assert check_single(tokenizer.full()).unreachable == ()
    assert tokenizer.full().encode("ab").tolist() == [FIRST]


def test_other_scores_use_the_library() -> None:
    document = orjson.loads(united(random_parts(1)).full().to_json())
    document["model"]["vocab"][300][1] += 0.5
    assert isinstance(open_bytes(orjson.dumps(document), "x", "x"), LibraryTokenizer)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m["vocab"].__setitem__(400 % len(m["vocab"]), 7), "model.vocab"),
        (lambda m: m["vocab"].__delitem__(FIRST - 1), "byte 0x"),
        (lambda m: m["vocab"].append(m["vocab"][-1]), "twice"),
        (lambda m: m.update(vocab={}), "model.vocab"),
    ],
)
def test_damaged_files_name_the_field(change: object, said: str) -> None:
    document = orjson.loads(united(random_parts(1)).full().to_json())
    change(document["model"])  # type: ignore[operator]
    with pytest.raises(ModtokError, match=said):
        open_bytes(orjson.dumps(document), "x", "x.json")


def whole() -> ModularTokenizer:
    tokens = ["é", "ét", " é", "été", " the", "the", "κ", "κκ", "😀", " 😀"]
    return united({"fr": chosen([token.encode() for token in tokens], 1)})


def test_sentencepiece_finds_the_same_tokens() -> None:
    subset = whole().full()
    processor = sentencepiece.SentencePieceProcessor(model_proto=subset.to_model())
    for text in ("été the étthe", "κκκ 😀😀 ñandú", "a\tb\nthe", "x" * 100, "▁the", "été été"):
        assert processor.encode(text) == subset.encode(text).tolist()
        assert processor.decode(subset.encode(text).tolist()) == text


def test_sentencepiece_refuses_parts_of_characters() -> None:
    with pytest.raises(UsageError, match="cuts a character"):
        united({"fr": chosen([b"\xc3\xa9t\xc3"], 1)}).full().to_model()
    with pytest.raises(UsageError, match="holds a character that no piece can be"):
        united({"fr": chosen(["ét".encode()], 1)}).full().to_model()


@pytest.mark.parametrize(
    ("pieces", "said"),
    [([b"", b"a"], "piece 0 is empty"), ([b"ab", b"c", b"ab"], "the piece b'ab' occurs twice")],
)
def test_pieces_that_make_no_trie(pieces: list[bytes], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        trie_of(pieces)


def test_new_subset_builds_nothing() -> None:
    tokenizer = united(random_parts(2))
    tokenizer.subset(["fi"]).encode("a")
    one, other = tokenizer.subset(["fi"]), tokenizer.subset(["en"])
    units = [each.encoder._segmenter.fields.units for each in (one, other)]
    assert units[0] == units[1]


def test_a_trie_of_the_subset_gives_the_same_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random texts have the same ids in the trie of all tokens and in that of the subset."""
    tokenizer, rng = united(random_parts(2)), random.Random(5)
    texts = ["".join(rng.choices(" ab1é😀\n", k=40)).encode() for _ in range(50)]
    for names in (["fi"], ["en", "sv"]):
        expected = [ids.tolist() for ids in tokenizer.subset(names).encode_utf8(texts)]
        encoder = tokenizer.subset(names).encoder
        assert encoder._alone is not None
        with monkeypatch.context() as patch:
            patch.setattr(encoder_module, "OWN_TRIE", 0)
            encoder.texts([b"a"])
        assert encoder._alone is None
        assert [ids.tolist() for ids in encoder.texts(texts)] == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda last: [], "not there for every language"),
        (lambda last: [last[:-1]], "'sv' has 297 numbers for 298 tokens"),
        (lambda last: [-1 - last], "'sv' has a negative number"),
        (lambda last: [last + 2**61 * 2], "too large"),
    ],
)
def test_invalid_tables_are_refused(change: Callable, said: str) -> None:
    learned, (*token_counts, last) = unite(random_parts(2), SPECIALS)
    counts = (*token_counts, *change(last))
    with pytest.raises(ModtokError, match=said):
        ModularTokenizer.from_learned(learned, algorithm="x", k=300, token_counts=counts)


UNIGRAM_SPECIALS = (UNKNOWN, "<|endoftext|>")
LETTERS = "ab é1▁\n\t👍x"
SUBSETS = ["pqr", "p", "q", "r", "pq", "pr", "qr"]

pieces = st.dictionaries(
    st.text("ab é👍x", min_size=1, max_size=4).filter(
        lambda text: " " not in text[1:] or not text.strip()
    ),
    st.tuples(st.integers(-64, -1).map(lambda n: n / 4), st.sampled_from(SUBSETS)),
    min_size=1,
    max_size=15,
).map(lambda found: {**found, " ": (-2.0, "pqr")})
UNIGRAM_TEXTS = st.lists(st.text(LETTERS, max_size=12) | st.text(max_size=8), max_size=8)


@settings(max_examples=examples(50), deadline=None)
@given(pieces, st.sampled_from(SUBSETS), UNIGRAM_TEXTS)
def test_three_encoders_agree_and_are_lossless(
    found: dict[str, tuple[float, str]], subset: str, samples: list[str]
) -> None:
    ours = of_pieces(found, "pqr", UNIGRAM_SPECIALS).subset(list(subset))
    assert plain_ids(ours, samples) == [ids.tolist() for ids in ours.encode_batch(samples)]
    library = tokenizers.Tokenizer.from_buffer(ours.to_json())
    library.encode_special_tokens = True
    processor = sentencepiece.SentencePieceProcessor(model_proto=ours.to_model())
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
    data = unigram().full().to_model()
    for damaged in (data[:-200], data[:40], b"\xff" * 40):
        with pytest.raises(ModtokError, match=r"SentencePiece model|unknown kind of tokenizer"):
            open_bytes(damaged, "x.model", "x.model")
    with pytest.raises(UsageError, match="merges"):
        toy().full().to_model()
