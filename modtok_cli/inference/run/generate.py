"""`modtok generate`: continue prompts with given subtokenizers, or those that fit each prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.inference.load import load
from modtok_cli.inference.run.decode import generate
from modtok_cli.inference.run.model import SlicedModel
from modtok_cli.inference.run.processes import ALONE, Processes
from modtok_cli.inference.run.route import Route, route, routing_references
from modtok_cli.inference.run.sampling import SamplingOptions
from modtok_cli.inference.slice.run import RunSource
from modtok_cli.inference.vocabularies import Side
from modtok_cli.measure.references import Reference

if TYPE_CHECKING:
    import torch

AUTO = "auto"
_MODELS = 8  # subsets in memory
# Batches that a process answers before results are exchanged: they take different times.
_BATCHES = 8


@dataclass(frozen=True)
class Prompt:
    """A text to continue; `langs` overrides the generator's sides, `line` is for messages."""

    text: str
    langs: tuple[str, ...] | None = None
    line: int | None = None


@dataclass
class Generator:
    """A loaded model that answers prompts.

    Attributes:
        inputs, outputs: sides for prompts without `langs`; ("auto",) chooses by the prompt.
        model: the model with these sides.
    """

    path: Path
    inputs: Side = None
    outputs: Side = None
    tokenizer: Path | None = None
    step: int | None = None
    references: Path | None = None
    device: torch.device | None = None
    progress: Progress = SILENT

    def __post_init__(self) -> None:
        routed = _is_auto(self.inputs)
        self.model = load(
            self.path,
            None if routed else self.inputs,
            None if routed else self.outputs,
            tokenizer=self.tokenizer,
            step=self.step,
            device=self.device,
            progress=self.progress,
        )
        self._models: dict[tuple[str, ...], SlicedModel] = {}
        if routed:
            _ = self._references  # they must exist

    @cached_property
    def _references(self) -> dict[str, Reference]:
        """References by language.

        Raises:
            UsageError: a slice or another model, and no directory of references.
            ModtokError: there is none.
        """
        source = self.model.source
        if isinstance(source, RunSource):
            home = source.tokenizer_path
        elif self.references is not None:
            home = source.path
        else:
            raise UsageError(
                "has one vocabulary, there is nothing to choose",
                where=str(self.path),
                remedy="leave --langs out, or give the run",
            )
        return routing_references(home, source.languages, self.references)

    def _for(self, languages: tuple[str, ...]) -> SlicedModel:
        if languages not in self._models:
            if len(self._models) >= _MODELS:
                self._models.pop(next(iter(self._models)))
            self._models[languages] = self.model.with_vocabulary(languages, self.outputs)
        return self._models[languages]

    def answer(
        self,
        prompts: Sequence[Prompt],
        options: SamplingOptions,
        listener: Callable[[int, str], None] | None = None,
        *,
        first: int = 0,
    ) -> list[dict[str, Any]]:
        """Continue a batch; prompts with one subset run together.

        `first` is the index of the first prompt among all prompts: draws depend on indices.

        Returns:
            A row per prompt, in order: prompt, text, langs (subset that read it), tokens,
            prompt_tokens, reason; routed: whether langs were chosen by the prompt, and lead.

        Raises:
            UsageError: a prompt that is too long, or a language that the run does not have.
            ModtokError: the batch does not fit into memory.
        """
        routes = self._routes(prompts)
        groups: dict[tuple[str, ...] | None, list[int]] = {}
        for index, prompt in enumerate(prompts):
            chosen = routes[index].languages if index in routes else prompt.langs
            groups.setdefault(chosen, []).append(index)
        rows: dict[int, dict[str, Any]] = {}
        for languages, members in groups.items():
            try:
                model = self.model if languages is None else self._for(languages)
            except UsageError as error:
                line = prompts[members[0]].line
                if line is None:
                    raise
                raise UsageError(error.what, where=f"line {line}", remedy=error.remedy) from error
            tokens = [[model.end_of_text, *model.encode_in(prompts[i].text)] for i in members]

            def heard(place: int, text: str, members: Sequence[int] = members) -> None:
                if listener is not None:
                    listener(members[place], text)

            indices = [first + index for index in members]
            try:
                results = generate(model, tokens, options, indices=indices, listener=heard)
            except UsageError as error:
                raise _located(error, model, tokens, [prompts[i] for i in members]) from error
            for index, ids, result in zip(members, tokens, results, strict=True):
                rows[index] = {
                    "prompt": prompts[index].text,
                    "text": result.text,
                    "langs": list(model.tokenizer_in.languages),
                    "output_langs": list(model.tokenizer_out.languages),
                    "prompt_tokens": len(ids) - 1,
                    "tokens": len(result.ids),
                    "reason": result.reason,
                    "routed": index in routes,
                    "lead": round(routes[index].lead, 1) if index in routes else None,
                    **self._stranger(prompts[index].text, model, len(ids) - 1),
                }
        return [rows[index] for index in range(len(prompts))]

    def _routes(self, prompts: Sequence[Prompt]) -> dict[int, Route]:
        everywhere = _is_auto(self.inputs)
        wanted = [
            index
            for index, prompt in enumerate(prompts)
            if (prompt.langs == (AUTO,) or (everywhere and prompt.langs is None))
        ]
        if not wanted:
            return {}
        routes = route([prompts[index].text for index in wanted], self._references)
        return dict(zip(wanted, routes, strict=True))

    def _stranger(self, text: str, model: SlicedModel, tokens: int) -> dict[str, Any]:
        """Tokens by its own subset, of a prompt in a language that the model's does not have."""
        source, known = model.source, set(model.tokenizer_in.languages)
        if not text or known >= set(source.languages) or not isinstance(source, RunSource):
            return {}
        try:
            chosen = route([text], self._references)[0]
        except ModtokError:  # there are no references
            return {}
        if not chosen.certain or chosen.languages[0] in known:
            return {}
        own = len(source.side(chosen.languages).encode(text))
        return {"looks_like": chosen.languages[0], "own_tokens": own} if own < tokens else {}


