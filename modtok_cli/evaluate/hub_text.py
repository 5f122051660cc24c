"""Parallel text and summaries from datasets on the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.documents import one_line
from modtok_cli.evaluate.suites import belebele

Row = Mapping[str, Any]

SHOWN = 100  # number of few-shot examples that are downloaded
FLORES = ("mteb/flores", "openlanguagedata/flores_plus")
GEM, ARTICLES = "GEM/wiki_lingua", "esdurmus/wiki_lingua"
_PARQUET = "refs/convert/parquet"
# Configuration names of esdurmus/wiki_lingua.
WIKILINGUA = {
    "ar": "arabic",
    "cs": "czech",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "hi": "hindi",
    "id": "indonesian",
    "it": "italian",
    "ja": "japanese",
    "ko": "korean",
    "nl": "dutch",
    "pt": "portuguese",
    "ru": "russian",
    "th": "thai",
    "tr": "turkish",
    "vi": "vietnamese",
    "zh": "chinese",
}


class Hub(Protocol):
    """Source of datasets."""

    def rows(
        self,
        dataset: str,
        split: str,
        *,
        config: str | None = None,
        files: str | None = None,
        revision: str | None = None,
    ) -> Iterable[Row]:
        """Rows of a split of a configuration, or of Parquet `files` (a pattern)."""


class RemoteHub:
    """The Hugging Face Hub, read with the package `datasets`."""

    def rows(
        self,
        dataset: str,
        split: str,
        *,
        config: str | None = None,
        files: str | None = None,
        revision: str | None = None,
    ) -> Iterator[Row]:
        """Stream the rows.

        Raises:
            ModtokError: the dataset cannot be loaded.
        """
        import datasets

        datasets.disable_progress_bars()
        name = " ".join(part for part in (dataset, config, files, split) if part)
        try:
            if files is not None:
                at = f"@{revision}" if revision else ""
                pattern = f"hf://datasets/{dataset}{at}/{files}"
                found = datasets.load_dataset(
                    "parquet", data_files=pattern, split="train", streaming=True
                )
            else:
                found = datasets.load_dataset(dataset, config, split=split, streaming=True)
            yield from found
        except GeneratorExit:
            raise
        except Exception as error:  # any error of the library, its file systems or the network
            raise ModtokError(
                f"cannot load the dataset ({' '.join(str(error).split())[:300]})", where=name
            ) from error


def flores_codes() -> dict[str, str]:
    """FLORES-200 code of each language; BeleBele, which is made from FLORES, uses the same."""
    return dict(belebele.CODES)


def flores_wide(
    source: Hub, dataset: str, part: str, languages: Sequence[str]
) -> dict[str, list[str]]:
    """Sentences by language, from rows that hold all languages.

    Columns are `eng_Latn`, … (mteb/flores) or `sentence_eng_Latn`, … (facebook/flores). Languages
    without a column are left out.

    Raises:
        ModtokError: the dataset cannot be loaded, or is empty.
    """
    rows = _by_id(source.rows(dataset, part))
    if not rows:
        raise ModtokError("contains no rows", where=f"{dataset} {part}")
    codes, found = flores_codes(), {}
    for language in languages:
        for column in (codes[language], f"sentence_{codes[language]}"):
            if all(column in row for row in rows):
                found[language] = [str(one_line(row[column])) for row in rows]
                break
    return found


def flores_plus(
    source: Hub, dataset: str, part: str, languages: Sequence[str]
) -> dict[str, list[str]]:
    """Sentences by language, from one configuration per language with a column `text`.

    Raises:
        ModtokError: a language cannot be loaded (the dataset is gated), or has no such column.
    """
    return {
        language: _flores_plus(source, dataset, part, flores_codes()[language])
        for language in languages
    }


# FLORES+ renamed these codes of FLORES-200: macrolanguages became individual languages.
_RENAMED = {"est_Latn": "ekk_Latn", "zho_Hans": "cmn_Hans", "zho_Hant": "cmn_Hant"}


def _flores_plus(source: Hub, dataset: str, part: str, code: str) -> list[str]:
    errors: list[ModtokError] = []
    for config in filter(None, (_RENAMED.get(code), code)):
        try:
            rows = _by_id(source.rows(dataset, part, config=config))
        except ModtokError as error:
            errors.append(error)
            continue
        if not rows or not all("text" in row for row in rows):
            raise ModtokError("has no column 'text'", where=f"{dataset} {config} {part}")
        return [str(one_line(row["text"])) for row in rows]
    raise errors[0]


def _by_id(rows: Iterable[Row]) -> list[Row]:
    """Rows in the order of their ids; unchanged if a row has none."""
    found = list(rows)
    try:
        return sorted(found, key=lambda row: int(row["id"]))
    except (KeyError, TypeError, ValueError):
        return found


def gem(source: Hub, language: str, progress: Progress) -> tuple[list[Row], list[Row]]:
    """(documents to score, few-shot examples) of GEM's edition, which has a test split."""
    parts = []
    for split, count in (("test", None), ("train", SHOWN)):
        name = f"{GEM} {language} {split}"
        rows = _gem_rows(source, language, split)
        parts.append(summaries(rows, "source", "target", "gem_id", name, progress, count))
    return parts[0], parts[1]


def _gem_rows(source: Hub, language: str, split: str) -> Iterator[Row]:
    """Rows of exactly this split: GEM also has sampled_test. Long splits are called partial-…"""
    for directory in (split, f"partial-{split}"):
        files = f"{language}/{directory}/*.parquet"
        rows = iter(source.rows(GEM, split, files=files, revision=_PARQUET))
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


def articles(source: Hub, language: str, progress: Progress) -> tuple[list[Row], list[Row]]:
    """(documents to score, few-shot examples) of the first edition, which has no test split.

    Its first rows are the few-shot examples.
    """
    name = WIKILINGUA[language]
    rows = source.rows(ARTICLES, "train", config=name)
    flat = ({"url": row.get("url"), **(row.get("article") or {})} for row in rows)
    where = f"{ARTICLES} {name}"
    found = summaries(flat, "document", "summary", "url", where, progress)
    return found[SHOWN:], found[:SHOWN]


def summaries(
    rows: Iterable[Row],
    document: str,
    summary: str,
    name: str,
    where: str,
    progress: Progress = SILENT,
    limit: int | None = None,
) -> list[Row]:
    """Documents and summaries of a dataset's columns; rows without one of them are skipped.

    Raises:
        ModtokError: a column is missing, or no row is left.
    """
    found: list[Row] = []
    empty = 0
    for row in islice(rows, limit):
        if document not in row or summary not in row:
            raise ModtokError(f"has no columns {document!r} and {summary!r}", where=where)
        texts = one_line(row[document]), one_line(row[summary])
        if all(texts):
            named = {"id": str(row[name])} if row.get(name) else {}
            found.append({**named, "document": texts[0], "summary": texts[1]})
        else:
            empty += 1
    if not found:
        raise ModtokError("contains no documents", where=where)
    if empty:
        progress.note(f"{where}: skipped {empty:,} empty rows")
    return found
