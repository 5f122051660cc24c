"""The journal of a build: what was learned so far, so that a killed build resumes.

A journal is a directory `.NAME.resume` beside the output; it is removed when the output is
complete. It is written when a kill would lose more than the learner's `journal_seconds` of
work, so that a build of seconds writes nothing.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.files import atomic_directory, clear
from modtok_cli.base.read_file import read_bounded
from modtok_cli.base.signature import digest
from modtok_cli.base.version import __version__
from modtok_cli.text.languages import Label

INTERVAL_SECONDS = 60.0

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class JournalState:
    """Content of a journal: arrays, notes that JSON can represent, a file per language."""

    arrays: Arrays
    notes: dict[str, Any]
    references: Mapping[str, bytes] = field(default_factory=dict)


def journal_path(output: Path) -> Path:
    """Return the directory of the journal of an output."""
    return output.parent / f".{output.name}.resume"


def clear_finished(output: Path) -> None:
    """Remove the journal of a build that was killed after its output was complete.

    The journal of a forced build stays: that build replaces the output and may resume.
    """
    try:
        head = orjson.loads(read_bounded(journal_path(output) / "journal.json"))
        forced = head["force"] is True
    except (OSError, ValueError, LookupError, TypeError):
        forced = False
    if not forced:
        clear(journal_path(output))


class JournalDir:
    """The journal of one build, which `key` identifies.

    `key` holds what decides the outcome (settings, and size and time of the input files): a
    journal with another key, or of another version of modtok, belongs to another build and is
    not used. With `force`, a journal that was written without it is not used either, because
    `force` means to start over; a forced build that was killed still resumes.
    """

    def __init__(
        self,
        output: Path,
        key: Mapping[str, Any],
        interval: float = INTERVAL_SECONDS,
        force: bool = False,
    ) -> None:
        self.directory = journal_path(output)
        self._key = orjson.loads(orjson.dumps({"modtok": __version__, **key}))
        self._interval = self._least = interval
        self._force = force
        self._last = time.monotonic()
        self._unsaved = 0.0

    def read(self) -> JournalState | None:
        """Return the content to resume from; None if missing, damaged, or of another build."""
        from safetensors.numpy import load

        try:
            head = orjson.loads(read_bounded(self.directory / "journal.json"))
            if head["key"] != self._key or (self._force and head["force"] is not True):
                return None
            if not all(Label.of(name).is_known for name in head["references"]):
                return None  # they are file names below
            state = (self.directory / "state.safetensors").read_bytes()
            references = {
                language: (self.directory / f"{language}.json").read_bytes()
                for language in head["references"]
            }
            # A flipped bit in a half-learned language would not show in the result.
            if head["sha256"] != _digest(head, state, references):
                return None
            return JournalState(load(state), dict(head["notes"]), references)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None
        except Exception as error:  # safetensors raises a class of its own
            if type(error).__name__ != "SafetensorError":
                raise
            return None

    def due(self, work: float = 0.0) -> bool:
        """Return whether a kill would lose enough work to write the journal now.

        `work`: seconds that the last piece of work took. Pieces that run in parallel add up
        to more than the time since the last write.
        """
        self._unsaved += work
        return max(self._unsaved, time.monotonic() - self._last) >= self._interval

    def write(self, saved: JournalState, seconds: float = 0.0) -> None:
        """Replace the content; `seconds`: that making it took."""
        from safetensors.numpy import save

        began = time.monotonic() - seconds
        state = save({name: np.ascontiguousarray(array) for name, array in saved.arrays.items()})
        with atomic_directory(self.directory) as beside:
            (beside / "state.safetensors").write_bytes(state)
            for language, data in saved.references.items():
                (beside / f"{language}.json").write_bytes(data)
            head = {
                "key": self._key,
                "force": self._force,
                "references": sorted(saved.references),
                "notes": saved.notes,
            }
            head["sha256"] = _digest(head, state, saved.references)
            (beside / "journal.json").write_bytes(orjson.dumps(head))
        self._last = time.monotonic()
        self._unsaved = 0.0
        # A large state takes at most a tenth of the time, if ten intervals are enough for that.
        self._interval = min(10 * self._least, max(self._least, 9 * (self._last - began)))

    def remove(self) -> None:
        """Remove the journal."""
        clear(self.directory)


def _digest(head: Mapping[str, Any], state: bytes, references: Mapping[str, bytes]) -> str:
    body = {name: value for name, value in head.items() if name != "sha256"}
    parts = [orjson.dumps(body, option=orjson.OPT_SORT_KEYS), state]
    return digest(*parts, *(references[name] for name in sorted(references)), length=64)
