"""Segmentation of an adopted tokenizer: its own file, restricted, run as the library runs it.

Where the core splits and merges with the same result they do; else the `tokenizers` library
encodes, or SentencePiece what was a `.model`. Tokens keep the bytes that they decode to in the
middle of a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import BoolArray, Float64Array, Int32Array, Int64Array, token_ids
from modtok_cli.base.membership import Membership
from modtok_cli.base.tensors import Array
from modtok_cli.core.segment import Pairs, SegmenterHandle
from modtok_cli.tokenizer.adopted.restrict import writes_all_text
from modtok_cli.tokenizer.adopted.sentencepiece_form import model_of
from modtok_cli.tokenizer.adopted.text_form import has_model
from modtok_cli.tokenizer.adopted.tokenizer_file import (
    UNREACHED,
    TokenizerFile,
    derivation,
    smallest,
    symbols_of,
)
from modtok_cli.tokenizer.encoding.encoder import Encoder
from modtok_cli.tokenizer.encoding.external import (
    DividedEncoder,
    LibraryEncoder,
    Losses,
    SentencePieceEncoder,
    as_list,
    sentencepiece_processor,
    text_tokenizer,
)
from modtok_cli.tokenizer.segmenters.interface import (
    ModularSegmenter,
    Segmenter,
    other_score,
    score_bytes,
)
from modtok_cli.tokenizer.segmenters.json_frame import PROVENANCE
from modtok_cli.tokenizer.vocabulary import broken

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

    from modtok_cli.tokenizer.stored import Stored

ADOPTED_ROWS = "rows"
"""Setting of an adopted tokenizer: rows of the model's output matrix, or None if not known.

