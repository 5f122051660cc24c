"""Pack the text of one slot: which bytes become which sequences.

A step has M slots, one per sequence. Slot s reads, of every language, the documents at
positions s, s + M, s + 2M, … of the shuffled order, each byte once. Slots do not depend on
ranks or on the size of a microbatch, so a run resumes with the same batches on any number of
ranks that divides M.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from modtok_cli.base.arrays import BoolArray, Int32Array
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.training.data.conversation import MARK, MaskedText
from modtok_cli.training.data.sampling import Draw, Mixture, Regime, draw
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore, mixed

# Place in a source of draws: number of the document in the packer, and byte within it.
StreamPosition = tuple[int, int]
# Longer documents are encoded in parts: a batch of a 50 MB document costs what others cost.
_PART = 1 << 16


def place_of(language: str, store: TextStore) -> str:
    """The name of a text among stream positions: stages of a run may have several of a language."""
    return f"{language}:{store.checksum}"


@dataclass(frozen=True)
class Batch:
    """A microbatch: B sequences of S tokens of one language and one subtokenizer.

    Attributes:
        step, slot, draw: its step and slot, and what was sampled for them.
        inputs: (B, S) int32, global ids.
        targets: (B, S) int32, local ids of the subtokenizer.
        end_of_text: local id of the token between documents.
        bytes: bytes of text of the targets in the loss; end-of-text tokens count as 0.
        first_document: number of its first document, for error messages.
        positions: stream positions of the slot after this batch, by text (`place_of`).
        in_loss: (B, S) bool, targets that are in the loss; None: all.
    """

    step: int
    slot: int
    draw: Draw
    inputs: Int32Array
    targets: Int32Array
    end_of_text: int
    bytes: int
    first_document: int
    positions: dict[str, StreamPosition]
    in_loss: BoolArray | None = None

    @staticmethod
    def joined(batches: Sequence[Batch]) -> Batch:
        """One microbatch of the sequences of several slots, which share a draw."""
        first = batches[0]
        assert all(batch.draw == first.draw for batch in batches)
        masks = None
        if any(batch.in_loss is not None for batch in batches):
            masks = np.concatenate(
                [
                    np.ones(batch.targets.shape, np.bool_)
                    if batch.in_loss is None
                    else batch.in_loss
                    for batch in batches
                ]
            )
        return replace(
            first,
            in_loss=masks,
            inputs=np.concatenate([batch.inputs for batch in batches]),
            targets=np.concatenate([batch.targets for batch in batches]),
            bytes=sum(batch.bytes for batch in batches),
        )


@dataclass(frozen=True)
class StreamPlan:
    """Everything that determines the batches of a stage; sent to the worker processes.

    A slot has a sequence of `length` tokens in a step; `group` consecutive slots share a draw.
    `stores` are directories of text, by the names of `Mixture.of_texts`.
    """

    tokenizer: Path
    stores: Mapping[str, Path]
    regime: Regime
    p: float
    mixture: Mixture
    seed: int
    slots: int
    group: int
    length: int
    dropout: float = 0.0

    def packers(
        self, slots: Sequence[int], state: Mapping[int, Mapping[str, StreamPosition]]
    ) -> list[SlotPacker]:
        """The packers of some slots at their positions."""
        subtokenizers = SubtokenizerCache.load(self.tokenizer)
        stores = {
            name: TextStore(path, name.partition("/")[2]) for name, path in self.stores.items()
        }
        return [SlotPacker(self, slot, stores, subtokenizers, state.get(slot)) for slot in slots]


class SlotPacker:
    """Packs the sequences of one slot, step by step."""

    def __init__(
        self,
        plan: StreamPlan,
        slot: int,
        stores: Mapping[str, TextStore],
        subtokenizers: SubtokenizerCache,
        positions: Mapping[str, StreamPosition] | None = None,
    ) -> None:
        self._plan, self.slot = plan, slot
        self._stores, self._subtokenizers = stores, subtokenizers
        self.positions: dict[str, StreamPosition] = dict(positions or {})

    def batch(self, step: int) -> Batch:
        """The batch of `step`, the next one."""
        plan = self._plan
        group = self.slot // plan.group
        what = draw(plan.regime, plan.p, plan.mixture, plan.seed, step, group)
        subtokenizer = self._subtokenizers.of(what.languages)
        source = what.text
        place = place_of(source, self._stores[source])
        position = self.positions.get(place, (0, 0))
        first = self._document(source, position[0])
        ids, in_loss, size, position = self._read(source, subtokenizer, plan.length, position)
        self.positions = {**self.positions, place: position}
        end = self._subtokenizers.end_in(subtokenizer)
        # Each batch starts after an end-of-text token, so that every token is predicted once.
        inputs = np.concatenate([ids[:0], np.array([end], dtype=np.int32), ids[:-1]])
        return Batch(
            step=step,
            slot=self.slot,
            draw=what,
            inputs=subtokenizer.global_ids[inputs].reshape(1, -1),
            targets=ids.reshape(1, -1),
            end_of_text=end,
            bytes=size,
            first_document=first,
            positions=self.positions,
            in_loss=None if in_loss.all() else in_loss.reshape(1, -1),
        )

    def _document(self, source: str, number: int) -> int:
        store = self._stores[source]
        return store.training_document(number * self._plan.slots + self.slot, self._plan.seed)

    def _read(
        self, source: str, subtokenizer: Subtokenizer, wanted: int, position: StreamPosition
    ) -> tuple[Int32Array, BoolArray, int, StreamPosition]:
        """`wanted` tokens from `position` on, which are in the loss, the bytes that those stand
        for, and the position after."""
        end = np.array([self._subtokenizers.end_in(subtokenizer)], dtype=np.int32)
        pieces: list[Int32Array] = []
        marks: list[BoolArray] = []
        missing, size = wanted, 0

        def add(ids: Int32Array, in_loss: bool) -> None:
            pieces.append(ids)
            marks.append(np.full(len(ids), in_loss))

        while True:
            parts = self._parts(source, position, missing)
            texts = [part for _, part, _ in parts]
            keys = [self._key(source, *start) for start, _, _ in parts if self._plan.dropout]
            encoded = self._subtokenizers.encode(subtokenizer, texts, keys, self._plan.dropout)
            for (start, part, after), ids in zip(parts, encoded, strict=True):
                text = part.text
                if len(ids) >= missing:
                    head = ids[:missing]
                    used = len(text)
                    if len(ids) > missing:
                        used = min(used, len(subtokenizer.decode_bytes(head)))
                    add(head, part.in_loss)
                    size += used * part.in_loss
                    resume = _character_start(text, used)
                    position = _later(start, resume)
                    if resume >= len(text):  # only the end-of-text token is missing
                        position = after or _later(start, used)
                    return np.concatenate(pieces), np.concatenate(marks), size, position
                add(ids, part.in_loss)
                missing -= len(ids)
                size += len(text) * part.in_loss
                if after is not None and after[1] == 0:
                    # It separates conversations, and is no part of an answer.
                    add(end, self._is_plain(source, start[0]))
                    missing -= 1
                position = after or _later(start, len(text))
                if missing == 0:
                    return np.concatenate(pieces), np.concatenate(marks), size, position

    def _key(self, source: str, number: int, start: int) -> int:
        """The key of the dropout of a text at a place: another one in each epoch."""
        document = number * self._plan.slots + self.slot
        return mixed(mixed(document, self._plan.seed, self._stores[source].checksum), start, 0)

    def _parts(
        self, source: str, position: StreamPosition, missing: int
    ) -> list[tuple[StreamPosition, MaskedText, StreamPosition | None]]:
        """Texts that may fill `missing` tokens, estimated at three bytes per token.

        Each is (position, text, position after it if its document ends there, else None).
        Text that is not used is read again for the next batch.
        """
        store = self._stores[source]
        parts: list[tuple[StreamPosition, MaskedText, StreamPosition | None]] = []
        held, wanted = 0, 3 * missing + 64
        while held < wanted:
            number, start = position
            document = self._document(source, number)
            after = (number + 1, 0)
            if not self._is_plain(source, number):
                every = self._subtokenizers.pieces_of(store.document(document))
                left = [piece for piece in every if piece.start + len(piece.text) > start]
                for piece in left:
                    first = max(piece.start, start)
                    part = piece._replace(start=first, text=piece.text[first - piece.start :])
                    parts.append(((number, first), part, after if piece is left[-1] else None))
                    held += len(part.text)
                    if held >= wanted:
                        break
                position = after
                continue
            text = store.document(document, start, start + _PART)
            if start + len(text) < store.length(document):
                text = text[: _cut(text)]
                parts.append((position, MaskedText(start, text, True, False), None))
                position = (number, start + len(text))
            else:
                parts.append((position, MaskedText(start, text, True, False), after))
                position = after
            held += len(text)
        return parts

    def _is_plain(self, source: str, number: int) -> bool:
        """Whether a document is text, not a conversation."""
        return self._stores[source].document(self._document(source, number), 0, 1) != MARK


def _later(position: StreamPosition, amount: int) -> StreamPosition:
    return (position[0], position[1] + amount)


def _character_start(text: bytes, at: int) -> int:
    """Start of the character that contains byte `at`.

    A byte-level token may end inside a character. Its bytes (three at most) are read again in
    the next batch, because only whole characters can be encoded.
    """
    while at < len(text) and at > 0 and text[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _cut(text: bytes) -> int:
    """Where to split a long document: before the last space, else between characters.

    >>> _cut(b"one two three"), _cut("日本語".encode()), _cut("é".encode())
    (7, 6, 2)
    """
    space = text.rfind(b" ", len(text) // 2)
    if space > 0:
        return space
    at = len(text) - 1
    while at > 0 and text[at] & 0xC0 == 0x80:
        at -= 1
    return at or len(text)
