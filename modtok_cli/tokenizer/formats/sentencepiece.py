"""The SentencePiece `.model`: ours by our encoders, others by the sentencepiece library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.tokenizer.adopted.sentencepiece_form import of_sentencepiece
from modtok_cli.tokenizer.encoding.encoder import strings
from modtok_cli.tokenizer.encoding.external import (
    External,
    as_ids,
    as_list,
    one_line,
    sentencepiece_processor,
)
from modtok_cli.tokenizer.formats import Format
from modtok_cli.tokenizer.segmenters import SEGMENTATIONS
from modtok_cli.tokenizer.segmenters.interface import Segmenter, segmentation
from modtok_cli.tokenizer.segmenters.sentencepiece_file import read_model
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

if TYPE_CHECKING:
    from modtok_cli.tokenizer.protocol import Tokenizer


class SentencePiece(Format):
    """A `.model`: a protobuf message, which has no signature at its beginning."""

    suffixes = (".model",)
    priority = 9

    def recognizes(self, data: bytes) -> bool:
        """Its first field is a piece: number 1, a message."""
        return data[:1] == b"\n"

    def read(self, data: bytes, name: str, where: str, variant: str | None) -> Tokenizer:
        """Ours if one of our segmenters wrote it, else the library's.

        Another program may have written the same settings with its bytes in another order.
        """
        model = read_model(data, where)
        for modular in map(segmentation, SEGMENTATIONS):
            segmenter = None
            with suppress(ModtokError):
                segmenter = modular.kind.from_sentencepiece(model, where)
            if segmenter is not None:
                return Subtokenizer.of_file(segmenter, name, {})
        return SentencePieceTokenizer(name, data, where)

    def write(self, segmenter: Segmenter, provenance: Mapping[str, Any]) -> bytes:
        """The file; it has no place for provenance."""
        return segmenter.to_sentencepiece()


FORMAT = SentencePiece()


class SentencePieceTokenizer(External):
    """A SentencePiece `.model`.

    Attributes:
        unknown: id of the token that stands for text without a token; None if there is none.

    Raises:
        ModtokError: the library does not load it.
    """

    def __init__(self, name: str, data: bytes, where: str) -> None:
        super().__init__(name, data)
        self._inner = sentencepiece_processor(data, where)
        self.size = int(self._inner.get_piece_size())
        unknown = int(self._inner.unk_id())
        self.unknown = unknown if unknown >= 0 else None

    def document(self) -> dict[str, Any]:
        return of_sentencepiece(read_model(self.content, self.name), self.name)

    def encode_batch(self, texts: Sequence[str]) -> list[Int32Array]:
        strings(texts)
        return [as_ids(ids) for ids in self._inner.encode(list(texts))]

    def decode(self, ids: npt.ArrayLike) -> str:
        try:
            return str(self._inner.decode(as_list(ids)))
        except (IndexError, RuntimeError) as error:
            raise ModtokError(f"cannot decode: {one_line(error)}") from error

    def token_bytes(self, index: int) -> bytes:
        piece = str(self._inner.id_to_piece(index))
        if self._inner.is_byte(index):
            return bytes([int(piece[3:5], 16)])
        return piece.replace("▁", " ").encode()
