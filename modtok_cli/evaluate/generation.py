"""Few-shot prompts and one-line generations.

A prompt is a list of `Piece`s of the source side and the target side. Under a crossed vocabulary
(`src|tgt`) each piece is tokenized by the subtokenizer of its side; otherwise the whole prompt is
one text. Shots that do not fit the context are dropped, the first ones first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.modes import FULL, LANG, Infer, infer_vocabularies
from modtok_cli.evaluate.results import ResultBuilder, checkpoint_digest, data_digest
from modtok_cli.inference.hf.source import OWN, HfSource
from modtok_cli.inference.load import Source, model_of, open_source
from modtok_cli.inference.run.decode import generate
from modtok_cli.inference.run.model import SlicedModel
from modtok_cli.inference.run.processes import ALONE, Processes
from modtok_cli.inference.run.route import routing_references
from modtok_cli.inference.run.sampling import SamplingOptions
from modtok_cli.inference.slice.directory import SliceSource
from modtok_cli.inference.slice.run import RunSource
from modtok_cli.measure.references import Reference, identify
from modtok_cli.modular.unicode import utf8

LINE = "\n"
IN_LANGUAGE = "in language"
OWN_VOCABULARIES = "slice"  # inference mode of a slice: its own vocabularies


@dataclass(frozen=True)
class GenerationSettings:
    """Settings of a generation task.

    Attributes:
        infer: inference mode, see `modes`. None: `lang`, or for a slice its own vocabularies.
        shots: number of few-shot examples.
        max_tokens: maximum number of generated tokens.
        batch_size: number of prompts that run together.
        limit: maximum number of examples of each set.
    """

    infer: str | None = None
    shots: int = 5
    max_tokens: int = 128
    batch_size: int = 8
    limit: int | None = None


@dataclass(frozen=True)
class Piece:
    """Part of a prompt; `target` is True on the target side."""

    text: str
    target: bool = False


@dataclass(frozen=True)
class Prompt:
    """Prompt of one example.

    Attributes:
        rows: embedding rows, starting with the end-of-text token.
        shots: number of few-shot examples in it.
        cut: whether the text itself was truncated, or does not fit.
    """

    rows: tuple[int, ...]
    shots: int
    cut: bool = False


@dataclass(frozen=True)
class Written:
    """First line generated after a prompt.

    Attributes:
        text: without leading and trailing white space.
        tokens: number of generated tokens.
        reason: "stop" (line end), "end" (end of text), "length", "context", or "long" if the prompt
            leaves no space in the context.
    """

    text: str
    tokens: int
    reason: str


def encode(model: SlicedModel, pieces: Sequence[Piece], *, crossed: bool) -> list[int]:
    """Embedding rows of a prompt, starting with the end-of-text token.

    If `crossed`, target pieces are tokenized by `tokenizer_out`. Otherwise all pieces are one text,
    and a token may span two pieces.
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


def prompt_limit(model: SlicedModel, max_tokens: int) -> int:
    """Maximum prompt length: the context minus `max_tokens`, but at least half of the context."""
    return max(model.context - max_tokens, model.context // 2)


def fit(
    model: SlicedModel,
    shots: Sequence[Sequence[Piece]],
    question: Sequence[Piece],
    *,
    max_tokens: int,
    crossed: bool,
) -> Prompt:
    """Prompt with as many of the last `shots` as leave space for `max_tokens` tokens.

    If the question alone is too long, the prompt is the question alone and `cut` is set.
    """
    limit = prompt_limit(model, max_tokens)
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
    max_tokens: int,
    batch_size: int,
    label: str = "writing",
    processes: Processes = ALONE,
    progress: Progress = SILENT,
) -> list[Written]:
    """Generate one line greedily after each prompt, in the order given.

    Prompts of similar length run together. Batching changes results by rounding only; `processes`
    share the batches.
    """
    options = SamplingOptions(max_tokens=max_tokens, stop=(LINE,))
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index].rows))
    parts = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def lines(part: list[int]) -> list[tuple[str, int, str]]:
        longest = min(len(prompts[part[-1]].rows) + max_tokens, model.context)
        model.check_batch(len(part), longest)
        fitting = [index for index in part if len(prompts[index].rows) < model.context]
        texts = generate(model, [prompts[index].rows for index in fitting], options)
        found = {
            index: (text.text.strip(), len(text.ids), text.reason)
            for index, text in zip(fitting, texts, strict=True)
        }
        return [found.get(index, ("", 0, "long")) for index in part]

    with progress.task(label, len(prompts), "examples") as task:
        written = processes.map(lines, parts, done=lambda part: task.advance(len(part)))
    found = {
        index: Written(*line)
        for part, made in zip(parts, written, strict=True)
        for index, line in zip(part, made, strict=True)
    }
    return [found[index] for index in range(len(prompts))]


