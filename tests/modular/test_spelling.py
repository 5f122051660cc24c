"""Tokens spelled with the tokens of a smaller vocabulary, or of another program's."""

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from helpers.made_tokenizers import MADE
from modtok_cli.base.errors import ModtokError
from modtok_cli.modular.spelling import LibraryVocabulary, spell
from modtok_cli.modular.vocabulary import BYTE_NAMES, PieceVocabulary, Vocabulary

TEXT = [
    "la maison est grande",
    "les maisons sont grandes",
    "le chat est là",
    "\u00e9t\u00e9 2024",
] * 3


def byte_level() -> Tokenizer:
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=True),
        ]
    )
    found.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    found.train_from_iterator(TEXT, trainer)
    found.add_tokens([AddedToken("\n\n", normalized=False)])
    return found


def sentencepiece() -> Tokenizer:
    """As Llama 2: spaces are "▁", one is put before every text, bytes are "<0x..>"."""
    base = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    base.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=["<unk>", "<s>", *pieces], show_progress=False
    )
    base.train_from_iterator(TEXT, trainer)
    document = orjson.loads(base.to_str())
    document["added_tokens"] = document["added_tokens"][:2]
    return Tokenizer.from_str(orjson.dumps(document).decode())


def joined(old: LibraryVocabulary, ids: list[int]) -> bytes:
    return b"".join(old.contents[index] for index in ids)


NEW = [b" maison", b"maison", b" mais", b"sons", "là".encode(), b"\xc3", b"\xe9\xff", b"2024",
       b"xyz", b"\n\n", b"\n\n\n", b"<s>", b"  grand", "日本".encode()]  # fmt: skip


@pytest.mark.parametrize("make", [byte_level, sentencepiece])
def test_spellings_have_the_bytes_of_their_tokens(make) -> None:
    tokenizer = make()
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
    assert old.spell(Vocabulary.from_tokens((), NEW), encode=False).lengths.max() == 1


@pytest.fixture(scope="module")
def both() -> list[LibraryVocabulary]:
    return [
        LibraryVocabulary(make().to_str().encode(), "x") for make in (byte_level, sentencepiece)
    ]


@given(st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=8, unique=True))
def test_any_bytes_are_spelled(both: list[LibraryVocabulary], tokens: list[bytes]) -> None:
    for old in both:
        found = old.spell(Vocabulary.from_tokens((), tokens))
        assert joined(old, found.ids.tolist()) == b"".join(tokens)


def test_byte_tokens_are_not_pieces() -> None:
    tokenizer = sentencepiece()
    old = LibraryVocabulary(tokenizer.to_str().encode(), "here")
    new = PieceVocabulary.from_spellings(("<unk>",), ["<unk>", *BYTE_NAMES, "a"], "there")
    found = old.spell(new)
    assert found.ids[new.byte_ids[0x61]] == tokenizer.token_to_id("<0x61>")
    assert found.ids[-1] == tokenizer.token_to_id("a")


def test_other_kinds_are_refused() -> None:
    words = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(ModtokError, match="here: a tokenizer of type WordLevel is not supported"):
        LibraryVocabulary(words.to_str().encode(), "here")


@pytest.mark.parametrize("kind", MADE)
def test_every_token_is_spelled_by_its_bytes(kind: str) -> None:
    """Tokens of a grown vocabulary by the tokens of the smaller one."""
    new = MADE[kind]()
    old = new.subset("en")
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
