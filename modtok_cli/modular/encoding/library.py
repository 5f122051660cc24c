"""The `tokenizers` library as an encoder: texts, or words that are whole texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.core.text import packed
from modtok_cli.modular.encoding.encoder import Encoder, offsets_of
from modtok_cli.modular.formats.external import as_ids, in_library, portions


class LibraryEncoder(Encoder):
    """Encodes as a `tokenizer.json` says; special tokens in a text are plain text.

    `data` is the file; `where` names the tokenizer in errors.
    """

    def __init__(self, data: bytes, where: str) -> None:
        from tokenizers import Tokenizer

        self._where = where
        with in_library("cannot load it", where):
            self._inner = Tokenizer.from_buffer(data)
        self._inner.encode_special_tokens = True
        self._inner.no_truncation()
        self._inner.no_padding()
        if hasattr(self._inner.model, "dropout"):
            self._inner.model.dropout = None

    def forget_words(self) -> None:
        """The library's caches stay."""

    def first_of_text(self) -> int | None:
        """The token that its post-processor puts before a text; None if it puts none."""
        with in_library("cannot encode", self._where):
            plain = self._inner.encode("a", add_special_tokens=False).ids
            whole = self._inner.encode("a", add_special_tokens=True).ids
        return int(whole[0]) if whole[:1] != plain[:1] else None

    def flat(
        self, data: npt.NDArray[np.uint8], offsets: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        """Ids of texts in one buffer of UTF-8."""
        content = data.tobytes()
        cuts = [content[start:stop].decode() for start, stop in pairwise(offsets.tolist())]
        parts, sizes = [], []
        for first, stop in portions(np.diff(offsets).tolist()):
            with in_library("cannot encode", self._where):
                batch = self._inner.encode_batch_fast(cuts[first:stop], add_special_tokens=False)
            for encoding in batch:
                parts.append(as_ids(encoding.ids))
                sizes.append(len(parts[-1]))
        ends = np.zeros(len(cuts) + 1, dtype=np.int64)
        np.cumsum(sizes, out=ends[1:])
        return (np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)), ends

    def words_flat(
        self, data: npt.NDArray[np.uint8], starts: Int64Array, stops: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        """Ids of each text data[starts[i]:stops[i]]."""
        return self.flat(*packed(data, starts, stops))

    def texts(self, texts: Sequence[bytes], threads: int | None = None) -> list[Int32Array]:
        """Ids of each text in UTF-8; the library uses threads of its own."""
        ids, ends = self.joined(texts)
        return [ids[a:b] for a, b in pairwise(ends.tolist())]

    def joined(
        self, texts: Sequence[bytes], threads: int | None = None
    ) -> tuple[Int32Array, Int64Array]:
        """Ids of all texts one after the other, and their offsets."""
        return self._flat_texts(texts, offsets_of(texts))


class DividedEncoder(Encoder):
    """Our encoder, but for texts that its pre-tokenizer leaves whole, which the library encodes."""

    def __init__(
        self, native: Encoder, library: LibraryEncoder, is_whole: Callable[[bytes], bool]
    ) -> None:
        self._own, self._library, self._is_whole = native, library, is_whole

    def forget_words(self) -> None:
        """Free the caches of words of our encoder."""
        self._own.forget_words()

    def text(self, text: bytes) -> Int32Array:
        """Ids of one text in UTF-8."""
        return (self._library if self._is_whole(text) else self._own).text(text)

    def texts(self, texts: Sequence[bytes], threads: int | None = None) -> list[Int32Array]:
        """Ids of each text in UTF-8."""
        whole = [self._is_whole(text) for text in texts]
        parts = {
            is_whole: iter(
                encoder.texts(
                    [text for text, one in zip(texts, whole, strict=True) if one == is_whole],
                    threads,
                )
            )
            for is_whole, encoder in ((True, self._library), (False, self._own))
        }
        return [next(parts[one]) for one in whole]

    def joined(
        self, texts: Sequence[bytes], threads: int | None = None
    ) -> tuple[Int32Array, Int64Array]:
        """Ids of all texts one after the other, and their offsets."""
        return _joined(self.texts(texts, threads))

    def flat(
        self, data: npt.NDArray[np.uint8], offsets: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        """Ids of texts in one buffer of UTF-8."""
        content = data.tobytes()
        return _joined(self.texts([content[a:b] for a, b in pairwise(offsets.tolist())]))

    def words_flat(
        self, data: npt.NDArray[np.uint8], starts: Int64Array, stops: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        """Ids of each word; those that are whole documents go to the library."""
        content = data.tobytes()
        words = [content[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
        whole = [i for i, word in enumerate(words) if self._is_whole(word)]
        ids, ends = self._own.words_flat(data, starts, stops)
        if not whole:
            return ids, ends
        parts = np.split(ids, ends[1:-1])
        found = self._library.texts([words[i] for i in whole])
        for i, one in zip(whole, found, strict=True):
            parts[i] = one
        return _joined(parts)


def _joined(parts: Sequence[Int32Array]) -> tuple[Int32Array, Int64Array]:
    ends = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=ends[1:])
    return np.concatenate([np.zeros(0, dtype=np.int32), *parts]), ends