def builder_of(
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
    """Result builder of a set of generations; `read` are all texts that determine the scores.

    Its facts count truncated prompts and unfinished outputs; truncation is also reported.
    """
    mode = mode_name(model.source, settings.infer)
    builder = ResultBuilder(
        task,
        language,
        len(texts),
        settings.shots,
        mode,
        signed={
            "data": data_digest(read),
            "infer": f"{mode}:{infer}",
            "checkpoint": checkpoint_digest(model),
            "most": settings.max_tokens,
        },
        facts={
            "max_tokens": settings.max_tokens,
            "shots_dropped": sum(settings.shots - prompt.shots for prompt in prompts),
            "prompts_cut": sum(prompt.cut for prompt in prompts),
            "unfinished": sum(text.reason not in ("stop", "end") for text in texts),
            "tokens": sum(text.tokens for text in texts),
        },
    )
    _note_dropped(builder, model.context, progress)
    return builder


def output_fields(prompt: Prompt, text: Written, infer: str) -> dict[str, Any]:
    """Fields of an example's row about its prompt and output, under the mode `infer`."""
    return {
        "output": text.text,
        "reason": text.reason,
        "tokens": text.tokens,
        "prompt_tokens": len(prompt.rows),
        "shots": prompt.shots,
        "cut": prompt.cut,
        "infer": infer,
    }


def _note_dropped(builder: ResultBuilder, context: int, progress: Progress) -> None:
    dropped, cut = builder.facts["shots_dropped"], builder.facts["prompts_cut"]
    if dropped or cut:
        of = builder.n * builder.shots
        progress.note(
            f"{builder.task} {builder.language}: the context has {context:,} tokens; {dropped:,} "
            f"of {of:,} shots were dropped and {cut:,} of {builder.n:,} texts were truncated"
        )


class LanguageIdentifier:
    """Identify the language of a text among the languages of a model.

    Uses the monolingual references of its tokenizer, as `modtok generate --langs auto` does.
    """

    def __init__(self, references: dict[str, Reference]) -> None:
        self.references = references

    @classmethod
    def of(cls, source: Source, progress: Progress = SILENT) -> LanguageIdentifier:
        """References of a run's tokenizer; none, with a note, if it has none."""
        if not isinstance(source, RunSource):
            progress.note("no references: the language of outputs is not identified")
            return cls({})
        try:
            found = routing_references(source.tokenizer_path, source.languages)
            for reference in found.values():
                _ = reference.prices
        except ModtokError as error:
            progress.note(f"the language of outputs is not identified: {error}")
            return cls({})
        return cls(found)

    def in_language(self, language: str, texts: Sequence[str]) -> list[float] | None:
        """1.0 for each text in `language`, 0.0 for other texts and for texts without letters.

        None if there is no reference of `language`, or no other reference to compare with.
        """
        if language not in self.references or len(self.references) < 2:
            return None
        found = identify([utf8(text) for text in texts], self.references)
        return [
            float(name == language and any(map(str.isalpha, text)))
            for text, name in zip(texts, found, strict=True)
        ]


def languages_to_evaluate(source: Source, langs: Sequence[str] | None) -> list[str]:
    """The languages that the user names, else those of the source.

    Raises:
        UsageError: a model without languages, and none are named.
    """
    found = list(langs or languages_of(source))
    if not found:
        raise UsageError(
            "has no languages",
            where=str(source.path),
            remedy="name those of the texts: --langs fr,en",
        )
    return found


def languages_of(source: Source) -> tuple[str, ...]:
    """Languages of the source: all of a run; those of both sides of a slice."""
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
    """`modes.infer_vocabularies`; `mode` None is `lang`, and the own vocabularies of a slice.

    Raises:
        UsageError: the source does not support the mode or the language.
    """
    if isinstance(source, HfSource):
        if mode not in (None, FULL):
            raise UsageError(
                f"is a model with one vocabulary, not {mode!r}",
                where=str(source.path),
                remedy="leave --infer out",
            )
        return Infer(FULL)
    if mode is None and isinstance(source, SliceSource):
        reading, writing = tuple(source.facts.inputs), tuple(source.facts.outputs)
        return Infer(reading, None if reading == writing else writing)
    return infer_vocabularies(mode or LANG, languages_of(source), language=language, pair=pair)


def mode_name(source: Source, mode: str | None) -> str:
    """Name of the mode in result rows."""
    if isinstance(source, HfSource):
        return OWN
    return mode or (OWN_VOCABULARIES if isinstance(source, SliceSource) else LANG)


class Models:
    """One run under several vocabularies. The backbone is loaded once, rows when needed.

    Attributes:
        source: the run, slice or model.
    """

    def __init__(
        self,
        source: Source,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        progress: Progress = SILENT,
    ) -> None:
        self.source = source
        self._progress = progress
        self._dtype = dtype or source.dtype
        self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._last: tuple[Infer, SlicedModel] | None = None
        self._identifier: LanguageIdentifier | None = None

    def identifier(self, progress: Progress = SILENT) -> LanguageIdentifier:
        """What identifies the language of outputs, see `LanguageIdentifier.of`; made once."""
        if self._identifier is None:
            self._identifier = LanguageIdentifier.of(self.source, progress)
        return self._identifier

    def of(self, infer: Infer) -> SlicedModel:
        """Model with the vocabularies of `infer`; the last one is cached.

        Raises:
            UsageError: the run lacks a language, or the slice has other vocabularies.
        """
        if self._last is None or self._last[0] != infer:
            if self._last is not None:
                model = self._last[1].with_vocabulary(infer.inputs, infer.outputs)
            else:
                vocabularies = self.source.vocabularies(infer.inputs, infer.outputs)
                with self._progress.task("loading the model", None, ""):
                    model = model_of(self.source, vocabularies, self._dtype, self._device)
            self._last = (infer, model)
        return self._last[1]


def open_models(
    run: Path | Models,
    *,
    tokenizer: Path | None = None,
    step: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    progress: Progress = SILENT,
) -> Models:
    """The models of a run, a checkpoint or a slice; `run` itself if it is open.

    Raises:
        UsageError: the directory is none of these.
        ModtokError: it is damaged.
    """
    if isinstance(run, Models):
        return run
    source = open_source(Path(run), tokenizer=tokenizer, step=step, progress=progress)
    return Models(source, dtype=dtype, device=device, progress=progress)