def _is_auto(side: Side) -> bool:
    return side is not None and (side == AUTO or list(side) == [AUTO])


def _located(
    error: UsageError, model: SlicedModel, tokens: list[list[int]], prompts: list[Prompt]
) -> UsageError:
    """The error with the line number of the first prompt that is too long."""
    for ids, prompt in zip(tokens, prompts, strict=True):
        if len(ids) >= model.context and prompt.line is not None:
            return UsageError(error.what, where=f"line {prompt.line}", remedy=error.remedy)
    return error


def read_prompts(lines: Iterable[bytes], where: str = "standard input") -> Iterator[Prompt]:
    """Prompts from JSON lines: {"prompt": "…"}, optionally with "langs": ["fr"] or "fr,en".

    Raises:
        ModtokError: a line is not such an object; names it.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except ValueError as error:
            raise _bad_line(where, number, f"is not JSON ({error})") from error
        if not isinstance(row, Mapping) or not isinstance(row.get("prompt"), str):
            raise _bad_line(where, number, 'is not an object with a string "prompt"')
        langs = row.get("langs")
        if isinstance(langs, str):
            langs = [part.strip() for part in langs.split(",")]
        if langs is not None and (
            not isinstance(langs, list) or not all(isinstance(name, str) for name in langs)
        ):
            raise _bad_line(where, number, '"langs" is not a list of languages')
        yield Prompt(row["prompt"], tuple(langs) if langs else None, number)


def _bad_line(where: str, number: int, what: str) -> ModtokError:
    return ModtokError(
        what, where=f"{where}:{number}", remedy='write lines such as {"prompt": "Il était"}'
    )


def answer_all(
    generator: Generator,
    prompts: Iterable[Prompt],
    options: SamplingOptions,
    *,
    batch: int = 8,
    processes: Processes = ALONE,
) -> Iterator[dict[str, Any]]:
    """Rows for any number of prompts, `batch` at a time; see `Generator.answer`.

    With several processes all read all prompts, and each answers some batches at a time.
    """
    waiting, first = iter(prompts), 0
    most = 1 if processes.count == 1 else processes.count * _BATCHES
    while read := list(islice(waiting, batch * most)):
        parts = [(first + at, read[at : at + batch]) for at in range(0, len(read), batch)]
        for rows in processes.map(
            lambda part: generator.answer(part[1], options, first=part[0]), parts
        ):
            yield from rows
        first += len(read)
