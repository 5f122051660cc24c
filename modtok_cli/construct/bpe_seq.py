"""`modtok bpe-seq`: a modular tokenizer by sequential BPE."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, Literal, Unpack

import numpy as np

from modtok_cli.base import parameters
from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.option import Option
from modtok_cli.base.public import public
from modtok_cli.construct.cancellable import HiddenProgress
from modtok_cli.construct.grow import grow_published, is_published
from modtok_cli.construct.journal import JournalState
from modtok_cli.construct.learner import Learner, left_out_of
from modtok_cli.construct.monolingual import reference_json, reference_of
from modtok_cli.construct.outputs import check_modular
from modtok_cli.construct.parameters import (
    BudgetByLanguage,
    FairShare,
    FairTexts,
    ModularBpeOptions,
)
from modtok_cli.construct.pipeline import construct
from modtok_cli.construct.request import BuildReport, Destination, LearnerOptions, TrainingText
from modtok_cli.construct.states import merges_from_arrays, merges_to_arrays
from modtok_cli.construct.work import Work
from modtok_cli.learn.fewest_tokens import FEWEST_TOKENS
from modtok_cli.learn.merges import GlobalMerges, LearnedMerges
from modtok_cli.learn.prune import count_tokens
from modtok_cli.learn.sequential import SequentialLearner
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.languages import matching
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.vocabulary import Vocabulary

# Languages counted before the first is learned: enough that learning never waits for text.
_AHEAD = 2


class SequentialBpe(Learner):
    """Languages one after the other, each with the tokens and merges of those before it."""

    algorithm = "bpe-seq"

    def __init__(self, k: int, specials: Sequence[str], settings: Mapping[str, Any]) -> None:
        super().__init__(k, specials, settings)
        self._token_counts: list[Int64Array | Future[Int64Array]] = []
        self._is_extension = False
        self._begin(None)

    @property
    def segmentation(self) -> str:
        """The segmentation of the tokenizer. Merges are learned for either."""
        return str(self.settings.segmentation)

    def _begin(self, learned: LearnedMerges | None) -> None:
        self._learner = SequentialLearner(
            self.k,
            self.specials,
            passes=self.settings.passes,
            max_unspaced=self.max_unspaced,
            start=learned,
        )

    def workers(self, threads: int) -> int:
        """Leave one thread to the caller, which learns."""
        return max(1, super().workers(threads) - 1)

    def order(self, languages: Sequence[str], requested: Sequence[str] | None) -> list[str]:
        """Sort the languages, or keep the order of the user; `learn` sorts them by size."""
        if self._is_extension or self.settings.order == "given":
            # `languages` are labels in use, `requested` may be other codes of theirs.
            labels = (matching(name, languages) for name in requested or sorted(languages))
            return list(dict.fromkeys(name for those in labels for name in those))
        return sorted(languages)

    def check_output(
        self, destination: Destination, languages: Sequence[str]
    ) -> ModularTokenizer | None:
        """Compare the order of the languages too, unless it is by size and not known yet."""
        return check_modular(destination, self, languages, ordered=self.settings.order != "size")

    def start(self, base: ModularTokenizer) -> None:
        """Continue from `base`, whose ids and merges stay."""
        self._is_extension = True
        self._begin(base.learned())
        self._token_counts = list(base.token_counts)

    def state(self) -> JournalState:
        """Return the merges, token counts and seconds so far."""
        learned = self._learner.result()
        notes = {
            "languages": learned.languages,
            "seconds": self.seconds,
            "token_counts": [row.tolist() for row in self._finished_token_counts()],
        }
        return JournalState(merges_to_arrays(learned), notes)

    def restore(self, saved: JournalState) -> list[str]:
        """Continue after the last language of the journal."""
        notes = saved.notes
        learned = merges_from_arrays(saved.arrays, notes["languages"], self.specials)
        seconds = {str(name): float(each) for name, each in notes["seconds"].items()}
        token_counts = [np.array(row, dtype=np.int64) for row in notes["token_counts"]]
        self._begin(learned)
        self.seconds, self._token_counts = seconds, list(token_counts)
        return [*seconds]

    def learn(self, work: Work) -> None:
        """Learn one language after the other, while others are counted and references learned."""
        languages = work.languages
        by_size = self.settings.order == "size" and not self._is_extension
        work.words.start(work.languages, None if by_size else _AHEAD)
        if by_size:
            languages.sort(key=lambda name: (-work.words.bytes(name), name))
        with work.progress.task("languages", total=len(languages), unit="languages") as task:
            for language in languages:
                with work.words.learning(language) as counts:
                    is_first = not self._learner.languages
                    if not is_first:
                        self._start_reference(language, counts, work)
                    began = time.perf_counter()
                    k = self.k_of(language)
                    self._learner.add(language, counts, k, progress=work.progress)
                    if is_first:
                        self._take_first(language, counts, work)
                    if self.segmentation == FEWEST_TOKENS:
                        self._start_token_counts(counts, work)
                    self.seconds[language] = round(time.perf_counter() - began, 3)
                task.advance(1)
                if language != languages[-1]:
                    work.keep()

    def _start_reference(self, language: str, counts: WordCounts, work: Work) -> None:
        work.references.make(
            language,
            reference_json,
            language,
            counts,
            self.k_of(language),
            self.specials,
            max_unspaced=self.max_unspaced,
            progress=HiddenProgress(work.progress),
        )

    def _take_first(self, language: str, counts: WordCounts, work: Work) -> None:
        """The first language is learned without others: T is plain BPE and its own reference."""
        merges = self._learner.merges
        k = self.k_of(language)
        work.references.make(language, reference_of, language, counts, k, merges)
        work.words.certify(language, merges)

    def _start_token_counts(self, counts: WordCounts, work: Work) -> None:
        member = self._learner.token_members[-1]
        row = work.submit(_token_counts, counts, self._learner.merges, member)
        self._token_counts.append(row.result() if work.words.bounded is not None else row)

    def _finished_token_counts(self) -> list[Int64Array]:
        """Wait for the token counts of each language and return them."""
        counts = [row.result() if isinstance(row, Future) else row for row in self._token_counts]
        self._token_counts = list(counts)
        return counts

    def result(self, work: Work) -> ModularTokenizer:
        """Return the tokenizer after the last language."""
        is_fewest = self.segmentation == FEWEST_TOKENS
        token_counts = self._finished_token_counts() if is_fewest else None
        return self.made(self._learner.result(), work, token_counts=token_counts)

    def rows(self, output: ModularTokenizer) -> list[dict[str, Any]]:
        """Return tokens, adopted and new tokens, and the size of T after each language."""
        known = np.arange(output.size) < len(self.specials) + 256
        rows, basic = [], int(known.sum())
        for i, language in enumerate(output.languages):
            member = output.token_membership[:, i]
            adopted, new = int((member & known)[basic:].sum()), int((member & ~known).sum())
            known |= member
            rows.append(
                {
                    "language": language,
                    "tokens": int(member.sum()),
                    "adopted": adopted,
                    "new_tokens": new,
                    "total": int(known.sum()),
                    **left_out_of(output.corpora.get(language)),
                }
            )
        return rows


def _token_counts(counts: WordCounts, merges: GlobalMerges, member: Int64Array) -> Int64Array:
    """Count how often words in fewest tokens use each of the tokens `member` (n,); returns (n,)."""
    tokens = Vocabulary(merges.specials, merges.token_data, merges.token_offsets).take(member)
    return count_tokens(counts, tokens.tokens(), len(merges.specials))


@public
def bpe_seq(
    languages: parameters.Langs = None,
    *,
    k: BudgetByLanguage = None,
    fair: FairTexts = None,
    fair_share: FairShare = None,
    order: Annotated[
        Literal["alphabetical", "given", "size"] | None,
        Option("Order of the languages; size: largest text first.", default="alphabetical"),
    ] = None,
    passes: Annotated[
        int | None,
        Option(
            "With 2, resegment with the adopted merges only, then relearn the new merges.",
            metavar="N",
            default=1,
            low=1,
            high=2,
        ),
    ] = None,
    segmentation: Annotated[
        Literal["merges", "fewest-tokens"] | None,
        Option("Segment words by merges, or into the fewest tokens.", default="merges"),
    ] = None,
    append: Annotated[
        parameters.Languages | None,
        parameters.languages_option(
            "Languages to add. All ids and merges of the tokenizer, modtok's or a published one, "
            "stay unchanged; a published one gets -k new tokens for each. Conflicting options are "
            "an error.",
            "--append",
            "appended",
        ),
    ] = None,
    **how: Unpack[ModularBpeOptions],
) -> BuildReport:
    """Learn a modular tokenizer by sequential BPE.

    The result is one vocabulary in which each language uses N tokens. A compact tokenizer can
    be extracted for any subset of the languages. Languages are processed in order: each
    adopts useful existing tokens and adds new ones until it has N. Without `languages`, all
    languages of the data are used. This is Algorithm 2 of the paper.

    A published tokenizer (byte-level BPE, or BPE with byte fallback) grows in the same way: with
    `append`, `tokenizer` is a tokenizer.json, the directory of a model, or the output of adopt, and
    `k` the number of new tokens of each appended language. Texts in the languages of adopt
    keep their ids; without adopt, all old tokens are one language, base. A rank file lists no
    special tokens: `tokenizer` is then a directory with the model's tokenizer_config.json or
    config.json, or `specials` has the last special token, as `TEXT=ID`.

    Returns:
        A report: `output`, `signature` and a row per language in `lines`: tokens, adopted tokens,
        new tokens, size of T after it; of a published tokenizer also tokens per word before and
        after, whole and as a subset, in a tenth of the documents (the subset lacks their words).

    Examples:
        >>> report = modtok.bpe_seq("en,fi,fr", data="data", output="tokenizer", k=1200)
        >>> modtok.load(report.output).subset("fi").size
        1200

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    options = LearnerOptions(
        bpe_seq,
        how,
        k,
        fair=fair,
        fair_share=fair_share,
        order=order,
        passes=passes,
        segmentation=segmentation,
    )
    text = TrainingText(languages, how, how.get("memory"))
    destination = Destination.of(how, append)
    if append is not None and destination.tokenizer and is_published(destination.tokenizer):
        return grow_published("bpe-seq", options, text, destination)
    return construct(SequentialBpe, options, text, destination)
