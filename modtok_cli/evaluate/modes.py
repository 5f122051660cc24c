"""Inference modes: the input and output vocabulary that `--infer` selects.

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

from collections.abc import Sequence
from dataclasses import dataclass

from modtok_cli.base.errors import UsageError

FULL = "full"
LANG = "lang"
FULL_LANG = "full-lang"
CROSSED = "src|tgt"
_OF_A_PAIR = ("src", "tgt", "src+tgt", CROSSED)
_REMEDY = "use lang, full, full-lang, or languages such as en,fr"


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
        """Form used in signatures: `full>fr`, `en|fr`, `en,fr`."""
        reading, writing = _joined(self.inputs), _joined(self.outputs)
        if self.outputs is None:
            return reading
        return f"{reading}{'|' if self.crossed else '>'}{writing}"


def infer_vocabularies(
    mode: str,
    languages: Sequence[str],
    *,
    language: str | None = None,
    pair: tuple[str, str] | None = None,
) -> Infer:
    """Vocabularies of `mode` for a task in `language`, or for a pair.

    `languages` are those of the run. A task language that is not among them can only be evaluated
    with `full` or with a union of languages.

    >>> infer_vocabularies("full-lang", ["en", "fr"], language="fr")
    Infer(inputs='full', outputs=('fr',), crossed=False)
    >>> str(infer_vocabularies("src|tgt", ["en", "fr"], pair=("fr", "en")))
    'fr|en'

    Raises:
        UsageError: the mode or a language is unknown, or a single language has no such mode.
    """
    assert (language is None) != (pair is None)
    target = language if pair is None else pair[1]
    own = (language,) if pair is None else pair
    if mode == FULL:
        return Infer(FULL)
    if mode == LANG:
        return Infer(_subset(own, languages, mode))
    if mode == FULL_LANG:
        return Infer(FULL, _subset((target,), languages, mode))
    if mode in _OF_A_PAIR:
        if pair is None:
            raise UsageError(
                f"{mode!r} needs a source and a target language", where="--infer", remedy=_REMEDY
            )
        if mode == CROSSED:
            source, target_side = (_subset((name,), languages, mode) for name in pair)
            return Infer(source) if source == target_side else Infer(source, target_side, True)
        sides = {"src": pair[:1], "tgt": pair[1:], "src+tgt": pair}
        return Infer(_subset(sides[mode], languages, mode))
    return Infer(_subset(tuple(part.strip() for part in mode.split(",")), languages, mode))


def _subset(names: Sequence[str | None], languages: Sequence[str], mode: str) -> tuple[str, ...]:
    """`names` in the run's order."""
    for name in names:
        if name not in languages:
            what = (
                f"unknown inference mode {mode!r}" if name == mode else f"unknown language {name!r}"
            )
            raise UsageError(
                f"{what}: the model has {','.join(languages)}", where="--infer", remedy=_REMEDY
            )
    return tuple(name for name in languages if name in names)


def _joined(side: Sequence[str] | str | None) -> str:
    return side if isinstance(side, str) else ",".join(side or ())
