"""The words that a construction learns from: counted, bounded by memory and count."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.construct.bounded import BoundedCounts
from modtok_cli.construct.cancellable import CancellableProgress, results_of
from modtok_cli.construct.corpora import corpus_of, count_language, to_learn_from
from modtok_cli.construct.learner_settings import LearnerSettings
from modtok_cli.learn.certain import certain_merges
from modtok_cli.learn.merges import GlobalMerges
from modtok_cli.text.counts import WordCounts, merge_counts
from modtok_cli.text.frequent import Frequent, frequent_words
from modtok_cli.text.reading import Reading
from modtok_cli.text.sequences import sample_documents
from modtok_cli.text.table_files import is_table
from modtok_cli.tokenizer.manifest import Corpus

Result = TypeVar("Result")


def result_of(future: Future[Result], call: Callable[[], Result]) -> Result:
    """Return the result of a call in the thread pool, or make it here if it has not begun."""
    return call() if future.cancel() else future.result()


class Words:
    """Counts of the words of each language, made in the background or on disk.

    Attributes:
        files: language → its text.
        corpora: language → description of its text, of every language that was counted.
        bounded: the counts on disk, if memory is bounded.
    """

    def __init__(
        self,
        files: Mapping[str, Sequence[Path]],
        reading: Reading,
        learner: LearnerSettings,
        progress: CancellableProgress,
        submit: Callable[..., Future[WordCounts]],
    ) -> None:
        self.corpora: dict[str, Corpus] = {}
        self.bounded: BoundedCounts | None = None
        self.files = files
        self._reading = reading
        self._learner = learner
        self._progress = progress
        self._submit = submit
        self._waiting: deque[str] = deque()
        self._counted: dict[str, Future[WordCounts]] = {}
        self._partial: dict[str, Frequent] = {}

    def start(self, languages: Sequence[str], ahead: int | None = None) -> None:
        """Count the words of languages in the background, in their order.

        `ahead`: languages to count before one is taken; each `take` then starts another.
        Word counts of all languages are most of the memory of a build. Default: all at once.
        """
        if self.bounded:
            return
        self._waiting = deque(name for name in languages if name not in self._counted)
        for _ in range(len(self._waiting) if ahead is None else ahead):
            self._count_next()

    def _count_next(self) -> None:
        if self._waiting:
            language = self._waiting.popleft()
            self._counted[language] = self._submit(self.count, language)

    def count(self, language: str) -> WordCounts:
        """Count the words of a language, in the calling thread."""
        counts = count_language(
            language,
            self.files[language],
            self._reading.of(language),
            self._progress,
            self._learner.pretokenizer,
        )
        self.corpora[language] = corpus_of(counts)
        return counts

    def sample(self, language: str, limit: int) -> list[list[bytes]]:
        """Return up to `limit` bytes of documents of a language in groups, in the calling thread.

        Raises:
            UsageError: there are word counts in place of text.
        """
        files = self.files[language]
        for file in filter(is_table, files):
            raise UsageError(
                "word counts, which do not say in what order words come",
                where=file,
                remedy="give the text itself, or omit --superwords",
            )
        return sample_documents(files, limit, reading=self._reading.of(language))

    def of(self, language: str) -> WordCounts:
        """Return word counts of a language, once `start` has them."""
        return self._counted[language].result()

    def take(self, language: str) -> WordCounts:
        """Return the same as `of`, and forget them here, so that their memory can be freed."""
        future = self._counted.pop(language)
        self._count_next()
        return result_of(future, partial(self.count, language))

    @contextmanager
    def seen(self, language: str, k: int) -> Iterator[WordCounts]:
        """The words to learn k tokens from, during the block; they stay here."""
        least = self._learner.min_count
        if self.bounded:
            with self.bounded.words([language], k, least) as found:
                yield found.counts
        else:
            yield frequent_words(self.of(language), least).counts

    @contextmanager
    def learning(self, *languages: str) -> Iterator[WordCounts]:
        """The words to learn from, of a language or of several together, during the block.

        Raises:
            ModtokError: none is left.
        """
        name = ",".join(languages)
        with self._frequent(languages) as found:
            if not len(found.counts):
                raise ModtokError(
                    f"no word of {name} occurs {found.left_out.min_count} times",
                    where="--min-count",
                    remedy="choose a lower one",
                )
            if found.left_out.words:
                for language in languages:
                    corpus = self.corpora[language]
                    self.corpora[language] = replace(corpus, left_out=found.left_out)
                self._tell(name, found)
                self._partial[name] = found
            try:
                yield found.counts
            finally:
                self._partial.pop(name, None)

    @contextmanager
    def _frequent(self, languages: Sequence[str]) -> Iterator[Frequent]:
        least = self._learner.min_count
        if self.bounded:
            k = max(map(self._learner.most_tokens, languages))
            with self.bounded.words(languages, k, least) as found:
                self.corpora |= {name: self.bounded.corpus(name) for name in languages}
                kept = to_learn_from(",".join(languages), found.counts, self._progress)
                yield replace(found, counts=kept)
            return
        if len(languages) > 1:
            tables = results_of({name: self._counted.pop(name) for name in languages})
            counts = merge_counts([tables.pop(name) for name in languages])
        else:
            (language,) = languages
            is_counted = language in self._counted
            counts = self.take(language) if is_counted else self.count(language)
        yield frequent_words(counts, least)

    def _tell(self, name: str, found: Frequent) -> None:
        left_out, share = found.left_out, found.left_out.bytes / found.counts.size.bytes
        text = f"{name}: left out {left_out.words:,} words, {share:.1%} of the text"
        if left_out.sample_weight > 1:
            text += (
                f"; of words that occur less than {left_out.sample_weight} times a sample "
                "stands for all (more --memory, fewer left out)"
            )
            self._progress.warn(text)
        else:
            self._progress.note(text)

    def certify(self, name: str, merges: GlobalMerges) -> None:
        """Note how many merges of plain BPE of `learning` are certain, if words were left out."""
        if name in self._partial:
            certain = certain_merges(self._partial[name], merges)
            for language in name.split(","):
                corpus = self.corpora[language]
                assert corpus.left_out is not None
                left_out = replace(corpus.left_out, certain_merges=certain)
                self.corpora[language] = replace(corpus, left_out=left_out)

    def bytes(self, language: str) -> int:
        """Return bytes of the text of a language, once `start` or `bounded` has counted it."""
        if self.bounded:
            return self.bounded.corpus(language).bytes
        return self.of(language).size.bytes

    def all(self) -> dict[str, Future[WordCounts]]:
        """Return word counts of all languages, in progress."""
        return dict(self._counted)
