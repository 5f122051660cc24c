"""Few-shot prompts and what a model writes after them: one line.

A prompt is a list of `Piece`s, source sides and target sides. Under a crossed vocabulary
(`src|tgt`) each piece is cut by its own side's subtokenizer; else the whole prompt is one
text. Shots that do not fit the context are left out, the farthest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.modes import LANG, Infer, infer_vocabularies
from modtok_cli.evaluate.results import ResultBuilder, checkpoint_digest, data_digest
from modtok_cli.inference.decode import generate
from modtok_cli.inference.model import SlicedModel
from modtok_cli.inference.route import routing_references
from modtok_cli.inference.sampling import Options
from modtok_cli.inference.sources import RunSource, SliceSource, Source
from modtok_cli.measure.identify import identify
from modtok_cli.measure.references import Reference
from modtok_cli.modular.unicode import utf8

LINE = "\n"
IN_LANGUAGE = "in language"
AS_CUT = "slice"  # the vocabularies that a slice was cut for


@dataclass(frozen=True)
class GenerationSettings:
    """How to write.

    Attributes:
        infer: the inference mode, see `modes`; None is `lang`, of a slice what it was cut for.
        shots: examples shown before each text.
        most: tokens to write at the most.
        batch: texts that run together.
        limit: texts of each set at the most.
    """

    infer: str | None = None
    shots: int = 5
    most: int = 128
    batch: int = 8
    limit: int | None = None


@dataclass(frozen=True)
class Piece:
    """A part of a prompt; `target`: whether it is of the target side."""

    text: str
    target: bool = False


@dataclass(frozen=True)
class Prompt:
    """Rows of a model for one example.

    Attributes:
        rows: with the end of text before them.
        shots: examples that it shows.
        cut: whether the text itself had to be shortened, or does not fit at all.
    """

    rows: tuple[int, ...]
    shots: int
    cut: bool = False


@dataclass(frozen=True)
class Written:
    """The first line that came after a prompt.

    Attributes:
        text: without white space around it.
        tokens: of the output vocabulary.
        reason: "stop" is the end of the line; "end" of text, "length", "context", or "long"
            where the prompt left no room to write.
    """

    text: str
    tokens: int
    reason: str


def encode(model: SlicedModel, pieces: Sequence[Piece], *, crossed: bool) -> list[int]:
    """Rows of a prompt, the end of text before them.

    Crossed, a target piece is cut by `tokenizer_out`; else the pieces are one text, and a
    token may reach over their joint.
    """
    if not crossed:
        text = "".join(piece.text for piece in pieces)
        return [model.end_of_text, *model.encode_in(text)]
    rows = [model.end_of_text]
    row_of_out = model.vocabularies.row_of_out
    for piece in pieces:
        if piece.target:
            rows += row_of_out[model.encode_out(piece.text)].tolist()
        else:
            rows += model.encode_in(piece.text)
    return rows


def room(model: SlicedModel, most: int) -> int:
    """Tokens that a prompt may have: the context less `most`, but half of it at the least."""
    return max(model.context - most, model.context // 2)


def fit(
    model: SlicedModel,
    shots: Sequence[Sequence[Piece]],
    question: Sequence[Piece],
    *,
    most: int,
    crossed: bool,
) -> Prompt:
    """The prompt with as many of the last `shots` as leave room for `most` tokens.

    Where the question alone is too long, the prompt is it alone, `cut`.
    """
    limit = room(model, most)
    for first in range(len(shots) + 1):
        pieces = [piece for shot in shots[first:] for piece in shot]
        rows = encode(model, [*pieces, *question], crossed=crossed)
        if len(rows) <= limit:
            return Prompt(tuple(rows), len(shots) - first)
    return Prompt(tuple(rows), 0, cut=True)


def write(
    model: SlicedModel,
    prompts: Sequence[Prompt],
    *,
    most: int,
    batch: int,
    label: str = "writing",
    progress: Progress = SILENT,
) -> list[Written]:
    """Greedily write one line after each prompt, in the order given.

    Prompts of like length run together; which ones, changes nothing but rounding.
    """
    options = Options(most=most, stop=(LINE,))
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index].rows))
    found: dict[int, Written] = {}
    with progress.task(label, len(prompts), "examples") as task:
        for start in range(0, len(order), batch):
            part = order[start : start + batch]
            fitting = [index for index in part if len(prompts[index].rows) < model.context]
            texts = generate(model, [prompts[index].rows for index in fitting], options)
            for index, text in zip(fitting, texts, strict=True):
                found[index] = Written(text.text.strip(), len(text.ids), text.reason)
            for index in part:
                found.setdefault(index, Written("", 0, "long"))
            task.advance(len(part))
    return [found[index] for index in range(len(prompts))]


def sheet_of(
    task: str,
    language: str,
    model: SlicedModel,
    infer: Infer,
    settings: GenerationSettings,
    read: Iterable[str],
    prompts: Sequence[Prompt],
    texts: Sequence[Written],
    progress: Progress = SILENT,
) -> ResultBuilder:
    """The sheet for what was written; `read` is every text that decides its numbers.

    Its facts hold what was too long, or did not end; prompts too long for the model are said.
    """
    mode = mode_name(model.source, settings.infer)
    sheet = ResultBuilder(
        task,
        language,
        len(texts),
        settings.shots,
        mode,
        signed={
            "data": data_digest(read),
            "infer": f"{mode}:{infer}",
            "checkpoint": checkpoint_digest(model),
            "most": settings.most,
        },
        facts={
            "max_tokens": settings.most,
            "shots_dropped": sum(settings.shots - prompt.shots for prompt in prompts),
            "prompts_cut": sum(prompt.cut for prompt in prompts),
            "unfinished": sum(text.reason not in ("stop", "end") for text in texts),
            "tokens": sum(text.tokens for text in texts),
        },
    )
    _note_dropped(sheet, model.context, progress)
    return sheet


def kept_of(prompt: Prompt, text: Written, infer: str) -> dict[str, Any]:
    """What the row of an example keeps of what was written, under the mode `infer`."""
    return {
        "output": text.text,
        "reason": text.reason,
        "tokens": text.tokens,
        "prompt_tokens": len(prompt.rows),
        "shots": prompt.shots,
        "cut": prompt.cut,
        "infer": infer,
    }


def _note_dropped(sheet: ResultBuilder, context: int, progress: Progress) -> None:
    dropped, cut = sheet.facts["shots_dropped"], sheet.facts["prompts_cut"]
    if dropped or cut:
        of = sheet.n * sheet.shots
        progress.note(
            f"{sheet.task} {sheet.language}: the model reads {context:,} tokens, so {dropped:,} of "
            f"{of:,} shots were left out and {cut:,} of {sheet.n:,} texts did not fit alone"
        )


class LanguageIdentifier:
    """Tells in which of a model's languages a text is written.

    By the monolingual references of its tokenizer, as `modtok generate --langs auto` does.
    """

    def __init__(self, references: dict[str, Reference]) -> None:
        self.references = references

    @classmethod
    def of(cls, source: Source, progress: Progress = SILENT) -> LanguageIdentifier:
        """Those of a run's tokenizer; none, and said so, where it has no references."""
        if not isinstance(source, RunSource):
            progress.note("a slice has no references: the language of outputs is not told")
            return cls({})
        try:
            found = routing_references(source.run.tokenizer_path, source.languages)
            for reference in found.values():
                _ = reference.prices
        except ModtokError as error:
            progress.note(f"the language of outputs is not told: {error}")
            return cls({})
        return cls(found)

    def written_in(self, language: str, texts: Sequence[str]) -> list[float] | None:
        """1.0 for each text in `language`, 0.0 for others and for those without a letter.

        None where there is no reference of `language`, or none of another to compare with.
        """
        if language not in self.references or len(self.references) < 2:
            return None
        found = identify([utf8(text) for text in texts], self.references)
        return [
            float(name == language and any(map(str.isalpha, text)))
            for text, name in zip(texts, found, strict=True)
        ]


