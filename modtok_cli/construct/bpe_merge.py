"""`modtok bpe-merge`: vocabularies learned independently and united, fewest-token segmentation."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import as_completed
from typing import Annotated, Any, Unpack

import numpy as np

from modtok_cli.base import parameters
from modtok_cli.base.arrays import BoolArray, flatten, unflatten
from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.public import public
from modtok_cli.construct.cancellable import HiddenProgress
from modtok_cli.construct.journal import JournalState
from modtok_cli.construct.learner import Learner, left_out_of
from modtok_cli.construct.monolingual import reference_of
from modtok_cli.construct.parameters import (
    BudgetByLanguage,
    FairShare,
    FairTexts,
    ModularBpeOptions,
)
from modtok_cli.construct.pipeline import construct
from modtok_cli.construct.request import BuildReport, Destination, LearnerOptions, TrainingText
from modtok_cli.construct.work import Work
from modtok_cli.learn.fewest_tokens import FEWEST_TOKENS
from modtok_cli.learn.prune import (
    OVERTRAIN,
    SAMPLE,
    LanguageTokens,
    choose_tokens,
    choose_with_superwords,
)
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.learn.unite import unite, without
from modtok_cli.text.counts import count_documents
from modtok_cli.text.languages import Label
from modtok_cli.text.pretokenizer import BPE, PHRASES
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer


class UnitedBpe(Learner):
    """Each language's tokens learned independently, several at a time, then united."""

    algorithm = "bpe-merge"
    segmentation = FEWEST_TOKENS

    def __init__(self, k: int, specials: Sequence[str], settings: Mapping[str, Any]) -> None:
        super().__init__(k, specials, settings)
        self._languages: dict[str, LanguageTokens] = {}
        self._base: ModularTokenizer | None = None

    @classmethod
    def settings_of(cls, base: ModularTokenizer) -> dict[str, Any]:
        """Return the settings of `base`; with superwords the pre-tokenizer is not its own."""
        settings = super().settings_of(base)
        if base.settings.get("superwords"):
            settings["pretokenizer"] = BPE.name
        return settings

    def most_tokens(self, language: str) -> int:
        """Before they are pruned to k."""
        return int(self.k_of(language) * OVERTRAIN)

    def check(self) -> None:
        """Check also that superwords leave room for words, and what they exclude."""
        super().check()
        if self.settings.superwords and self.settings.pretokenizer != BPE.name:
            raise UsageError(
                f"superwords consist of words of 'bpe', not of '{self.settings.pretokenizer}'",
                where="--pretokenizer",
                remedy="omit it, or omit --superwords",
            )
        if self.settings.superwords and self.settings.whole_characters:
            raise UsageError(
                "a SentencePiece model cannot hold superwords",
                where="--whole-characters",
                remedy="omit it, or omit --superwords",
            )
        least = min((self.k, *self.budgets.values()))
        if 2 * self.settings.superwords > least:
            raise UsageError(
                f"{self.settings.superwords:,} superwords are more than half of k = {least:,}",
                where="--superwords",
                remedy="choose at most half of k",
            )

    def order(self, languages: Sequence[str], requested: Sequence[str] | None) -> list[str]:
        """Sort the languages; the result does not depend on their order."""
        return sorted(languages)

    def start(self, base: ModularTokenizer) -> None:
        """Keep all ids of `base`."""
        self._base = base

    def state(self) -> JournalState:
        """Return the tokens of the languages so far."""
        arrays: dict[str, Any] = {}
        for name, language in self._languages.items():
            data, offsets = flatten(language.tokens)
            arrays |= {f"{name}.data": data, f"{name}.offsets": offsets}
            arrays[f"{name}.counts"] = language.token_counts
        return JournalState(arrays, {"seconds": self.seconds})

    def restore(self, saved: JournalState) -> list[str]:
        """Take the languages of the journal."""
        languages, basic = {}, len(self.specials) + 256
        seconds = {name: float(each) for name, each in saved.notes["seconds"].items()}
        for name in seconds:
            counts = saved.arrays[f"{name}.counts"]
            tokens = unflatten(saved.arrays[f"{name}.data"], saved.arrays[f"{name}.offsets"])
            sound = counts.dtype == np.int64 and counts.shape == (basic + len(tokens),)
            if not (Label.of(name).is_known and sound):
                raise ValueError("not the tokens of a language")
            languages[name] = LanguageTokens(tuple(tokens), counts)
        self._languages, self.seconds = languages, seconds
        return list(languages)

    def learn(self, work: Work) -> None:
        """All languages in the thread pool."""
        running = {work.submit(self.learn_language, name, work): name for name in work.languages}
        with work.progress.task("languages", total=len(running), unit="languages") as task:
            for done, future in enumerate(as_completed(running), 1):
                language = running[future]
                self._languages[language], self.seconds[language] = future.result()
                task.advance(1)
                if done < len(running):
                    work.keep(self.seconds[language])

    def learn_language(self, language: str, work: Work) -> tuple[LanguageTokens, float]:
        """Count a language, learn more tokens than k by BPE, keep the k best; and the seconds."""
        with work.words.learning(language) as counts:
            phrases = None
            if self.settings.superwords:
                groups = work.words.sample(language, SAMPLE)
                phrases = [count_documents([group], PHRASES) for group in groups]
            began = time.perf_counter()
            progress, k = HiddenProgress(work.progress), self.k_of(language)
            options: dict[str, Any] = {
                "max_unspaced": self.max_unspaced, "label": language, "progress": progress
            }  # fmt: skip
            wide = learn_plain(counts, self.most_tokens(language), self.specials, **options).merges
            if phrases is None:
                whole = self.settings.whole_characters
                tokens = choose_tokens(counts, wide, k, whole_characters=whole, **options)
            else:
                most = self.settings.superwords
                tokens = choose_with_superwords(counts, phrases, wide, k, most, **options)
            if work.references.wanted:
                reference = reference_of(language, counts, k, wide)
                work.references.ready[language] = reference
            work.words.certify(language, wide)
        return tokens, round(time.perf_counter() - began, 3)

    def result(self, work: Work) -> ModularTokenizer:
        """Return the union of all languages, after the languages of the extended tokenizer."""
        base = self._base
        start = None if base is None else (base.learned(), base.token_counts)
        languages = {name: self._languages[name] for name in sorted(self._languages)}
        learned, token_counts = unite(languages, self.specials, start)
        pretokenizer = PHRASES if self.settings.superwords else self.pretokenizer
        return self.made(learned, work, pretokenizer=pretokenizer, token_counts=token_counts)

    def rows(self, output: ModularTokenizer) -> list[dict[str, Any]]:
        """Return tokens, tokens of one language, superwords, size of T."""
        superwords = members_of(output, output.superwords)
        return united_rows(output, "superwords", superwords)

    def without(self, base: ModularTokenizer, removed: Sequence[str]) -> ModularTokenizer:
        """Remove languages; the others keep their tokens, in the same order."""
        learned, token_counts = without((base.learned(), base.token_counts), removed)
        return ModularTokenizer.from_learned(
            learned,
            algorithm=self.algorithm,
            k=base.k,
            budgets={name: k for name, k in base.budgets.items() if name in learned.languages},
            pretokenizer=base.pretokenizer,
            settings=base.settings,
            corpora={
                name: base.corpora[name] for name in learned.languages if name in base.corpora
            },
            token_counts=token_counts,
        )


