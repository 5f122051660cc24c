"""Inference modes: the vocabularies that `--infer` selects.

`--infer` selects the input and output vocabulary:

    lang        the task language's subtokenizer; for a pair, the union of both languages
    full        the whole vocabulary T
    full-lang   input T, predictions in the task language's subset; for a pair, in the target's
    en,fr       this union, for every task
    src, tgt    for a pair: the source's or the target's subtokenizer for everything
    src+tgt     for a pair: the union of both languages, same as `lang`
    src|tgt     for a pair: source sides by the source's subtokenizer, target sides by the target's,
                predictions in the target's

The names follow the paper's section "Evaluation" and its tables on mixed contexts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modtok_cli.base.errors import UsageError
from modtok_cli.model.vocabularies import FULL, LANG
from modtok_cli.text.languages import canonical, language_list, matching, the_one

if TYPE_CHECKING:  # it imports torch
    from modtok_cli.model.source import ModelSource

Own = Sequence[str]
"""The language of a task, or the source and the target of a pair."""


@dataclass(frozen=True)
class Mode:
    """An inference mode.

    Attributes:
        inputs: languages of the input vocabulary of a task in the languages `own`, or "full".
        outputs: languages of the output vocabulary, () if it equals the input vocabulary.
        of_pairs: whether it needs a source and a target language.
    """

    inputs: Callable[[Own], Sequence[str] | str]
    outputs: Callable[[Own], Sequence[str]] = lambda own: ()
    of_pairs: bool = False


MODES = {
    LANG: Mode(lambda own: own),
    FULL: Mode(lambda own: FULL),
    "full-lang": Mode(lambda own: FULL, lambda own: own[-1:]),
    "src": Mode(lambda own: own[:1], of_pairs=True),
    "tgt": Mode(lambda own: own[1:], of_pairs=True),
    "src+tgt": Mode(lambda own: own, of_pairs=True),
    "src|tgt": Mode(lambda own: own[:1], lambda own: own[1:], of_pairs=True),
}
_ALONE = ", ".join(name for name, mode in MODES.items() if not mode.of_pairs)
_OF_PAIRS = ", ".join(name for name, mode in MODES.items() if mode.of_pairs)
_REMEDY = f"use {_ALONE}, or languages such as en,fr"
_OF_TASKS = "use its languages, or --infer full"
INFER = f"Inference vocabulary: {_ALONE}, or languages such as en,fr."
HELP = f"{INFER} For pairs also {_OF_PAIRS}. Repeatable."
"""The help of `--infer`."""


@dataclass(frozen=True)
class Infer:
    """Input and output vocabulary of a model, as `SlicedModel.with_vocabulary` takes them.

    Attributes:
        inputs, outputs: languages in the run's order, or "full" for T. `outputs` is None if it
            equals `inputs`.
        crossed: whether target sides of the prompt are also tokenized by `outputs`.
    """

    inputs: tuple[str, ...] | str
    outputs: tuple[str, ...] | str | None = None
    crossed: bool = False

    def __str__(self) -> str:
        """Return the form used in signatures: `full>fr`, `en|fr`, `en,fr`."""
        reading, writing = _joined(self.inputs), _joined(self.outputs)
        if self.outputs is None:
            return reading
        return f"{reading}{'|' if self.crossed else '>'}{writing}"


def _joined(side: Sequence[str] | str | None) -> str:
    return side if isinstance(side, str) else ",".join(side or ())


def infer_vocabularies(mode: str, languages: Sequence[str], own: Sequence[str]) -> Infer:
    """Return vocabularies of `mode` for a task in the language, or for the pair, `own`.

    `languages` are the run's. A task language that is not among them can only be evaluated
    with `full` or with a union of languages.

    >>> infer_vocabularies("full-lang", ["en", "fr"], ["fr"])
    Infer(inputs='full', outputs=('fr',), crossed=False)
    >>> str(infer_vocabularies("src|tgt", ["en", "fr"], ["fr", "en"]))
    'fr|en'
    """
    if mode not in MODES:
        return Infer(_subset([part.strip() for part in mode.split(",")], languages, mode, None))
    chosen = MODES[mode]
    if chosen.of_pairs and len(own) < 2:
        raise UsageError(
            f"{mode!r} needs a source and a target language", where="--infer", remedy=_REMEDY
        )
    inputs, outputs = chosen.inputs(own), chosen.outputs(own)
    option = "--pairs" if len(own) > 1 else "--langs"
    reading = inputs if isinstance(inputs, str) else _subset(inputs, languages, mode, option)
    writing = _subset(outputs, languages, mode, option) if outputs else ()
    if not writing or writing == reading:
        return Infer(reading)
    return Infer(reading, writing, crossed=reading != FULL)


def _subset(
    names: Sequence[str], languages: Sequence[str], mode: str, option: str | None
) -> tuple[str, ...]:
    """Return `names` in the run's order; `option` has named them, None if the mode has."""
    chosen: set[str] = set()
    for name in names:
        chosen.update(those := matching(name, languages))
        if not those:
            what = (
                f"unknown inference mode {mode!r}" if name == mode else f"unknown language {name!r}"
            )
            raise UsageError(
                f"{what}: the model has {','.join(languages)}",
                where=option or "--infer",
                remedy=_OF_TASKS if option else _REMEDY,
            )
    return tuple(name for name in languages if name in chosen)


def vocabulary_of(source: ModelSource, mode: str | None, own: Sequence[str]) -> Infer:
    """Return `infer_vocabularies`; with `mode` None, of the mode of the source."""
    if source.whole and mode not in (None, FULL):
        raise UsageError(
            f"is a model with one vocabulary, not {mode!r}",
            where=source.path,
            remedy="leave --infer out",
        )
    if mode is None and source.sides is not None:
        return Infer(*source.sides)
    return infer_vocabularies(mode or source.mode, source.all_languages, own)


def needs_language(source: ModelSource, mode: str | None) -> bool:
    """Return whether the vocabularies of a mode depend on the language of a text."""
    chosen = MODES.get(mode or source.mode)
    sides = (chosen.inputs, chosen.outputs) if chosen else ()
    return any(side(("",)) != side(()) for side in sides)


def mode_name(source: ModelSource, mode: str | None) -> str:
    """Name of the mode in result rows."""
    return source.mode if source.whole else mode or source.mode


def vocabularies_of(
    source: ModelSource, mode: str | None, langs: Sequence[str] | None
) -> dict[str, Infer]:
    """Return vocabularies by label, of the languages that the user names, else of the source's."""
    known = source.all_languages
    languages = [the_one(name, known) or canonical(name) for name in langs or known]
    if not languages:
        raise UsageError("has no languages", where=source.path, remedy="name them: --langs fr,en")
    for language in languages:
        if languages.count(language) > 1:
            raise UsageError(f"--langs contains {language!r} twice", remedy="remove one")
    return {language: vocabulary_of(source, mode, [language]) for language in languages}


def modes_of(infer: str | Sequence[str] | None) -> list[str | None]:
    """Return the inference modes of `--infer`, with labels of languages; None: see `vocabulary_of`.

    Raises:
        UsageError: a mode is empty, or repeats a language.
    """
    if infer is None:
        return [None]
    given = [infer] if isinstance(infer, str) else list(infer)
    modes = (
        mode if mode in MODES else ",".join(map(canonical, language_list(mode, "--infer")))
        for mode in given
    )
    return list(dict.fromkeys(modes)) or [None]
