"""The steps of a build as blocks of datatrove: pages in, records of each language out.

A task of the first pipeline takes one shard through reading, extraction, language,
heuristics and quality; each block passes on what it keeps and counts what it drops, by
reason and language. Counts are datatrove's own statistics, under names of `report.label`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from modtok_cli.base.files import write_bytes
from modtok_cli.corpus.heuristics import MAX_LOST, faults
from modtok_cli.corpus.language import LanguageModel
from modtok_cli.corpus.pages import Bad, Page
from modtok_cli.corpus.parts import PartWriters
from modtok_cli.corpus.plan import Plan, load_plan
from modtok_cli.corpus.quality import QualityModel
from modtok_cli.corpus.report import label
from modtok_cli.corpus.sandbox import Failed, Sandbox
from modtok_cli.corpus.sources import read_pages

BAD_KEPT = 200
"""So many bad records of a shard are listed with their places; all are counted."""
_BEAT_SECONDS = 1.0

Documents = Iterator[Document]


class Step(PipelineStep):
    """A block that counts what it drops and keeps."""

    type = "modtok"

    def __init__(self, work: Path) -> None:
        super().__init__()
        # Only the place: the plan may name a million files, and blocks are sent to every task.
        self.work = str(work)

    @property
    def plan(self) -> Plan:
        """The build this is a step of."""
        return load_plan(self.work)

    def drop(
        self,
        reason: str,
        language: str = "",
        *,
        pages: int = 1,
        paragraphs: int = 0,
        characters: int = 0,
    ) -> None:
        """Count pages or paragraphs that end here."""
        self._count("dropped", reason, language, pages, paragraphs, characters)

    def keep(self, language: str, paragraphs: int, characters: int) -> None:
        """Count a page that goes on."""
        self._count("kept", "", language, 1, paragraphs, characters)

    def _count(self, kind: str, reason: str, language: str, *amounts: int) -> None:
        for unit, amount in zip(("pages", "paragraphs", "characters"), amounts, strict=True):
            if amount:
                self.stat_update(label(kind, reason, language, unit), value=amount, unit="task")


class BadRecords:
    """The first bad records of a task, by their places: `bad/<step>-<rank>.json`."""

    def __init__(self, plan: Plan, step: str, rank: int) -> None:
        self._path = plan.work / "bad" / f"{rank:05d}-{step}.json"
        self._rows: list[dict[str, object]] = []

    def add(self, source: str, reason: str, detail: str) -> None:
        """Note one, while there are few."""
        if len(self._rows) < BAD_KEPT:
            self._rows.append({"source": source, "reason": reason, "detail": detail})

    def save(self) -> None:
        """Write them."""
        write_bytes(self._path, orjson.dumps(self._rows))


class ReadPages(Step):
    """Read the records of a shard's files."""

    name = "read"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents with the bytes of a page among their metadata and no text yet."""
        bad = BadRecords(self.plan, "read", rank)
        beat = _Heartbeat(self.plan, rank)
        for name in self.plan.shards[rank]:
            found = read_pages(Path(self.plan.directory, name), beat.advance)
            while True:
                with self.track_time():
                    one = next(found, None)
                if one is None:
                    break
                if isinstance(one, Bad):
                    self.drop(f"bad record: {one.reason}")
                    bad.add(f"{name}:{one.offset}", one.reason, one.detail)
                elif isinstance(one, Page):
                    source = f"{name}:{one.offset}"
                    yield Document("", source, metadata={"page": one, "source": source})
                else:
                    self.drop(f"not a page: {one.reason}")
            beat.next_file(self.plan.stamps[name][0])
        bad.save()


class ExtractText(Step):
    """Take the text out of each page, in a process that may die of it."""

    name = "extract"

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents with text, a paragraph a line."""
        bad = BadRecords(self.plan, "extract", rank)
        with Sandbox(self.plan.settings.page_seconds) as sandbox:
            for document in data:
                page: Page = document.metadata.pop("page")
                with self.track_time():
                    try:
                        text = sandbox.page_text(page.data, page.is_html, page.charset)
                    except Failed as error:
                        reason, _, detail = str(error).partition(": ")
                        self.drop(f"bad page: {reason}")
                        bad.add(document.id, reason, detail)
                        continue
                if not text:
                    self.drop("no text")
                    continue
                self.keep("", text.count("\n") + 1, len(text))
                document.text = text
                document.metadata |= {"url": page.url, "date": page.date}
                yield document
        bad.save()


