"""A tokenizer with one numbering: of a set of languages, or of a file.

Local id ↔ global id is ascending order, so special tokens and bytes keep their places at
the front. Nothing is built when a subset is taken: tables for encoding come on first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from modtok_cli.base.arrays import BoolArray, Int32Array, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.signature import digest
from modtok_cli.text.counts import WordCounts
from modtok_cli.tokenizer.encoding.encoder import in_utf8
from modtok_cli.tokenizer.formats import format_of, suffix_of
from modtok_cli.tokenizer.methods import TokenizerMethods
from modtok_cli.tokenizer.segmenters.interface import Segmenter

if TYPE_CHECKING:
    from modtok_cli.tokenizer.encoding.encoder import Encoder
    from modtok_cli.tokenizer.encoding.external import Losses


class Subtokenizer(TokenizerMethods):
    """A segmenter with a name, languages and a parent.

    Attributes:
        segmenter: splits text into tokens; owns vocabulary, pre-tokenizer, merges or scores.
        name: name that the user gave.
        languages: in the parent's order; empty if unknown.
        parent_signature: of the modular tokenizer that it was extracted from, None if from none.
        directory: of that tokenizer, if it was loaded from one.
        provenance: what its own file says about its origin; empty if from no file.
        ignored: settings of its file that are not applied.
    """

    segmenter: Segmenter

    def __init__(
        self,
        segmenter: Segmenter,
        *,
        languages: Sequence[str] = (),
        parent_signature: str | None = None,
        name: str | None = None,
        directory: Path | None = None,
        provenance: Mapping[str, Any] | None = None,
        ignored: tuple[str, ...] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.segmenter = segmenter
        self.languages = tuple(languages)
        self.name = name or ",".join(self.languages) or "tokenizer"
        self.parent_signature = parent_signature
        self.directory = directory
        self.provenance: Mapping[str, Any] = provenance or {}
        self.ignored = ignored
        self._extra = extra or {}

    @classmethod
    def of_file(
        cls,
        segmenter: Segmenter,
        name: str,
        provenance: Mapping[str, Any],
        ignored: tuple[str, ...] = (),
    ) -> Subtokenizer:
        """The tokenizer of a file that a segmenter of ours runs; see `to_bytes`."""
        languages, parent = provenance.get("languages"), provenance.get("parent")
        return cls(
            segmenter,
            languages=[each for each in languages if isinstance(each, str)]
            if isinstance(languages, list)
            else (),
            parent_signature=parent if isinstance(parent, str) else None,
            name=name,
            provenance=provenance,
            ignored=ignored,
        )

    def __repr__(self) -> str:
        return (
            f"Subtokenizer(name={self.name!r}, segmentation={self.segmentation!r}, "
            f"size={self.size}, languages={list(self.languages)})"
        )

    @property
    def size(self) -> int:
        """Number of tokens, special tokens and bytes included."""
        return self.segmenter.size

    @property
    def segmentation(self) -> str:
        """Name of the segmentation: "merges", "unigram" or "fewest-tokens"."""
        return self.segmenter.name

    @property
    def global_ids(self) -> Int32Array:
        """(n,) int32, ascending; the parent's id of each local id."""
        return self.segmenter.selection.global_ids

    @property
    def local_of_global(self) -> Int32Array:
        """(V,) int32; -1 for what is outside."""
        return self.segmenter.selection.local_of_global

    @property
    def merge_ranks(self) -> Int64Array:
        """Rank in the parent of each merge; (m,) int64, ascending."""
        return self.segmenter.merge_ranks

    @cached_property
    def signature(self) -> str:
        """Hash of vocabulary, merges, scores, pre-tokenizer and segmentation.

        Equal whether a subset was taken from its directory or read from its own file.
        """
        return digest(
            self.segmentation.encode(),
            self.pretokenizer.name.encode(),
            orjson.dumps(self.vocabulary.specials),
            self.vocabulary.data.tobytes(),
            self.vocabulary.lengths.astype("<i4").tobytes(),
            *self.segmenter.digest(),
        )

    def _key(self) -> tuple[object, ...]:
        """The languages and global ids too: subsets of two tokenizers may have equal tokens."""
        return self.signature, self.languages, self.global_ids.tobytes()

    @property
    def losses(self) -> Losses | None:
        """Counts what it cannot write; None if it can write every text."""
        return self.segmenter.losses

    @property
    def unknown(self) -> int | None:
        """Id of the token that stands for text without a token; None if there is none."""
        return None if self.losses is None else self.losses.unknown

    @property
    def encoder(self) -> Encoder:
        """The compiled encoder; made on first use, in milliseconds."""
        return self.segmenter.encoder

    @property
    def _plain(self) -> Segmenter:
        return self.segmenter

    def encode_utf8(
        self, texts: Sequence[str | bytes], threads: int | None = None
    ) -> list[Int32Array]:
        """Token ids of each text, a string or valid UTF-8.

        Raises:
            UsageError, ModtokError: as `encode_batch`.
        """
        return self.encoder.texts(in_utf8(texts), threads)

    def encode_flat(
        self, texts: Sequence[str | bytes], threads: int | None = None
    ) -> tuple[Int32Array, Int64Array]:
        """Token ids of texts, strings or valid UTF-8, in one array, without an object for each.

        Returns ids (N,) int32 and offsets (D + 1,) int64: the ids of text i are
        ids[offsets[i]:offsets[i + 1]].

        Raises:
            UsageError, ModtokError: as `encode_batch`.
        """
        return self.encoder.joined(in_utf8(texts), threads)

    def forget_words(self) -> None:
        """Free the caches of words, for programs that hold hundreds of tokenizers."""
        self.segmenter.forget_words()

    def token_lengths(self, counts: WordCounts) -> Int64Array:
        """Number of tokens of each unique word; shape (W,) int64.

        Raises:
            ModtokError: the words were split by another pre-tokenizer.
        """
        self._same_words(counts)
        return np.diff(self.encoder.words(counts)[1])

    def token_occurrences(self, counts: WordCounts) -> Int64Array:
        """How often each token occurs in the counted text; shape (n,) int64.

        With the word "ab" counted 3 times and encoded as [a, b], both get 3.

        Raises:
            ModtokError: the words were split by another pre-tokenizer.
        """
        self._same_words(counts)
        ids, ends = self.encoder.words(counts)
        total = np.zeros(self.size, dtype=np.int64)
        np.add.at(total, ids, np.repeat(counts.counts, np.diff(ends)))
        return total

    def _same_words(self, counts: WordCounts) -> None:
        if counts.pretokenizer is not self.pretokenizer:
            raise ModtokError(
                f"the word counts are of pre-tokenizer '{counts.pretokenizer.name}', "
                f"tokenizer {self.name} uses '{self.pretokenizer.name}'",
                remedy="count the text again with that pre-tokenizer",
            )

    def restricted(self, mask: BoolArray, extra: Mapping[str, Any] | None = None) -> Subtokenizer:
        """The same tokenizer with the tokens of `mask` (n,) bool only.

        `extra` is added to the provenance in its files.

        Raises:
            UsageError: `mask` lacks a special token or a byte.
        """
        if not mask[self.segmenter.needed].all():
            raise UsageError(f"tokenizer {self.name} cannot lose special tokens or bytes")
        return Subtokenizer(
            self.segmenter.restricted(mask),
            languages=self.languages,
            parent_signature=self.parent_signature or self.signature,
            name=self.name,
            directory=self.directory,
            extra=extra,
        )

    def save(self, path: str | Path) -> None:
        """Write the format of the path's suffix: SentencePiece for `.model`, else `tokenizer.json`.

        The file is written atomically and replaces an existing one.

        Raises:
            UsageError: the format cannot hold the tokenizer, or the suffix names another format.
            ModtokError: the file cannot be written.
        """
        path = Path(path)
        write_bytes(path, self.to_bytes(suffix_of(path)))

    def save_pretrained(
        self,
        directory: str | Path,
        *,
        specials: Sequence[str] = (),
        chat_template: str | None = None,
        force: bool = False,
    ) -> dict[str, Any]:
        """Write a directory that `AutoTokenizer.from_pretrained` opens.

        Args:
            directory, specials, chat_template, force: see `hf_directory.write_hf_directory`.

        Raises:
            UsageError: the directory exists, or a special token or the template is invalid.
        """
        from modtok_cli.tokenizer.hf_directory import write_hf_directory

        return write_hf_directory(
            Path(directory),
            self.to_json(),
            specials=specials,
            chat_template=chat_template,
            force=force,
        )

    def to_bytes(self, suffix: str = "", extra: Mapping[str, Any] | None = None) -> bytes:
        """Content of a file with this suffix; `extra` is added to its provenance.

        Raises:
            UsageError: the format cannot hold the tokenizer.
        """
        provenance = {
            "format": 1,
            "languages": list(self.languages),
            "parent": self.parent_signature,
            "pretokenizer": self.pretokenizer.name,
            "segmentation": self.segmentation,
            **self._extra,
            **(extra or {}),
        }
        return format_of(suffix).write(self.segmenter, provenance)

    def to_json(self, extra: Mapping[str, Any] | None = None) -> bytes:
        """A plain `tokenizer.json` that the `tokenizers` library and transformers load."""
        return self.to_bytes(".json", extra)

    def to_model(self) -> bytes:
        """A SentencePiece `.model`.

        Raises:
            UsageError: SentencePiece cannot express the tokenizer.
        """
        return self.to_bytes(".model")
