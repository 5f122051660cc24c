"""The content of a build's journal: Unigram models and the state of EM, or learned merges.

A Unigram model is kept as soon as it is learned, since starting a trainer takes longer than that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.membership import Membership
from modtok_cli.base.records import from_json
from modtok_cli.base.signature import digest
from modtok_cli.construct.journal import Arrays, JournalState
from modtok_cli.learn.em import EmStep, Estimate
from modtok_cli.learn.merges import LearnedMerges
from modtok_cli.learn.pieces import LearnedPieces
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.languages import Label


class UnigramState:
    """Models by language and the state of EM, which threads replace whole.

    A model is identified by the fingerprint of its text too, and EM by a `mark`, so that
    neither is used for other text. The text of one language may change; the models of the
    other languages remain usable.
    """

    def __init__(self, specials: Sequence[str]) -> None:
        self._specials = tuple(specials)
        self._models: dict[str, tuple[str, LearnedPieces]] = {}
        self._em: tuple[str, Estimate] | None = None

    def model(self, language: str, counts: WordCounts) -> LearnedPieces | None:
        """Return the model of this language if it was learned from this text."""
        fingerprint, model = self._models.get(language, ("", None))
        return model if model is not None and fingerprint == counts.fingerprint() else None

    def add(self, language: str, counts: WordCounts, model: LearnedPieces) -> None:
        """Add a model."""
        self._models[language] = (counts.fingerprint(), model)

    def em(self, mark: str) -> Estimate | None:
        """Return the state of EM, if it is of this `mark`."""
        return self._em[1] if self._em is not None and self._em[0] == mark else None

    def set_em(self, mark: str, state: Estimate) -> None:
        """Replace the state of EM."""
        self._em = (mark, state)

    def to_kept(self) -> JournalState:
        """Return everything that a journal keeps."""
        arrays: dict[str, Any] = {}
        notes: dict[str, Any] = {"models": {}, "em": None}
        for language, (fingerprint, model) in dict(self._models).items():
            arrays[f"{language}.data"] = model.token_data
            arrays[f"{language}.offsets"] = model.token_offsets
            arrays[f"{language}.scores"] = model.scores
            notes["models"][language] = fingerprint
        if self._em is not None:
            mark, state = self._em
            arrays["em"] = state.expected
            notes["em"] = {"mark": mark, "steps": [asdict(step) for step in state.steps]}
        return JournalState(arrays, notes)

    def restore(self, saved: JournalState) -> None:
        """Replace all of it by the content of a journal.

        Raises:
            ModtokError, ValueError, LookupError, TypeError, AttributeError: it is not valid.
        """
        self._models, self._em = _models_of(saved, self._specials), _em_of(saved)


def em_mark(
    united: LearnedPieces,
    tables: Mapping[str, WordCounts],
    factors: Mapping[str, float],
    settings: Mapping[str, Any],
) -> str:
    """Hash of everything that decides the course of EM: pieces, texts, weights, start and end."""
    texts = [(name, table.fingerprint(), factors[name]) for name, table in tables.items()]
    return digest(
        united.token_data.tobytes(),
        united.token_offsets.tobytes(),
        united.scores.tobytes(),
        united.token_membership.planes.tobytes(),
        repr(texts).encode(),
        repr(sorted(settings.items())).encode(),
        length=64,
    )


def _models_of(
    saved: JournalState, specials: tuple[str, ...]
) -> dict[str, tuple[str, LearnedPieces]]:
    models = {}
    for language, fingerprint in saved.notes["models"].items():
        scores = saved.arrays[f"{language}.scores"].copy()
        model = LearnedPieces(
            (language,),
            specials,
            saved.arrays[f"{language}.data"].copy(),
            saved.arrays[f"{language}.offsets"].copy(),
            scores,
            Membership.everywhere(len(scores), 1),
        )
        if not (Label.of(language).is_known and _is_valid(model)):
            raise ValueError("not a model")
        models[language] = (str(fingerprint), model)
    return models


def _is_valid(model: LearnedPieces) -> bool:
    """Return whether shapes and types are those of `LearnedPieces`; the core trusts them."""
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


def _em_of(saved: JournalState) -> tuple[str, Estimate] | None:
    notes = saved.notes["em"]
    if notes is None:
        return None
    expected = saved.arrays["em"].copy()
    if expected.dtype != np.float64 or expected.ndim != 1 or not expected.sum() > 0:
        raise ValueError("not expected counts")
    steps: Sequence[EmStep] = [from_json(EmStep, step, "journal") for step in notes["steps"]]
    if not steps:
        raise ValueError("no step")
    return str(notes["mark"]), Estimate(expected, tuple(steps))


def merges_to_arrays(learned: LearnedMerges) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of learned merges; languages and special tokens are stored elsewhere."""
    return {
        "token_data": learned.token_data,
        "token_offsets": learned.token_offsets,
        "merges": learned.merges,
        "token_membership": learned.token_membership.planes,
        "merge_membership": learned.merge_membership.planes,
    }


def merges_from_arrays(
    arrays: Arrays, languages: Sequence[str], specials: Sequence[str]
) -> LearnedMerges:
    """Return learned merges from `merges_to_arrays`.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: the arrays are not valid; the
            core trusts shapes, types and ids.
    """
    learned = LearnedMerges(
        tuple(languages),
        tuple(specials),
        arrays["token_data"],
        arrays["token_offsets"],
        arrays["merges"],
        Membership(arrays["token_membership"], len(languages)),
        Membership(arrays["merge_membership"], len(languages)),
    )
    if not (all(Label.of(name).is_known for name in languages) and _are_merges(learned)):
        raise ValueError("the arrays do not hold learned merges")
    return learned


def _are_merges(learned: LearnedMerges) -> bool:
    """Whether shapes and types are those of `LearnedMerges`, and all ids in the vocabulary."""
    offsets, merges, languages = learned.token_offsets, learned.merges, len(learned.languages)
    kinds = (
        (learned.token_data, np.uint8, 1),
        (offsets, np.int64, 1),
        (merges, np.int32, 2),
        (learned.token_membership.planes, np.uint8, 2),
        (learned.merge_membership.planes, np.uint8, 2),
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
        and learned.token_membership.planes.shape == ((languages + 7) // 8, size)
        and learned.merge_membership.planes.shape == ((languages + 7) // 8, len(merges))
    )
