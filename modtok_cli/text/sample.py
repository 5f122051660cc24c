"""A sample of the documents of a text, in bounded memory: all, or every second, or every fourth…"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modtok_cli.text.readers import read_spans
from modtok_cli.text.reading import Reading
from modtok_cli.text.text_format import Spans


class Sample:
    """Documents of a stream, evenly spread over it, whatever its length.

    Every document is kept until they have more than `limit` bytes together; then every second one
    of all documents so far and to come, and so on. One document is always kept.

    >>> sample = Sample(limit=5)
    >>> sample.add(join([b"ab", b"cd", b"ef", b"gh"]))
    >>> sample.documents
    [b'ab', b'ef']
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stride = 1
        self._seen = 0
        self._size = 0
        self._kept: list[bytes] = []

    def add(self, spans: Spans) -> None:
        """Go on to the next documents, and keep those that belong to the sample."""
        for start, stop in zip(spans.starts.tolist(), spans.stops.tolist(), strict=True):
            if self._seen % self._stride == 0:
                self._kept.append(spans.data[start:stop].tobytes())
                self._size += stop - start
            self._seen += 1
            while self._size > self._limit and len(self._kept) > 1:
                self._stride *= 2
                self._kept = self._kept[::2]
                self._size = sum(map(len, self._kept))

    @property
    def documents(self) -> list[bytes]:
        """The documents of the sample, in order."""
        return list(self._kept)


def sample_documents(
    files: Sequence[Path | str],
    limit: int,
    *,
    reading: Reading = Reading(),
) -> list[bytes]:
    """Up to `limit` bytes of documents of text files, evenly spread over all of them.

    Warns of nothing: the files are read to count their words as well.

    Raises:
        ModtokError: a file cannot be read.
    """
    sample = Sample(limit)
    for file in files:
        for spans in read_spans(file, reading, may_be_empty=True):
            sample.add(spans)
    return sample.documents
