"""The `tokenizers` library as an encoder: texts, or words that are whole texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from modtok_cli.base.arrays import Int32Array, Int64Array, UInt8Array, offsets_of, unflatten
from modtok_cli.core.text import packed
from modtok_cli.modular.encoding.encoder import Encoder
from modtok_cli.modular.encoding.external import as_ids, in_library, library_tokenizer, portions


class _TextEncoder(Encoder):
    """An encoder of which subclasses define `texts`."""

    def text(self, text: bytes) -> Int32Array:
        return self.texts([text])[0]

    def joined(
        self, texts: Sequence[bytes], threads: int | None = None
    ) -> tuple[Int32Array, Int64Array]:
        return _joined(self.texts(texts, threads))

    def flat(self, data: UInt8Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        return self.joined(unflatten(data, offsets))


class LibraryEncoder(_TextEncoder):
    """Encodes as a `tokenizer.json` says; special tokens in a text are plain text.

    `data` is the file; `where` names the tokenizer in errors.
    """

    def __init__(self, data: bytes, where: str) -> None:
        self._where = where
        self._inner = library_tokenizer(data, where)

    def forget_words(self) -> None:
        """The library's caches stay."""

    def first_of_text(self) -> int | None:
        """The token that its post-processor puts before a text; None if it puts none."""
        with in_library("cannot encode", self._where):
            plain = self._inner.encode("a", add_special_tokens=False).ids
            whole = self._inner.encode("a", add_special_tokens=True).ids
        return int(whole[0]) if whole[:1] != plain[:1] else None

    def texts(self, texts: Sequence[bytes], threads: int | None = None) -> list[Int32Array]:
        strings = [text.decode() for text in texts]
        ids = []
        for first, stop in portions(list(map(len, texts))):
            with in_library("cannot encode", self._where):
                batch = self._inner.encode_batch_fast(strings[first:stop], add_special_tokens=False)
            ids += [as_ids(encoding.ids) for encoding in batch]
        return ids

    def words_flat(
        self, data: UInt8Array, starts: Int64Array, stops: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        return self.flat(*packed(data, starts, stops))


class DividedEncoder(_TextEncoder):
    """Our encoder, but for texts that its pre-tokenizer leaves whole, which the library encodes."""

    def __init__(
        self, native: Encoder, library: LibraryEncoder, is_whole: Callable[[bytes], bool]
    ) -> None:
        self._own, self._library, self._is_whole = native, library, is_whole

    def forget_words(self) -> None:
        """Free the caches of words of our encoder."""
        self._own.forget_words()

    def texts(self, texts: Sequence[bytes], threads: int | None = None) -> list[Int32Array]:
        whole = list(map(self._is_whole, texts))
        by_library, own = (
            encoder.texts([t for t, one in zip(texts, whole, strict=True) if one == kind], threads)
            for kind, encoder in ((True, self._library), (False, self._own))
        )
        parts = {True: iter(by_library), False: iter(own)}
        return [next(parts[one]) for one in whole]

    def words_flat(
        self, data: UInt8Array, starts: Int64Array, stops: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        """Ids of each word; those that are whole documents go to the library."""
        content = data.tobytes()
        words = [content[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
        whole = [i for i, word in enumerate(words) if self._is_whole(word)]
        ids, ends = self._own.words_flat(data, starts, stops)
        if not whole:
            return ids, ends
        parts = np.split(ids, ends[1:-1])
        for i, one in zip(whole, self._library.texts([words[i] for i in whole]), strict=True):
            parts[i] = one
        return _joined(parts)


def _joined(parts: Sequence[Int32Array]) -> tuple[Int32Array, Int64Array]:
    return np.concatenate([np.zeros(0, dtype=np.int32), *parts]), offsets_of(map(len, parts))
