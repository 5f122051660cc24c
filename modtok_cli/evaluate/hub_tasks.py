"""Rows of datasets on the Hugging Face Hub, and multiple-choice questions of them."""

import os
from collections.abc import Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.questions import Question, as_question
from modtok_cli.evaluate.suite import HubSource, Row

_SECONDS = 5.0


def stay_local() -> None:
    """Disable network access of the libraries of lm-eval; all data is local."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        os.environ.setdefault(name, "1")


class Unreachable(ModtokError):
    """There is no connection to the hub, so that no dataset can be loaded."""


@cache
def reachable() -> bool:
    """Return whether the hub answers; asked once, because `datasets` tries again for 30 s."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_SECONDS)
    except Exception:  # of the library for requests, or of the offline mode
        return False
    return True


def questions(
    source: HubSource, language: str, *, progress: Progress = SILENT
) -> tuple[list[Question], list[Question]]:
    """Return (questions to score, few-shot examples) of a dataset in `language`.

    Rows without a valid answer are skipped and counted.
    """
    splits = [source.test, source.train] if source.train else [source.test]
    parts = []
    for split in splits:
        code = source.languages[language]
        place = f"{source.dataset} {code} {split}"
        config = source.config and source.config.format(code=code)
        files = source.files and source.files.format(code=code, split=split)
        found = rows(source.dataset, split, config=config, files=files)
        valid: dict[str, Question] = {}
        bad = 0
        with progress.task(f"reading {place}", len(found), "rows") as task:
            for number, row in enumerate(found, 1):
                task.advance(1)
                try:
                    data = source.convert(row, language)
                    question = as_question(data, f"{place}:{number}", number, valid)
                    valid[question.name] = question
                except (ModtokError, KeyError, IndexError, TypeError, ValueError):
                    bad += 1
        if bad:
            progress.note(f"{place}: skipped {bad:,} rows that are not valid questions")
        if not valid:
            raise ModtokError("contains no questions", where=place)
        parts.append(list(valid.values()))
    # The examples that the suite names come first, in its order.
    order = {name: place for place, name in enumerate(source.examples)}
    pool = parts[1] if source.train else []
    return parts[0], sorted(pool, key=lambda question: order.get(question.name, len(order)))


def rows(
    dataset: str,
    split: str,
    *,
    config: str | None = None,
    files: str | None = None,
    revision: str | None = None,
    first: int | None = None,
) -> Sequence[Row]:
    """Return rows of a split of a configuration, or of `files` (a pattern, JSONL or Parquet).

    They stay in the library's cache. The `first` ones are read without the others.

    Raises:
        Unreachable: there is no connection.
        ModtokError: the dataset is not there, is gated or damaged.
    """
    import datasets

    datasets.disable_progress_bars()
    streaming = first is not None
    try:
        if files is None:
            found = datasets.load_dataset(dataset, config, split=split, streaming=streaming)
        else:
            kind = "parquet" if Path(files).suffix == ".parquet" else "json"
            at = f"@{revision}" if revision else ""
            data = f"hf://datasets/{dataset}{at}/{files}"
            found = datasets.load_dataset(kind, data_files=data, split="train", streaming=streaming)
        return list(islice(found, first)) if streaming else found
    except Exception as error:  # any error of the library, its file systems or the network
        place = " ".join(filter(None, (dataset, config, files, split)))
        if _is_of_network(error):
            raise Unreachable("the hub cannot be reached", where=place) from error
        raise ModtokError(
            f"cannot load the dataset ({' '.join(str(error).split())[:300]})",
            where=place,
            remedy="try again, or pass local files with --eval-data",
        ) from error


def _is_of_network(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ConnectionError | TimeoutError):
        error = error.__cause__ or error.__context__
    return error is not None
