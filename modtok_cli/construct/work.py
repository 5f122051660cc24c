"""A construction in progress: word counts, threads, references and the journal."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import scratch_beside
from modtok_cli.base.records import from_json
from modtok_cli.construct.bounded import BoundedCounts
from modtok_cli.construct.cancellable import CancellableProgress, results_of
from modtok_cli.construct.corpora import corpus_of, count_language, to_learn_from
from modtok_cli.construct.journal import JournalDir
from modtok_cli.construct.learner import Learner
from modtok_cli.construct.request import Request
from modtok_cli.learn.certain import certain_merges
from modtok_cli.learn.merges import GlobalMerges
from modtok_cli.modular.manifest import Corpus
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.counts import WordCounts, merge_counts
from modtok_cli.text.frequent import Frequent, frequent_words
from modtok_cli.text.sequences import sample_documents
from modtok_cli.text.table_files import is_table

P = ParamSpec("P")
Result = TypeVar("Result")
References = Mapping[str, bytes] | Callable[[], Mapping[str, bytes]]


def _result(future: Future[Result], call: Callable[[], Result]) -> Result:
    """The result of a call in the thread pool; of one that has not begun, from this thread."""
    return call() if future.cancel() else future.result()


class Work:
    """The part of a build that is the same for every learner; a context manager.

    Leaving it waits for all threads; with an exception it cancels them.

    Attributes:
        request: what the user requested.
        languages: languages to learn, in order, without those that the journal has.
        corpora: language → description of its text, of every language of the output.
        progress: where to report; its tasks raise when the build is cancelled.
    """

    def __init__(
        self,
        request: Request,
        learner: Learner,
        files: Mapping[str, Sequence[Path]],
        languages: Sequence[str],
        journal: JournalDir,
        base: ModularTokenizer | None = None,
    ) -> None:
        self.request = request
        self.languages = list(languages)
        self.corpora: dict[str, Corpus] = dict(base.corpora) if base else {}
        self.progress = CancellableProgress(request.progress)
        self.journal = journal
        self._learner = learner
        self._files = files
        self._waiting: deque[str] = deque()
        self._counted: dict[str, Future[WordCounts]] = {}
        self._references: dict[str, bytes] = {}
        self._pending: dict[str, tuple[Future[bytes], Callable[[], bytes]]] = {}
        self._lock = threading.Lock()
        self._bounded: BoundedCounts | None = None
        self._partial: dict[str, Frequent] = {}
        self._certain: dict[str, int] = {}
        self._opened = ExitStack()
        self._threads = learner.workers(request.threads or os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._threads)

    def __enter__(self) -> Work:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.progress.stop()
        self._pool.shutdown(wait=True, cancel_futures=error is not None)
        self._opened.close()

    @property
    def is_bounded(self) -> bool:
        """Whether there is a limit of memory: then nothing is done beside learning a language."""
        return self._bounded is not None

    def prepare(self) -> None:
        """Count all languages to disk, if memory is bounded."""
        if self.request.memory is not None:
            self._bounded = BoundedCounts(
                self.request,
                {language: self._files[language] for language in self.languages},
                self._learner.pretokenizer,
                self._opened.enter_context(scratch_beside(self.request.output)),
                self.progress,
            )

    def submit(
        self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs
    ) -> Future[Result]:
        """Run a function in the thread pool; started in the order of the calls."""
        return self._pool.submit(function, *args, **kwargs)

    def start_counting(self, ahead: int | None = None) -> None:
        """Count the words of all languages in the background, in their order.

        `ahead`: languages to count before one is taken; each `take_counts` then starts another.
        Word counts of all languages are most of the memory of a build. Default: all at once.
        """
        if self._bounded:
            return
        self._waiting = deque(self.languages)
        for _ in range(len(self._waiting) if ahead is None else ahead):
            self._count_next()

    def _count_next(self) -> None:
        if self._waiting:
            language = self._waiting.popleft()
            self._counted[language] = self._pool.submit(self.count, language)

    def count(self, language: str) -> WordCounts:
        """Count the words of a language, in the calling thread."""
        counts = count_language(
            language,
            self._files[language],
            self.request.reading.of(language),
            self.progress,
            self._learner.pretokenizer,
        )
        self.corpora[language] = corpus_of(counts)
        return counts

    def sample(self, language: str, limit: int) -> list[list[bytes]]:
        """Up to `limit` bytes of documents of a language in groups, in the calling thread.

        Raises:
            UsageError: there are word counts in place of text.
        """
        files = self._files[language]
        for file in filter(is_table, files):
            raise UsageError(
                "word counts, which do not say in what order words come",
                where=file,
                remedy="give the text itself, or omit --superwords",
            )
        return sample_documents(files, limit, reading=self.request.reading.of(language))

    def counts(self, language: str) -> WordCounts:
        """Word counts of a language, once `start_counting` has them."""
        return self._counted[language].result()

    def take_counts(self, language: str) -> WordCounts:
        """As `counts`, and forget them here, so that their memory can be freed."""
        future = self._counted.pop(language)
        self._count_next()
        return _result(future, partial(self.count, language))

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
        if self._bounded:
            with self._bounded.words(languages, self._learner.most_tokens, least) as found:
                self.corpora |= {name: self._bounded.corpus(name) for name in languages}
                kept = to_learn_from(",".join(languages), found.counts, self.progress)
                yield replace(found, counts=kept)
            return
        if len(languages) > 1:
            tables = results_of({name: self._counted.pop(name) for name in languages})
            counts = merge_counts([tables.pop(name) for name in languages])
        else:
            (language,) = languages
            is_counted = language in self._counted
            counts = self.take_counts(language) if is_counted else self.count(language)
        yield frequent_words(counts, least)

    def _tell(self, name: str, found: Frequent) -> None:
        left_out, share = found.left_out, found.left_out.bytes / found.counts.size.bytes
        text = f"{name}: left out {left_out.words:,} words, {share:.1%} of the text"
        if left_out.sample_weight > 1:
            text += (
                f"; of words that occur less than {left_out.sample_weight} times a sample "
                "stands for all (more --memory, fewer left out)"
            )
            self.progress.warn(text)
        else:
            self.progress.note(text)

    def certify(self, name: str, merges: GlobalMerges) -> None:
        """Note how many merges of plain BPE of `learning` are certain, if words were left out."""
        if name in self._partial:
            self._certain[name] = certain_merges(self._partial[name], merges)

    def left_out(self, name: str) -> dict[str, int]:
        """What a report says of words that were left out; `name`: languages with commas."""
        corpus = self.corpora.get(name.partition(",")[0])
        if corpus is None or corpus.left_out is None:
            return {}
        row = {
            key if key in ("min_count", "sample_weight") else f"left_out_{key}": value
            for key, value in asdict(corpus.left_out).items()
        }
        return row | ({"certain_merges": self._certain[name]} if name in self._certain else {})

    def text_bytes(self, language: str) -> int:
        """Bytes of the text of a language, once `start_counting` or `prepare` has counted it."""
        if self._bounded:
            return self._bounded.corpus(language).bytes
        return self.counts(language).size.bytes

    def all_counts(self) -> dict[str, Future[WordCounts]]:
        """Word counts of all languages, in progress."""
        return dict(self._counted)

    def reference(
        self, language: str, make: Callable[P, bytes], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Make the reference of a language in the background, if references were requested.

        Where one waits for each thread already, it is made at once, in the calling thread: each
        holds word counts.
        """
        if not self.request.references:
            return
        call = partial(make, *args, **kwargs)
        for finished in [name for name, (future, _) in self._pending.items() if future.done()]:
            self._references[finished] = self._pending.pop(finished)[0].result()
        if self._bounded or len(self._pending) > self._threads:
            self._references[language] = call()
        else:
            self._pending[language] = self._pool.submit(call), call

    def add_reference(self, language: str, data: bytes) -> None:
        """Keep a reference that is ready; callable from any thread."""
        self._references[language] = data

    def references(self) -> dict[str, bytes]:
        """References of all languages so far; waits for those in progress, and makes the others."""
        for language, (future, call) in reversed(list(self._pending.items())):
            self._references[language] = _result(future, call)
            del self._pending[language]
        return dict(self._references)

    def keep(self, seconds: float = 0.0, *, now: bool = False) -> None:
        """Write the learner's state to the journal if `now` or if enough would be lost.

        `seconds`: time that the last piece of work took, of possibly several in parallel.
        """
        with self._lock:
            if not (self.journal.due(seconds) or now):
                return
            began = time.monotonic()
            state = self._learner.state()
            if state is None:
                return
            seconds = time.monotonic() - began
            references = self.references()
            notes = {
                "corpora": {name: asdict(corpus) for name, corpus in dict(self.corpora).items()},
                "learner": state.notes,
            }
            self.journal.write(replace(state, notes=notes, references=references), seconds)

    def resume(self) -> None:
        """Continue from the journal of an interrupted build, if it has one."""
        saved = self.journal.read()
        if saved is None:
            return
        try:
            corpora = {
                name: from_json(Corpus, corpus, "journal")
                for name, corpus in saved.notes["corpora"].items()
            }
            done = self._learner.restore(replace(saved, notes=saved.notes["learner"]))
            self.corpora |= {name: corpora[name] for name in done}
        except (ModtokError, ValueError, LookupError, TypeError, AttributeError):
            return
        references = saved.references
        self._references = {name: references[name] for name in done if name in references}
        self.languages = [name for name in self.languages if name not in done]
        if done:
            self.request.progress.note(f"resuming after {', '.join(done)}")
