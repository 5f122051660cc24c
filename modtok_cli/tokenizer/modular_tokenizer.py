"""The modular tokenizer: one vocabulary T, and the languages of each token and merge.

Any set S of languages has a tokenizer: the tokens and the merges that belong to at least
one language of S, in T's order. Since each language holds, with a token, everything it is
made of, so does each union.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from functools import _lru_cache_wrapper, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.arrays import BoolArray, Int32Array, Int64Array
from modtok_cli.base.errors import IN_COMMAND, ModtokError, UsageError
from modtok_cli.base.membership import Membership
from modtok_cli.base.signature import digest
from modtok_cli.base.version import __version__
from modtok_cli.learn.merges import LearnedMerges
from modtok_cli.learn.pieces import LearnedPieces
from modtok_cli.text.languages import language_list, matching, suggest
from modtok_cli.text.pretokenizer import BPE, PHRASES, UNIGRAM, PreTokenizer
from modtok_cli.tokenizer import modular_directory
from modtok_cli.tokenizer.manifest import (
    BYTE_ORDER,
    FORMAT,
    Corpus,
    LanguageEntry,
    Manifest,
    read_manifest,
)
from modtok_cli.tokenizer.methods import TokenizerMethods
from modtok_cli.tokenizer.segmenters.fewest_tokens import ModularFewestTokens
from modtok_cli.tokenizer.segmenters.interface import ModularSegmenter, Segmenter
from modtok_cli.tokenizer.segmenters.merges import ModularMerges
from modtok_cli.tokenizer.segmenters.unigram import ModularUnigram, clamp_bytes
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.validate import check_languages
from modtok_cli.tokenizer.vocabulary import PieceVocabulary, Vocabulary

# Subsets whose tables `encode` keeps.
_RECENT = 8


@dataclass(frozen=True, eq=False, repr=False)
class ModularTokenizer(TokenizerMethods):
    """T with its membership; immutable: it is validated when made, and its arrays are locked.

    Attributes:
        algorithm: how it was learned: "bpe", "bpe-seq", "bpe-merge", "unigram", "unigram-merge".
        languages: in training order.
        k: tokens per language as requested, special tokens and bytes included.
        budgets: language → k, of languages with one of their own.
        segmenter: T's vocabulary, and how words are split into its tokens.
        token_membership: (V, L).
        settings: other settings of learning (order, passes, …), as JSON knows them.
        corpora: language → what it was learned from.
        directory: that it was loaded from, absolute; None if from none.

    `where` names the tokenizer in errors.

    Raises:
        ModtokError: a check of `validate` or of the segmenter fails; names the field.
    """

    algorithm: str
    languages: tuple[str, ...]
    k: int
    segmenter: ModularSegmenter
    token_membership: Membership
    settings: Mapping[str, Any] = field(default_factory=dict)
    corpora: Mapping[str, Corpus] = field(default_factory=dict)
    budgets: Mapping[str, int] = field(default_factory=dict)
    directory: Path | None = None
    where: InitVar[str] = "the tokenizer"

    def __post_init__(self, where: str) -> None:
        check_languages(self.languages, where)
        self.segmenter.validate(self.token_membership, self.languages, where)
        for array in (self.token_membership.planes, *self.segmenter.arrays()):
            array.setflags(write=False)

    def subset(self, languages: str | Iterable[str], name: str | None = None) -> Subtokenizer:
        """Return the tokenizer of a set of languages: V_S = ∪ V_i, M_S = ∪ M_i, in T's order.

        Takes milliseconds, whatever the size of T. Languages are a string such as "fi" or
        "fr,en", or an iterable of codes, in any order and spelling that
        `text.languages.Label` knows.

        Raises:
            UsageError: an unknown language (names those there are), or none at all.
        """
        columns = places(self.languages, languages)
        everything = len(columns) == len(self.languages) and self.segmenter.covers
        mask = None if everything else self.token_membership.union(columns)
        return self._subset(columns, mask, name)

    def full(self, name: str | None = None) -> Subtokenizer:
        """Return T as a tokenizer; of a tokenizer that was learned, the subset of all languages."""
        return self._subset(range(len(self.languages)), None, name)

    def _subset(
        self, columns: Sequence[int], mask: BoolArray | None, name: str | None
    ) -> Subtokenizer:
        return Subtokenizer(
            self.segmenter.subset(self.token_membership, columns, mask),
            languages=[self.languages[i] for i in columns],
            parent_signature=self.signature,
            name=name,
            directory=self.directory,
        )

    def resolve(self, languages: str | Iterable[str]) -> set[str]:
        """Return languages by the labels of this tokenizer.

        Raises:
            UsageError: an unknown one (names those there are), or none at all.
        """
        return resolve(self.languages, languages)

    @property
    def segmentation(self) -> str:
        """Name of the segmentation: "merges", "unigram" or "fewest-tokens"."""
        return self.segmenter.kind.name

    def k_of(self, language: str) -> int:
        """The budget of a language, special tokens and bytes included."""
        return self.budgets.get(language, self.k)

    @property
    def k_text(self) -> str:
        """The budget of the languages, or the least and the largest of them, as text."""
        different = sorted({self.k_of(language) for language in self.languages})
        return " to ".join(f"{k:,}" for k in dict.fromkeys((different[0], different[-1])))

    @property
    def merge_membership(self) -> Membership:
        """(M, L)."""
        return self.segmenter.merge_membership

    @property
    def token_counts(self) -> tuple[Int64Array, ...]:
        """How often each language uses each of its tokens, for fewest tokens; () for others."""
        return self.segmenter.token_counts

    @property
    def size(self) -> int:
        """Number of tokens of T, special tokens and bytes included."""
        return len(self.vocabulary)

    @cached_property
    def superwords(self) -> BoolArray:
        """Which tokens consist of several words, (V,) bool; see `bpe_merge`."""
        if self.pretokenizer is not PHRASES:
            return np.zeros(self.size, dtype=np.bool_)
        from modtok_cli.tokenizer.segmenters.chunks import superwords

        return superwords(self.vocabulary)

    @cached_property
    def signature(self) -> str:
        """Hash of all that decides any subset: vocabulary, merges, membership, languages."""
        return digest(
            self.segmentation.encode(),
            self.pretokenizer.name.encode(),
            orjson.dumps([self.languages, self.vocabulary.specials]),
            self.vocabulary.data.tobytes(),
            self.vocabulary.lengths.astype("<i4").tobytes(),
            self.merges.astype("<i4").tobytes(),
            self.token_membership.packed().tobytes(),
            self.merge_membership.packed().tobytes(),
            *self.segmenter.digest(),
        )

    def encode(
        self,
        text: str,
        *,
        languages: str | Iterable[str] | None = None,
        specials: bool = False,
        max_length: int | None = None,
    ) -> Int32Array:
        """Encode as `subset(languages).encode`, in ids of T: `decode` takes the ids of any subset.

        `languages`: as in `subset`; None for T.
        """
        tokenizer = self._recent(languages)
        return tokenizer.global_ids[
            tokenizer.encode(text, specials=specials, max_length=max_length)
        ]

    def encode_batch(
        self,
        texts: Sequence[str],
        threads: int | None = None,
        *,
        languages: str | Iterable[str] | None = None,
        max_length: int | None = None,
    ) -> list[Int32Array]:
        """Encode as `subset(languages).encode_batch`, in ids of T; see `encode`."""
        tokenizer = self._recent(languages)
        batch = tokenizer.encode_batch(texts, threads, max_length=max_length)
        return [tokenizer.global_ids[ids] for ids in batch]

    @property
    def _plain(self) -> Segmenter:
        return self._recent(None).segmenter

    def _recent(self, languages: str | Iterable[str] | None) -> Subtokenizer:
        """Return the subset of these languages; the last few keep their tables."""
        names = None if languages is None else places(self.languages, languages)
        return self._subsets(None if names is None else tuple(self.languages[i] for i in names))

    @cached_property
    def _subsets(self) -> _lru_cache_wrapper[Subtokenizer]:
        of = lru_cache(_RECENT)  # which threads may share
        return of(lambda names: self.full() if names is None else self.subset(names))

    @classmethod
    def from_learned(
        cls,
        learned: LearnedMerges | LearnedPieces,
        *,
        algorithm: str,
        k: int,
        pretokenizer: PreTokenizer = BPE,
        settings: Mapping[str, Any] | None = None,
        corpora: Mapping[str, Corpus] | None = None,
        budgets: Mapping[str, int] | None = None,
        token_counts: Sequence[Int64Array] | None = None,
    ) -> ModularTokenizer:
        """Make the tokenizer from the result of learning.

        Merges are of a pre-tokenizer; with `token_counts` they segment into fewest tokens.

        Raises:
            ModtokError: the merges are not proper, or a piece is not valid.
        """
        tokens = (learned.specials, learned.token_data, learned.token_offsets)
        segmenter: ModularSegmenter
        if isinstance(learned, LearnedPieces):
            scores = clamp_bytes(learned.scores, len(learned.specials))
            pieces = PieceVocabulary(*tokens)
            segmenter = ModularUnigram(pieces, UNIGRAM, scores, len(learned.languages))
        else:
            vocabulary = Vocabulary(*tokens)
            rules = (vocabulary, pretokenizer, learned.merges, learned.merge_membership)
            if token_counts is None:
                segmenter = ModularMerges(*rules)
            else:
                segmenter = ModularFewestTokens(*rules, token_counts=token_counts)
        return cls(
            algorithm=algorithm,
            languages=learned.languages,
            k=k,
            segmenter=segmenter,
            token_membership=learned.token_membership,
            settings=dict(settings or {}),
            corpora=dict(corpora or {}),
            budgets=dict(budgets or {}),
            where="the learned tokenizer",
        )

    def learned(self) -> LearnedMerges:
        """Return the result of learning, to continue from."""
        return LearnedMerges(
            languages=self.languages,
            specials=self.vocabulary.specials,
            token_data=self.vocabulary.data,
            token_offsets=self.vocabulary.offsets,
            merges=self.merges,
            token_membership=self.token_membership,
            merge_membership=self.merge_membership,
        )

    def save(
        self, directory: str | Path, references: modular_directory.References | None = None
    ) -> None:
        """Write the modular directory, whole or not at all; see `modular_directory.save`.

        By default it keeps the references that a directory of the same tokenizer has.
        """
        place = Path(directory)
        if references is None and modular_directory.is_modular(place):
            with suppress(ModtokError):  # a damaged one is replaced
                if read_manifest(place).signature == self.signature:
                    references = modular_directory.read_references(place)
        whole, arrays = self.full(), self.segmenter.tensors()
        arrays["merges"] = self.merge_membership.packed()
        arrays["tokens"] = self.token_membership.packed()
        model = whole.to_model() if self.segmenter.has_model(self.settings) else None
        files = (whole.to_json(), arrays, model)
        modular_directory.save(place, *files, self._manifest(), references or {})

    def _manifest(self) -> Manifest:
        """Return the manifest, without the fields about files."""
        rows = zip(
            self.languages,
            self.token_membership.sizes().tolist(),
            self.merge_membership.sizes().tolist(),
            map(self.corpora.get, self.languages),
            strict=True,
        )
        return Manifest(
            format=FORMAT,
            written_by=f"modtok {__version__}",
            signature=self.signature,
            algorithm=self.algorithm,
            segmentation=self.segmentation,
            pretokenizer=self.pretokenizer.name,
            pattern=self.pretokenizer.pattern,
            byte_order=BYTE_ORDER,
            k=self.k,
            tokens=self.size,
            merges=len(self.merges),
            specials=self.vocabulary.specials,
            settings=dict(self.settings),
            languages=tuple(
                LanguageEntry(*row, k=self.budgets.get(name))
                for name, row in zip(self.languages, rows, strict=True)
            ),
            files={},
            checksum="",
        )

    @classmethod
    def load(cls, directory: str | Path) -> ModularTokenizer:
        """Read and validate a modular directory; see `modular_directory.read`.

        Raises:
            ModtokError: a file is missing, damaged or changed by hand; names it and the field.
        """
        stored = modular_directory.read(Path(directory))
        manifest = stored.manifest
        tokenizer = cls(
            algorithm=manifest.algorithm,
            languages=tuple(row.language for row in manifest.languages),
            k=manifest.k,
            segmenter=modular_directory.segmenter_of(stored),
            token_membership=stored.token_members,
            settings=manifest.settings,
            corpora={row.language: row.corpus for row in manifest.languages if row.corpus},
            budgets={row.language: row.k for row in manifest.languages if row.k is not None},
            directory=Path(directory).absolute(),
            where=str(directory),
        )
        modular_directory.verify(stored, tokenizer.signature)
        return tokenizer

    def __repr__(self) -> str:
        return (
            f"ModularTokenizer(algorithm={self.algorithm!r}, segmentation={self.segmentation!r}, "
            f"size={self.size}, k={self.k}, languages={list(self.languages)})"
        )


def places(known: Sequence[str], wanted: str | Iterable[str]) -> list[int]:
    """Return the places in `known` of the languages of `wanted`, ascending; see `resolve`."""
    chosen = resolve(known, wanted)
    return [i for i, language in enumerate(known) if language in chosen]


MODEL = "the model has no language"


def resolve(
    known: Sequence[str], wanted: str | Iterable[str], what: str = "the tokenizer has no language"
) -> set[str]:
    """Return the languages of `known` that `wanted` names, by any of their codes.

    `what` is said of others.
    """
    chosen: set[str] = set()
    for language in language_list(wanted, "--langs" if IN_COMMAND.get() else "languages"):
        those = matching(language, known)
        if not those:
            raise UsageError(
                f"{what} '{language:.80}'",
                remedy=f"{suggest(language, known)}it has: {', '.join(known)}",
            )
        chosen.update(those)
    return chosen
