"""Inference vocabularies by name: what `--infer` means for a language or a pair of them.

    lang        the task language's own subtokenizer; of a pair, that of both together
    full        the whole vocabulary T
    full-lang   read by T, predict in the task language's subset; of a pair, in the target's
    en,fr       this set, for every task
    src, tgt    of a pair: the source's subtokenizer, or the target's, for everything
    src+tgt     of a pair: that of both together, which `lang` is too
    src|tgt     of a pair: source sides by the source's, target sides by the target's,
                predictions in the target's

Section "Evaluation" and the tables on mixed contexts of the paper name them so.
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
_REMEDY = "choose lang, full, full-lang or languages such as en,fr"


@dataclass(frozen=True)
class Infer:
    """The two sides of an inference vocabulary, as `SlicedModel.with_vocabulary` takes them.

    Attributes:
        inputs, outputs: languages in the run's order, or "full" for T. `outputs` is None
            where it is the same as `inputs`.
        crossed: whether target sides within the prompt are cut by `outputs` too.
    """

    inputs: tuple[str, ...] | str
    outputs: tuple[str, ...] | str | None = None
    crossed: bool = False

    def __str__(self) -> str:
        """As a signature names it: `full>fr`, `en|fr`, `en,fr`."""
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
    """What `mode` means for a task in `language`, or for one from `pair[0]` to `pair[1]`.

    `languages` are those of the run; a language of the task that is not among them can be
    evaluated by `full` or by a set only.

    >>> infer_vocabularies("full-lang", ["en", "fr"], language="fr")
    Infer(inputs='full', outputs=('fr',), crossed=False)
    >>> str(infer_vocabularies("src|tgt", ["en", "fr"], pair=("fr", "en")))
    'fr|en'

    Raises:
        UsageError: an unknown mode or language, or a mode of pairs for a single language.
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


def needs_pair(mode: str) -> bool:
    """Whether `mode` only makes sense for translation."""
    return mode in _OF_A_PAIR


def _subset(names: Sequence[str | None], languages: Sequence[str], mode: str) -> tuple[str, ...]:
    """`names` in the run's order."""
    for name in names:
        if name not in languages:
            what = f"{mode!r} is no inference vocabulary" if name == mode else f"{name!r} unknown"
            raise UsageError(
                f"{what}: the model has {','.join(languages)}", where="--infer", remedy=_REMEDY
            )
    return tuple(name for name in languages if name in names)


def _joined(side: Sequence[str] | str | None) -> str:
    return side if isinstance(side, str) else ",".join(side or ())
