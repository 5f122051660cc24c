"""Learning in bounded memory: words are counted to disk, and learning takes the words that fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Condition

from modtok_cli.base.progress import Progress
from modtok_cli.construct.corpora import no_text
from modtok_cli.construct.request import TrainingText
from modtok_cli.learn.merges import can_learn, learning_memory
from modtok_cli.text.corpus import check_pattern, checked_memory, count_into
from modtok_cli.text.frequent import Frequent, StoredCounts
from modtok_cli.text.parallel import cores, read_each
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.text.streams import Advance
from modtok_cli.text.table_files import SUFFIX, merge_files, read_header
from modtok_cli.tokenizer.manifest import Corpus

BASE = 250_000_000
"""Bytes that a build takes beside its words: the program, tokens and merges of all languages."""
LEAST = 500_000_000
_PER_THREAD = 250_000_000
"""Least bytes of tables for each thread that counts."""


class Room:
    """Memory that several threads share: who does not fit beside the others waits."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = size
        self._changed = Condition()

    @contextmanager
    def take(self, size: int) -> Iterator[None]:
        """Have `size` bytes, or all, in the block."""
        size = min(size, self.size)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= size)
            self._free -= size
        try:
            yield
        finally:
            with self._changed:
                self._free += size
                self._changed.notify_all()


class BoundedCounts:
    """Count tables of some languages in `scratch`, read when there is room to learn from them.

    What is left out depends on the text and on `text.memory`, not on the threads. A language
    whose only file is a count table is not counted again.

    Raises:
        ModtokError: the files cannot be read, or contain no text.
        UsageError: too little memory.
    """

    def __init__(
        self,
        text: TrainingText,
        files: Mapping[str, Sequence[Path]],
        pretokenizer: PreTokenizer,
        scratch: Path,
        progress: Progress,
    ) -> None:
        memory = checked_memory(text.memory, LEAST) or LEAST
        self._room = Room(memory - BASE)
        self._pretokenizer = pretokenizer
        self._scratch = scratch
        self._paths = {language: scratch / f"{language}{SUFFIX}" for language in files}
        for language, paths in files.items():
            if [path.suffix for path in paths] == [SUFFIX]:
                header = read_header(paths[0])
                check_pattern(paths[0], header.pretokenizer, pretokenizer)
                if not header.unique:
                    raise no_text(language, paths)
                self._paths[language] = paths[0]
        waiting = [name for name, path in self._paths.items() if path.parent == scratch]
        most = max(1, self._room.size // _PER_THREAD)
        threads = min(text.threads or cores(), most, len(waiting) or 1)

        def count(language: str, advance: Advance) -> None:
            header = count_into(
                self._paths[language],
                language,
                files[language],
                text.reading.of(language),
                (),
                progress=progress,
                advance=advance,
                memory=self._room.size // threads,
                pretokenizer=pretokenizer,
            )
            if header is None:
                raise no_text(language, files[language])

        read_each(
            count,
            waiting,
            files=[path for language in waiting for path in files[language]],
            label="counting words",
            threads=threads,
            progress=progress,
        )

    def corpus(self, language: str) -> Corpus:
        """Return the description of the text of a language."""
        header = read_header(self._paths[language])
        return Corpus(header.fingerprint, **vars(header.size))

    @contextmanager
    def words(self, languages: Sequence[str], k: int, min_count: int) -> Iterator[Frequent]:
        """The words of the languages together for learning k tokens, while there is room.

        Words with less than `min_count` occurrences are left out.
        """
        path = self._paths[languages[0]]
        if len(languages) > 1:
            path = self._scratch / f"{len(languages)} languages{SUFFIX}"
            merge_files([self._paths[each] for each in languages], path, "", self._scratch)
        fits = partial(can_learn, k=k, memory=self._room.size)
        stored = StoredCounts(path, fits, min_count)
        with self._room.take(learning_memory(stored.words, stored.bytes, k)):
            yield stored.read()
