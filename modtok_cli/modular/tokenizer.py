"""The modular tokenizer: one vocabulary T, and which language each token and merge is of.

Any set S of languages has a tokenizer: the tokens and the merges that belong to at least
one language of S, in T's order. Since each language holds, with a token, everything it is
made of, so does each union.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import UsageError
from modtok_cli.base.signature import digest
from modtok_cli.learn.fewest_tokens import FEWEST_TOKENS, file_scores, likelihoods
from modtok_cli.learn.merges import LearnedMerges
from modtok_cli.modular.search import open_search
from modtok_cli.modular.subtokenizer import Subtokenizer, score_bytes
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.languages import language_list, normalize
from modtok_cli.text.pretokenizer import UNIGRAM

if TYPE_CHECKING:
    from modtok_cli.learn.pieces import LearnedPieces
    from modtok_cli.modular.directory import References
    from modtok_cli.modular.least_search import TokenTrie
    from modtok_cli.modular.search import Search

Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Corpus:
    """What a language was learned from: hash of its word counts, and the size of the text."""

    fingerprint: str
    documents: int
    characters: int
    bytes: int


@dataclass(frozen=True, eq=False, repr=False)
class ModularTokenizer:
    """T with its membership; immutable.

    Attributes:
        algorithm: how it was learned: "bpe", "bpe-seq", "bpe-merge", "unigram", "unigram-merge".
        segmentation: how words are cut into tokens: by "merges", by scores ("unigram"), or into
            the fewest ("fewest-tokens").
        languages: in training order.
        k: tokens asked for per language, special tokens and bytes included.
        scheme: name of the pre-tokenizer, see `text.pretokenizer`.
        vocabulary: T in order of creation: special tokens, the 256 bytes, results of merges.
        merges: (M, 3) int32: left, right, result; the row is the rank. None for "unigram" and
            "bpe-merge".
        token_membership, merge_membership: (V, L) and (M, L) bool.
        settings: what else learning was told (order, passes, …), as JSON knows it.
        corpora: language → what it was learned from.
        scores: (V,) float64 log-probabilities for "unigram", else None.
        token_counts: for "fewest-tokens", else None: per language an array with the number of
            times its text uses each of its tokens; decides between segmentations of one length.
    """

    algorithm: str
    segmentation: str
    languages: tuple[str, ...]
    k: int
    scheme: str
    vocabulary: Vocabulary
    merges: Ids
    token_membership: Mask
    merge_membership: Mask
    settings: Mapping[str, Any] = field(default_factory=dict)
    corpora: Mapping[str, Corpus] = field(default_factory=dict)
    scores: npt.NDArray[np.float64] | None = None
    token_counts: tuple[npt.NDArray[np.int64], ...] | None = None

    def __post_init__(self) -> None:
        # A subset reads whole columns: a language's members lie side by side.
        for name in ("token_membership", "merge_membership"):
            columns = np.array(getattr(self, name), dtype=np.bool_, order="F")
            columns.setflags(write=False)
            object.__setattr__(self, name, columns)
        object.__setattr__(self, "_sound", None)

    def trust(self) -> None:
        """Note that this very tokenizer was validated: what is saved need not be so again."""
        object.__setattr__(self, "_sound", self._checksum())

    @property
    def is_sound(self) -> bool:
        """Whether it was validated as it is: neither a copy nor an array written to since."""
        return bool(self.__dict__["_sound"] == self._checksum())

    def _checksum(self) -> int:
        """Of all that `validate` looks at and somebody could write to; membership is locked."""
        arrays = (self.vocabulary.data, self.vocabulary.offsets, self.merges)
        found = 0
        for array in (
            *arrays,
            *(self.token_counts or ()),
            *([] if self.scores is None else [self.scores]),
        ):
            found = crc32(np.ascontiguousarray(array).data, found)
        return found

    @classmethod
    def from_learned(
        cls,
        learned: LearnedMerges,
        *,
        algorithm: str,
        k: int,
        scheme: str = "bpe",
        settings: Mapping[str, Any] | None = None,
        corpora: Mapping[str, Corpus] | None = None,
        token_counts: Sequence[npt.NDArray[np.int64]] | None = None,
    ) -> ModularTokenizer:
        """The artefact of what learning gave; with `token_counts` it is one of least tokens.

        Raises:
            ModtokError: the merges are not proper; see `validate.validate`.
        """
        from modtok_cli.modular.validate import validate

        tokenizer = cls(
            algorithm=algorithm,
            segmentation="merges" if token_counts is None else FEWEST_TOKENS,
            languages=learned.languages,
            k=k,
            scheme=scheme,
            vocabulary=Vocabulary(learned.specials, learned.token_data, learned.token_offsets),
            merges=learned.merges,
            token_membership=learned.token_membership,
            merge_membership=learned.merge_membership,
            settings=dict(settings or {}),
            corpora=dict(corpora or {}),
            token_counts=None if token_counts is None else tuple(token_counts),
        )
        validate(tokenizer, "what was learned")
        tokenizer.trust()
        return tokenizer

    @classmethod
    def from_pieces(
        cls,
        learned: LearnedPieces,
        *,
        algorithm: str,
        k: int,
        settings: Mapping[str, Any] | None = None,
        corpora: Mapping[str, Corpus] | None = None,
    ) -> ModularTokenizer:
        """The artefact of what Unigram learning gave.

        Raises:
            ModtokError: the pieces break a promise; see `piece_vocabulary.check_pieces`.
        """
        from modtok_cli.modular.piece_vocabulary import PieceVocabulary, clamp_bytes
        from modtok_cli.modular.validate import validate

        tokenizer = cls(
            algorithm=algorithm,
            segmentation=UNIGRAM,
            languages=learned.languages,
            k=k,
            scheme=UNIGRAM,
            vocabulary=PieceVocabulary(learned.specials, learned.token_data, learned.token_offsets),
            merges=np.zeros((0, 3), dtype=np.int32),
            token_membership=learned.token_membership,
            merge_membership=np.zeros((0, len(learned.languages)), dtype=np.bool_),
            settings=dict(settings or {}),
            corpora=dict(corpora or {}),
            scores=clamp_bytes(learned.scores, len(learned.specials)),
        )
        validate(tokenizer, "what was learned")
        tokenizer.trust()
        return tokenizer

    @cached_property
    def _search(self) -> Search | None:
        return open_search(self.vocabulary, self.scores, self.segmentation, self.scheme)

    @cached_property
    def _trie(self) -> TokenTrie:
        from modtok_cli.modular.least_search import TokenTrie

        return TokenTrie(self.vocabulary)

    def _search_of(self, columns: Sequence[int]) -> Search | None:
        """What the subset of these languages searches with; None for merges."""
        if self.token_counts is None:
            return self._search
        from modtok_cli.modular.least_search import LeastSearch

        total = np.zeros(self.size, dtype=np.int64)
        for column in columns:
            total[self.token_membership[:, column]] += self.token_counts[column]
        scores = file_scores(likelihoods(total), len(self.vocabulary.specials))
        return LeastSearch(self._trie, scores, self.scheme)

    def learned(self) -> LearnedMerges:
        """As learning gave it, to go on from."""
        return LearnedMerges(
            languages=self.languages,
            specials=self.vocabulary.specials,
            token_data=self.vocabulary.data,
            token_offsets=self.vocabulary.offsets,
            merges=self.merges,
            token_membership=self.token_membership,
            merge_membership=self.merge_membership,
        )

    @property
    def size(self) -> int:
        """Number of tokens of T, special tokens and bytes included."""
        return len(self.vocabulary)

    @cached_property
    def signature(self) -> str:
        """Hash of all that decides any subset: vocabulary, merges, membership, languages."""
        return digest(
            self.segmentation.encode(),
            self.scheme.encode(),
            orjson.dumps([self.languages, self.vocabulary.specials]),
            self.vocabulary.data.tobytes(),
            self.vocabulary.lengths.astype("<i4").tobytes(),
            self.merges.astype("<i4").tobytes(),
            pack(self.token_membership).tobytes(),
            pack(self.merge_membership).tobytes(),
            *score_bytes(self.scores),
            *(token_counts.astype("<i8").tobytes() for token_counts in self.token_counts or ()),
        )

    def subset(self, languages: str | Iterable[str], name: str | None = None) -> Subtokenizer:
        """The tokenizer of a set of languages: V_S = ∪ V_i, M_S = ∪ M_i, in T's order.

        Takes milliseconds, whatever the size of T. Languages are a string such as "fi" or
        "fr,en", or an iterable of codes, in any order and spelling that
        `text.languages.normalize` knows.

        Raises:
            UsageError: an unknown language (names those there are), or none at all.
        """
        wanted = self.resolve(languages)
        columns = [i for i, language in enumerate(self.languages) if language in wanted]
        everything = len(columns) == len(self.languages)
        # Least tokens ask for no merges; a subset's own file has none either.
        by_merges = self.token_counts is None
        return Subtokenizer(
            self.vocabulary,
            self.merges if by_merges else self.merges[:0],
            scheme=self.scheme,
            segmentation=self.segmentation,
            languages=[self.languages[i] for i in columns],
            parent_signature=self.signature,
            token_mask=None if everything else _union(self.token_membership, columns),
            merge_mask=None
            if everything or not by_merges
            else _union(self.merge_membership, columns),
            name=name,
            search=self._search_of(columns),
        )

    def full(self, name: str | None = None) -> Subtokenizer:
        """T as a tokenizer: the subset of all languages."""
        return self.subset(self.languages, name)

    def resolve(self, languages: str | Iterable[str]) -> set[str]:
        """Languages as this tokenizer calls them.

        Raises:
            UsageError: an unknown one (names those there are), or none at all.
        """
        return resolve(self.languages, languages)

    def save(self, directory: str | Path, references: References | None = None) -> None:
        """Write the modular directory, whole or not at all; see `directory.save`."""
        from modtok_cli.modular.directory import save

        save(self, Path(directory), references or {})

    @staticmethod
    def load(directory: str | Path) -> ModularTokenizer:
        """Read and validate a modular directory; see `directory.load`."""
        from modtok_cli.modular.directory import load

        return load(Path(directory))

    def __repr__(self) -> str:
        return (
            f"ModularTokenizer(algorithm={self.algorithm!r}, segmentation={self.segmentation!r}, "
            f"size={self.size}, k={self.k}, languages={list(self.languages)})"
        )


def _union(membership: Mask, columns: Sequence[int]) -> Mask:
    union: Mask = membership[:, columns[0]].copy()
    for column in columns[1:]:
        union |= membership[:, column]
    return union


def pack(membership: Mask) -> npt.NDArray[np.uint8]:
    """(N, L) bool to (N, ⌈L / 8⌉) uint8, bit j % 8 of byte j // 8 for column j."""
    # Of a column-major array packbits makes another, whose memory safetensors would write as is.
    return np.ascontiguousarray(np.packbits(membership, axis=1, bitorder="little"))


def resolve(known: Sequence[str], wanted: str | Iterable[str]) -> set[str]:
    """The languages of `known` that `wanted` names, as such or by another code of theirs.

    Raises:
        UsageError: one is not there (names those there are), or `wanted` is empty.
    """
    found: set[str] = set()
    for language in language_list(wanted):
        if language in known:
            found.add(language)
            continue
        code = normalize(language)
        if code not in known:
            near = difflib.get_close_matches(code, known, n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise UsageError(
                f"the tokenizer has no language '{language}'",
                remedy=f"{hint}it has: {', '.join(known)}",
            )
        found.add(code)
    if not found:
        raise UsageError("no language given", remedy=f"choose from: {', '.join(known)}")
    return found
