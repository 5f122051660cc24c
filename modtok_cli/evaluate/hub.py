"""Questions, parallel text and summaries from datasets on the Hugging Face Hub."""

import os
import socket
from collections.abc import Iterable, Iterator, Sequence, Sized
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.documents import one_line
from modtok_cli.evaluate.questions import Question, as_question
from modtok_cli.evaluate.suite import HubSource, Row, suites

_SECONDS = 5.0
_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
SHOWN = 100  # number of few-shot examples that are downloaded
FLORES, FLORES_PLUS = "mteb/flores", "openlanguagedata/flores_plus"
# FLORES+ renamed these codes of FLORES-200: macrolanguages became individual languages.
_RENAMED = {"est_Latn": "ekk_Latn", "zho_Hans": "cmn_Hans", "zho_Hant": "cmn_Hant"}
GEM, ARTICLES = "GEM/wiki_lingua", "esdurmus/wiki_lingua"
# Configuration names of esdurmus/wiki_lingua.
WIKILINGUA = {
    "ar": "arabic", "cs": "czech", "de": "german", "en": "english", "es": "spanish",
    "fr": "french", "hi": "hindi", "id": "indonesian", "it": "italian", "ja": "japanese",
    "ko": "korean", "nl": "dutch", "pt": "portuguese", "ru": "russian", "th": "thai",
    "tr": "turkish", "vi": "vietnamese", "zh": "chinese",
}  # fmt: skip


def stay_local() -> None:
    """Disable network access of the libraries of lm-eval; all data is local."""
    for name in _OFFLINE:
        os.environ.setdefault(name, "1")


class Unreachable(ModtokError):
    """There is no connection to the hub, so that no dataset can be loaded."""


@cache
def reachable() -> bool:
    """Whether the hub can be reached; checked once, because its library retries for 30 s.

    With a proxy it counts as reachable. In the library's offline mode it does not.
    """
    if any(os.environ.get(name, "").lower() in {"1", "true", "yes", "on"} for name in _OFFLINE):
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


def _load(
    dataset: str,
    split: str,
    *,
    config: str | None = None,
    files: str | None = None,
    revision: str | None = None,
    **settings: Any,
) -> Iterable[Row]:
    """Rows of a split of a configuration, or of `files` (a pattern of JSONL or Parquet files)."""
    import datasets

    datasets.disable_progress_bars()
    rows: Iterable[Row]
    if files is None:
        rows = datasets.load_dataset(dataset, config, split=split, **settings)
    else:
        kind = "parquet" if Path(files).suffix == ".parquet" else "json"
        at = f"@{revision}" if revision else ""
        pattern = f"hf://datasets/{dataset}{at}/{files}"
        rows = datasets.load_dataset(kind, data_files=pattern, split="train", **settings)
    return rows


def _not_loaded(error: Exception, place: str, remedy: str = "") -> ModtokError:
    what = f"cannot load the dataset ({' '.join(str(error).split())[:300]})"
    return ModtokError(what, where=place, remedy=remedy)


def stream(dataset: str, split: str, **place: str | None) -> Iterator[Row]:
    """Rows as they are downloaded; `place` is config, or files and revision."""
    try:
        yield from _load(dataset, split, **place, streaming=True)
    except GeneratorExit:
        raise
    except Exception as error:  # any error of the library, its file systems or the network
        name = " ".join(filter(None, (dataset, place.get("config"), place.get("files"), split)))
        raise _not_loaded(error, name) from error


def questions(
    source: HubSource, language: str, *, progress: Progress = SILENT
) -> tuple[list[Question], list[Question]]:
    """(questions to score, few-shot examples) of a dataset in `language`.

    Rows without a valid answer are skipped and counted.
    """
    splits = [source.test, source.train] if source.train else [source.test]
    parts = []
    for split in splits:
        place = f"{source.dataset} {source.languages[language]} {split}"
        rows = _rows(source, source.languages[language], split, place)
        size = len(rows) if isinstance(rows, Sized) else None
        valid: dict[str, Question] = {}
        bad = 0
        with progress.task(f"reading {place}", size, "rows") as task:
            for number, row in enumerate(rows, 1):
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
    return parts[0], _examples_first(parts[1], source.examples) if source.train else []


def _examples_first(pool: list[Question], names: Sequence[str]) -> list[Question]:
    """The pool with the questions of these names in front, in the order of the names."""
    by_name = {question.name: question for question in pool}
    chosen = [by_name[name] for name in names if name in by_name]
    return chosen + [question for question in pool if question.name not in names]


def _rows(source: HubSource, code: str, split: str, place: str) -> Iterable[Row]:
    """Rows of a split, which stay in the library's cache."""
    config = source.config and source.config.format(code=code)
    files = source.files and source.files.format(code=code, split=split)
    try:
        return _load(source.dataset, split, config=config, files=files)
    except Exception as error:  # any error of the library, its file systems or the network
        if _is_of_network(error):
            raise Unreachable("the hub cannot be reached", where=place) from error
        raise _not_loaded(error, place, "try again, or pass local files with --data") from error


def _is_of_network(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ConnectionError | TimeoutError):
        error = error.__cause__ or error.__context__
    return error is not None


