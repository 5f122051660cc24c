"""`modtok generate`: continue prompts by given subtokenizers, or by each prompt's language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import TEXTS, FilePath, Langs, optional_path
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.unused import Unused, uses
from modtok_cli.measure.references import Reference
from modtok_cli.model.generate.next_token import (
    MaxTokens,
    MinP,
    SamplingOptions,
    Seed,
    Stop,
    Temperature,
    TopP,
)
from modtok_cli.model.generate.route import Route, route, routing_references
from modtok_cli.model.generate.worker_processes import ALONE, Processes
from modtok_cli.model.parameters import Inputs, Model, Outputs, RunTokenizer, Step
from modtok_cli.model.vocabularies import Side, sides
from modtok_cli.text.languages import optional_languages
from modtok_cli.tokenizer.parameters import ReferenceDirectory

if TYPE_CHECKING:
    import torch

    from modtok_cli.model.generate.sliced_model import SlicedModel

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
        from modtok_cli.model.generate.generation_config import left_to_options
        from modtok_cli.model.load import load

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
        if names := left_to_options(self.model.generation_config):
            self.progress.warn(
                f"{self.path}: options decide in place of {', '.join(names)} of its generation "
                "configuration"
            )
        model, outputs = self.model, self.outputs  # no reference to self, which holds the cache
        self._for = lru_cache(_MODELS)(lambda languages: model.with_vocabulary(languages, outputs))
        if routed or self.references is not None:
            _ = self._references  # they must exist

    @cached_property
    def _references(self) -> dict[str, Reference]:
        source = self.model.source
        home = source.modular or source.path
        if source.modular is None and self.references is None:
            raise UsageError(
                "has one vocabulary, there is nothing to choose",
                where=self.path,
                remedy="leave --langs out, or give the run",
            )
        return routing_references(home, source.languages, self.references)

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
            A row per prompt, in order: prompt, text, languages (of the subset), tokens,
            prompt_tokens, reason; routed: whether they were chosen by the prompt, and lead.
        """
        from modtok_cli.model.generate.decoding import generate as continued

        routes = self._routes(prompts)
        groups: dict[tuple[str, ...] | None, list[int]] = {}
        for index, prompt in enumerate(prompts):
            chosen = routes[index].languages if index in routes else prompt.langs
            groups.setdefault(chosen, []).append(index)
        rows: dict[int, dict[str, Any]] = {}
        for languages, members in groups.items():
            own, tokens = [prompts[i] for i in members], list[list[int]]()

            def heard(place: int, text: str, members: Sequence[int] = members) -> None:
                if listener is not None:
                    listener(members[place], text)

            indices = [first + index for index in members]
            try:
                model = self.model if languages is None else self._for(languages)
                tokens = [model.prompt(each.text) for each in own]
                results = continued(model, tokens, options, indices=indices, listener=heard)
            except UsageError as error:  # of a language, or of a prompt that is too long
                pairs = zip(own, tokens, strict=False)
                long = (each for each, ids in pairs if len(ids) >= model.context)
                if (line := next(long, own[0]).line) is None:
                    raise
                raise UsageError(error.what, where=f"line {line}", remedy=error.remedy) from error
            for index, result in zip(members, results, strict=True):
                rows[index] = {
                    "prompt": prompts[index].text,
                    "text": result.text,
                    "languages": list(model.tokenizer_in.languages),
                    "output_languages": list(model.tokenizer_out.languages),
                    "prompt_tokens": len(model.encode_in(prompts[index].text)),
                    "tokens": len(result.ids),
                    "reason": result.reason,
                    "routed": index in routes,
                    "lead": round(routes[index].lead, 1) if index in routes else None,
                    **self._stranger(prompts[index].text, model),
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

    def _stranger(self, text: str, model: SlicedModel) -> dict[str, Any]:
        """Tokens by its own subset, of a prompt in a language that the model's does not have."""
        source, known = model.source, set(model.tokenizer_in.languages)
        if not text or known >= set(source.languages) or source.modular is None:
            return {}
        try:
            chosen = route([text], self._references)[0]
        except ModtokError:  # there are no references
            return {}
        if not chosen.certain or chosen.languages[0] in known:
            return {}
        own = len(source.vocabularies(chosen.languages, None).encode_in(text))
        if own >= len(model.encode_in(text)):
            return {}
        return {"looks_like": chosen.languages[0], "own_tokens": own}


def _is_auto(side: Side) -> bool:
    return side is not None and (side == AUTO or list(side) == [AUTO])


def read_prompts(lines: Iterable[bytes]) -> Iterator[Prompt]:
    """Prompts from JSON lines: {"prompt": "…"}, optionally with "languages": ["fr"] or "fr,en"."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except ValueError as error:
            raise _bad_line(number, f"is not JSON ({error})") from error
        if not isinstance(row, Mapping) or not isinstance(row.get("prompt"), str):
            raise _bad_line(number, 'is not an object with a string "prompt"')
        if "langs" in row:
            raise _bad_line(number, 'unknown key "langs"; write "languages"')
        langs = row.get("languages")
        if isinstance(langs, str):
            langs = [part.strip() for part in langs.split(",")]
        if langs is not None and (
            not isinstance(langs, list) or not all(isinstance(name, str) for name in langs)
        ):
            raise _bad_line(number, '"languages" is not a list of languages')
        yield Prompt(row["prompt"], tuple(langs) if langs else None, number)


def _bad_line(number: int, what: str) -> ModtokError:
    return ModtokError(
        what, where=f"standard input:{number}", remedy='write lines such as {"prompt": "Il était"}'
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


@public
def load_generator(
    model: Model,
    languages: Langs = None,
    *,
    inputs: Inputs = None,
    outputs: Outputs = None,
    tokenizer: RunTokenizer = None,
    step: Step = None,
    references: ReferenceDirectory = None,
    progress: Progress = SILENT,
) -> Generator:
    """Load a model that continues prompts; see `generate` for a single call.

    With languages "auto", the subtokenizer is chosen by the prompt; without languages it is the
    whole vocabulary.

    Examples:
        >>> generator = modtok.load_generator("runs/latest", "fr")
        >>> [row["tokens"] for row in modtok.generate(generator, ["Le", "La"], max_tokens=2)]
        [2, 2]

    Raises:
        UsageError: an unknown language, or no language.
        ModtokError: it is damaged.
    """
    return Generator(
        Path(model),
        *sides(languages, inputs, outputs),
        tokenizer=optional_path(tokenizer),
        step=step,
        references=optional_path(references),
        progress=progress,
    )


def _unused(values: Mapping[str, Any]) -> Unused:
    if not values.get("temperature"):
        yield ("top_p", "min_p"), "--temperature 0 takes the most probable token"


@public
@uses(_unused)
def generate(
    model: FilePath | Generator,
    prompts: Annotated[
        str | Sequence[str],
        Option("Texts to continue.", python_only=True, kind=object, accepts=TEXTS),
    ],
    languages: Langs = None,
    *,
    inputs: Inputs = None,
    outputs: Outputs = None,
    max_tokens: MaxTokens = 128,
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    stop: Stop = (),
    seed: Seed = 0,
    step: Step = None,
    tokenizer: RunTokenizer = None,
    references: ReferenceDirectory = None,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Continue a text with a trained model.

    Uses the subtokenizer of `languages`, or the two of `inputs` and `outputs`.

    `languages` auto identifies the language of each prompt with the monolingual references of the
    tokenizer; an ambiguous prompt gets the union of the candidates. Without `languages`, the full
    vocabulary is used; for a slice, its own.

    A Hugging Face model has one vocabulary, and no `languages`.

    Returns:
        One row for each of the prompts, in order: `text`, `tokens`, `prompt_tokens`, `languages`
        and `reason`. The model is a directory, or the result of `load_generator`; then `languages`
        apply to these prompts.

    Examples:
        >>> rows = modtok.generate("runs/latest", ["Il était une fois"], "fr", max_tokens=4)
        >>> rows[0]["tokens"], rows[0]["languages"]
        (4, ['fr'])

    Raises:
        UsageError: an unknown language, a prompt longer than the context, or invalid settings.
    """
    options = SamplingOptions(max_tokens, temperature, top_p, min_p, tuple(stop), seed)
    langs = None
    if isinstance(model, Generator):
        chosen = {
            "inputs": inputs, "outputs": outputs, "step": step, "tokenizer": tokenizer,
            "references": references,
        }  # fmt: skip
        for name, value in chosen.items():
            if value is not None:
                raise UsageError("the model is loaded", where=name, remedy="give it load_generator")
        generator, codes = model, optional_languages(languages)
        langs = None if codes is None else tuple(codes)
    else:
        generator = load_generator(
            model,
            languages,
            inputs=inputs,
            outputs=outputs,
            tokenizer=tokenizer,
            step=step,
            references=references,
            progress=progress,
        )
    texts = [prompts] if isinstance(prompts, str) else prompts
    return generator.answer([Prompt(text, langs) for text in texts], options)
