"""How the tokens of one vocabulary are spelled with the tokens of another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from modtok_cli.base.arrays import Int32Array, Int64Array, offsets_of
from modtok_cli.tokenizer.adopted.restrict import is_byte_level
from modtok_cli.tokenizer.adopted.text_form import SPACE
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.encoding.external import in_library
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.segmenters.json_frame import parse_document
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.vocabulary import PieceVocabulary, Vocabulary, as_text, gather
from modtok_cli.tokenizer.vocabulary import spell as visible


@dataclass(frozen=True)
class Spelling:
    """For each token of a new vocabulary, the ids of the old tokens that spell it.

    Token i is spelled by `ids[offsets[i]:offsets[i + 1]]`. A token that both vocabularies hold
    is spelled by itself. A new special token has no spelling.

    Shapes: ids (N,) int32, old ids; offsets (V + 1,) int64.
    """

    ids: Int32Array
    offsets: Int64Array

    @classmethod
    def of(cls, spelled: Sequence[Sequence[int]]) -> Spelling:
        """From the old ids of each new token."""
        offsets = offsets_of(map(len, spelled))
        return cls(np.fromiter(chain.from_iterable(spelled), np.int32, int(offsets[-1])), offsets)

    def take(self, tokens: Int32Array) -> Spelling:
        """The spelling of some tokens, in their order."""
        return Spelling(*gather(self.ids, self.offsets, tokens))

    def spelled_by(self, token: int, index: int) -> Spelling:
        """With an old id for a token that had none."""
        offsets = self.offsets.copy()
        offsets[token + 1 :] += 1
        ids = np.insert(self.ids, int(self.offsets[token]), index)
        return Spelling(ids.astype(np.int32), offsets)

    @property
    def lengths(self) -> Int64Array:
        """Number of old tokens that spell each new token; shape (V,) int64."""
        return np.diff(self.offsets)


def spell(vocabulary: Vocabulary, old: Subtokenizer, *, encode: bool = True) -> Spelling:
    """Spell every token of `vocabulary` with the tokens of `old`.

    Tokens are compared by their spelling in a file, so that in a Unigram vocabulary the byte
    token `<0x61>` and the piece "a" are different tokens. A token that `old` lacks is encoded
    by `old` as one word; without `encode` it has no spelling.

    Example: if `old` holds " mai" and "son", the new token " maison" is spelled by these two.
    """
    known = {name: index for index, name in enumerate(old.vocabulary.spellings())}
    names = vocabulary.spellings()
    first = len(vocabulary.specials)
    same = np.fromiter((known.get(name, -1) for name in names), dtype=np.int32, count=len(names))
    unknown = np.flatnonzero(same < 0)
    unknown = unknown[unknown >= first] if encode else unknown[:0]
    starts, stops = vocabulary.offsets[unknown], vocabulary.offsets[unknown + 1]
    ids, ends = old.encoder.words_flat(vocabulary.data, starts, stops)

    lengths = (same >= 0).astype(np.int64)
    lengths[unknown] = np.diff(ends)
    offsets = offsets_of(lengths)
    flat = np.empty(int(offsets[-1]), dtype=np.int32)
    known_rows = np.flatnonzero(same >= 0)
    flat[offsets[known_rows]] = same[known_rows]
    is_spelled = np.ones(len(flat), dtype=np.bool_)
    is_spelled[offsets[known_rows]] = False
    flat[is_spelled] = ids
    return Spelling(flat, offsets)


def spell_by_merges(file: TokenizerFile, known: int, *, encode: bool = True) -> Spelling:
    """Spell every token of a file with its first `known` ids, those by themselves.

    The others are spelled by the tokens that merges build them from; without `encode`, or where
    no merge does, they have no spelling.
    """
    spelled = [[index] for index in range(min(known, file.size))]
    for index, rank in enumerate(file.derivation[known:].tolist(), known):
        parts = file.merges[rank, :2].tolist() if encode and rank >= 0 else []
        earlier = parts if max(parts, default=index) < index else []
        spelled.append([one for part in earlier for one in spelled[part]])
    return Spelling.of(spelled)


_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class LibraryVocabulary:
    """The tokens of a `tokenizer.json` as bytes.

    Byte-level BPE, and SentencePiece models ("▁" is a space, "<0x61>" a byte), of `tokenizers`.

    Attributes:
        ids: bytes → id; a piece before the byte token of the same byte.
        contents: id → bytes, of all but special tokens.
        added_ids: text → id of each added token, the special ones among them.

    Raises:
        UsageError, ModtokError: as `TokenizerFile`, or the library does not load it.
    """

    def __init__(self, data: bytes, where: str) -> None:
        document = parse_document(data, where)
        file = TokenizerFile(document, where)
        self._library = LibraryTokenizer(where, data, where)
        self._byte_level = is_byte_level(document)
        added = document.get("added_tokens") or ()
        self.added_ids: dict[str, int] = {token["content"]: token["id"] for token in added}
        self.ids: dict[bytes, int] = {}
        self.contents: dict[int, bytes] = {}
        self._byte_tokens: dict[int, int] = {}
        tokens = file.vocabulary.tokens()
        for name, index in file.ids.items():
            if file.special[index]:
                continue
            byte = None if self._byte_level else _BYTE.fullmatch(name)
            if byte is not None and name not in self.added_ids:
                self._byte_tokens[int(byte[1], 16)] = index
                self.contents[index] = bytes([int(byte[1], 16)])
            else:
                self.contents[index] = tokens[index]
                self.ids[tokens[index]] = index
        for value, index in self._byte_tokens.items():
            self.ids.setdefault(bytes([value]), index)
        self._longest = max(map(len, self.ids), default=0)

    def spell(
        self,
        vocabulary: Vocabulary,
        *,
        specials: Mapping[int, str] | None = None,
        encode: bool = True,
    ) -> Spelling:
        """Spell every token of `vocabulary` with these tokens.

        `specials`: id → text of each special token, by default the first ids.

        A token with the same bytes, a special token with the same text, is spelled by itself.
        Other tokens are encoded as text, as the model has seen it; those that are no text, or
        that its normalizer changes, by the model alone, then by the longest tokens from the
        left. Without `encode` they have no spelling; special tokens never have.
        """
        tokens = vocabulary.tokens()
        names = dict(enumerate(vocabulary.specials)) if specials is None else specials
        spelled = [
            [self.added_ids[names[index]]] if names.get(index) in self.added_ids
            else [] if index in names
            else self._same(vocabulary, index, token)
            for index, token in enumerate(tokens)
        ]  # fmt: skip
        missing = [i for i, ids in enumerate(spelled) if not ids and i not in names]
        if encode:
            encoded = self._encode([tokens[index] for index in missing])
            for index, ids in zip(missing, encoded, strict=True):
                spelled[index] = ids
        return Spelling.of(spelled)

    def frame(self) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
        """Text and id of the special tokens that it puts before and after every text."""
        with in_library("cannot encode", self._library.name):
            encoded = self._library.inner.encode("a", add_special_tokens=True)
        ends = [
            (encoded.tokens[place], encoded.ids[place])
            if encoded.special_tokens_mask[place] and encoded.tokens[place] in self.added_ids
            else None
            for place in ((0, -1) if len(encoded.ids) > 1 else ())
        ]
        return (ends[0], ends[1]) if ends else (None, None)

    def _same(self, vocabulary: Vocabulary, index: int, token: bytes) -> list[int]:
        is_byte = isinstance(vocabulary, PieceVocabulary) and index < vocabulary.first
        if is_byte and token[0] in self._byte_tokens:
            return [self._byte_tokens[token[0]]]
        same = self.ids.get(token)
        return [] if same is None else [same]

    def _encode(self, tokens: Sequence[bytes]) -> list[list[int]]:
        texts = list(map(as_text, tokens))
        batch = iter(self._library.encode_batch([text for text in texts if text is not None]))
        encoded = []
        for token, text in zip(tokens, texts, strict=True):
            ids = [] if text is None else next(batch).tolist()
            if self._joined(ids) != token:
                ids = self._by_model(token, text)
            encoded.append(ids if self._joined(ids) == token else self._longest_first(token))
        return encoded

    def _joined(self, ids: Sequence[int]) -> bytes | None:
        parts = [self.contents.get(index) for index in ids]
        return None if None in parts else b"".join(part for part in parts if part is not None)

    def _by_model(self, token: bytes, text: str | None) -> list[int]:
        """By merges or scores, without normalizer and pre-tokenizer."""
        if self._byte_level:
            return self._library.tokenize(visible(token))
        return [] if text is None else self._library.tokenize(text.replace(" ", SPACE))

    def _longest_first(self, token: bytes) -> list[int]:
        """The longest token at each position from the left; [] where there is none."""
        ids, at = [], 0
        while at < len(token):
            ends = range(min(len(token), at + self._longest), at, -1)
            stop = next((stop for stop in ends if token[at:stop] in self.ids), None)
            if stop is None:
                return []
            ids.append(self.ids[token[at:stop]])
            at = stop
        return ids
