"""Monolingual models from word counts: settings, determinism, what is refused."""

from __future__ import annotations

import json

import pytest

from helpers import sample
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.learn.monolingual_unigram import check_unigram_budget, learn_unigram, trainer_lines
from modtok_cli.learn.pieces import UNKNOWN
from modtok_cli.text.counts import WordCounts, count_documents
from modtok_cli.text.pretokenizer import BPE, UNIGRAM

SPECIALS = (UNKNOWN, "<|endoftext|>")


SAMPLE = sample.SAMPLE / "data" / "fi.jsonl"


def some_text() -> bytes:
    lines = [json.loads(line)["text"] for line in SAMPLE.read_text("utf-8").splitlines()]
    return ("\n".join(lines) + "  ▁x  tie1 2020\t" * 9).encode()


def counted(text: bytes) -> WordCounts:
    return count_documents([[text]], UNIGRAM)


def test_lines_have_no_special_characters() -> None:
    words = [(" a▁b".encode(), 2), (b"\n\t", 5), (b"x\x00y", 1), ("▁".encode(), 3), (b" c", 4)]
    table = WordCounts.from_pairs(words, UNIGRAM)
    assert trainer_lines(table).split(b"\n") == [b" a\t2", b"b\t2", b" c\t4", b"x\t1", b"y\t1", b""]


def test_a_model_has_the_papers_shape() -> None:
    k = 800
    model = learn_unigram("fi", counted(some_text()), k, SPECIALS)
    assert model.size == k
    assert model.languages == ("fi",)
    assert model.token_membership[:].all()
    pieces = model.pieces()
    assert len(set(pieces)) == len(pieces) == k - 258
    assert b" ja" in pieces
    for piece in pieces:
        text = piece.decode()
        assert "▁" not in text
        assert text.isdigit() <= (len(text) == 1)  # a digit stands alone
        assert not any(character.isdigit() for character in text) or len(text) == 1
        assert " " not in text[1:] or not text.strip()  # white space in front, or nothing else
    assert (model.scores[model.first :] < 0).all()
    again = learn_unigram("fi", counted(some_text()), k, SPECIALS)
    assert again.scores.tobytes() == model.scores.tobytes()
    assert again.token_data.tobytes() == model.token_data.tobytes()


def test_a_small_text_gives_fewer_tokens() -> None:
    model = learn_unigram("fi", counted(b"a cat and a dog and a cat " * 20), 5000, SPECIALS)
    assert 258 < model.size < 5000


def test_k_too_small_for_the_characters() -> None:
    text = "".join(chr(0x4E00 + i) for i in range(300)).encode()
    with pytest.raises(ModtokError, match=r"'zh': its characters alone require .*, k allows"):
        learn_unigram("zh", counted(text * 2), 300, SPECIALS)


@pytest.mark.parametrize("k", [0, 258])
def test_k_too_small(k: int) -> None:
    with pytest.raises(UsageError, match="too small"):
        check_unigram_budget(k, SPECIALS)


def test_other_words_and_no_words() -> None:
    with pytest.raises(UsageError, match="got 'bpe'"):
        learn_unigram("en", count_documents([[b"a b"]], BPE), 400, SPECIALS)
    with pytest.raises(ModtokError, match="no words"):
        learn_unigram("en", counted(b"\n\n\t"), 400, SPECIALS)
    with pytest.raises(UsageError, match="first special token"):
        check_unigram_budget(400, ("<|endoftext|>",))


def test_special_tokens_are_not_pieces() -> None:
    text = b"a cat <pad> and a dog <pad> and <unk> a cat " * 60
    model = learn_unigram("en", counted(text), 300, (UNKNOWN, "<pad>", " <pad>"))
    assert not {b"<pad>", b" <pad>", b"<unk>"} & set(model.pieces())
    assert b" a" in model.pieces()
