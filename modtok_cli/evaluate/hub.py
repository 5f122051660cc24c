"""Multiple-choice questions from datasets on the Hugging Face Hub."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import cache
from urllib.parse import urlsplit

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Progress, Task
from modtok_cli.evaluate.questions import Question, as_question
from modtok_cli.evaluate.suite import HubSource, Row

_SECONDS = 5.0


class Unreachable(ModtokError):
    """There is no connection to the hub, so that no dataset can be loaded."""


@cache
def reachable() -> bool:
    """Whether the hub can be reached; checked once, because its library retries for 30 s.

    With a proxy it counts as reachable. In the library's offline mode it does not.
    """
    if any(
        os.environ.get(name, "").lower() in {"1", "true", "yes", "on"}
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
    ):
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return True
    place = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    port = place.port or (80 if place.scheme == "http" else 443)
    try:
        socket.create_connection((place.hostname or "", port), timeout=_SECONDS).close()
    except OSError:
        return False
    return True


def fetch(
    source: HubSource, language: str, *, progress: Progress = SILENT
) -> tuple[list[Question], list[Question]]:
    """(questions to score, few-shot examples) of a dataset in `language`.

    Rows without a valid answer are skipped and counted.

    Raises:
        Unreachable: there is no connection.
        ModtokError: the dataset cannot be loaded, or holds no questions.
    """
    splits = [source.test, source.train] if source.train else [source.test]
    found = []
    for split in splits:
        place = f"{source.dataset} {source.languages[language]} {split}"
        rows = _load(source, source.languages[language], split, place)
        size = len(rows) if isinstance(rows, Sized) else None
        with progress.task(f"reading {place}", size, "rows") as task:
            questions, bad = convert(_counted(rows, task), source.convert, place)
        if bad:
            progress.note(f"{place}: skipped {bad:,} rows that are not valid questions")
        if not questions:
            raise ModtokError("contains no questions", where=place)
        found.append(questions)
    return found[0], examples_first(found[1], source.examples) if source.train else []


def _counted(rows: Iterable[Row], task: Task) -> Iterator[Row]:
    for row in rows:
        yield row
        task.advance(1)


def examples_first(pool: list[Question], names: Sequence[str]) -> list[Question]:
    """The pool with the questions of these names in front, in the order of the names."""
    by_name = {question.name: question for question in pool}
    chosen = [by_name[name] for name in names if name in by_name]
    return chosen + [question for question in pool if question.name not in names]


def _load(source: HubSource, code: str, split: str, place: str) -> Iterable[Row]:
    import datasets

    datasets.disable_progress_bars()
    try:
        if source.files is not None:
            pattern = source.files.format(code=code, split=split)
            files = f"hf://datasets/{source.dataset}/{pattern}"
            rows: Iterable[Row] = datasets.load_dataset("json", data_files=files, split="train")
        else:
            config = source.config.format(code=code) if source.config else None
            rows = datasets.load_dataset(source.dataset, config, split=split)
    except Exception as error:  # any error of the library, its file systems or the network
        if _is_of_network(error):
            raise Unreachable("the hub cannot be reached", where=place) from error
        raise ModtokError(
            f"cannot load the dataset ({' '.join(str(error).split())[:300]})",
            where=place,
            remedy="try again, or pass local files with --data",
        ) from error
    return rows


def _is_of_network(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ConnectionError | TimeoutError):
        error = error.__cause__ or error.__context__
    return error is not None


def convert(
    rows: Iterable[Row], as_row: Callable[[Row], Row], place: str
) -> tuple[list[Question], int]:
    """Questions of a dataset's rows, and the number of rows that are not valid questions."""
    found, bad = dict[str, Question](), 0
    for number, row in enumerate(rows, 1):
        try:
            data = as_row(row)
            question = as_question(data, f"{place}:{number}", number, found)
            found[question.name] = question
        except (ModtokError, KeyError, IndexError, TypeError, ValueError):
            bad += 1
    return list(found.values()), bad
