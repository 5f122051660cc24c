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
from modtok_cli.learn.merges import LearnedMerges

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
        from safetensors.numpy import load_file

        try:
            head = orjson.loads((self.directory / "journal.json").read_bytes())
            if head["key"] != self._key:
                return None
            arrays = load_file(self.directory / "state.safetensors")
            references = {
                language: (self.directory / f"{language}.json").read_bytes()
                for language in head["references"]
            }
            learned = LearnedMerges(
                tuple(head["languages"]),
                tuple(head["specials"]),
                arrays["token_data"],
                arrays["token_offsets"],
                arrays["merges"],
                arrays["token_membership"].astype(np.bool_),
                arrays["merge_membership"].astype(np.bool_),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        except Exception as error:  # safetensors raises a class of its own
            if type(error).__name__ != "SafetensorError":
                raise
            return None
        return Saved(learned, head["notes"], references)

    def due(self) -> bool:
        """Whether the last writing is old enough for another."""
        return time.monotonic() - self._last >= self._interval

    def write(
        self, learned: LearnedMerges, notes: Mapping[str, Any], references: Mapping[str, bytes]
    ) -> None:
        """Keep the state, in place of the one before."""
        from safetensors.numpy import save_file

        with atomic_directory(self.directory) as beside:
            save_file(
                {
                    "token_data": learned.token_data,
                    "token_offsets": learned.token_offsets,
                    "merges": learned.merges,
                    "token_membership": np.ascontiguousarray(learned.token_membership, np.uint8),
                    "merge_membership": np.ascontiguousarray(learned.merge_membership, np.uint8),
                },
                beside / "state.safetensors",
            )
            for language, data in references.items():
                (beside / f"{language}.json").write_bytes(data)
            head = {
                "key": self._key,
                "languages": learned.languages,
                "specials": learned.specials,
                "references": sorted(references),
                "notes": dict(notes),
            }
            (beside / "journal.json").write_bytes(orjson.dumps(head))
        self._last = time.monotonic()

    def remove(self) -> None:
        """Forget the build."""
        shutil.rmtree(self.directory, ignore_errors=True)
