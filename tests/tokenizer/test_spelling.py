"""Tokens spelled with the tokens of a smaller vocabulary, or of another program's."""

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
    models,
)

from helpers.external_tokenizers import external_tokenizer
from helpers.made_tokenizers import MADE
from modtok_cli.base.errors import ModtokError
from modtok_cli.tokenizer.spelling import LibraryVocabulary, Spelling, spell
from modtok_cli.tokenizer.vocabulary import BYTE_NAMES, PieceVocabulary, Vocabulary


def published(kind: str) -> Tokenizer:
    """As of Llama 2: a space before every text, bytes as "<0x..>"; or as of GPT-2 and more."""
    document = orjson.loads(external_tokenizer(kind))
    if kind == "characters":
        prepend = {"type": "Prepend", "prepend": "▁"}
        parts = [prepend, document["normalizer"]]
        document["normalizer"] = {"type": "Sequence", "normalizers": parts}
    else:
        document["pre_tokenizer"]["add_prefix_space"] = True
    found = Tokenizer.from_str(orjson.dumps(document).decode())
    found.add_tokens([AddedToken("\n\n", normalized=False)])
    return found


def joined(old: LibraryVocabulary, ids: list[int]) -> bytes:
    return b"".join(old.contents[index] for index in ids)


NEW = [b" maison", b"maison", b" mais", b"sons", "là".encode(), b"\xc3", b"\xe9\xff", b"2024",
       b"xyz", b"\n\n", b"\n\n\n", b"<s>", b"  grand", "日本".encode(),
       b" Allan"]  # fmt: skip


@pytest.mark.parametrize("kind", ["byte-level", "characters"])
def test_spellings_have_the_bytes_of_their_tokens(kind: str) -> None:
    tokenizer = published(kind)
    old = LibraryVocabulary(tokenizer.to_str().encode(), "here")
    found = old.spell(Vocabulary.from_tokens(("<s>", "<new>"), NEW))
    parts = [
        found.ids[a:b].tolist() for a, b in zip(found.offsets, found.offsets[1:], strict=False)
    ]
    assert parts[:2] == [[tokenizer.token_to_id("<s>")], []]
    for token, ids in zip(NEW, parts[2:], strict=True):
        assert joined(old, ids) == token
        if token in old.ids:
            assert ids == [old.ids[token]]
    assert len(parts[2]) < len(b" maison") / 2
    if kind == "byte-level":  # by merges: the longest tokens from the left are others
        merged = tokenizer.encode(" Allan", add_special_tokens=False).ids
        assert parts[-1] == merged != old._longest_first(b" Allan")
    assert old.spell(Vocabulary.from_tokens((), NEW), encode=False).lengths.max() == 1


@pytest.fixture(scope="module")
def both() -> list[LibraryVocabulary]:
    return [
        LibraryVocabulary(published(kind).to_str().encode(), "x")
        for kind in ("byte-level", "characters")
    ]


@given(st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=8, unique=True))
def test_any_bytes_are_spelled(both: list[LibraryVocabulary], tokens: list[bytes]) -> None:
    for old in both:
        found = old.spell(Vocabulary.from_tokens((), tokens))
        assert joined(old, found.ids.tolist()) == b"".join(tokens)


def test_byte_tokens_are_not_pieces() -> None:
    tokenizer = published("characters")
    old = LibraryVocabulary(tokenizer.to_str().encode(), "here")
    new = PieceVocabulary.from_spellings(("<unk>",), ["<unk>", *BYTE_NAMES, "a"], "there")
    found = old.spell(new)
    assert found.ids[new.byte_ids[0x61]] == tokenizer.token_to_id("<0x61>")
    assert found.ids[-1] == tokenizer.token_to_id("a")


def test_other_kinds_are_refused() -> None:
    words = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(
        ModtokError, match="here: a tokenizer of type 'WordLevel' cannot be restricted"
    ):
        LibraryVocabulary(words.to_str().encode(), "here")


@pytest.mark.parametrize("kind", MADE)
def test_every_token_is_spelled_by_its_bytes(kind: str) -> None:
    """Tokens of a grown vocabulary by the tokens of the smaller one."""
    new = MADE[kind]()
    old = new.subset("fr")
    spelling = spell(new.vocabulary, old)
    names = {name: index for index, name in enumerate(old.vocabulary.spellings())}
    parts = np.split(spelling.ids, spelling.offsets[1:-1])
    assert len(names) < new.size
    for index, (name, ids) in enumerate(zip(new.vocabulary.spellings(), parts, strict=True)):
        assert old.decode_bytes(ids) == new.vocabulary.token_bytes(index)
        if name in names:
            assert ids.tolist() == [names[name]]
    more = spell(Vocabulary.from_tokens(("<new>",), [b"a", b"the", b"zzz"]), old)
    assert more.lengths.tolist()[:2] == [0, 1]
    assert old.decode_bytes(more.ids) == b"athezzz"
    given = Spelling.of([[1], [], [2, 3]]).spelled_by(1, 9)
    assert (given.ids.tolist(), given.offsets.tolist()) == ([1, 9, 2, 3], [0, 1, 2, 4])