Its file has them too, where some have no token."""


class Library(Segmenter):
    """The tokens of a mask of a `tokenizer.json`, with all merges between them.

    `file` is that before the selection.
    """

    name = "library"
    of_file = True

    def __init__(self, file: TokenizerFile, mask: BoolArray | None = None) -> None:
        super().__init__(file.vocabulary, file.pretokenizer, mask)
        self.file = file

    @property
    def names(self) -> list[str]:
        return [self.file.names[index] for index in self.selection.global_ids.tolist()]

    @property
    def special(self) -> BoolArray:
        return self.file.special[self.selection.global_ids]

    @cached_property
    def merge_ranks(self) -> Int64Array:
        merges, mask = self.file.merges, self.selection.mask
        if mask is None:
            return np.arange(len(merges))
        return np.flatnonzero(mask[merges].all(axis=1))

    @cached_property
    def merges(self) -> Int32Array:
        local = self.selection.local_of_global
        return np.ascontiguousarray(local[self.file.merges[self.merge_ranks]])

    @cached_property
    def scores(self) -> Float64Array | None:
        scores = self.file.scores
        return None if scores is None else scores[self.selection.global_ids]

    @property
    def needed(self) -> BoolArray:
        return self.file.needed[self.selection.global_ids]

    def restricted(self, mask: BoolArray) -> Library:
        return Library(self.file, self.selection.part(mask))

    def most_used(self, counts: Int64Array, k: int | None, coverage: float | None) -> BoolArray:
        """The tokens of greatest use, (n,) bool, by counts (n,) int64; see `smallest`."""
        file, ids = self.file, self.selection.global_ids
        mask, whole = np.isin(np.arange(file.size), ids), np.zeros(file.size, dtype=np.int64)
        whole[ids] = counts
        rules = (file.derivation, file.merges, file.pieces)
        return smallest(mask, whole, *rules, k, coverage)[ids]

    def _encoder(self) -> Encoder:
        is_native, is_whole = self.file.form.is_native, self.pretokenizer.is_whole
        library: LibraryEncoder | SentencePieceEncoder
        if not is_native or is_whole is not None:
            ids = self.selection.global_ids
            library = (
                SentencePieceEncoder(self._sentencepiece)
                if self._sentencepiece is not None
                else LibraryEncoder(self.file.restricted(ids), self.file.where)
            )
        if not is_native:
            return library
        native = Encoder(self.pretokenizer, self.by_merges())
        return native if is_whole is None else DividedEncoder(native, library, is_whole)

    def by_merges(self) -> SegmenterHandle:
        """The core's segmenter of words by the merges."""
        symbols = self.file.symbols(self.selection.local_of_global)
        return SegmenterHandle.by_merges(Pairs(self.merges), symbols)

    @cached_property
    def _sentencepiece(self) -> SentencePieceProcessor | None:
        """The processor of a `.model`; None for other files."""
        if not has_model(self.file.document):
            return None
        return sentencepiece_processor(self.to_sentencepiece(), self.file.where)

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        joined = super().decode_bytes(ids)  # checks the ids
        if (library := self._sentencepiece) is not None:
            if "\ufffd" not in (text := self.decode(ids)):
                return text.encode()
            no_text = (library.is_control, library.is_unused)
            kept = [index for index in as_list(ids) if not any(odd(index) for odd in no_text)]
            unknown = map(library.is_unknown, kept)
            named = zip(self._named(kept), unknown, strict=True)
            # A part of a character is among them.
            return self.file.decoder.data([" \u2047 " if odd else name for name, odd in named])
        return joined if self.file.decoder.is_local else self.file.decoder.data(self._named(ids))

    def decode(self, ids: npt.ArrayLike) -> str:
        joined = super().decode_bytes(ids)
        if self._sentencepiece is not None:
            return str(self._sentencepiece.decode(as_list(ids)))
        with suppress(UnicodeDecodeError):
            if self.file.decoder.is_local:
                return joined.decode()
        return self.file.decoder.text(self._named(ids))

    def _named(self, ids: npt.ArrayLike) -> list[str]:
        names = map(self.file.names.__getitem__, self.selection.global_ids[token_ids(ids)].tolist())
        return list(filter(None, names))

    @cached_property
    def losses(self) -> Losses | None:
        """Of files that drop text, or have an unknown token for it."""
        if writes_all_text(self.file.document):
            return None
        data = self.file.restricted(self.selection.global_ids)
        return Losses(text_tokenizer(data, self.file.where), data)

    def digest(self) -> tuple[bytes, ...]:
        parts = [self.merges.astype("<i4").tobytes(), self.file.frame(self.selection.global_ids)]
        if self.scores is not None:
            parts.append(score_bytes(self.scores))
        return tuple(parts)

    def to_json(self, provenance: Mapping[str, Any]) -> bytes:
        ids = self.selection.global_ids
        if len(ids) == self.file.size and not self.file.names[-1]:
            provenance = {**provenance, ADOPTED_ROWS: len(ids)}
        return self.file.restricted(ids, provenance)

    def to_sentencepiece(self) -> bytes:
        if not has_model(self.file.document):
            return super().to_sentencepiece()
        return model_of(self.file.selected(self.selection.global_ids), self.file.where)

    @classmethod
    def misfit(cls, document: Mapping[str, Any]) -> str | None:
        """Whether `to_json` wrote the document."""
        provenance = document["model"].get(PROVENANCE)
        ours = isinstance(provenance, Mapping) and provenance.get("segmentation") == cls.name
        return None if ours else f"model.{PROVENANCE}"

    @classmethod
    def from_json(cls, document: Mapping[str, Any], where: str) -> Self:
        return cls(_file(document, where))

    def check(self, where: str) -> None:
        """The file was checked when it was read."""

    def unreachable_tokens(self) -> Int64Array:
        file = self.file
        if not file.is_bpe:
            return np.zeros(0, dtype=np.int64)
        rows, names = self.selection.global_ids, self.names
        ids = {name: index for index, name in enumerate(names)}
        flat, offsets = symbols_of(names, ids, file.has_fallback)
        wanted = np.arange(len(rows), dtype=np.int32)
        lost = derivation(flat, offsets, wanted, self.merges) == UNREACHED
        return np.flatnonzero(lost & (file.derivation[rows] >= 0))


