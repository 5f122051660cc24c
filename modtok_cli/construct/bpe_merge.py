"""`modtok bpe-merge`: vocabularies learned independently and united, fewest-token segmentation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.construct.cancellable import HiddenProgress
from modtok_cli.construct.journal import Kept
from modtok_cli.construct.learner import BpeSettings, Learner
from modtok_cli.construct.merges_state import merges_from_arrays, merges_to_arrays
from modtok_cli.construct.pipeline import construct
from modtok_cli.construct.references import reference_of
from modtok_cli.construct.request import BuildReport, Request
from modtok_cli.construct.work import Work
from modtok_cli.learn.fewest_tokens import FEWEST_TOKENS
from modtok_cli.learn.merges import GlobalMerges
from modtok_cli.learn.prune import (
    OVERTRAIN,
    SAMPLE,
    LanguageTokens,
    choose_tokens,
    choose_with_superwords,
)
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.learn.unite import part, unite, without
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.counter import count_documents
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import BPE, PHRASES
from modtok_cli.text.reading import Reading


@dataclass(frozen=True)
class MergeSettings(BpeSettings):
    """Settings of united BPE; see `bpe_merge`."""

    overtrain: float = OVERTRAIN
    whole_characters: bool = False
    superwords: int = 0

    def __post_init__(self) -> None:
        if self.superwords < 0:
            raise UsageError(f"{self.superwords} is negative", where="--superwords")
        if self.superwords and self.pretokenizer != BPE.name:
            raise UsageError(
                f"superwords consist of words of 'bpe', not of '{self.pretokenizer}'",
                where="--pretokenizer",
                remedy="omit it, or omit --superwords",
            )
        if self.superwords and self.whole_characters:
            raise UsageError(
                "a SentencePiece model cannot hold superwords",
                where="--whole-characters",
                remedy="omit it, or omit --superwords",
            )
        if not 1.0 <= self.overtrain <= 16.0:
            raise UsageError(f"{self.overtrain} is not between 1 and 16", where="--overtrain")


@dataclass(frozen=True)
class LearnedLanguage:
    """One language, learned independently, and the seconds it took."""

    tokens: LanguageTokens
    seconds: float


class UnitedBpe(Learner[MergeSettings]):
    """Each language's tokens learned independently, several at a time, then united."""

    algorithm = "bpe-merge"
    settings_type = MergeSettings
    segmentation = FEWEST_TOKENS

    def __init__(self, k: int, specials: Sequence[str], settings: MergeSettings) -> None:
        super().__init__(k, specials, settings)
        self._languages: dict[str, LearnedLanguage] = {}
        self._base: ModularTokenizer | None = None

    @classmethod
    def settings_of(cls, base: ModularTokenizer) -> dict[str, Any]:
        """The settings of `base`; with superwords it splits text into phrases, not into words."""
        settings = super().settings_of(base)
        if base.settings.get("superwords"):
            settings["pretokenizer"] = BPE.name
        return settings

    def check(self) -> None:
        """Check also that superwords leave room for words."""
        super().check()
        if 2 * self.settings.superwords > self.k:
            raise UsageError(
                f"{self.settings.superwords:,} superwords are more than half of k = {self.k:,}",
                where="--superwords",
                remedy="choose at most half of k",
            )

    def order(self, languages: Sequence[str], requested: Sequence[str] | None) -> list[str]:
        """Alphabetical; the result does not depend on it."""
        return sorted(languages)

    def start(self, base: ModularTokenizer) -> None:
        """Keep all ids of `base`."""
        self._base = base

    def state(self) -> Kept:
        """The union of the languages so far."""
        learned, token_counts = unite(
            {name: found.tokens for name, found in self._languages.items()}, self.specials
        )
        notes = {
            "token_counts": [row.tolist() for row in token_counts],
            "seconds": {name: found.seconds for name, found in self._languages.items()},
        }
        return Kept(merges_to_arrays(learned), notes)

    def restore(self, kept: Kept) -> list[str]:
        """Take the languages of the journal."""
        seconds = dict(kept.notes["seconds"])
        learned = merges_from_arrays(kept.arrays, list(seconds), self.specials)
        rows = tuple(np.array(row, dtype=np.int64) for row in kept.notes["token_counts"])
        self._languages = {
            name: LearnedLanguage(part((learned, rows), name), seconds[name]) for name in seconds
        }
        return list(seconds)

    def learn(self, work: Work) -> None:
        """All languages in the thread pool."""
        running = {work.submit(self.learn_language, name, work): name for name in work.languages}
        with work.progress.task("languages", total=len(running), unit="languages") as task:
            for done, future in enumerate(as_completed(running), 1):
                found = future.result()
                self._languages[running[future]] = found
                task.advance(1)
                if done < len(running):
                    work.keep(found.seconds)

    def learn_language(self, language: str, work: Work) -> LearnedLanguage:
        """Count a language, learn more tokens than k by BPE, keep the k best of them."""
        counts = work.count(language)
        phrases = None
        if self.settings.superwords:
            phrases = count_documents([work.sample(language, SAMPLE)], PHRASES)
        began = time.perf_counter()
        progress = HiddenProgress(work.progress)
        tokens, wide = self._choose(language, counts, phrases, self.k, progress)
        if work.request.references:
            work.add_reference(language, reference_of(language, counts, self.k, wide))
        return LearnedLanguage(tokens, round(time.perf_counter() - began, 3))

    def _choose(
        self,
        language: str,
        counts: WordCounts,
        phrases: WordCounts | None,
        k: int,
        progress: Progress,
    ) -> tuple[LanguageTokens, GlobalMerges]:
        """The k tokens of a language, and the BPE with more tokens that they come from."""
        wide = learn_plain(
            counts,
            int(k * self.settings.overtrain),
            self.specials,
            label=language,
            progress=progress,
        ).merges
        if phrases is not None:
            tokens = choose_with_superwords(
                counts,
                phrases,
                wide.token_data,
                wide.token_offsets,
                len(self.specials),
                k,
                self.settings.superwords,
                label=language,
                progress=progress,
            )
            return tokens, wide
        tokens = choose_tokens(
            counts,
            wide.token_data,
            wide.token_offsets,
            len(self.specials),
            k,
            whole_characters=self.settings.whole_characters,
            label=language,
            progress=progress,
        )
        return tokens, wide

    def result(self, work: Work) -> ModularTokenizer:
        """The union of all languages, after those of the tokenizer that is extended."""
        base = self._base
        start = None if base is None else (base.learned(), base.token_counts)
        tokens = {name: self._languages[name].tokens for name in sorted(self._languages)}
        learned, token_counts = unite(tokens, self.specials, start)
        return ModularTokenizer.from_learned(
            learned,
            algorithm=self.algorithm,
            k=self.k,
            pretokenizer=PHRASES if self.settings.superwords else self.pretokenizer,
            settings=self.recorded(),
            corpora=work.corpora,
            token_counts=token_counts,
        )

    def rows(self, output: ModularTokenizer) -> list[dict[str, Any]]:
        """Tokens, tokens of no other language, superwords, size of T, seconds."""
        members = output.token_membership
        alone = members.sum(axis=1) == 1
        several = output.superwords
        rows = []
        for language in sorted(self._languages):
            column = members[:, output.languages.index(language)]
            rows.append(
                {
                    "language": language,
                    "tokens": int(column.sum()),
                    "own": int((column & alone).sum()),
                    "superwords": int((column & several).sum()),
                    "total": output.size,
                    "seconds": self._languages[language].seconds,
                }
            )
        return rows

    def without(self, base: ModularTokenizer, removed: Sequence[str]) -> ModularTokenizer:
        """The other languages keep their tokens, in the same order."""
        learned, token_counts = without((base.learned(), base.token_counts), removed)
        return ModularTokenizer.from_learned(
            learned,
            algorithm=self.algorithm,
            k=base.k,
            pretokenizer=base.pretokenizer,
            settings=base.settings,
            corpora={
                name: base.corpora[name] for name in learned.languages if name in base.corpora
            },
            token_counts=token_counts,
        )


