"""Multiple-choice suites: prompt, number of shots, normalization and data source of a task.

The suites of the package are the files `suites/<task>.yaml`. A task in local files describes itself
in a `task.yaml` of the same fields beside its questions, see `read_suite`.

They are not task files of lm-eval: one of these has one language, its questions on the hub and its
shots from a whole split, and no score relative to the answer without its question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.read_file import read_bounded

Row = Mapping[str, Any]

TASK_FILE = "task.yaml"
LETTERS = ":letters"
"""End of the name of a task whose choices are in the prompt."""
# Normalization of a choice's log-likelihood -> name of the accuracy under it.
METRICS = {"none": "acc", "characters": "acc_norm", "pmi": "acc_pmi"}
_SUITES = Path(__file__).with_name("suites")
_WORDS = Path(__file__).with_name("words.yaml")
_PLACEHOLDERS = ("question", "context", "Question", "Answer")
_FILE_FIELDS = ("task", "title", "about", "prompt", "shots", "normalization")
_SUITE_FIELDS = (*_FILE_FIELDS, "order", "in_mean", "examples", "row", "words", "hub")
_REMEDY = "see docs/evaluation.md for the fields of a task.yaml"


@dataclass(frozen=True)
class HubSource:
    """Dataset on the Hugging Face Hub that holds a suite in some languages.

    Attributes:
        dataset: repository name.
        languages: the dataset's code of each language.
        test: split with the scored questions.
        convert: makes a dataset row in a language a row of `questions` (question, choices,
            answer, …).
        train: split with the few-shot examples; None if the suite is zero-shot.
        config: configuration name, may contain `{code}`; or
        files: pattern of JSONL files, with `{code}` and `{split}`.
        examples: ids of rows of `train` that are the first few-shot examples; those that the
            dataset lacks are skipped.
    """

    dataset: str
    languages: Mapping[str, str]
    test: str
    convert: Callable[[Row, str], Row]
    train: str | None = None
    config: str | None = None
    files: str | None = None
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suite:
    """One multiple-choice task in all its languages.

    Attributes:
        task: name of the task and of its directory.
        prompt: text before the answer. `{question}` and `{context}` are fields of the row,
            `{Question}` and `{Answer}` are these words in the language.
        shots: default number of few-shot examples.
        normalization: "none", "characters" or "pmi" (pointwise mutual information: relative to
            the answer's likelihood after the word for "Answer:" alone).
        title: column title in tables.
        about: description in one line.
        hub: data sources.
        order: position in tables.
        in_mean: whether the mean over tasks includes it, as it does the paper's suites.
        letters: whether the choices are in the prompt, see `by_letter`.
    """

    task: str
    prompt: str
    shots: int
    normalization: str
    title: str = ""
    about: str = ""
    hub: tuple[HubSource, ...] = ()
    order: int = 1000
    in_mean: bool = True
    letters: bool = False

    def by_letter(self) -> Suite:
        """The suite as TASK:letters: questions with their choices, answered by a letter.

        Raises:
            UsageError: the prompt does not ask for an answer.
        """
        if not self.prompt.endswith("{Answer}:"):
            what = f"the prompt of {self.task} does not end in a question for the answer"
            remedy = f"use {self.task}, without {LETTERS}"
            raise UsageError(what, where=f"{self.task}{LETTERS}", remedy=remedy)
        name, title = f"{self.task}{LETTERS}", f"{self.title}, by letter"
        own: dict[str, Any] = {"normalization": "none", "in_mean": False, "letters": True}
        return replace(self, task=name, title=title, **own)

    @property
    def questions(self) -> str:
        """Name of the task whose questions it has."""
        return self.task.removesuffix(LETTERS)

    @property
    def metric(self) -> str:
        """Name of the accuracy under the suite's normalization."""
        return METRICS[self.normalization]

    def source(self, language: str) -> HubSource | None:
        """First data source that has `language`; None if no source has it."""
        return next((source for source in self.hub if language in source.languages), None)

    def render(self, question: str, context: str, language: str) -> str:
        """Prompt of one question, up to the answer.

        >>> suite = Suite("own", "{Question}: {question}\\n{Answer}:", 0, "none")
        >>> suite.render("Why?", "", "fr")
        'Question: Why?\\nRéponse:'
        """
        words = {name: word(name, language) for name in ("Question", "Answer")}
        return self.prompt.format(question=question, context=context, **words)

    def unconditional(self, language: str) -> str:
        """Prompt without a question, for "pmi".

        >>> Suite("own", "{question}", 0, "pmi").unconditional("en")
        'Answer:'
        """
        return f"{word('Answer', language)}:"


@cache
def suites() -> dict[str, Suite]:
    """All suites by task name, in table order."""
    every = [_read(path, _SUITE_FIELDS) for path in sorted(_SUITES.glob("*.yaml"))]
    return {suite.task: suite for suite in sorted(every, key=lambda each: (each.order, each.task))}


def word(name: str, language: str) -> str:
    """ "Question" or "Answer" in `language`; the English word if the language is not listed.

    >>> word("Answer", "fi"), word("Answer", "tlh")
    ('Vastaus', 'Answer')
    """
    table = _words()[name]
    return table.get(language, table["en"])


@cache
def _words() -> dict[str, dict[str, str]]:
    words: dict[str, dict[str, str]] = _yaml(_WORDS)
    return words


def read_suite(path: Path) -> Suite:
    """Read a `task.yaml`: task, prompt, shots, normalization, and optionally title and about."""
    return _read(path, _FILE_FIELDS)


def _read(path: Path, allowed: tuple[str, ...]) -> Suite:
    data = _yaml(path)
    try:
        return _suite(data, allowed)
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise ModtokError(what, where=path, remedy=_REMEDY) from error


def _suite(data: Any, allowed: tuple[str, ...]) -> Suite:
    if not isinstance(data, dict):
        raise ValueError("expected a mapping of fields")
    unknown = sorted(str(name) for name in data if name not in allowed)
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}")
    for name in ("task", "prompt"):
        if not isinstance(data[name], str) or not data[name]:
            raise ValueError(f"{name!r} must be a string")
    if type(data["shots"]) is not int or data["shots"] < 0:
        raise ValueError("'shots' must be an integer of 0 or more")
    if data.get("normalization") not in tuple(METRICS):
        raise ValueError(f"'normalization' must be one of {', '.join(METRICS)}")
    for name in ("title", "about"):
        if not isinstance(data.get(name, ""), str):
            raise ValueError(f"{name!r} must be a string")
    _check_prompt(data["prompt"])
    plain = {name: data[name] for name in data if name not in ("examples", "row", "words", "hub")}
    return Suite(**{"title": data["task"], **plain, "hub": _sources(data)})


