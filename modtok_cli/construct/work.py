"""A construction in progress: its words, references, threads and journal."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import scratch_beside
from modtok_cli.base.records import from_json
from modtok_cli.construct.bounded import BoundedCounts
from modtok_cli.construct.cancellable import CancellableProgress
from modtok_cli.construct.journal import JournalDir
from modtok_cli.construct.learner_settings import LearnerSettings
from modtok_cli.construct.reference_tasks import ReferenceTasks
from modtok_cli.construct.request import Destination, TrainingText
from modtok_cli.construct.words import Words
from modtok_cli.tokenizer.manifest import Corpus
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer


class Work:
    """The part of a build that is the same for every learner; a context manager.

    Leaving it waits for all threads; with an exception it cancels them.

    Attributes:
        text: the text to learn from, and the means to read it.
        languages: languages to learn, in order, without languages in the journal.
        words: the words to learn from.
        references: what subsets will be measured against, if references were requested.
        progress: where to report; its tasks raise when the build is cancelled.
        submit: runs a call in the thread pool, in the order of the calls.
    """

    def __init__(
        self,
        learner: LearnerSettings,
        text: TrainingText,
        files: Mapping[str, Sequence[Path]],
        destination: Destination,
        journal: JournalDir,
        base: ModularTokenizer | None = None,
    ) -> None:
        self.text = text
        self.languages = list(files)
        self.progress = CancellableProgress(text.progress)
        self._output = destination.path
        self.journal = journal
        self._learner = learner
        self._lock = threading.Lock()
        self._opened = ExitStack()
        threads = learner.workers(text.threads or os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(threads)
        self.submit = self._pool.submit
        self.words = Words(files, text.reading, learner, self.progress, self.submit)
        self.words.corpora |= base.corpora if base else {}
        # With a limit of memory nothing is done beside learning a language.
        waiting = threads + 1 if text.memory is None else 0
        self.references = ReferenceTasks(destination.references, self.submit, waiting)

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

    def prepare(self) -> None:
        """Count all languages to disk, if memory is bounded."""
        if self.text.memory is not None:
            self.words.bounded = BoundedCounts(
                self.text,
                {language: self.words.files[language] for language in self.languages},
                self._learner.pretokenizer,
                self._opened.enter_context(scratch_beside(self._output)),
                self.progress,
            )

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
            references = self.references.all()
            notes = {
                "corpora": {
                    name: asdict(corpus) for name, corpus in dict(self.words.corpora).items()
                },
                "learner": state.notes,
                "budgets": self._learner.budgets,
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
            budgets = {str(name): int(k) for name, k in saved.notes["budgets"].items()}
            done = self._learner.restore(replace(saved, notes=saved.notes["learner"]))
            self._learner.budgets = budgets
            self.words.corpora |= {name: corpora[name] for name in done}
        except (ModtokError, ValueError, LookupError, TypeError, AttributeError):
            return
        references = saved.references
        self.references.ready = {name: references[name] for name in done if name in references}
        self.languages = [name for name in self.languages if name not in done]
        if done:
            self.progress.note(f"resuming after {', '.join(done)}")
