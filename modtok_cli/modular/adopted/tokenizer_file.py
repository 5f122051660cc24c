"""A `tokenizer.json` of any origin on flat arrays: ids, bytes, merges and their derivations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.arrays import BoolArray, Float64Array, Int32Array, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.core.segment import Symbols, trie_of
from modtok_cli.core.text import CODE_POINTS
from modtok_cli.modular.adopted.derivation import GIVEN, closed, derivation, symbols_of
from modtok_cli.modular.adopted.restrict import (
    check_document,
    indispensable,
    is_byte_level,
    restrict,
    restrict_frame,
    vocabulary_of,
)
from modtok_cli.modular.adopted.text_form import OTHER, SPACE, TextForm, text_form
from modtok_cli.modular.segmenters.json_frame import PROVENANCE, read_merges
from modtok_cli.modular.vocabulary import Vocabulary, spell, unspell
from modtok_cli.text.pretokenizer import PreTokenizer


class TokenizerFile:
    """The content of a `tokenizer.json`: BPE or Unigram, with its own ids.

    Attributes:
        document: the JSON object.
        ids: token → id, added tokens included.
        size: highest id + 1.
        merges: (M, 3) int32 in rank order: left, right, result; of Unigram none.

    Raises:
        UsageError: another type of model, or one with prefixes or suffixes of subwords.
        ModtokError: the document is invalid; names the field.
    """

    def __init__(self, document: Mapping[str, Any], where: str) -> None:
        self.document = document
        self.where = where
        check_document(document, where)
        self.ids = vocabulary_of(document, where)
        if not self.ids:
            raise ModtokError("field 'model.vocab' is empty", where=where)
        self.size = max(self.ids.values()) + 1
        if self.size > 4 * len(self.ids):
            raise ModtokError(f"field 'model.vocab': id {self.size - 1} is too high", where=where)
        self._model = document["model"]
        for name in ("continuing_subword_prefix", "end_of_word_suffix"):
            if self._model.get(name):
                raise UsageError(
                    f"field 'model.{name}' is not supported",
                    where=where,
                    remedy="adopt a byte-level or SentencePiece tokenizer",
                )

        rows = self._model.get("merges") or [] if self.is_bpe else []
        self.merges = read_merges(rows, self.ids, where)

    @property
    def is_bpe(self) -> bool:
        """Whether tokens are built by merges; else the model is Unigram."""
        return isinstance(self._model["vocab"], Mapping)

    @property
    def has_fallback(self) -> bool:
        """Whether unknown characters are spelled by byte tokens."""
        return bool(self._model.get("byte_fallback"))

    @cached_property
    def names(self) -> list[str]:
        """Token of each id; "" where there is none."""
        names = [""] * self.size
        for name, index in self.ids.items():
            names[index] = name
        return names

    @cached_property
    def added(self) -> BoolArray:
        """Which ids are added tokens, which are text and not spelled; (V,) bool."""
        mask = np.zeros(self.size, dtype=np.bool_)
        for token in self.document.get("added_tokens") or ():
            mask[token["id"]] = True
        return mask

    @cached_property
    def special(self) -> BoolArray:
        """Which ids are special tokens, a kind of added ones; (V,) bool."""
        mask = np.zeros(self.size, dtype=np.bool_)
        for token in self.document.get("added_tokens") or ():
            mask[token["id"]] = bool(token.get("special"))
        return mask

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The bytes of each token: what it decodes to in the middle of a text."""
        level = is_byte_level(self.document)
        tokens = []
        for name, added in zip(self.names, self.added.tolist(), strict=True):
            spelled = unspell(name) if level and not added else None
            if spelled is not None:
                tokens.append(spelled.tobytes())
            elif len(name) == 6 and name.startswith("<0x") and self.has_fallback:
                tokens.append(bytes([int(name[3:5], 16)]))
            else:
                plain = name if level or added else name.replace("▁", " ")
                tokens.append(plain.encode("utf-8", "surrogatepass"))
        return Vocabulary.from_tokens((), tokens)

    @cached_property
    def scores(self) -> Float64Array | None:
        """Scores by id, (V,) float64; None for BPE."""
        if self.is_bpe:
            return None
        scores = np.zeros(self.size)
        rows = self._model["vocab"]
        scores[: len(rows)] = [float(row[1]) for row in rows]
        return scores

    @cached_property
    def needed(self) -> BoolArray:
        """Tokens that every restriction keeps, (V,) bool; see `restrict.indispensable`."""
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[indispensable(self.document, self.where)] = True
        return mask

    @cached_property
    def derivation(self) -> Int32Array:
        """For each token the rank of the merge that builds it; see `adopted.derivation`."""
        if not self.is_bpe:
            return np.full(self.size, GIVEN, dtype=np.int32)
        flat, offsets = symbols_of(self.names, self._model["vocab"], self.has_fallback)
        ids = np.arange(self.size, dtype=np.int32)
        ranks = derivation(flat, offsets, ids, self.merges)
        ranks[self.needed & (ranks < 0)] = GIVEN
        return ranks

    def use_derivation(self, ranks: Int32Array, where: str) -> None:
        """Use derivations that were stored, (V,) int32."""
        built = np.flatnonzero(ranks >= 0)
        valid = len(self.merges) > int(ranks.max(initial=-1)) and int(ranks.min(initial=0)) >= -2
        if not valid or (self.merges[ranks[built], 2] != built).any():
            raise ModtokError("field 'derivation': not ranks of the tokens' merges", where=where)
        self.__dict__["derivation"] = ranks

    @cached_property
    def pieces(self) -> Int64Array:
        """Tokens that spell a token once it is removed, (V,) int64; 0: it cannot be removed."""
        pieces = np.zeros(self.size, dtype=np.int64)
        pieces[self.derivation >= 0] = 2
        single = self.derivation == GIVEN
        if not self.is_bpe:
            pieces[single] = 2
        elif self.has_fallback:
            pieces[single] = np.maximum(self.vocabulary.lengths[single], 2)
        pieces[self.needed] = 0
        return pieces

    @cached_property
    def form(self) -> TextForm:
        """What happens to a text before merging."""
        if not self._reaches_all:
            return OTHER
        return text_form(self.document, (self.names[i] for i in np.unique(self.merges[:, 2])))

    @property
    def pretokenizer(self) -> PreTokenizer:
        """The pre-tokenizer of ours that splits as the file does; else `none`: whole documents."""
        return self.form.pretokenizer

    def symbols(self, local: Int32Array) -> Symbols:
        """What merging starts from, in the ids `local` (V,): -1 for tokens that are left out."""
        ids = np.full(256, -1, dtype=np.int32)
        if not self.form.of_characters:
            for byte in range(256):
                index = self._model["vocab"].get(spell(bytes([byte])), -1)
                ids[byte] = local[index] if index >= 0 else -1
            return Symbols(ids)
        for byte in range(256):
            ids[byte] = local[self._model["vocab"][f"<0x{byte:02X}>"]]
        characters = np.full(CODE_POINTS, -1, dtype=np.int32)
        for name, index in self._model["vocab"].items():
            if len(name) == 1:
                characters[ord(name)] = local[index]
        characters[ord(" ")] = characters[ord(SPACE)]
        added = {
            token["content"].encode(): -1 if token.get("special") else int(local[token["id"]])
            for token in self.document.get("added_tokens") or ()
            if local[token["id"]] >= 0
        }
        if not any(index >= 0 for index in added.values()):
            return Symbols(ids, characters)
        numbers = np.array(list(added.values()), dtype=np.int32)
        return Symbols(ids, characters, trie_of(list(added)), numbers)

    @property
    def _reaches_all(self) -> bool:
        """Whether looking up whole words (`ignore_merges`) gives what merging gives."""
        return not self._model.get("ignore_merges") or bool((self.derivation >= GIVEN).all())

    def closed(self, mask: BoolArray) -> BoolArray:
        """`mask` (V,) with the needed tokens and all that its tokens are built from."""
        return closed(mask | self.needed, self.derivation, self.merges)

    def restricted(self, rows: Int32Array, provenance: Mapping[str, Any] | None = None) -> bytes:
        """The `tokenizer.json` of the ids `rows`, ascending; all of them: with its own ids."""
        document: Mapping[str, Any] = self.document
        if len(rows) < self.size:
            document = restrict(document, rows, self.where)
        if provenance is not None:
            document = {**document, "model": {**document["model"], PROVENANCE: dict(provenance)}}
        return orjson.dumps(document) + b"\n"

    def frame(self, rows: Int32Array) -> bytes:
        """Everything but vocabulary, merges, scores and provenance, for signatures."""
        new_of = {int(old): new for new, old in enumerate(rows.tolist())}
        model = {
            name: value
            for name, value in self._model.items()
            if name not in ("vocab", "merges", "unk_id", PROVENANCE)
        }
        document = {**restrict_frame(self.document, new_of), "model": model}
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