def _sources(data: Mapping[str, Any]) -> tuple[HubSource, ...]:
    convert = _Expressions(data.get("row", {}), data.get("words", {}))
    examples = tuple(data.get("examples", ()))
    sources = []
    for fields in data.get("hub", ()):
        codes = fields["languages"]
        languages = codes if isinstance(codes, dict) else {code: code for code in codes}
        source = {**fields, "languages": languages, "convert": convert, "examples": examples}
        sources.append(HubSource(**source))
    return tuple(sources)


class _Expressions:
    """Makes a dataset row a row of `questions` by an expression, or a list of them, for each field.

    Expressions are Jinja's. They read the columns of the row, and `words` of the language.
    """

    def __init__(self, fields: Mapping[str, Any], words: Mapping[str, Any]) -> None:
        self._fields, self._words = fields, words
        self._compiled: dict[str, Any] = {}

    def __call__(self, row: Row, language: str) -> Row:
        """Raises ValueError, or another error of a row that lacks something."""
        from jinja2 import TemplateError

        if not self._compiled:
            self._compiled = {name: _compiled(text) for name, text in self._fields.items()}
        values = {**row, "words": self._words.get(language)}
        try:
            return {name: expression(values) for name, expression in self._compiled.items()}
        except TemplateError as error:  # a column is missing
            raise ValueError(str(error)) from error


def _compiled(text: str | list[str]) -> Callable[[Row], Any]:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    if isinstance(text, list):
        parts = [_compiled(part) for part in text]
        return lambda row: [part(row) for part in parts]
    environment = SandboxedEnvironment(undefined=StrictUndefined)
    environment.globals.update(int=int, str=str)
    environment.filters["without_marks"] = _without_marks
    return environment.compile_expression(text)


def _without_marks(text: str) -> str:
    """Remove the bracketed marks of WikiHow's pages, for HellaSwag.

    >>> _without_marks(" How to knit. [title] Take wool. [step] Knit.")
    'How to knit. Take wool. Knit.'
    """
    text = re.sub(r"\.? \[title\]", ".", text.strip())
    return re.sub(r" {2,}", " ", re.sub(r"\[.*?\]", "", text)).strip()


def _check_prompt(prompt: str) -> None:
    """Allow plain placeholders only: attributes and format widths are not safe."""
    try:
        prompt.encode()
        for _, field, form, conversion in Formatter().parse(prompt):
            if field is not None and (field not in _PLACEHOLDERS or form or conversion):
                raise ValueError(field)
    except ValueError as error:  # also a single brace, or half a surrogate
        raise ValueError(
            f"'prompt' may only contain the placeholders {', '.join(_PLACEHOLDERS)}, got {error}"
        ) from error


def _yaml(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(read_bounded(path).decode("utf-8"))
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror}", where=path) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # "2026-13-45" is not a date
        raise ModtokError(f"invalid YAML ({' '.join(str(error).split())})", where=path) from None