def bpe_merge(
    languages: Sequence[str] | None = None,
    *,
    data: Path = Path("data"),
    output: Path = Path("tokenizer"),
    k: int | None = None,
    overtrain: float | None = None,
    whole_characters: bool | None = None,
    superwords: int | None = None,
    pretokenizer: str | None = None,
    append: Sequence[str] | None = None,
    tokenizer: Path | None = None,
    remove: Sequence[str] | None = None,
    references: bool = True,
    specials: Sequence[str] = (),
    default_specials: bool = True,
    reading: Reading = Reading(),
    threads: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
    journal_seconds: float | None = None,
) -> BuildReport:
    """Learn the tokens of each language independently, unite them, segment into fewest tokens.

    Args:
        languages: languages of `data` to learn; None for all.
        data: directory with the text of each language.
        output: modular directory to write.
        k: tokens per language, special tokens and the 256 bytes included; default 24000.
        overtrain: number of BPE tokens to choose from, as a multiple of k; default 1.25.
        whole_characters: only tokens of whole characters, as SentencePiece requires.
        superwords: most tokens of each language that may be sequences of words; default 0. The
            tokenizer then splits text into phrases.
        pretokenizer: name of the pre-tokenizer; default "bpe".
        append: languages to add to `tokenizer`; its settings apply, and others are refused.
            All of its ids stay the same, which is checked.
        remove: languages to remove from `tokenizer`.
        tokenizer: tokenizer to change. None: `output` in place; the old version is kept beside
            it as `NAME.SIGNATURE`.
        references: keep the monolingual BPE tokenizer of each language too.
        specials: special tokens, after the default ones (end of text and padding).
        default_specials: include the default special tokens.
        reading: which field has the text, and handling of invalid UTF-8.
        threads: number of languages to learn at a time; default one per core.
        force: replace an existing output.
        journal_seconds: least time between two writes of the journal.

    Returns:
        A row per language: tokens, tokens of no other language, size of T.

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    request = Request(
        output=output,
        languages=languages,
        data=data,
        k=k,
        specials=specials,
        default_specials=default_specials,
        append=append,
        tokenizer=tokenizer,
        remove=remove,
        references=references,
        reading=reading,
        threads=threads,
        force=force,
        progress=progress,
        journal_seconds=journal_seconds,
    )
    settings = {
        "overtrain": overtrain,
        "whole_characters": whole_characters,
        "superwords": superwords,
        "pretokenizer": pretokenizer,
    }
    return construct(UnitedBpe, request, settings)
