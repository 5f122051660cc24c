"""The SentencePiece `.model` file, read and written without a protobuf library.

The file is a `ModelProto` message: a list of pieces (text, score, kind), the trainer's and
the normalizer's settings. Field numbers are those of `sentencepiece_model.proto`; other
fields are ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modtok_cli.base.errors import ModtokError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM = 1
KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}

# ModelProto
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
# SentencePiece
_TEXT, _SCORE, _KIND = 1, 2, 3
# TrainerSpec
_MODEL_TYPE, _VOCAB_SIZE, _SPLIT_DIGITS, _SPACE_PIECES = 3, 4, 25, 26
_BYTE_FALLBACK, _UNK_ID, _BOS_ID, _EOS_ID, _PAD_ID, _UNK_PIECE = 35, 40, 41, 42, 43, 45
# NormalizerSpec
_NAME, _CHARSMAP, _DUMMY_PREFIX, _REMOVE_SPACES, _ESCAPE_SPACES = 1, 2, 3, 4, 5


@dataclass(frozen=True)
class SentencePieceFile:
    """What a `.model` holds, as far as segmentation depends on it.

    Attributes:
        pieces, scores, kinds: by id; kinds are `NORMAL`, `UNKNOWN`, `CONTROL`, …
        model_type: `UNIGRAM` or another number of `KINDS`.
        normalizer: name of the normalization, "identity" for none.
        charsmap: the compiled normalization; empty for none.
        dummy_prefix, remove_spaces, escape_spaces: treatment of white space.
        byte_fallback: whether unknown characters become byte pieces.
    """

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    kinds: tuple[int, ...]
    model_type: int = UNIGRAM
    normalizer: str = "identity"
    charsmap: bytes = b""
    dummy_prefix: bool = False
    remove_spaces: bool = False
    escape_spaces: bool = False
    byte_fallback: bool = True


def write_model(model: SentencePieceFile) -> bytes:
    """The file; SentencePiece loads it, and segments without changing the text first.

    Raises:
        ValueError: there is not exactly one piece of kind `UNKNOWN`, which the format requires.
    """
    if model.kinds.count(UNKNOWN) != 1:
        raise ValueError("a SentencePiece model has exactly one unknown piece")
    unknown = model.kinds.index(UNKNOWN)
    parts = []
    for text, score, kind in zip(model.pieces, model.scores, model.kinds, strict=True):
        piece = _text(_TEXT, text) + _float(_SCORE, score) + _number(_KIND, kind)
        parts.append(_message(_PIECES, piece))
    trainer = b"".join(
        [
            _number(_MODEL_TYPE, model.model_type),
            _number(_VOCAB_SIZE, len(model.pieces)),
            _number(_SPLIT_DIGITS, 1),
            _number(_SPACE_PIECES, 1),
            _number(_BYTE_FALLBACK, model.byte_fallback),
            _number(_UNK_ID, unknown),
            *(_number(field, -1) for field in (_BOS_ID, _EOS_ID, _PAD_ID)),
            _text(_UNK_PIECE, model.pieces[unknown]),
        ]
    )
    normalizer = b"".join(
        [
            _text(_NAME, model.normalizer),
            _message(_CHARSMAP, model.charsmap) if model.charsmap else b"",
            _number(_DUMMY_PREFIX, model.dummy_prefix),
            _number(_REMOVE_SPACES, model.remove_spaces),
            _number(_ESCAPE_SPACES, model.escape_spaces),
        ]
    )
    parts += [_message(_TRAINER, trainer), _message(_NORMALIZER, normalizer)]
    return b"".join(parts)


def read_model(data: bytes, where: str) -> SentencePieceFile:
    """What a `.model` holds."""
    pieces: list[str] = []
    scores: list[float] = []
    kinds: list[int] = []
    trainer: dict[int, int | bytes] = {}
    normalizer: dict[int, int | bytes] = {}
    try:
        for field, value in _fields(data):
            if field == _PIECES:
                entry = dict(_fields(_bytes(value)))
                pieces.append(_bytes(entry.get(_TEXT, b"")).decode())
                scores.append(struct.unpack("<f", _bytes(entry.get(_SCORE, bytes(4))))[0])
                kinds.append(_int(entry.get(_KIND, NORMAL)))
            elif field == _TRAINER:
                trainer = dict(_fields(_bytes(value)))
            elif field == _NORMALIZER:
                normalizer = dict(_fields(_bytes(value)))
        if not pieces:
            raise ValueError("it has no pieces")
        return SentencePieceFile(
            pieces=tuple(pieces),
            scores=tuple(scores),
            kinds=tuple(kinds),
            model_type=_int(trainer.get(_MODEL_TYPE, UNIGRAM)),
            normalizer=_bytes(normalizer.get(_NAME, b"")).decode(),
            charsmap=_bytes(normalizer.get(_CHARSMAP, b"")),
            dummy_prefix=bool(normalizer.get(_DUMMY_PREFIX, 1)),
            remove_spaces=bool(normalizer.get(_REMOVE_SPACES, 1)),
            escape_spaces=bool(normalizer.get(_ESCAPE_SPACES, 1)),
            byte_fallback=bool(trainer.get(_BYTE_FALLBACK, 0)),
        )
    except (ValueError, IndexError, TypeError, struct.error) as error:
        raise ModtokError(f"not a SentencePiece model: {error}", where=where) from error


def without_pieces(data: bytes, mask: Sequence[bool]) -> bytes:
    """The file `data` with the pieces for which `mask` is true, all else as it is.

    The new number of pieces is added to the trainer's settings, which protobuf merges.
    """
    parts = []
    index = 0
    for field, value in _fields(data):
        body = _bytes(value)
        if field == _PIECES:
            index += 1
            if not mask[index - 1]:
                continue
        parts.append(_message(field, body))
    parts.append(_message(_TRAINER, _number(_VOCAB_SIZE, sum(mask))))
    return b"".join(parts)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative number is written in two's complement, ten bytes
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(int(value))


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of every field of a message, in the file's order."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        field, wire = key >> 3, key & 7
        if wire == 0:
            number, at = _read_varint(data, at)
            yield field, number
            continue
        if wire == 2:
            size, at = _read_varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire} at byte {at}")
        if at + size > len(data):
            raise ValueError("it ends in the middle of a field")
        yield field, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError(f"a number of too many bytes at byte {at}")


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("expected text, got a number")
    return value


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("expected a number, got text")
    return value


def kind_name(number: int) -> str:
    """What a model type is called: `kind_name(2)` is "bpe"."""
    return KINDS.get(number, f"type {number}")
