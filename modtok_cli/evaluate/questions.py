"""Multiple-choice questions in files: JSON lines, one question per line.

    DIR/mcq/<task>/<lang>.jsonl          questions to score
    DIR/mcq/<task>/<lang>.train.jsonl    few-shot examples
    DIR/mcq/<task>/task.yaml             description of a task that is not a suite, see `suite`

    {"question": "…", "choices": ["…", "…"], "answer": 1}

Files may be `.zst` or `.gz`. `answer` is an index from 0, or the choice itself. Optional fields:
`context` is the passage that the question is about, `group` a subject whose examples are used as
shots, `id` a name.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.evaluate.suite import TASK_FILE
from modtok_cli.evaluate.task_files import SplitFiles, json_lines, own_name

LAYOUT = (
    "provide questions as DIR/mcq/<task>/<lang>.jsonl and few-shot examples as "
    '<lang>.train.jsonl: {"question": "…", "choices": ["…", "…"], "answer": 0} per line'
)
_ROW = 'a row is {"question": "…", "choices": ["…", "…"], "answer": 0}'


@dataclass(frozen=True)
class McqSettings:
    """Options of `evaluate.evaluate_mcq`; `infer` None: see `modes.vocabulary_of`.

    `tasks` None: all that have data. `shots` None: the suite's default.
    """

    infer: str | None = None
    tasks: tuple[str, ...] | None = None
    shots: int | None = None
    batch_size: int = 32
    limit: int | None = None
    allow_code: bool = False


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        name: unique in its file.
        choices: two or more.
        answer: index of the correct choice.
        context: passage, or "".
        group: subject, or "".
    """

    name: str
    question: str
    choices: tuple[str, ...]
    answer: int
    context: str = ""
    group: str = ""

    def by_letter(self) -> Question:
        """The question with its choices in lines, each after a letter; the letters are choices.

        >>> question = Question("1", "Which?", ("red", "blue"), 1).by_letter()
        >>> question.question, question.choices
        ('Which?\\nA. red\\nB. blue', ('A', 'B'))
        """
        letters = tuple(ascii_uppercase[: len(self.choices)])
        if len(letters) < len(self.choices):
            what = f"question {self.name} has {len(self.choices)} choices, more than letters"
            raise ModtokError(what, remedy="remove it, or leave out :letters")
        lines = [f"{letter}. {text}" for letter, text in zip(letters, self.choices, strict=True)]
        return replace(self, question="\n".join([self.question, *lines]), choices=letters)

    def same(self, other: Question) -> bool:
        """Return whether both have the same question and context."""
        return (self.question, self.context) == (other.question, other.context)

    def as_row(self) -> dict[str, Any]:
        """Return the row of the file."""
        row = {
            "id": self.name,
            "question": self.question,
            "choices": list(self.choices),
            "answer": self.answer,
            "context": self.context,
            "group": self.group,
        }
        return {key: value for key, value in row.items() if value != ""}


class Folder:
    """A directory of questions.

    Attributes:
        path: directory with one subdirectory per task.
    """

    def __init__(self, data: Path) -> None:
        inside = data / "mcq"
        self.path = inside if inside.is_dir() else data

    @property
    def tasks(self) -> list[str]:
        """Tasks with at least one file, ascending."""
        folders = sorted(self.path.iterdir()) if self.path.is_dir() else ()
        return [
            folder.name
            for folder in folders
            if folder.is_dir() and self._files(folder.name).languages
        ]

    def of(self, task: str, language: str) -> tuple[list[Question], list[Question]] | None:
        """Return (questions, few-shot examples) of a task; None if there are no questions."""
        files = self._files(task)
        asked = files.find(language, "test")
        if asked is None:
            return None
        shown = files.find(language, "train")
        return read_questions(asked), read_questions(shown) if shown else []

    def has(self, task: str, language: str) -> bool:
        """Return whether there are questions in `language`."""
        return self._files(task).has(language)

    def files(self, task: str, language: str) -> list[Path]:
        """Return the files of a task that decide its scores in `language`."""
        own = self.path / task / TASK_FILE
        return [*self._files(task).files_of(language), *([own] if own.is_file() else [])]

    def _files(self, task: str) -> SplitFiles:
        return SplitFiles(self.path / task)


def read_questions(path: Path) -> list[Question]:
    """Read a file of questions."""
    rows: dict[str, Question] = {}
    for number, data in json_lines(path, _ROW):
        question = as_question(data, f"{path}:{number}", number, rows)
        rows[question.name] = question
    if not rows:
        raise ModtokError("contains no questions", where=path, remedy=_ROW)
    return list(rows.values())


def as_question(data: Any, where: str, number: int, taken: Container[str] = ()) -> Question:
    """Check row `number` of a file; `taken` are the names of earlier rows.

    >>> as_question({"question": "Two?", "choices": ["1", "2"], "answer": "2"}, "x:1", 1).answer
    1
    """
    remedy = _ROW
    if not isinstance(data, dict):
        raise ModtokError("expected a JSON object", where=where, remedy=remedy)
    for key in ("question", "context", "group"):
        if not isinstance(data.get(key, ""), str):
            raise ModtokError(f"{key!r} is not a string", where=where, remedy=remedy)
    if not data.get("question", "") and not data.get("context", ""):
        raise ModtokError("no 'question'", where=where, remedy=remedy)
    choices = data.get("choices")
    if not isinstance(choices, list) or not all(isinstance(x, str) and x for x in choices):
        raise ModtokError(
            "'choices' is not a list of non-empty strings", where=where, remedy=remedy
        )
    if len(choices) < 2:
        raise ModtokError(
            f"expected two or more choices, got {len(choices)}", where=where, remedy=remedy
        )
    return Question(
        own_name(data, number, taken),
        data.get("question", ""),
        tuple(choices),
        _answer(data.get("answer"), choices, where),
        data.get("context", ""),
        data.get("group", ""),
    )


def _answer(answer: Any, choices: Sequence[str], where: str) -> int:
    remedy = f"expected a number from 0 to {len(choices) - 1}, or the choice itself"
    if answer is None or answer == "":
        raise ModtokError("no answer", where=where, remedy=remedy)
    if type(answer) is int and 0 <= answer < len(choices):
        return answer
    if isinstance(answer, str) and answer in choices:
        return choices.index(answer)
    raise ModtokError(f"the answer {answer!r} is not a choice", where=where, remedy=remedy)
