"""The Hugging Face `tokenizer.json`: ours by our encoders, others by the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.tokenizer.adopted.file_ids import check_written
from modtok_cli.tokenizer.encoding.decoder import Decoder
from modtok_cli.tokenizer.encoding.encoder import strings
from modtok_cli.tokenizer.encoding.external import (
    External,
    Losses,
    as_list,
    encoded_by,
    in_library,
    library_tokenizer,
    special_rows,
    text_tokenizer,
)
from modtok_cli.tokenizer.formats import Format
from modtok_cli.tokenizer.segmenters import SEGMENTATIONS
from modtok_cli.tokenizer.segmenters.interface import Segmenter, segmentation
from modtok_cli.tokenizer.segmenters.json_frame import PROVENANCE, ignored_settings, parse_document
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

    from modtok_cli.tokenizer.protocol import Tokenizer


class HuggingFace(Format):
    """A `tokenizer.json`."""

    suffixes = (".json", "")

    def recognizes(self, data: bytes) -> bool:
        """A JSON object."""
        return data.lstrip()[:1] == b"{"

    def read(self, data: bytes, name: str, where: str, variant: str | None) -> Tokenizer:
        """Ours if it has the shape of one of our segmenters, else the library's.

        Our encoder needs contiguous ids, special tokens first, all 256 bytes and merges that
        differ. Where a file of another program lacks this, the library runs it, or says why not.
        """
        document = parse_document(data, where)
        for modular in map(segmentation, SEGMENTATIONS):
            if modular.kind.misfit(document) is None:
                provenance = document["model"].get(PROVENANCE)
                try:
                    segmenter = modular.kind.from_json(document, where)
                except ModtokError:
                    if provenance is not None:
                        raise
                    break
                origin = provenance if isinstance(provenance, dict) else {}
                return Subtokenizer.of_file(segmenter, name, origin, ignored_settings(document))
        return LibraryTokenizer(name, data, where)

    def write(self, segmenter: Segmenter, provenance: Mapping[str, Any]) -> bytes:
        data = segmenter.to_json(provenance)
        if segmenter.of_file:  # of ours the vocabulary has every token, in the order of the ids
            check_written(data, "the tokenizer")
        return data


FORMAT = HuggingFace()


def _check_prefix(document: dict[str, Any], where: str) -> None:
    """Refuse merges that would abort the process inside the library.

    Where a model has a prefix of continuing subwords, the library (0.23) cuts as many bytes
    off the second part of each merge as the prefix has characters, without a
    check: inside a character the process aborts.
    """
    model = document.get("model")
    prefix = model.get("continuing_subword_prefix") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(prefix, str) or not prefix:
        return
    merges = model.get("merges")
    for rank, merge in enumerate(merges if isinstance(merges, list) else ()):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str):
            right, size = pair[1].encode(), len(prefix)
            cut = right[:size].decode(errors="ignore").encode()
            if len(right) < size or len(cut) != size or not pair[1].startswith(prefix):
                raise ModtokError(
                    f"field 'model.merges[{rank}]': the second part does not begin with "
                    f"'{prefix}', the prefix of continuing subwords",
                    where=where,
                )


class LibraryTokenizer(External):
    """Any `tokenizer.json`, run by the `tokenizers` library: whole texts, without dropout.

    Attributes:
        size: number of ids, gaps included.
        unknown: id of the token that stands for text without a token; None if there is none.

    Raises:
        ModtokError: the library does not load it; says why.
    """

    def __init__(self, name: str, data: bytes, where: str) -> None:
        super().__init__(name, data)
        document = parse_document(data, where)
        _check_prefix(document, where)
        self._of_text, self._data = text_tokenizer(data, where), data
        self._special = special_rows(document)
        self.ignored = ignored_settings(document)
        self.size = self._highest(document["model"].get("vocab")) + 1
        tokens = int(self._of_text.get_vocab_size())
        if self.size > 4 * tokens:
            raise ModtokError(f"field 'model.vocab': id {self.size - 1} is too high", where=where)
        self.losses = Losses(self._of_text, data)
        self.unknown = self.losses.unknown
        self._decoder = Decoder(document, where)

    @cached_property
    def inner(self) -> Library:
        """The library's tokenizer of the file itself."""
        # Of a large vocabulary it takes a second, so it is read a second time only if needed.
        return library_tokenizer(self._data, self.name) if self._special else self._of_text

    def _highest(self, vocab: Any) -> int:
        """The highest id: a vocabulary may have gaps."""
        library = self._of_text
        ids = [int(library.get_vocab_size()) - 1, *library.get_added_tokens_decoder()]
        return max(*ids, *vocab.values()) if isinstance(vocab, dict) and vocab else max(ids)

    def document(self) -> dict[str, Any]:
        return parse_document(self.inner.to_str().encode(), self.name)

    def encode_batch(self, texts: Sequence[str]) -> list[Int32Array]:
        return encoded_by(self._of_text, texts, list(map(len, strings(texts))), self.name)

    def tokenize(self, word: str) -> list[int]:
        """Ids of a word in the model's own alphabet, without normalizer and pre-tokenizer."""
        with in_library("cannot encode", self.name):
            return [int(token.id) for token in self.inner.model.tokenize(word)]

    def decode(self, ids: npt.ArrayLike) -> str:
        with in_library("cannot decode", self.name):
            self._named(as_list(ids))
            return str(self.inner.decode(as_list(ids), skip_special_tokens=False))

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of token ids; they may end within a character."""
        return self._decoder.data(self._named(as_list(ids)))

    def token_bytes(self, index: int) -> bytes:
        return b"".join(self._decoder.each(self._named([index])))

    def _named(self, ids: Sequence[int]) -> list[str]:
        """Names of tokens, but of ids that the vocabulary leaves out."""
        if odd := [index for index in ids if not 0 <= index < self.size]:
            raise ModtokError(f"token id {odd[0]} is outside the vocabulary")
        named = (self._special.get(index) or self._of_text.id_to_token(index) for index in ids)
        return [name for name in named if name is not None]
