"""Inference modes, and the models of a run under each of them.

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
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.parameters import FilePath, optional_path
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.measure.references import Reference, identify
from modtok_cli.model.generate.route import routing_references
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.model.generate.worker_processes import ALONE, Processes
from modtok_cli.model.load import model_of, open_model
from modtok_cli.model.source import LANG, ModelSource
from modtok_cli.text.languages import canonical, language_list, matching, the_one
from modtok_cli.tokenizer.encoding.encoder import utf8

FULL = "full"
MODES: dict[str, Callable[[Sequence[str]], tuple[Sequence[str] | str, Sequence[str]]]] = {
    LANG: lambda own: (own, ()),
    FULL: lambda own: (FULL, ()),
    "full-lang": lambda own: (FULL, own[-1:]),
    "src": lambda own: (own[:1], ()),
    "tgt": lambda own: (own[1:], ()),
    "src+tgt": lambda own: (own, ()),
    "src|tgt": lambda own: (own[:1], own[1:]),
}
"""Inputs and outputs, () if they are the same, of a task in the languages `own`, by mode."""
_OF_A_PAIR = ("src", "tgt", "src+tgt", "src|tgt")
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
        return Infer(_subset([part.strip() for part in mode.split(",")], languages, mode))
    if mode in _OF_A_PAIR and len(own) < 2:
        raise UsageError(
            f"{mode!r} needs a source and a target language", where="--infer", remedy=_REMEDY
        )
    inputs, outputs = MODES[mode](own)
    reading = inputs if isinstance(inputs, str) else _subset(inputs, languages, mode)
    writing = _subset(outputs, languages, mode) if outputs else ()
    if not writing or writing == reading:
        return Infer(reading)
    return Infer(reading, writing, crossed=reading != FULL)


def _subset(names: Sequence[str], languages: Sequence[str], mode: str) -> tuple[str, ...]:
    """Return `names` in the run's order."""
    chosen: set[str] = set()
    for name in names:
        chosen.update(those := matching(name, languages))
        if not those:
            what = (
                f"unknown inference mode {mode!r}" if name == mode else f"unknown language {name!r}"
            )
            raise UsageError(
                f"{what}: the model has {','.join(languages)}",
                where="--infer" if name in map(str.strip, mode.split(",")) else None,
                remedy=_REMEDY,
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
    sides = MODES.get(mode or source.mode)
    return sides is not None and sides(("",)) != sides(())


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


class Models:
    """One run under several vocabularies. The backbone is loaded once, rows when needed.

    Attributes:
        source: the run, slice or model.
        processes: the processes that share the work.
        progress: of everything that is done with the models.
    """

    def __init__(
        self,
        source: ModelSource,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        processes: Processes = ALONE,
        progress: Progress = SILENT,
    ) -> None:
        self.source, self.processes, self.progress = source, processes, progress
        self._dtype = dtype or source.dtype
        device = device or processes.device
        self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._last: tuple[Infer, SlicedModel] | None = None

    @cached_property
    def signed(self) -> dict[str, str]:
        """The part of a signature beside the vocabulary: weights, dtype, beginning of a text."""
        return {
            "checkpoint": self.source.digest,
            "dtype": str(self._dtype).removeprefix("torch."),
            "bos": self.source.begins,
        }

    @cached_property
    def labels(self) -> dict[str, Any]:
        """Fields of rows that say of which model they are.

        Models of one `recipe` differ in their seed only.
        """
        checkpoint = self.signed["checkpoint"]
        return {"run": self.source.path.name, "checkpoint": checkpoint, **self.source.labels()}

    @cached_property
    def _references(self) -> dict[str, Reference]:
        """Monolingual references of a run's tokenizer; none, with a note, if it has none."""
        if self.source.modular is None:
            self.progress.note("no references: the language of outputs is not identified")
            return {}
        try:
            found = routing_references(self.source.modular, self.source.languages)
            for reference in found.values():
                _ = reference.prices
        except ModtokError as error:
            self.progress.note(f"the language of outputs is not identified: {error}")
            return {}
        return found

    def in_language(self, language: str, texts: Sequence[str]) -> list[float] | None:
        """Return 1.0 for each text in `language`, 0.0 for others and those without letters.

        The language is identified as `modtok generate --langs auto` does, among the model's.
        None if there is no reference of `language`, or no other reference to compare with.
        """
        if language not in self._references or len(self._references) < 2:
            return None
        names = identify([utf8(text) for text in texts], self._references)
        return [
            float(name == language and any(map(str.isalpha, text)))
            for text, name in zip(texts, names, strict=True)
        ]

    def of(self, infer: Infer) -> SlicedModel:
        """Return the model with the vocabularies of `infer`; the last one is cached."""
        if self._last is None or self._last[0] != infer:
            if self._last is not None:
                model = self._last[1].with_vocabulary(infer.inputs, infer.outputs)
            else:
                vocabularies = self.source.vocabularies(infer.inputs, infer.outputs)
                with self.progress.task("loading the model", None, ""):
                    model = model_of(self.source, vocabularies, self._dtype, self._device)
            self._last = (infer, model)
        return self._last[1]


def open_models(
    run: FilePath,
    tokenizer: FilePath | None = None,
    step: int | None = None,
    dtype: str | None = None,
    *,
    device: torch.device | str | None = None,
    processes: Processes | None = None,
    progress: Progress = SILENT,
) -> Models:
    """Return the models of a run, a checkpoint or a slice."""
    source = open_model(Path(run), tokenizer=optional_path(tokenizer), step=step, progress=progress)
    return Models(
        source,
        dtype=dtype_of(dtype),
        device=device,
        processes=processes or ALONE,
        progress=progress,
    )


Modes = str | Sequence[str] | None


def modes_of(infer: Modes) -> list[str | None]:
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


def dtype_of(name: str | None) -> torch.dtype | None:
    """Return the dtype of torch of that name; None stays."""
    return None if name is None else getattr(torch, name)