class ModularLibrary(ModularSegmenter):
    """T as its own file; a token may belong to no language.

    A language's merges are all those between its tokens.
    """

    kind = Library
    covers = False

    def __init__(self, file: TokenizerFile, merge_membership: Membership) -> None:
        rules = (file.vocabulary, file.pretokenizer, file.merges, merge_membership)
        super().__init__(*rules, scores=file.scores)
        self.file = file

    @classmethod
    def of_members(cls, file: TokenizerFile, members: Membership) -> Self:
        """From the token membership, (V, L)."""
        return cls(file, _between(file.merges, members))

    def subset(
        self, members: Membership, columns: Sequence[int], mask: BoolArray | None
    ) -> Library:
        """The tokens of the mask with all merges between them."""
        return Library(self.file, mask)

    def validate(self, members: Membership, languages: Sequence[str], where: str) -> None:
        """Each language has the needed tokens, and with a token all that it is built from."""
        file = self.file
        if members.shape != (file.size, len(languages)):
            expected = (file.size, len(languages))
            raise broken(where, "token_membership", f"shape {members.shape}, expected {expected}")
        if not members[file.needed].all():
            row = np.flatnonzero(file.needed)[int(np.argmin(members[file.needed].all(axis=1)))]
            raise broken(where, "token_membership", f"token {row} is not in every language")
        for column, language in enumerate(languages):
            lacking = file.closed(members[:, column]) & ~members[:, column]
            if lacking.any():
                row = int(np.argmax(lacking))
                raise broken(
                    where, "token_membership", f"'{language}' lacks token {row}, a part of another"
                )
        if not self.merge_membership.equals(_between(file.merges, members)):
            raise broken(where, "merge_membership", "does not follow from the tokens")

    def digest(self) -> tuple[bytes, ...]:
        return Library(self.file).digest()

    def difference(self, child: Self, columns: Sequence[int], languages: Sequence[str]) -> str:
        if self.scores is None or child.scores is None:
            return "" if self.scores is child.scores else "one has scores, the other merges"
        # Added tokens that have no row have no score.
        return other_score(self.scores, child.scores, 0, len(child.file.document["model"]["vocab"]))

    def check_part(self, members: Membership, languages: Sequence[str], where: str) -> None:
        """As for T: each language by itself."""
        self.validate(members, languages, where)

    def tensors(self) -> dict[str, Array]:
        """The derivations, which take a second to find; all else is in the file."""
        return {"derivation": self.file.derivation.astype("<i4")}

    @classmethod
    def from_files(cls, stored: Stored) -> Self:
        """The `tokenizer.json` with the stored derivations."""
        document, where = stored.document()
        odd = Library.misfit(document)
        if odd:
            raise broken(where, odd, "not as modtok writes it")
        file = _file(document, where)
        for name, value, field in (
            ("pretokenizer", file.pretokenizer.name, "pre_tokenizer"),
            ("specials", file.vocabulary.specials, "added_tokens"),
            ("tokens", file.size, "model.vocab"),
            ("merges", len(file.merges), "model.merges"),
        ):
            said = getattr(stored.manifest, name)
            if value != said:
                raise broken(where, field, f"{value!r}, but manifest.json says {name} {said!r}")
        derivation = stored.arrays.take("derivation", np.int32, (file.size,))
        file.use_derivation(derivation, stored.arrays.where)
        return cls(file, stored.merge_members)


def _file(document: Mapping[str, Any], where: str) -> TokenizerFile:
    """A file that `Library.to_json` wrote."""
    return TokenizerFile(document, where, document["model"][PROVENANCE].get(ADOPTED_ROWS))


def _between(merges: Int32Array, members: Membership) -> Membership:
    """(M, L): merges whose parts and result are in the language."""
    planes = members.planes
    left, right, whole = merges.T
    return Membership(planes[:, left] & planes[:, right] & planes[:, whole], members.columns)
