"""Word counts of the languages of a workspace."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import path_text
from modtok_cli.base.progress import Progress
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import BPE, PreTokenizer
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.manifest import Corpus


def corpus_of(counts: WordCounts) -> Corpus:
    """Describe a text in the manifest of the tokenizer that is learned from it."""
    return Corpus(counts.fingerprint(), **vars(counts.size))


def file_stamps(files: Mapping[str, Sequence[Path]]) -> dict[str, list[list[object]]]:
    """Name, size and time of every file, to recognize the text of an interrupted build."""
    return {
        language: [
            [path_text(path), stat.st_size, stat.st_mtime_ns]
            for path in sorted(paths)
            for stat in [path.stat()]
        ]
        for language, paths in files.items()
    }


# A longer "word" is data (base64, a page without spaces in one class of characters); if
# learned from, its own pieces fill the vocabulary.
LONGEST_WORD = 1 << 16


def count_language(
    language: str,
    paths: Sequence[Path],
    reading: Reading,
    progress: Progress,
    pretokenizer: PreTokenizer = BPE,
) -> WordCounts:
    """Return word counts of one language, without overlong words; warn of them.

    Raises:
        ModtokError: the files cannot be read, or contain no text.
    """
    counts = count_corpus(paths, pretokenizer=pretokenizer, reading=reading, progress=progress)
    if not len(counts):
        raise no_text(language, paths)
    return to_learn_from(language, counts, progress)


def no_text(language: str, paths: Sequence[Path]) -> ModtokError:
    """Return the error for files without text."""
    return ModtokError(
        f"the text of language '{language}' is empty",
        where=", ".join(map(str, paths)),
        remedy="add text, or omit the language from --langs",
    )


def to_learn_from(language: str, counts: WordCounts, progress: Progress) -> WordCounts:
    """Return the table without words of more than `LONGEST_WORD` bytes; warn of them."""
    short = np.diff(counts.offsets) <= LONGEST_WORD
    dropped = len(short) - int(short.sum())
    if not dropped:
        return counts
    words = "1 word" if dropped == 1 else f"{dropped} words"
    progress.warn(f"{language}: ignoring {words} of more than {LONGEST_WORD:,} bytes")
    return counts.where(short)
