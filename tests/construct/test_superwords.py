"""`bpe_merge` with superwords: what is learned, subsets, append, remove, errors."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from helpers.sample import SAMPLE, sample_text
from modtok_cli.base.errors import UsageError
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.measure.nsl import nsl
from modtok_cli.text.counts import split_words
from modtok_cli.text.pretokenizer import PHRASES
from modtok_cli.text.readers import read_documents
from modtok_cli.tokenizer.inspect import describe
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.subset_check import check_subsets

LANGUAGES = ["en", "fi", "fr"]
PARALLEL = SAMPLE / "parallel"
K, MOST = 600, 60


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_text(tmp_path_factory.mktemp("text"), *LANGUAGES)


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("made") / "tok"
    rows = bpe_merge(LANGUAGES, data=data, output=output, k=K, superwords=MOST).rows()
    assert all(0 < row["superwords"] <= MOST and row["tokens"] == K for row in rows)
    return output


def lines(language: str) -> list[bytes]:
    return (PARALLEL / f"{language}.txt").read_bytes().splitlines()


def test_tokens_of_several_words_are_learned_and_shorten_text(made: Path, data: Path) -> None:
    tokenizer = ModularTokenizer.load(made)
    assert tokenizer.pretokenizer is PHRASES
    for row in describe(tokenizer):
        assert 0 < row["superwords"] <= MOST
    for index in np.flatnonzero(tokenizer.superwords).tolist():
        assert len(split_words(tokenizer.vocabulary.token_bytes(index))) > 1
    plain = made.parent / "plain"
    bpe_merge(LANGUAGES, data=data, output=plain, k=K)
    for language in LANGUAGES:
        texts = [bytes(one.text) for one in read_documents(data / f"{language}.jsonl")]
        with_them, without = (
            sum(map(len, ModularTokenizer.load(one).subset([language]).encode_utf8(texts)))
            for one in (made, plain)
        )
        assert with_them < without


def test_subsets_are_sound_and_more_languages_never_make_a_text_longer(made: Path) -> None:
    tokenizer = ModularTokenizer.load(made)
    subsets = [names for size in (1, 2, 3) for names in combinations(LANGUAGES, size)]
    assert check_subsets(tokenizer, subsets).sound
    for language in LANGUAGES:
        text = lines(language)
        alone = [len(ids) for ids in tokenizer.subset([language]).encode_utf8(text)]
        for other in LANGUAGES:
            more = [len(ids) for ids in tokenizer.subset([language, other]).encode_utf8(text)]
            assert all(a <= b for a, b in zip(more, alone, strict=True))


def test_append_keeps_ids_and_remove_keeps_languages(made: Path, data: Path) -> None:
    both, back = made.parent / "both", made.parent / "back"
    bpe_merge(["en", "fi"], data=data, output=both, k=K, superwords=MOST)
    bpe_merge(data=data, tokenizer=both, output=back, append=["fr"])
    first, more, at_once = map(ModularTokenizer.load, (both, back, made))
    assert more.pretokenizer is PHRASES
    assert more.vocabulary.tokens()[: first.size] == first.vocabulary.tokens()
    text = lines("fr")
    for names in (["fr"], ["en", "fr"]):
        one, other = (tokenizer.subset(names) for tokenizer in (more, at_once))
        assert set(one.vocabulary.tokens()) == set(other.vocabulary.tokens())
        assert [len(ids) for ids in one.encode_utf8(text)] == [
            len(ids) for ids in other.encode_utf8(text)
        ]
    without = made.parent / "without"
    bpe_merge(tokenizer=made, output=without, remove=["fr"])
    removed = ModularTokenizer.load(without)
    assert removed.vocabulary.tokens() == first.vocabulary.tokens()


def test_a_budget_of_an_append_leaves_room_for_words(data: Path, tmp_path: Path) -> None:
    bpe_merge(["en"], data=data, output=tmp_path / "t", k=400, superwords=200, references=False)
    (tmp_path / "sw.jsonl").write_text("not counted before that is known")
    what = {"data": tmp_path, "append": "sw", "tokenizer": tmp_path / "t", "output": tmp_path / "o"}
    for k in (399, "sw=399"):
        with pytest.raises(UsageError, match="superwords are more than half"):
            bpe_merge(k=k, **what)  # type: ignore[arg-type]


def test_the_result_does_not_depend_on_threads(made: Path, data: Path) -> None:
    output = made.parent / "threads"
    bpe_merge(LANGUAGES[::-1], data=data, output=output, k=K, superwords=MOST, threads=3)
    assert ModularTokenizer.load(output).signature == ModularTokenizer.load(made).signature


def test_nsl_is_that_of_the_tokens_of_the_text(made: Path) -> None:
    (row,) = nsl([f"{made}@en"], [PARALLEL / "en.txt"])
    subset = ModularTokenizer.load(made).subset(["en"])
    assert row["tokens"] == sum(map(len, subset.encode_utf8(lines("en"))))
    assert row["nsl"] < 1


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"superwords": -1}, "superwords: expected at least 0"),
        ({"superwords": 301}, "more than half"),
        ({"superwords": 5, "pretokenizer": "gpt2"}, "words of 'bpe'"),
        ({"superwords": 5, "whole_characters": True}, "SentencePiece"),
    ],
)
def test_settings_that_do_not_go_together(
    settings: dict[str, object], what: str, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=what):
        bpe_merge(["en"], data=data, output=tmp_path / "t", k=K, **settings)  # type: ignore[arg-type]


def test_a_format_without_superwords_refuses(made: Path) -> None:
    with pytest.raises(UsageError, match="superwords"):
        ModularTokenizer.load(made).subset(["en"]).to_model()
