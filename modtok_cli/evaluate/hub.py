"""Questions from the hub: its datasets' rows, made into ours."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.questions import Question, as_question
from modtok_cli.evaluate.suites import HubSource

Row = Mapping[str, Any]
_SECONDS = 5.0


@cache
def reachable() -> bool:
    """Whether the hub answers; asked once, since its library tries for half a minute.

    Behind a proxy it is taken to; offline by its own variables it is not.
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
    """(what is asked, what may be shown) of a dataset in `language`.

    Rows without a right answer are left out, and said.

    Raises:
        ModtokError: the hub does not give it.
    """
    splits = [source.test, source.train] if source.train else [source.test]
    found = []
    for split in splits:
        place = f"{source.dataset} {source.languages[language]} {split}"
        rows = _load(source, source.languages[language], split, place)
        questions, bad = convert(rows, source.rows, place)
        if bad:
            progress.note(f"{place}: {bad:,} rows are no questions and were left out")
        if not questions:
            raise ModtokError("holds no questions", where=place)
        found.append(questions)
    return found[0], found[1] if source.train else []


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
    except Exception as error:  # of the library, its file systems, or the network
        raise ModtokError(
            f"the hub does not give it ({' '.join(str(error).split())[:300]})",
            where=place,
            remedy="try again, or name local files with --data",
        ) from error
    return rows


def convert(rows: Iterable[Row], kind: str, place: str) -> tuple[list[Question], int]:
    """Questions out of a dataset's rows, and how many rows were none."""
    found, bad = dict[str, Question](), 0
    for number, row in enumerate(rows, 1):
        try:
            data = CONVERTERS[kind](row)
            question = as_question(data, f"{place}:{number}", number, found)
            found[question.name] = question
        except (ModtokError, KeyError, IndexError, TypeError, ValueError):
            bad += 1
    return list(found.values()), bad


def _arc(row: Row) -> Row:
    choices = row["choices"]
    return {
        "id": str(row["id"]),
        "question": row["question"].strip(),
        "choices": list(choices["text"]),
        "answer": list(choices["label"]).index(row["answerKey"]),
    }


def _hellaswag(row: Row) -> Row:
    behind = row["ctx_b"].capitalize()
    text = f"{row['activity_label']}: {row['ctx_a']} {behind}"
    return {
        "question": _without_marks(text),
        "choices": [_without_marks(ending) for ending in row["endings"]],
        "answer": int(row["label"]),
    }


def _without_marks(text: str) -> str:
    """Without the marks in brackets that WikiHow's pages left in HellaSwag.

    >>> _without_marks(" How to knit [title] Take wool. [step] Knit.")
    'How to knit. Take wool. Knit.'
    """
    text = re.sub(r" \[title\]", ".", text.strip())
    return re.sub(r" {2,}", " ", re.sub(r"\[.*?\]", "", text)).strip()


def _mmlu(row: Row) -> Row:
    group = row.get("subject") or str(row["id"]).split("/")[0]
    return {
        "question": row["question"].strip(),
        "choices": list(row["choices"]),
        "answer": int(row["answer"]),
        "group": group,
    }


def _piqa(row: Row) -> Row:
    return {
        "question": row["goal"].strip(),
        "choices": [row["sol1"], row["sol2"]],
        "answer": int(row["label"]),
    }


def _siqa(row: Row) -> Row:
    return {
        "context": row["context"],
        "question": row["question"],
        "choices": [row["answerA"], row["answerB"], row["answerC"]],
        "answer": int(row["label"]) - 1,
    }


def _belebele(row: Row) -> Row:
    return {
        "context": row["flores_passage"].strip(),
        "question": row["question"].strip(),
        "choices": [row[f"mc_answer{number}"] for number in range(1, 5)],
        "answer": int(row["correct_answer_num"]) - 1,
    }


CONVERTERS: dict[str, Callable[[Row], Row]] = {
    "arc": _arc,
    "belebele": _belebele,
    "hellaswag": _hellaswag,
    "mmlu": _mmlu,
    "piqa": _piqa,
    "siqa": _siqa,
}
