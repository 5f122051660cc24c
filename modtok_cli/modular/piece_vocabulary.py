"""The vocabulary of a Unigram tokenizer: byte tokens are not pieces.

A byte-level BPE has one token for the byte 0x61. Here "<0x61>" spells the byte of some
character that is no piece, and the piece "a" is another token. Pieces are whole characters,
so a file spells them as they are, a space as a space.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Float64Array, Int32Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.learn.merges import byte_order
from modtok_cli.learn.pieces import byte_ids
from modtok_cli.modular.sentencepiece_file import byte_piece
from modtok_cli.modular.vocabulary import Unsuited, Vocabulary, gather

# What the pre-tokenizer `unigram` tells apart: 1 space, 2 digit, 3 other ASCII white space.
_BYTE_KINDS = np.zeros(256, dtype=np.uint8)
_BYTE_KINDS[0x20], _BYTE_KINDS[0x30:0x3A], _BYTE_KINDS[0x09:0x0E] = 1, 2, 3
BYTE_NAMES = tuple(byte_piece(byte) for byte in byte_order())


class PieceVocabulary(Vocabulary):
    """Special tokens, the 256 byte tokens, then pieces: whole characters in UTF-8.

    >>> v = PieceVocabulary.from_spellings(("<unk>",), ["<unk>", *BYTE_NAMES, " a"], "")
    >>> v.spellings()[-2:], v.token_bytes(257), v.first
    (['<0xAD>', ' a'], b' a', 257)
    """

    @classmethod
    def from_spellings(
        cls, specials: Sequence[str], spellings: Sequence[str], where: str
    ) -> PieceVocabulary:
        """From the strings of a file, in id order: special tokens, byte names, pieces.

        Raises:
            ModtokError: the byte tokens are not where they belong, or a piece is empty.
        """
        first = len(specials)
        if tuple(spellings[first : first + 256]) != BYTE_NAMES:
            raise Unsuited(
                f"field 'model.vocab': tokens {first} to {first + 255} are not the 256 bytes "
                "in order",
                where=where,
            )
        tokens = [text.encode() for text in specials]
        tokens += [bytes([byte]) for byte in byte_order()]
        try:
            tokens += [text.encode() for text in spellings[first + 256 :]]
        except UnicodeEncodeError as error:
            raise ModtokError(
                f"field 'model.vocab': {error.object!r} is not valid Unicode", where=where
            ) from error
        offsets = np.zeros(len(tokens) + 1, dtype=np.int64)
        np.cumsum([len(token) for token in tokens], out=offsets[1:])
        return cls(tuple(specials), np.frombuffer(b"".join(tokens), dtype=np.uint8), offsets)

    @property
    def first(self) -> int:
        """Id of the first piece."""
        return len(self.specials) + 256

    def spellings(self) -> list[str]:
        """What a file calls each token, in id order."""
        flat, cuts = self.data.tobytes(), self.offsets[self.first :].tolist()
        pieces = [flat[start:stop].decode() for start, stop in pairwise(cuts)]
        return [*self.specials, *BYTE_NAMES, *pieces]

    @cached_property
    def byte_ids(self) -> Int32Array:
        """Id of each of the 256 byte tokens; shape (256,) int32."""
        return byte_ids(len(self.specials))

    def take(self, ids: npt.NDArray[np.integer]) -> PieceVocabulary:
        """The tokens `ids`, which begin with every special token and byte, renumbered from 0."""
        data, offsets = gather(self.data, self.offsets, ids)
        return PieceVocabulary(self.specials, data, offsets)


def clamp_bytes(scores: Float64Array, specials: int) -> Float64Array:
    """Scores with those of bytes raised to the least score of a piece where they are below.

    Both libraries take the least score, SentencePiece of pieces, `tokenizers` of all
    tokens, as the cost of an unknown character; clamping makes both use the same. No search
    uses the score of a byte token itself.
    """
    pieces = scores[specials + 256 :]
    clamped = scores.copy()
    if len(pieces):
        own = slice(specials, specials + 256)
        clamped[own] = np.maximum(scores[own], pieces.min())
    return clamped


def check_pieces(vocabulary: Vocabulary, scores: Float64Array | None, where: str) -> None:
    """Check a Unigram vocabulary.

    Special tokens, the 256 bytes in order, at least one piece; pieces different, whole
    characters, none crosses a word boundary of the pre-tokenizer; scores finite.

    Raises:
        ModtokError: names `where` and the field.
    """
    if not isinstance(vocabulary, PieceVocabulary):
        raise _broken(where, "vocabulary", "is not a vocabulary of pieces")
    first = vocabulary.first
    if len(vocabulary) <= first:
        raise _broken(where, "vocabulary", "has no pieces")
    if not vocabulary.specials:
        raise _broken(where, "specials", "no special token for unknown characters")
    if (vocabulary.lengths < 1).any():
        raise _broken(where, "vocabulary", "a token is empty")
    at = vocabulary.offsets[first - 256]
    single = (vocabulary.lengths[first - 256 : first] == 1).all()
    if not single or vocabulary.data[at : at + 256].tolist() != byte_order():
        raise _broken(where, "vocabulary", "the 256 bytes do not follow the special tokens")
    data, starts = vocabulary.data, vocabulary.offsets[first:-1]
    try:
        data[vocabulary.offsets[first] :].tobytes().decode()
    except UnicodeDecodeError as error:
        raise _broken(where, "vocabulary", "a piece is not UTF-8") from error
    if ((data[starts] & 0xC0) == 0x80).any():
        raise _broken(where, "vocabulary", "a piece begins within a character")
    crossing = _crossing(data, vocabulary.offsets, first)
    if crossing is not None:
        text = vocabulary.token_bytes(crossing).decode()
        raise _broken(where, "vocabulary", f"piece {text!r} crosses a word boundary")
    names = vocabulary.tokens()[first:]
    if len(set(names)) != len(names):
        seen: set[bytes] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _broken(where, "vocabulary", f"the piece {twice.decode()!r} occurs twice")
    if scores is None or scores.shape != (len(vocabulary),) or not np.isfinite(scores).all():
        raise _broken(where, "scores", "not a finite number for every token")


def _crossing(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], first: int
) -> int | None:
    """The first piece in which a word of the pre-tokenizer `unigram` would end, None if in none."""
    kinds = _BYTE_KINDS[data]
    before, after = kinds[:-1], kinds[1:]
    cut = (before == 2) | (after == 2)
    cut |= (before != after) & ((after == 1) | (after == 3) | (before == 3))
    inside = np.zeros(len(data) + 1, dtype=np.bool_)
    inside[1:-1] = cut
    inside[offsets] = False
    inside[: offsets[first]] = False
    if not inside.any():
        return None
    return int(np.searchsorted(offsets, int(np.argmax(inside)), side="right")) - 1


def _broken(where: str, name: str, what: str) -> ModtokError:
    return ModtokError(f"field '{name}': {what}", where=where)
