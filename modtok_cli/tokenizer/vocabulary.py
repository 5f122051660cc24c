"""A vocabulary on flat arrays, and GPT-2's visible spelling of bytes for all of it at once.

A `tokenizer.json` spells each byte of a token by one visible character (a space is "Ġ"),
so that every byte string is a JSON string. With hundreds of thousands of tokens the
translation is done over the concatenation of all of them, not token by token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import (
    BoolArray,
    Int32Array,
    Int64Array,
    UInt8Array,
    UInt64Array,
    flatten,
    offsets_of,
    token_ids,
    unflatten,
)
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.state import Lasting
from modtok_cli.core.segment import build_trie
from modtok_cli.learn.merges import byte_ids, byte_order


def broken(where: str, name: str, what: str) -> ModtokError:
    """The error of an invalid field."""
    return ModtokError(f"field '{name}': {what}", where=where)


# The 188 printable bytes are their own spelling; the other 68 take U+0100 and following, ascending.
_PRINTABLE = 188
BYTE_ORDER = np.array(byte_order(), dtype=np.uint8)
_SPELLING = np.zeros(256, dtype="<u4")
_SPELLING[BYTE_ORDER] = [*byte_order()[:_PRINTABLE], *range(0x100, 0x100 + 256 - _PRINTABLE)]
_MEANING = np.full(0x100 + 256 - _PRINTABLE, -1, dtype=np.int16)
_MEANING[_SPELLING] = np.arange(256)


def byte_piece(byte: int) -> str:
    """The name of a byte's piece: `byte_piece(10)` is "<0x0A>"."""
    return f"<0x{byte:02X}>"


BYTE_NAMES = tuple(map(byte_piece, byte_order()))


def spell(data: bytes | UInt8Array) -> str:
    """The visible spelling of bytes, one character a byte: `spell(b" a")` is "Ġa"."""
    flat = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else data
    return _SPELLING[flat].tobytes().decode("utf-32-le")


def unspell(text: str) -> UInt8Array | None:
    """The bytes that `text` spells (uint8, one a character); None if it spells none."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    if len(points) and int(points.max()) >= len(_MEANING):
        return None
    meaning = _MEANING[points]
    return None if (meaning < 0).any() else meaning.astype(np.uint8)


def as_text(token: bytes) -> str | None:
    """The characters of a token; None if it cuts one."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None


_Entry = TypeVar("_Entry", bound=np.generic)


def gather(
    data: npt.NDArray[_Entry], offsets: Int64Array, ids: npt.NDArray[np.integer]
) -> tuple[npt.NDArray[_Entry], Int64Array]:
    """Concatenate the entries `ids` of a flat table; returns (data, offsets) of the result."""
    starts = offsets[ids]
    lengths = offsets[np.asarray(ids) + 1] - starts
    ends = offsets_of(lengths)
    take = np.repeat(starts - ends[:-1], lengths)
    take += np.arange(len(take))
    return data[take], ends


