"""What a build of Unigram models keeps: every model that is learned, and EM as far as it is.

A model is kept when it is learned, since starting a trainer alone takes longer than that.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.records import from_json
from modtok_cli.base.signature import digest
from modtok_cli.construct.journal import JournalDir, Kept
from modtok_cli.learn.em import Halfway, Step
from modtok_cli.learn.pieces import LearnedPieces
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.languages import is_language

EM_SECONDS = 10.0
"""How much EM a kill may lose; a state of it is some megabytes."""


class UnigramJournal:
    """The journal of `unigram` or `unigram-merge` with these settings; for any thread.

    A model is also known by the fingerprint of its text, and EM by its `mark`: of other
    text neither is taken. The text of one language may change and the others' models stay.
    """

    def __init__(
        self,
        output: Path,
        algorithm: str,
        k: int,
        specials: Sequence[str],
        *,
        interval: float = EM_SECONDS,
        force: bool = False,
    ) -> None:
        key = {"algorithm": algorithm, "k": k, "specials": specials}
        self._place = JournalDir(output, key, interval, force)
        self._lock = threading.Lock()
        self._models: dict[str, tuple[str, LearnedPieces]] = {}
        self._em: tuple[str, Halfway] | None = None
        kept = self._place.read_kept()
        if kept is not None:
            try:
                self._models = _models_of(kept, specials)
                self._em = _em_of(kept)
            except (ModtokError, ValueError, LookupError, TypeError, AttributeError):
                self._models, self._em = {}, None

    @property
    def directory(self) -> Path:
        """Where it lies."""
        return self._place.directory

    def model(self, language: str, counts: WordCounts) -> LearnedPieces | None:
        """The model that was learned of this language from this very text, if one was."""
        with self._lock:
            fingerprint, model = self._models.get(language, ("", None))
        return model if model is not None and fingerprint == counts.fingerprint() else None

    def add(self, language: str, counts: WordCounts, model: LearnedPieces) -> None:
        """Keep a model; it is on the disk before this returns."""
        fingerprint = counts.fingerprint()
        with self._lock:
            self._models[language] = (fingerprint, model)
            self._write()

    def halfway(self, mark: str) -> Halfway | None:
        """EM as it was kept, if it was of this `mark`."""
        return self._em[1] if self._em is not None and self._em[0] == mark else None

    def keep(self, mark: str, state: Halfway) -> None:
        """Keep EM, if the last writing is old enough."""
        with self._lock:
            self._em = (mark, state)
            if self._place.due():
                self._write()

    def remove(self) -> None:
        """Forget the build."""
        self._place.remove()

    def _write(self) -> None:
        arrays: dict[str, Any] = {}
        notes: dict[str, Any] = {"models": {}, "em": None}
        for language, (fingerprint, model) in self._models.items():
            arrays[f"{language}.data"] = model.token_data
            arrays[f"{language}.offsets"] = model.token_offsets
            arrays[f"{language}.scores"] = model.scores
            notes["models"][language] = fingerprint
        if self._em is not None:
            mark, state = self._em
            arrays["em"] = state.expected
            notes["em"] = {"mark": mark, "steps": [asdict(step) for step in state.steps]}
        self._place.write_kept(Kept(arrays, notes, {}))


def em_mark(
    united: LearnedPieces,
    tables: Mapping[str, WordCounts],
    factors: Mapping[str, float],
    settings: Mapping[str, Any],
) -> str:
    """Of all that decides how EM goes: pieces, texts, weights, start and end."""
    texts = [(name, table.fingerprint(), factors[name]) for name, table in tables.items()]
    return digest(
        united.token_data.tobytes(),
        united.token_offsets.tobytes(),
        united.scores.tobytes(),
        united.token_membership.tobytes(),
        repr(texts).encode(),
        repr(sorted(settings.items())).encode(),
        length=64,
    )


def _models_of(kept: Kept, specials: Sequence[str]) -> dict[str, tuple[str, LearnedPieces]]:
    found = {}
    for language, fingerprint in kept.notes["models"].items():
        scores = kept.arrays[f"{language}.scores"].copy()
        model = LearnedPieces(
            (language,),
            tuple(specials),
            kept.arrays[f"{language}.data"].copy(),
            kept.arrays[f"{language}.offsets"].copy(),
            scores,
            np.ones((len(scores), 1), dtype=np.bool_),
        )
        if not (is_language(language) and _proper(model)):
            raise ValueError("no model")
        found[language] = (str(fingerprint), model)
    return found


def _proper(model: LearnedPieces) -> bool:
    """Are shapes and types those of `LearnedPieces`? The kernels trust them."""
    data, offsets, scores = model.token_data, model.token_offsets, model.scores
    return (
        [array.dtype.name for array in (data, offsets, scores)] == ["uint8", "int64", "float64"]
        and data.ndim == offsets.ndim == scores.ndim == 1
        and len(offsets) == len(scores) + 1 >= model.first + 1
        and offsets[0] == 0
        and offsets[-1] == len(data)
        and bool((offsets[1:] > offsets[:-1]).all())
        and bool(np.isfinite(scores).all())
    )


def _em_of(kept: Kept) -> tuple[str, Halfway] | None:
    said = kept.notes["em"]
    if said is None:
        return None
    expected = kept.arrays["em"].copy()
    if expected.dtype != np.float64 or expected.ndim != 1 or not expected.sum() > 0:
        raise ValueError("no expected counts")
    steps: Sequence[Step] = [from_json(Step, step, "journal") for step in said["steps"]]
    if not steps:
        raise ValueError("no step")
    return str(said["mark"]), Halfway(expected, tuple(steps))
