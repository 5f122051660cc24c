"""Half-done builds survive a kill: what is learned is kept beside the output as it grows.

A journal is a directory `.NAME.resume` beside the output, removed when the output is in
its place. `Kept` is what any build keeps in one; `Journal` keeps merges, and
`unigram_journal` pieces. Merges are written after a language when a kill would lose at
least a minute of work, so that a build of seconds writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli import __version__
from modtok_cli.base.files import atomic_directory, clear
from modtok_cli.base.signature import digest
from modtok_cli.learn.merges import LearnedMerges
from modtok_cli.text.languages import is_language

INTERVAL_SECONDS = 60.0

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Kept:
    """What a journal holds: arrays, notes as JSON knows them, a file per language."""

    arrays: Arrays
    notes: dict[str, Any]
    references: Mapping[str, bytes]


@dataclass(frozen=True)
class Saved:
    """What a journal of merges held: the tokenizer so far, and what the builder noted of it."""

    learned: LearnedMerges
    notes: dict[str, Any]
    references: Mapping[str, bytes]


def place_of(output: Path) -> Path:
    """Where the journal of an output lies."""
    return output.parent / f".{output.name}.resume"


def clear_finished(output: Path) -> None:
    """Clear the journal of a build that was killed when its output stood already.

    A forced build's stays: it is about to replace the output, and may go on.
    """
    try:
        head = orjson.loads((place_of(output) / "journal.json").read_bytes())
        forced = head["force"] is True
    except (OSError, ValueError, LookupError, TypeError):
        forced = False
    if not forced:
        clear(place_of(output))


class JournalDir:
    """Where the state of one build is kept; `key` says which build it is.

    `key` holds what decides the outcome (settings, and size and time of the input files):
    a journal with another key, or of another version of modtok, is of another build and is
    not used. With `force` one that was begun without it is not used either: whoever forces
    means to begin anew. A forced build that was killed goes on all the same.
    """

    def __init__(
        self,
        output: Path,
        key: Mapping[str, Any],
        interval: float = INTERVAL_SECONDS,
        force: bool = False,
    ) -> None:
        self.directory = place_of(output)
        self._key = orjson.loads(orjson.dumps({"modtok": __version__, **key}))
        self._interval = interval
        self._force = force
        self._last = time.monotonic()
        self._unsaved = 0.0

    def read_kept(self) -> Kept | None:
        """What there is to go on from; None if nothing, damaged, or of another build."""
        from safetensors.numpy import load

        try:
            head = orjson.loads((self.directory / "journal.json").read_bytes())
            if head["key"] != self._key or (self._force and head["force"] is not True):
                return None
            if not all(is_language(name) for name in head["references"]):
                return None  # they are file names below
            state = (self.directory / "state.safetensors").read_bytes()
            references = {
                language: (self.directory / f"{language}.json").read_bytes()
                for language in head["references"]
            }
            # Half a language learned from flipped bits would not be noticed in the outcome.
            if head["sha256"] != _digest(head, state, references):
                return None
            return Kept(load(state), dict(head["notes"]), references)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None
        except Exception as error:  # safetensors raises a class of its own
            if type(error).__name__ != "SafetensorError":
                raise
            return None

    def due(self, work: float = 0.0) -> bool:
        """Whether so much would be lost by a kill that it is worth a writing.

        `work`: seconds that went into what was just done. Where several things are done at
        a time they add up to more than has passed since the last writing.
        """
        self._unsaved += work
        return max(self._unsaved, time.monotonic() - self._last) >= self._interval

    def write_kept(self, kept: Kept) -> None:
        """Keep the state, in place of the one before."""
        from safetensors.numpy import save

        state = save({name: np.ascontiguousarray(found) for name, found in kept.arrays.items()})
        with atomic_directory(self.directory) as beside:
            (beside / "state.safetensors").write_bytes(state)
            for language, data in kept.references.items():
                (beside / f"{language}.json").write_bytes(data)
            head = {
                "key": self._key,
                "force": self._force,
                "references": sorted(kept.references),
                "notes": kept.notes,
            }
            head["sha256"] = _digest(head, state, kept.references)
            (beside / "journal.json").write_bytes(orjson.dumps(head))
        self._last = time.monotonic()
        self._unsaved = 0.0

    def remove(self) -> None:
        """Forget the build."""
        clear(self.directory)


class Journal(JournalDir):
    """Keeps the state of a build of merges."""

    def read(self) -> Saved | None:
        """The state to go on from; None if there is none, or if it is of another build."""
        kept = self.read_kept()
        if kept is None:
            return None
        arrays = kept.arrays
        try:
            languages, specials = kept.notes["languages"], kept.notes["specials"]
            learned = LearnedMerges(
                tuple(languages),
                tuple(specials),
                arrays["token_data"],
                arrays["token_offsets"],
                arrays["merges"],
                arrays["token_membership"].astype(np.bool_),
                arrays["merge_membership"].astype(np.bool_),
            )
            notes = dict(kept.notes["notes"])
            proper = all(map(is_language, languages)) and _proper(learned)
        except (ValueError, LookupError, TypeError, AttributeError):
            return None
        return Saved(learned, notes, kept.references) if proper else None

    def write(
        self, learned: LearnedMerges, notes: Mapping[str, Any], references: Mapping[str, bytes]
    ) -> None:
        """Keep the state, in place of the one before."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "token_data": learned.token_data,
            "token_offsets": learned.token_offsets,
            "merges": learned.merges,
            "token_membership": learned.token_membership.astype(np.uint8),
            "merge_membership": learned.merge_membership.astype(np.uint8),
        }
        about = {
            "languages": learned.languages,
            "specials": learned.specials,
            "notes": dict(notes),
        }
        self.write_kept(Kept(arrays, about, references))


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
        and bool((offsets[1:] >= offsets[:-1]).all())
        and merges.shape[1] == 3
        and bool(((merges >= 0) & (merges < size)).all())
        and learned.token_membership.shape == (size, languages)
        and learned.merge_membership.shape == (len(merges), languages)
    )