def flores_codes() -> dict[str, str]:
    """FLORES-200 code of each language; BeleBele, which is made from FLORES, uses the same."""
    return dict(suites()["belebele"].hub[0].languages)


def flores(languages: Sequence[str]) -> tuple[str, dict[str, dict[str, list[str]]], list[str]]:
    """(dataset, split -> language -> lines, errors): the first dataset with all languages.

    If none has all, the one with most. Languages of two datasets are never mixed: their lines may
    differ.
    """
    best: tuple[str, dict[str, dict[str, list[str]]]] = ("", {})
    most, errors = 0, []
    for dataset, read in ((FLORES, _flores), (FLORES_PLUS, _flores_plus)):
        try:
            parts = {part: read(part, languages) for part in ("dev", "devtest")}
        except ModtokError as error:
            errors.append(str(error))
            continue
        present = set.intersection(*(set(columns) for columns in parts.values()))
        if len(present) > most:
            best, most = (dataset, parts), len(present)
        if most == len(languages):
            break
        lacking = ", ".join(name for name in languages if name not in present)
        errors.append(f"{dataset} has no {lacking}")
    return *best, errors


def _flores(part: str, languages: Sequence[str]) -> dict[str, list[str]]:
    """Sentences by language, from rows that hold all languages.

    Columns are `eng_Latn`, … (mteb/flores) or `sentence_eng_Latn`, … (facebook/flores). Languages
    without a column are left out.
    """
    rows = _by_id(stream(FLORES, part))
    if not rows:
        raise ModtokError("contains no rows", where=f"{FLORES} {part}")
    codes, columns = flores_codes(), {}
    for language in languages:
        for column in (codes[language], f"sentence_{codes[language]}"):
            if all(column in row for row in rows):
                columns[language] = [str(one_line(row[column])) for row in rows]
                break
    return columns


def _flores_plus(part: str, languages: Sequence[str]) -> dict[str, list[str]]:
    """Sentences by language, from one configuration per language with a column `text`."""

    def lines(code: str) -> list[str]:
        errors: list[ModtokError] = []
        for config in filter(None, (_RENAMED.get(code), code)):
            try:
                rows = _by_id(stream(FLORES_PLUS, part, config=config))
            except ModtokError as error:
                errors.append(error)
                continue
            if not rows or not all("text" in row for row in rows):
                raise ModtokError("has no column 'text'", where=f"{FLORES_PLUS} {config} {part}")
            return [str(one_line(row["text"])) for row in rows]
        raise errors[0]

    return {language: lines(flores_codes()[language]) for language in languages}


def _by_id(rows: Iterable[Row]) -> list[Row]:
    """Rows in the order of their ids; unchanged if a row has none."""
    every = list(rows)
    try:
        return sorted(every, key=lambda row: int(row["id"]))
    except (KeyError, TypeError, ValueError):
        return every


def gem(language: str, progress: Progress) -> tuple[list[Row], list[Row]]:
    """(documents to score, few-shot examples) of GEM's edition, which has a test split."""
    parts = []
    for split, count in (("test", None), ("train", SHOWN)):
        rows = islice(_gem_rows(language, split), count)
        where = f"{GEM} {language} {split}"
        parts.append(_summaries(rows, ("gem_id", "source", "target"), where, progress))
    return parts[0], parts[1]


def _gem_rows(language: str, split: str) -> Iterator[Row]:
    """Rows of exactly this split: GEM also has sampled_test. Long splits are called partial-…"""
    for directory in (split, f"partial-{split}"):
        files = f"{language}/{directory}/*.parquet"
        rows = iter(stream(GEM, split, files=files, revision="refs/convert/parquet"))
        try:
            first = next(rows, None)
        except ModtokError:
            if directory == split:
                continue
            raise
        if first is not None:
            yield first
        yield from rows
        return


def articles(language: str, progress: Progress) -> tuple[list[Row], list[Row]]:
    """(documents to score, few-shot examples) of the first edition, which has no test split.

    Its first rows are the few-shot examples.
    """
    config = WIKILINGUA[language]
    rows = stream(ARTICLES, "train", config=config)
    flat = ({"url": row.get("url"), **(row.get("article") or {})} for row in rows)
    columns = ("url", "document", "summary")
    texts = _summaries(flat, columns, f"{ARTICLES} {config}", progress)
    return texts[SHOWN:], texts[:SHOWN]


def _summaries(
    rows: Iterable[Row], columns: tuple[str, str, str], where: str, progress: Progress
) -> list[Row]:
    """Documents and summaries of the columns (name, document, summary); skips rows without one."""
    name, document, summary = columns
    texts: list[Row] = []
    empty = 0
    for row in rows:
        if document not in row or summary not in row:
            raise ModtokError(f"has no columns {document!r} and {summary!r}", where=where)
        pair = {"document": one_line(row[document]), "summary": one_line(row[summary])}
        if all(pair.values()):
            texts.append({**({"id": str(row[name])} if row.get(name) else {}), **pair})
        else:
            empty += 1
    if not texts:
        raise ModtokError("contains no documents", where=where)
    if empty:
        progress.note(f"{where}: skipped {empty:,} empty rows")
    return texts
