"""Word counts of a workspace's languages, made in threads while learning goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.modular.tokenizer import Corpus
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import BPE


def corpus_of(counts: WordCounts) -> Corpus:
    """What a tokenizer's manifest says of the text it was learned from."""
    size = counts.size
    return Corpus(counts.fingerprint(), size.documents, size.characters, size.bytes)


def file_stamps(files: Mapping[str, Sequence[Path]]) -> dict[str, list[list[object]]]:
    """Name, size and time of every file: what a half-done build compares on its return."""
    return {
        language: [
            [str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in sorted(paths)
        ]
        for language, paths in files.items()
    }


# A "word" of this many bytes is no word but data (base64, a page without spaces in one
# class of characters); learned from, it fills the vocabulary with its own pieces.
LONGEST_WORD = 1 << 16


def without_long_words(counts: WordCounts) -> tuple[WordCounts, int]:
    """The table without words of more than `LONGEST_WORD` bytes, and how many there were."""
    lengths = np.diff(counts.offsets)
    kept = lengths <= LONGEST_WORD
    dropped = len(kept) - int(kept.sum())
    if not dropped:
        return counts, 0
    offsets = np.zeros(int(kept.sum()) + 1, dtype=np.int64)
    np.cumsum(lengths[kept], out=offsets[1:])
    data = counts.data[np.repeat(kept, lengths)]
    return replace(counts, data=data, offsets=offsets, counts=counts.counts[kept]), dropped


def count_language(
    language: str, paths: Sequence[Path], errors: str, progress: Progress, scheme: str = BPE
) -> WordCounts:
    """Words of one language, cut by `scheme`, without overlong ones, of which it warns.

    Raises:
        ModtokError: the files cannot be read, or hold no text at all.
    """
    counts = count_corpus(paths, scheme=scheme, errors=errors, progress=progress)
    if not len(counts):
        raise ModtokError(
            f"the text of language '{language}' is empty",
            where=", ".join(str(path) for path in paths),
            remedy="put text there, or leave the language out of --langs",
        )
    return to_learn_from(language, counts, progress)


def to_learn_from(language: str, counts: WordCounts, progress: Progress) -> WordCounts:
    """The table without overlong words, of which it warns."""
    counts, dropped = without_long_words(counts)
    if dropped:
        words = "1 word" if dropped == 1 else f"{dropped} words"
        told = f"{words} of more than {LONGEST_WORD:,} bytes"
        progress.warn(f"{language}: {told} {'is' if dropped == 1 else 'are'} not learned from")
    return counts


def count_in_background(
    pool: ThreadPoolExecutor,
    files: Mapping[str, Sequence[Path]],
    languages: Sequence[str],
    errors: str,
    progress: Progress,
    scheme: str = BPE,
) -> dict[str, Future[WordCounts]]:
    """Start counting the languages, in that order; the pool's threads take them in turn."""
    return {
        language: pool.submit(count_language, language, files[language], errors, progress, scheme)
        for language in languages
    }
