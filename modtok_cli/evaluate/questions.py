"""Multiple-choice questions in files: JSON lines, one question each.

    DIR/mcq/<task>/<lang>.jsonl          what is asked
    DIR/mcq/<task>/<lang>.train.jsonl    what may be shown before it
    DIR/mcq/<task>/task.yaml             for a task of one's own, see `suites`

    {"question": "…", "choices": ["…", "…"], "answer": 1}

Files may be `.zst` or `.gz`. `answer` counts from 0, or is the choice itself. `context` is a
passage that the question is about, `group` a subject whose examples are shown, `id` a name;
these three may be left out.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.evaluate.json_lines import json_lines, own_name
from modtok_cli.text.languages import is_language, normalize
from modtok_cli.text.readers import COMPRESSED

_ROW = 'a row is {"question": "…", "choices": ["…", "…"], "answer": 0}'


@dataclass(frozen=True)
class Question:
    """One row.

    Attributes:
        name: tells it from the others of its file.
        choices: two or more, all different.
        answer: place of the right one.
        context: passage, "" for none.
        group: subject, "" for none.
    """

    name: str
    question: str
    choices: tuple[str, ...]
    answer: int
    context: str = ""
    group: str = ""

    def same(self, other: Question) -> bool:
        """Whether both ask the same."""
        return (self.question, self.context) == (other.question, other.context)

    def as_row(self) -> dict[str, Any]:
        """As the file holds it."""
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
    """Questions laid out in files.

    Attributes:
        path: the directory with a folder for each task.
    """

    def __init__(self, data: Path) -> None:
        inside = data / "mcq"
        self.path = inside if inside.is_dir() else data

    @property
    def tasks(self) -> list[str]:
        """Tasks with a file or more, ascending."""
        folders = sorted(self.path.iterdir()) if self.path.is_dir() else ()
        return [folder.name for folder in folders if folder.is_dir() and self._files(folder.name)]

    def of(self, task: str, language: str) -> tuple[list[Question], list[Question]] | None:
        """(what is asked, what may be shown) of a task; None where there is nothing to ask.

        Raises:
            ModtokError: a file cannot be read, or has a row that is no question.
        """
        files = self._files(task)
        asked = files.get((normalize(language), "test"))
        if asked is None:
            return None
        shown = files.get((normalize(language), "train"))
        return read_questions(asked), read_questions(shown) if shown else []

    def has(self, task: str, language: str) -> bool:
        """Whether there is something to ask."""
        return (normalize(language), "test") in self._files(task)

    def _files(self, task: str) -> dict[tuple[str, str], Path]:
        """`fr.jsonl`, `fra_Latn.train.jsonl.zst` by language and part."""
        found: dict[tuple[str, str], Path] = {}
        folder = self.path / task
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            plain = path.with_suffix("") if path.suffix in COMPRESSED else path
            code, _, part = plain.stem.partition(".")
            part = part or "test"
            if plain.suffix == ".jsonl" and is_language(code) and part in ("test", "train"):
                found.setdefault((normalize(code), part), path)
        return found


def read_questions(path: Path) -> list[Question]:
    """Read a file of questions.

    Raises:
        ModtokError: it cannot be read, or a row is no question; names file and line.
    """
    found: dict[str, Question] = {}
    for number, data in json_lines(path, _ROW):
        question = as_question(data, f"{path}:{number}", number, found)
        found[question.name] = question
    if not found:
        raise ModtokError("holds no questions", where=str(path), remedy=_ROW)
    return list(found.values())


def as_question(data: Any, where: str, number: int, taken: Container[str] = ()) -> Question:
    """Check one row, the `number`th of its file; `taken` are the names of those before it.

    >>> as_question({"question": "Two?", "choices": ["1", "2"], "answer": "2"}, "x:1", 1).answer
    1

    Raises:
        ModtokError: there is no right answer, fewer than two choices, or a field is wrong.
    """
    remedy = _ROW
    if not isinstance(data, dict):
        raise ModtokError("is no object", where=where, remedy=remedy)
    for key in ("question", "context", "group"):
        if not isinstance(data.get(key, ""), str):
            raise ModtokError(f"{key!r} is no string", where=where, remedy=remedy)
    if not data.get("question", "") and not data.get("context", ""):
        raise ModtokError("no 'question'", where=where, remedy=remedy)
    choices = data.get("choices")
    if not isinstance(choices, list) or not all(isinstance(x, str) and x for x in choices):
        raise ModtokError("'choices' is no list of strings", where=where, remedy=remedy)
    if len(choices) < 2:
        raise ModtokError(
            f"a choice of {len(choices)}", where=where, remedy="give two choices or more"
        )
    if len(set(choices)) < len(choices):
        raise ModtokError("a choice stands there twice", where=where, remedy="remove one")
    return Question(
        own_name(data, number, taken),
        data.get("question", ""),
        tuple(choices),
        _answer(data.get("answer"), choices, where),
        data.get("context", ""),
        data.get("group", ""),
    )


def _answer(answer: Any, choices: Sequence[str], where: str) -> int:
    remedy = f"give a number from 0 to {len(choices) - 1}, or the choice itself"
    if answer is None or answer == "":
        raise ModtokError("no gold answer", where=where, remedy=remedy)
    if type(answer) is int and 0 <= answer < len(choices):
        return answer
    if isinstance(answer, str) and answer in choices:
        return choices.index(answer)
    raise ModtokError(f"the answer {answer!r} is no choice", where=where, remedy=remedy)