@dataclass(frozen=True, eq=False)
class Vocabulary(Lasting):
    """Tokens in id order: special tokens first, then byte strings, each different.

    Token i is `data[offsets[i]:offsets[i + 1]]`; for a special token that is its text in
    UTF-8. Shapes: data (B,) uint8; offsets (V + 1,) int64. `distinct`: the spellings are known
    to differ, because they were keys of a JSON object.

    >>> v = Vocabulary.from_tokens(("<s>",), [b"a", b" a"])
    >>> v.token_bytes(2), v.find(b"a"), v.spellings()
    (b' a', 1, ['<s>', 'a', 'Ġa'])
    """

    specials: tuple[str, ...]
    data: UInt8Array
    offsets: Int64Array
    distinct: bool = False

    @classmethod
    def from_tokens(cls, specials: Sequence[str], tokens: Sequence[bytes]) -> Vocabulary:
        """From special tokens and the byte strings that follow them."""
        entries = [special.encode() for special in specials] + list(tokens)
        return cls(tuple(specials), *flatten(entries))

    @classmethod
    def from_spellings(
        cls, specials: Sequence[str], spellings: Sequence[str], where: str
    ) -> Vocabulary:
        """From the strings of a `tokenizer.json`, in id order, special tokens first."""
        first = len(specials)
        head = [special.encode() for special in specials]
        lengths = np.fromiter(map(len, spellings), dtype=np.int64, count=len(spellings))
        lengths[:first] = [len(entry) for entry in head]
        body = unspell("".join(spellings[first:]))
        if body is None or (lengths == 0).any():
            plain = enumerate(spellings[first:], first)
            odd = next((i for i, name in plain if not name or unspell(name) is None), 0)
            what = f"token {odd} ({spellings[odd]!r}) is not a byte-level spelling"
            raise broken(where, "model.vocab", what)
        offsets = offsets_of(lengths)
        data = np.concatenate([np.frombuffer(b"".join(head), dtype=np.uint8), body])
        return cls(tuple(specials), data, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int64Array:
        """Bytes of each token; shape (V,) int64."""
        return np.diff(self.offsets)

    def token_bytes(self, index: int) -> bytes:
        """Bytes of token `index`."""
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def tokens(self) -> list[bytes]:
        """Bytes of every token, in id order."""
        return unflatten(self.data, self.offsets)

    def spellings(self) -> list[str]:
        """The name of each token in a `tokenizer.json`, by id; special tokens by their text."""
        flat = spell(self.data)
        names = [flat[start:stop] for start, stop in pairwise(self.offsets.tolist())]
        names[: len(self.specials)] = self.specials
        return names

    @cached_property
    def _index(self) -> dict[bytes, int]:
        first = len(self.specials)
        return {token: first + i for i, token in enumerate(self.tokens()[first:])}

    def find(self, token: bytes) -> int | None:
        """Id of a byte string, other than special tokens; None if it is not a token."""
        return self._index.get(token)

    @cached_property
    def byte_ids(self) -> Int32Array:
        """Id of each of the 256 bytes; shape (256,) int32; -1 where a byte is not a token."""
        single = np.flatnonzero(self.lengths == 1)
        single = single[single >= len(self.specials)]
        ids = np.full(256, -1, dtype=np.int32)
        ids[self.data[self.offsets[single]]] = single
        return ids

    @property
    def first(self) -> int:
        """Id of the first token that a text is searched for."""
        return len(self.specials)

    @cached_property
    def trie(self) -> UInt64Array:
        """The double array (`core.segment`) over the tokens from `first` on.

        Takes a quarter of a second for 350,000 tokens.
        """
        ids = np.arange(self.first, len(self))
        return build_trie(self.data, self.offsets[self.first :], ids)

    def take(self, ids: npt.NDArray[np.integer]) -> Self:
        """The tokens `ids`, renumbered from 0; all before `first` are among them."""
        data, offsets = gather(self.data, self.offsets, ids)
        return type(self)(self.specials, data, offsets, self.distinct)

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Concatenated bytes of tokens."""
        flat = token_ids(ids)
        if len(flat) and (int(flat.min()) < 0 or int(flat.max()) >= len(self)):
            odd = flat[(flat < 0) | (flat >= len(self))][0]
            raise ModtokError(f"token id {odd} is outside the vocabulary of {len(self)} tokens")
        return gather(self.data, self.offsets, flat)[0].tobytes()


class PieceVocabulary(Vocabulary):
    """Special tokens, the 256 byte tokens, then pieces: whole characters in UTF-8.

    A byte-level BPE has one token for the byte 0x61. Here "<0x61>" spells the byte of some
    character that is no piece, and the piece "a" is another token. A file spells pieces as they
    are, a space as a space.

    >>> v = PieceVocabulary.from_spellings(("<unk>",), ["<unk>", *BYTE_NAMES, " a"], "")
    >>> v.spellings()[-2:], v.token_bytes(257), v.first
    (['<0xAD>', ' a'], b' a', 257)
    """

    @classmethod
    def from_spellings(
        cls, specials: Sequence[str], spellings: Sequence[str], where: str
    ) -> PieceVocabulary:
        """From the strings of a file, in id order: special tokens, byte names, pieces."""
        first = len(specials)
        if tuple(spellings[first : first + 256]) != BYTE_NAMES:
            what = f"tokens {first} to {first + 255} are not the 256 bytes in order"
            raise broken(where, "model.vocab", what)
        tokens = [text.encode() for text in specials]
        tokens += [bytes([byte]) for byte in byte_order()]
        try:
            tokens += [text.encode() for text in spellings[first + 256 :]]
        except UnicodeEncodeError as error:
            what = f"{error.object!r} is not valid Unicode"
            raise broken(where, "model.vocab", what) from error
        return cls(tuple(specials), *flatten(tokens))

    @property
    def first(self) -> int:
        """Id of the first piece."""
        return len(self.specials) + 256

    def spellings(self) -> list[str]:
        """The name of each token in a file, in id order."""
        pieces = unflatten(self.data, self.offsets[self.first :])
        return [*self.specials, *BYTE_NAMES, *(piece.decode() for piece in pieces)]

    @cached_property
    def byte_ids(self) -> Int32Array:
        """Id of each of the 256 byte tokens; shape (256,) int32."""
        return byte_ids(len(self.specials))


class Selection(Lasting):
    """The tokens of a mask; a vocabulary of their own is made when it is asked for.

    Attributes:
        whole: the vocabulary that they are selected from.
        mask: (V,) bool, None for all tokens.
        global_ids: (n,) int32, ascending: the id in `whole` of each local id.
        local_of_global: (V,) int32: the local id of each id in `whole`, -1 outside.
    """

    def __init__(self, whole: Vocabulary, mask: BoolArray | None = None) -> None:
        self.whole = whole
        self.mask = mask
        if mask is None:
            self.global_ids = np.arange(len(whole), dtype=np.int32)
            self.local_of_global = self.global_ids
        else:
            self.global_ids = np.flatnonzero(mask).astype(np.int32)
            self.local_of_global = np.where(
                mask, np.cumsum(mask, dtype=np.int32) - np.int32(1), np.int32(-1)
            )

    def part(self, mask: BoolArray) -> BoolArray:
        """The tokens of `mask`, (n,) bool, in `whole`; (V,) bool."""
        part = np.zeros(len(self.whole), dtype=np.bool_)
        part[self.global_ids[mask]] = True
        return part

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The tokens in local order."""
        if len(self.global_ids) == len(self.whole):
            return self.whole
        return self.whole.take(self.global_ids)
