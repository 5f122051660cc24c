"""Suites of multiple-choice questions, as the YAML files beside say them.

A suite is a prompt, a number of examples shown, a normalization and where its questions come
from. The package holds the paper's: for English ARC, HellaSwag, CommonSenseQA, BeleBele, PIQA,
SIQA and MMLU, for other languages the translations of EU20 and BeleBele. Whoever has questions
of their own puts a `task.yaml` of the same form beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.records import from_json

FOLDER = Path(__file__).with_name("suites")
WORDS = "words.yaml"
TASK_FILE = "task.yaml"

# What a choice's log-likelihood is compared by, and the metric that comes of it.
METRICS = {"none": "acc", "characters": "acc_norm", "pmi": "acc_pmi"}
_FIELDS = ("question", "context", "Question", "Answer")


@dataclass(frozen=True)
class HubSource:
    """Where a suite's questions are on the hub, for some languages.

    Attributes:
        dataset: its name.
        config: of the dataset, with `{code}` for the language; or
        files: a pattern with `{code}` and `{split}`, where there are plain JSONL files.
        languages: the code that the dataset has for a language.
        test, train: splits; `train` None where nothing is shown.
        rows: how its rows become ours, see `hub.CONVERTERS`.
    """

    dataset: str
    languages: Mapping[str, str]
    test: str
    rows: str
    train: str | None = None
    config: str | None = None
    files: str | None = None


@dataclass(frozen=True)
class Suite:
    """One task, in all its languages.

    Attributes:
        task: its name, and that of its folder.
        title: for tables.
        prompt: what stands before the answer; `{question}`, `{context}` are the row's,
            `{Question}`, `{Answer}` words of the language.
        shots: examples shown, unless others are asked for.
        normalization: "none", "characters", or "pmi" (pointwise mutual information: against
            the answer's likelihood after the word for "Answer:" alone).
        about: what it asks, in a line.
        hub: where it is on the hub.
    """

    task: str
    prompt: str
    shots: int
    normalization: str
    title: str = ""
    about: str = ""
    hub: tuple[HubSource, ...] = ()

    @property
    def metric(self) -> str:
        """Name of the accuracy under the suite's normalization."""
        return METRICS[self.normalization]

    def source(self, language: str) -> HubSource | None:
        """Where the hub has it in `language`."""
        return next((source for source in self.hub if language in source.languages), None)

    def render(self, question: str, context: str, language: str) -> str:
        """The prompt of one question, up to where the answer begins.

        >>> suites()["arc_easy"].render("Why?", "", "fr")
        'Question: Why?\\nRéponse:'
        """
        words = {name: word(name, language) for name in ("Question", "Answer")}
        return self.prompt.format(question=question, context=context, **words)

    def unconditional(self, language: str) -> str:
        """What stands before an answer whose question is not told.

        >>> suites()["csqa"].unconditional("en")
        'Answer:'
        """
        return f"{word('Answer', language)}:"


def word(name: str, language: str) -> str:
    """A word of the prompt, in English where `language` is not listed.

    >>> word("Answer", "fi"), word("Answer", "tlh")
    ('Vastaus', 'Answer')
    """
    table = _words()[name]
    return table.get(language, table["en"])


@cache
def _words() -> dict[str, dict[str, str]]:
    words: dict[str, dict[str, str]] = _yaml(FOLDER / WORDS)
    return words


@cache
def suites() -> dict[str, Suite]:
    """The suites of the package by name, in the order of the paper's tables."""
    order = ["arc_easy", "arc_challenge", "hellaswag", "mmlu", "belebele", "csqa", "piqa", "siqa"]
    return {name: read_suite(FOLDER / f"{name}.yaml") for name in order}


def read_suite(path: Path) -> Suite:
    """Read one YAML file.

    Raises:
        ModtokError: it cannot be read, or a field is missing or wrong; names it.
    """
    data = _yaml(path)
    try:
        return _suite(data, str(path))
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise ModtokError(
            what, where=str(path), remedy="see docs/evaluation.md for what a task.yaml holds"
        ) from error


def _suite(data: Any, where: str) -> Suite:
    if not isinstance(data, dict):
        raise ValueError("holds no fields")
    unknown = sorted(set(data) - set(Suite.__dataclass_fields__))
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}")
    for name in ("task", "prompt", "normalization"):
        if not isinstance(data[name], str) or not data[name]:
            raise ValueError(f"{name!r} must be a string")
    if type(data["shots"]) is not int or data["shots"] < 0:
        raise ValueError("'shots' must be a whole number from 0")
    if data["normalization"] not in METRICS:
        raise ValueError(f"'normalization' must be one of {', '.join(METRICS)}")
    for name in ("title", "about"):
        if not isinstance(data.get(name, ""), str):
            raise ValueError(f"{name!r} must be a string")
    _check_prompt(data["prompt"])
    return from_json(Suite, {"title": data["task"], **data}, where)


def _check_prompt(prompt: str) -> None:
    """Only the fields themselves: `{question.x}` and `{question:>9}` would be code and bombs."""
    try:
        prompt.encode()
        for _, field, form, conversion in Formatter().parse(prompt):
            if field is not None and (field not in _FIELDS or form or conversion):
                raise ValueError(field)
    except ValueError as error:  # of the library, too: a single bracket; half a surrogate
        raise ValueError(
            f"'prompt' has a field that is none of {', '.join(_FIELDS)} ({error})"
        ) from error


def _yaml(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror}", where=str(path)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # "2026-13-45" is no date
        raise ModtokError(f"is no YAML ({' '.join(str(error).split())})", where=str(path)) from None