class JudgeParagraphs(Step):
    """Drop paragraphs that are no text, and pages that hold little else or are short."""

    name = "heuristics"

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents with fewer paragraphs."""
        for document in data:
            with self.track_time():
                whole = len(document.text)
                kept = []
                paragraphs = document.text.split("\n")
                for paragraph, reason in zip(paragraphs, faults(document.text), strict=True):
                    if reason is None:
                        kept.append(paragraph)
                    else:
                        self.drop(
                            f"paragraph: {reason}", pages=0, paragraphs=1, characters=len(paragraph)
                        )
                document.text = "\n".join(kept)
                left = len(document.text)
                reason = None
                if left < (1 - MAX_LOST) * whole:
                    reason = "mostly no text"
                elif left < self.plan.settings.min_characters:
                    reason = "short"
                if reason:
                    self.drop(reason, paragraphs=len(kept), characters=left)
            if not reason:
                yield document


class IdentifyLanguage(Step):
    """Tell the language of a page; drop others, and paragraphs surely in another one."""

    name = "language"

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents with `lang` and `lang_score`."""
        settings = self.plan.settings
        path = Path(settings.language_model) if settings.language_model else None
        model = LanguageModel(path, settings.languages)
        for document in data:
            with self.track_time():
                goes_on = self._judge(document, model)
            if goes_on:
                yield document

    def _judge(self, document: Document, model: LanguageModel) -> bool:
        settings = self.plan.settings
        paragraphs = document.text.split("\n")
        language, score = model.page(paragraphs)
        sizes = {"paragraphs": len(paragraphs), "characters": len(document.text)}
        if score < settings.language_threshold:
            self.drop("language unsure", language, **sizes)
            return False
        if settings.languages is not None and language not in settings.languages:
            self.drop("other language", language, **sizes)
            return False
        kept = []
        for paragraph in paragraphs:
            if model.is_foreign(paragraph, language):
                self.drop(
                    "paragraph: other language",
                    language,
                    pages=0,
                    paragraphs=1,
                    characters=len(paragraph),
                )
            else:
                kept.append(paragraph)
        document.text = "\n".join(kept)
        if len(document.text) < settings.min_characters:
            self.drop("short", language, paragraphs=len(kept), characters=len(document.text))
            return False
        document.metadata |= {"lang": language, "lang_score": score}
        return True


class ScoreQuality(Step):
    """Score each page; drop those below the threshold, if one was given."""

    name = "quality"

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents with `quality`; None without a model."""
        settings = self.plan.settings
        model = QualityModel(Path(settings.quality_model)) if settings.quality_model else None
        for document in data:
            score = None
            if model:
                with self.track_time():
                    score = model.score(document.text)
            if score is not None and score < (settings.quality_threshold or 0.0):
                self.drop(
                    "quality",
                    document.metadata["lang"],
                    paragraphs=document.text.count("\n") + 1,
                    characters=len(document.text),
                )
                continue
            document.metadata["quality"] = score
            yield document


class WriteParts(Step):
    """Write what is left of a shard, a file for each language, with its scores counted."""

    name = "write"

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Nothing: the end of this pipeline."""
        scores: dict[str, dict[str, int]] = {}
        with PartWriters(self.plan.work / "parts", rank) as parts:
            for document in data:
                with self.track_time():
                    meta = document.metadata
                    language, score = meta["lang"], meta["quality"]
                    fields = ("lang", "lang_score", "quality", "url", "date", "source")
                    parts.write(
                        language, {"text": document.text} | {name: meta[name] for name in fields}
                    )
                    counted = scores.setdefault(language, {})
                    counted[str(score)] = counted.get(str(score), 0) + 1
                    self.keep(language, document.text.count("\n") + 1, len(document.text))
        write_bytes(
            self.plan.work / "scores" / f"{rank:05d}.json",
            orjson.dumps(scores, option=orjson.OPT_SORT_KEYS),
        )
        yield from ()


class _Heartbeat:
    """Says, in a file, how many bytes of a shard are read; only for the eye."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self._path = plan.work / "progress" / f"{rank:05d}"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._before = 0
        self._last = 0.0

    def advance(self, place: int) -> None:
        now = time.monotonic()
        if now - self._last > _BEAT_SECONDS:
            self._last = now
            self._path.write_text(str(self._before + place))

    def next_file(self, size: int) -> None:
        self._before += size
        self.advance(0)
