"""Parallel text and summaries on the hub, and how their columns become ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.documents import one_line
from modtok_cli.evaluate.suites import suites

Row = Mapping[str, Any]

# More shots than anyone shows.
SHOWN = 100
FLORES = ("mteb/flores", "openlanguagedata/flores_plus")
GEM, ARTICLES = "GEM/wiki_lingua", "esdurmus/wiki_lingua"
_PARQUET = "refs/convert/parquet"
# WikiLingua's languages, by the names that its first edition on the hub gives them.
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
    """Where datasets come from."""

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
    """The one of Hugging Face, by `datasets`."""

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
            ModtokError: the hub does not give them.
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
        except Exception as error:  # of the library, its file systems, or the network
            raise ModtokError(
                f"the hub does not give it ({' '.join(str(error).split())[:300]})", where=name
            ) from error


def flores_codes() -> dict[str, str]:
    """FLORES's code of each language; those of BeleBele, which is made from it."""
    (place,) = suites()["belebele"].hub
    return dict(place.languages)


def flores_wide(
    source: Hub, dataset: str, part: str, languages: Sequence[str]
) -> dict[str, list[str]]:
    """All languages in one row: sentence_eng_Latn, sentence_fra_Latn, …"""
    return flores_columns(source.rows(dataset, part), languages)


def flores_columns(rows: Iterable[Row], languages: Sequence[str]) -> dict[str, list[str]]:
    """Sentences by language, in the order of FLORES's own ids."""
    codes = flores_codes()
    ordered = sorted(rows, key=lambda row: int(row["id"]))
    return {
        language: [str(one_line(row[f"sentence_{codes[language]}"])) for row in ordered]
        for language in languages
        if ordered and all(f"sentence_{codes[language]}" in row for row in ordered)
    }


def flores_plus(
    source: Hub, dataset: str, part: str, languages: Sequence[str]
) -> dict[str, list[str]]:
    """A configuration per language, sentences under "text"."""
    codes, found = flores_codes(), {}
    for language in languages:
        rows = list(source.rows(dataset, part, config=codes[language]))
        ordered = sorted(rows, key=lambda row: int(row["id"]))
        found[language] = [str(one_line(row["text"])) for row in ordered]
    return found


def gem(source: Hub, language: str, progress: Progress) -> tuple[list[Row], list[Row]]:
    """GEM's edition, which has a test split and no article of it in training."""
    parts = []
    for split, most in (("test", None), ("train", SHOWN)):
        pattern = f"{language}/*{split}/*.parquet"
        rows = source.rows(GEM, split, files=pattern, revision=_PARQUET)
        told = f"{GEM} {language} {split}"
        parts.append(summaries(rows, "source", "target", "gem_id", told, progress, most))
    return parts[0], parts[1]


def articles(source: Hub, language: str, progress: Progress) -> tuple[list[Row], list[Row]]:
    """The first edition, which has no test split: its first rows are shown, the rest asked."""
    name = WIKILINGUA[language]
    rows = source.rows(ARTICLES, "train", config=name)
    flat = ({"url": row["url"], **row["article"]} for row in rows)
    told = f"{ARTICLES} {name}"
    found = summaries(flat, "document", "summary", "url", told, progress)
    return found[SHOWN:], found[:SHOWN]


def summaries(
    rows: Iterable[Row],
    document: str,
    summary: str,
    name: str,
    told: str,
    progress: Progress = SILENT,
    most: int | None = None,
) -> list[Row]:
    """Rows of ours out of a dataset's columns; those without a document or a summary go.

    Raises:
        ModtokError: a column is not there, or nothing is left.
    """
    found: list[Row] = []
    empty = 0
    for row in islice(rows, most):
        if document not in row or summary not in row:
            raise ModtokError(f"has no columns {document!r} and {summary!r}", where=told)
        texts = one_line(row[document]), one_line(row[summary])
        if all(texts):
            named = {"id": str(row[name])} if row.get(name) else {}
            found.append({**named, "document": texts[0], "summary": texts[1]})
        else:
            empty += 1
    if not found:
        raise ModtokError("holds no documents", where=told)
    if empty:
        progress.note(f"{told}: {empty:,} rows are empty and were left out")
    return found
