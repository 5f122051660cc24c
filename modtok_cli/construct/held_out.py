"""Tokens per word of a language, before and after a published tokenizer grows by it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.text.counts import WordCounter, WordCounts
from modtok_cli.text.pretokenizer import BPE, PreTokenizer
from modtok_cli.text.readers import read_batches
from modtok_cli.text.reading import Reading
from modtok_cli.text.scripts import word_total
from modtok_cli.text.table_files import is_table
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

_ONE_OF, _MOST = 10, 32 << 20
"""One document of so many is held out, in so many bytes of text."""
_MISLEADS = 0.01
"""Share of unknown tokens from which tokens per word do not compare."""
_NAMES = ("before", "whole", "subset")


@dataclass(frozen=True)
class HeldOut:
    """Documents of a language: their words in the pre-tokenizer of a file, and their number.

    A word is as `modtok check` counts it; `words` is 0 in scripts without spaces.
    """

    counts: WordCounts
    words: int

    @staticmethod
    def read(files: Sequence[Path], reading: Reading, pretokenizer: PreTokenizer) -> HeldOut:
        """Return the documents whose CRC-32 is a multiple of ten; none of tables of word counts."""
        counter, plain, seen = WordCounter(pretokenizer), WordCounter(BPE), 0
        for file in files:
            if is_table(file) or seen >= _MOST:
                continue
            for batch in read_batches(file, reading, may_be_empty=True):
                texts = [each.text for each in batch]
                held = [text for text in texts if crc32(text) % _ONE_OF == 0]
                counter.add_documents(held)
                plain.add_documents(held)
                seen += sum(map(len, texts))
                if seen >= _MOST:
                    break
        words = plain.result()
        return HeldOut(split_only(counter.result()), word_total(words) or 0)

    def per_word(
        self, file: TokenizerFile, grown: TokenizerFile, counts: WordCounts
    ) -> dict[str, float]:
        """Tokens per word of a file, the file that grew from it, and a subset for the other text.

        The subset has what words of `counts` use that are not of these documents alone. Also, where
        there are any, the share of tokens that are the unknown token (0 to 1).
        """
        # Words ascend. All text may have millions, this has few.

        def word_at(place: int) -> bytes:
            return counts.data[counts.offsets[place] : counts.offsets[place + 1]].tobytes()

        others = np.ones(len(counts), dtype=np.bool_)
        for word, count in self.counts.pairs():
            place = bisect_left(range(len(counts)), word, key=word_at)  # it is there
            others[place] = counts.counts[place] > count
        part = counts.where(others)
        used = occurrences(Library(grown), part) > 0
        segmenters = Library(file), Library(grown), Library(grown, grown.closed(used))
        tokens = [occurrences(each, self.counts) for each in segmenters]
        row = {f"tokens_per_word_{n}": round(int(each.sum()) / self.words, 3)
               for n, each in zip(_NAMES, tokens, strict=True)}  # fmt: skip
        if (unknown := file.unknown) is None:
            return row
        for name, each, found in zip(_NAMES, segmenters, tokens, strict=True):
            count = int(found[each.selection.local_of_global[unknown]])
            if share := round(count / int(found.sum()), 3):
                row[f"unknown_{name}"] = share
        return row


def row_of(
    language: str,
    held: HeldOut,
    files: tuple[TokenizerFile, TokenizerFile],
    counts: WordCounts,
    progress: Progress,
) -> dict[str, float]:
    """Return fields of a report; a line says why there are none, or what is odd about them."""
    if not held.words:
        why = "its script has no spaces between words"
        if not len(held.counts):
            why = "one document of ten is held out for it, and none of the text's is among them"
        progress.note(f"{language}: tokens per word are not measured: {why}")
        return {}
    try:
        row = held.per_word(*files, counts)
    except ModtokError as error:  # a file without an unknown token
        progress.warn(f"{language}: tokens per word are not measured: {error.what}")
        return {}
    before, subset = row["tokens_per_word_before"], row["tokens_per_word_subset"]
    if (lost := row.get("unknown_before", 0)) >= _MISLEADS:
        progress.warn(
            f"{language}: {lost:.1%} of its tokens in the old file are the unknown token, one for "
            "any number of characters, so that tokens per word before and after do not compare"
        )
    elif subset > before:
        progress.warn(
            f"{language}: its subset takes more tokens per word than the old file "
            f"({subset} and {before}) in documents that it was not made from; "
            "give a larger -k, or more text"
        )
    return row


def split_only(counts: WordCounts) -> WordCounts:
    """Leave out documents with added tokens, which the pre-tokenizer does not split."""
    is_whole = counts.pretokenizer.is_whole
    if is_whole is None:
        return counts
    return counts.where(np.array([not is_whole(word) for word in counts.words()], dtype=np.bool_))


def occurrences(segmenter: Library, counts: WordCounts) -> Int64Array:
    """Return how often each token occurs in a text, (V,); of BPE in words as merges build them."""
    if not segmenter.file.is_bpe:
        return Subtokenizer(segmenter).token_occurrences(counts)
    ids, offsets = segmented(segmenter, counts)
    found = np.zeros(len(segmenter.vocabulary), dtype=np.int64)
    np.add.at(found, ids, np.repeat(counts.counts, np.diff(offsets)))
    return found


def segmented(segmenter: Library, counts: WordCounts) -> tuple[Int32Array, Int64Array]:
    """Return the unique words of a text as ids: (N,) int32 and their offsets (W + 1,) int64."""
    handle = segmenter.by_merges()
    return handle.segment(counts.data, counts.offsets[:-1], counts.offsets[1:])