def members_of(output: ModularTokenizer, which: BoolArray) -> dict[str, int]:
    """Return how many of the tokens `which` (V,) each language has."""
    members = output.token_membership
    return {name: int((members[:, i] & which).sum()) for i, name in enumerate(output.languages)}


def united_rows(
    output: ModularTokenizer, name: str, of_name: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return tokens of each language, tokens of one language only, `of_name`, size of T."""
    members = output.token_membership
    own = members_of(output, members.owners() == 1)
    return [
        {
            "language": language,
            "tokens": tokens,
            "own": own[language],
            name: of_name[language],
            "total": output.size,
            **left_out_of(output.corpora.get(language)),
        }
        for language, tokens in sorted(zip(output.languages, members.sizes().tolist(), strict=True))
    ]


@public
def bpe_merge(
    languages: parameters.Langs = None,
    *,
    k: BudgetByLanguage = None,
    fair: FairTexts = None,
    fair_share: FairShare = None,
    whole_characters: Annotated[
        bool | None,
        Option(
            "Learn only tokens of whole characters, as SentencePiece models require.",
            default=False,
        ),
    ] = None,
    superwords: Annotated[
        int | None,
        Option(
            "Use up to N of the tokens of each language for sequences of words, as ' of the'.",
            metavar="N",
            default=0,
            low=0,
        ),
    ] = None,
    append: Annotated[
        parameters.Languages | None,
        parameters.languages_option(
            "Languages to add. All ids of the tokenizer stay unchanged; conflicting options are an "
            "error.",
            "--append",
            "appended",
        ),
    ] = None,
    remove: Annotated[
        parameters.Languages | None,
        parameters.languages_option(
            "Remove languages from an existing tokenizer, with tokens only they use.",
            "--remove",
            "",
        ),
    ] = None,
    **how: Unpack[ModularBpeOptions],
) -> BuildReport:
    """Learn a modular tokenizer with fewest-tokens segmentation.

    A vocabulary is learned for each language on its own; the tokenizer is their union. Words
    are segmented into the fewest tokens instead of by merges.

    BPE learns more than N tokens per language, and the N that save most tokens stay. Without
    merges, languages do not interfere: any subset can be extracted, and adding or removing a
    language does not change the others. Without `languages`, all languages of the data are used.

    With `superwords`, tokens may span words, but no line end, number or double space. Text is
    then split into phrases instead of words.

    Returns:
        A report, as `bpe_seq`; rows have tokens, tokens of one language, size of T.

    Examples:
        >>> report = modtok.bpe_merge("en,fi", output="merged", k=1200)
        >>> report = modtok.bpe_merge(append="sw", output="merged")
        >>> modtok.load("merged").languages
        ('en', 'fi', 'sw')

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    options = LearnerOptions(
        bpe_merge,
        how,
        k,
        fair=fair,
        fair_share=fair_share,
        whole_characters=whole_characters,
        superwords=superwords,
    )
    text = TrainingText(languages, how, how.get("memory"))
    return construct(UnitedBpe, options, text, Destination.of(how, append, remove))
