"""Half-done builds survive a kill: what is learned is kept beside the output as it grows.

A journal is a directory `.NAME.resume` beside the output. It is written after a language
when the last writing is at least a minute old, so that a build of seconds writes nothing
and one of hours loses a minute; it is removed when the output is in its place.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.files import atomic_directory
from modtok_cli.base.signature import digest
from modtok_cli.learn.merges import LearnedMerges
from modtok_cli.text.languages import is_language

INTERVAL_SECONDS = 60.0


@dataclass(frozen=True)
class Saved:
    """What a journal held: the tokenizer so far, and what the builder noted about it."""

    learned: LearnedMerges
    notes: dict[str, Any]
    references: dict[str, bytes]


class Journal:
    """Keeps the state of one build; `key` says which build it is.

    `key` holds everything that decides the outcome (settings, and size and time of the
    input files): a journal with another key is of another build and is not used.
    """

    def __init__(
        self, output: Path, key: Mapping[str, Any], interval: float = INTERVAL_SECONDS
    ) -> None:
        self.directory = output.parent / f".{output.name}.resume"
        self._key = orjson.loads(orjson.dumps(key))
        self._interval = interval
        self._last = time.monotonic()

    def read(self) -> Saved | None:
        """The state to go on from; None if there is none, or if it is of another build."""
        from safetensors.numpy import load

        try:
            head = orjson.loads((self.directory / "journal.json").read_bytes())
            if head["key"] != self._key:
                return None
            if not all(is_language(name) for name in (*head["languages"], *head["references"])):
                return None  # they are file names below
            state = (self.directory / "state.safetensors").read_bytes()
            references = {
                language: (self.directory / f"{language}.json").read_bytes()
                for language in head["references"]
            }
            # Half a language learned from flipped bits would not be noticed in the outcome.
            if head["sha256"] != _digest(head, state, references):
                return None
            arrays = load(state)
            learned = LearnedMerges(
                tuple(head["languages"]),
                tuple(head["specials"]),
                arrays["token_data"],
                arrays["token_offsets"],
                arrays["merges"],
                arrays["token_membership"].astype(np.bool_),
                arrays["merge_membership"].astype(np.bool_),
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None
        except Exception as error:  # safetensors raises a class of its own
            if type(error).__name__ != "SafetensorError":
                raise
            return None
        return Saved(learned, head["notes"], references) if _proper(learned) else None

    def due(self) -> bool:
        """Whether the last writing is old enough for another."""
        return time.monotonic() - self._last >= self._interval

    def write(
        self, learned: LearnedMerges, notes: Mapping[str, Any], references: Mapping[str, bytes]
    ) -> None:
        """Keep the state, in place of the one before."""
        from safetensors.numpy import save

        state = save(
            {
                "token_data": learned.token_data,
                "token_offsets": learned.token_offsets,
                "merges": learned.merges,
                "token_membership": np.ascontiguousarray(learned.token_membership, np.uint8),
                "merge_membership": np.ascontiguousarray(learned.merge_membership, np.uint8),
            }
        )
        with atomic_directory(self.directory) as beside:
            (beside / "state.safetensors").write_bytes(state)
            for language, data in references.items():
                (beside / f"{language}.json").write_bytes(data)
            head = {
                "key": self._key,
                "languages": learned.languages,
                "specials": learned.specials,
                "references": sorted(references),
                "notes": dict(notes),
            }
            head["sha256"] = _digest(head, state, references)
            (beside / "journal.json").write_bytes(orjson.dumps(head))
        self._last = time.monotonic()

    def remove(self) -> None:
        """Forget the build."""
        shutil.rmtree(self.directory, ignore_errors=True)


def _digest(head: Mapping[str, Any], state: bytes, references: Mapping[str, bytes]) -> str:
    """SHA-256 over all that a journal holds."""
    body = {name: value for name, value in head.items() if name != "sha256"}
    parts = [orjson.dumps(body, option=orjson.OPT_SORT_KEYS), state]
    return digest(*parts, *(references[name] for name in sorted(references)), length=64)


def _proper(learned: LearnedMerges) -> bool:
    """Are shapes and types those of `LearnedMerges`, and all ids inside the vocabulary?

    The kernels that go on from it trust it.
    """
    offsets, merges, languages = learned.token_offsets, learned.merges, len(learned.languages)
    kinds = (
        (learned.token_data, np.uint8, 1),
        (offsets, np.int64, 1),
        (merges, np.int32, 2),
        (learned.token_membership, np.bool_, 2),
        (learned.merge_membership, np.bool_, 2),
    )
    if any(array.dtype != kind or array.ndim != rank for array, kind, rank in kinds):
        return False
    size = len(offsets) - 1
    return (
        size >= len(learned.specials) + 256
        and offsets[0] == 0
        and offsets[-1] == len(learned.token_data)
        and bool((np.diff(offsets) >= 0).all())
        and merges.shape[1] == 3
        and bool(((merges >= 0) & (merges < size)).all())
        and learned.token_membership.shape == (size, languages)
        and learned.merge_membership.shape == (len(merges), languages)
    )