def languages_of(source: Source) -> tuple[str, ...]:
    """Languages that can be read or written: of a run all, of a slice those of both sides."""
    if isinstance(source, SliceSource):
        return tuple(dict.fromkeys([*source.facts.inputs, *source.facts.outputs]))
    return source.languages


def vocabulary_of(
    source: Source,
    mode: str | None,
    *,
    language: str | None = None,
    pair: tuple[str, str] | None = None,
) -> Infer:
    """`modes.infer_vocabularies`; `mode` None is `lang`, and of a slice what it was cut for.

    Raises:
        UsageError: a mode or a language that makes no sense for the source.
    """
    if mode is None and isinstance(source, SliceSource):
        reading, writing = tuple(source.facts.inputs), tuple(source.facts.outputs)
        return Infer(reading, None if reading == writing else writing)
    return infer_vocabularies(mode or LANG, languages_of(source), language=language, pair=pair)


def mode_name(source: Source, mode: str | None) -> str:
    """What the rows of results call the mode."""
    return mode or (AS_CUT if isinstance(source, SliceSource) else LANG)


class Models:
    """One run under many vocabularies: the backbone is read once, rows as they are needed.

    Attributes:
        source: the run, or the slice.
    """

    def __init__(
        self,
        source: Source,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.source = source
        self._dtype = dtype or source.dtype
        self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._last: tuple[Infer, SlicedModel] | None = None

    def of(self, infer: Infer) -> SlicedModel:
        """The model under these two sides; the last one is kept.

        Raises:
            UsageError: languages that the run does not have, or another set than the slice's.
        """
        if self._last is None or self._last[0] != infer:
            vocabularies = self.source.vocabularies(infer.inputs, infer.outputs)
            if self._last is not None:
                backbone = self._last[1].backbone
            else:
                backbone = self.source.backbone(self._dtype, self._device)
            model = SlicedModel(self.source, vocabularies, backbone, self._dtype)
            self._last = (infer, model)
        return self._last[1]
