"""The SentencePiece `.model` file: a protobuf message of SentencePiece's own classes.

It has a list of pieces (text, score, kind), and the settings of the trainer and the normalizer.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from modtok_cli.base.errors import ModtokError

UNIGRAM, BPE = 1, 2
KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


class Kind(IntEnum):
    """Kinds of pieces."""

    NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


@dataclass(frozen=True)
class SentencePieceFile:
    """The content of a `.model`, as far as segmentation depends on it.

    Attributes:
        pieces, scores, kinds: by id; kinds are numbers of `Kind`.
        model_type: `UNIGRAM` or another number of `KINDS`.
        normalizer: name of the normalization, "identity" for none.
        charsmap: the compiled normalization; empty for none.
        dummy_prefix, remove_spaces, escape_spaces: treatment of white space.
        byte_fallback: whether unknown characters become byte pieces.
        frame: the message without pieces and charsmap, which has all other settings.
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
    frame: bytes = field(default=b"", compare=False)


def write_model(model: SentencePieceFile) -> bytes:
    """The file; SentencePiece loads it, and segments without changing the text first.

    Raises:
        ValueError: there is not exactly one piece of `Kind.UNKNOWN`, which the format requires.
    """
    if model.kinds.count(Kind.UNKNOWN) != 1:
        raise ValueError("a SentencePiece model has exactly one unknown piece")
    messages = _messages()
    unknown, piece = model.kinds.index(Kind.UNKNOWN), messages.ModelProto.SentencePiece
    rows = zip(model.pieces, model.scores, model.kinds, strict=True)
    trainer = messages.TrainerSpec(
        model_type=model.model_type,
        vocab_size=len(model.pieces),
        split_digits=True,
        allow_whitespace_only_pieces=True,
        byte_fallback=model.byte_fallback,
        unk_id=unknown,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
        unk_piece=model.pieces[unknown],
    )
    normalizer = messages.NormalizerSpec(
        name=model.normalizer,
        precompiled_charsmap=model.charsmap or None,
        add_dummy_prefix=model.dummy_prefix,
        remove_extra_whitespaces=model.remove_spaces,
        escape_whitespaces=model.escape_spaces,
    )
    whole = messages.ModelProto(
        pieces=[piece(piece=text, score=score, type=kind) for text, score, kind in rows],
        trainer_spec=trainer,
        normalizer_spec=normalizer,
    )
    return bytes(whole.SerializeToString())


def read_model(data: bytes, where: str) -> SentencePieceFile:
    """Read the content of a `.model`."""
    try:
        model = _parsed(data)
        if not model.pieces:
            raise ValueError("it has no pieces")
        trainer, normalizer = model.trainer_spec, model.normalizer_spec
        return SentencePieceFile(
            pieces=tuple(each.piece for each in model.pieces),
            scores=tuple(each.score for each in model.pieces),
            kinds=tuple(each.type for each in model.pieces),
            model_type=trainer.model_type,
            normalizer=normalizer.name,
            charsmap=normalizer.precompiled_charsmap,
            dummy_prefix=normalizer.add_dummy_prefix,
            remove_spaces=normalizer.remove_extra_whitespaces,
            escape_spaces=normalizer.escape_whitespaces,
            byte_fallback=trainer.byte_fallback,
            frame=_frame(data),
        )
    except ValueError as error:
        raise ModtokError(f"not a SentencePiece model: {error}", where=where) from error


def _frame(data: bytes) -> bytes:
    """The message without pieces, charsmap, and names of the files that it was trained on."""
    model = _parsed(data)
    model.DiscardUnknownFields()  # samples that older versions test the pieces with
    model.ClearField("pieces")
    model.normalizer_spec.ClearField("precompiled_charsmap")
    model.trainer_spec.ClearField("input")
    return bytes(model.SerializeToString())


def framed_model(model: SentencePieceFile, where: str) -> bytes:
    """The file of pieces and charsmap in the settings of `model.frame`."""
    try:
        whole = _parsed(model.frame)
    except ValueError as error:
        raise ModtokError(f"not settings of a SentencePiece model: {error}", where=where) from error
    for text, score, kind in zip(model.pieces, model.scores, model.kinds, strict=True):
        whole.pieces.add(piece=text, score=score, type=kind)
    whole.trainer_spec.vocab_size = len(model.pieces)
    whole.normalizer_spec.precompiled_charsmap = model.charsmap
    return bytes(whole.SerializeToString())


def kind_name(number: int) -> str:
    """The name of a model type: `kind_name(2)` is "bpe"."""
    return KINDS.get(number, f"type {number}")


def _messages() -> Any:
    from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2


def _parsed(data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return _messages().ModelProto.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from error
