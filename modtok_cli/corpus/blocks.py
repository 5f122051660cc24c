"""Stages of a build as datatrove blocks, from pages to records of each language; word counts.

A task of the first pipeline takes one shard through reading, text extraction, heuristics, language
identification and quality scoring. Each block passes on what it keeps and counts what it drops by
reason and language. The counts are datatrove statistics, named by `report.label`.
"""

import time
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from modtok_cli.base.files import write_bytes
from modtok_cli.base.remote import is_remote, path_of
from modtok_cli.corpus.build_report import label
from modtok_cli.corpus.heuristics import MAX_LOST, faults
from modtok_cli.corpus.language import LanguageModel
from modtok_cli.corpus.parts import PartWriters
from modtok_cli.corpus.plan import FINEWEB, PLAN, BuildPlan, Job, load_plan, read_json
from modtok_cli.corpus.quality import QualityModel
from modtok_cli.corpus.sandbox import Failed, Sandbox
from modtok_cli.corpus.sources import read_pages
from modtok_cli.corpus.warc import Bad, Page
from modtok_cli.text.corpus import count_into
from modtok_cli.text.counts import WordCounter
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import TableSource, merge_files, read_header, save_counts
from modtok_cli.text.workspace import empty_language

BAD_KEPT = 200
"""Maximum number of bad records of a shard that are listed. All of them are counted."""
_BEAT_SECONDS = 1.0

Documents = Iterator[Document]


class CorpusStep(PipelineStep):
    """A block that counts what it keeps and drops."""

    type = "modtok"

    def __init__(self, work: Path) -> None:
        super().__init__()
        # Only the path: the plan may list a million files, and blocks are sent to every task.
        self.work = str(work)

    @property
    def plan(self) -> BuildPlan:
        """The plan of the build."""
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
        """Count dropped pages or paragraphs."""
        self._count("dropped", reason, language, pages, paragraphs, characters)

    def drop_page(self, reason: str, language: str, text: str) -> None:
        """Count a dropped page with its paragraphs."""
        self.drop(reason, language, paragraphs=text.count("\n") + 1, characters=len(text))

    def drop_paragraph(self, reason: str, language: str, paragraph: str) -> None:
        """Count a dropped paragraph of a page that may stay."""
        what = f"paragraph: {reason}"
        self.drop(what, language, pages=0, paragraphs=1, characters=len(paragraph))

    def change(self, reason: str, language: str, paragraphs: int, characters: int) -> None:
        """Count a page that is changed."""
        self._count("changed", reason, language, 1, paragraphs, characters)

    def keep(self, language: str, paragraphs: int, characters: int) -> None:
        """Count a page that is kept."""
        self._count("kept", "", language, 1, paragraphs, characters)

    def _count(self, kind: str, reason: str, language: str, *amounts: int) -> None:
        for unit, amount in zip(("pages", "paragraphs", "characters"), amounts, strict=True):
            if amount:
                self.stat_update(label(kind, reason, language, unit), value=amount, unit="task")


class FileStep(CorpusStep):
    """A block that is a pipeline by itself: it reads and writes files, and yields no documents."""

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Do the work of a task."""
        with self.track_time():
            self._do(rank, world_size)
        yield from ()

    def _do(self, rank: int, world_size: int) -> None:
        raise NotImplementedError


class Filter(CorpusStep):
    """A block that changes documents, and keeps or drops each of them; models load on use."""

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents that are kept."""
        for document in data:
            with self.track_time():
                keep = self._keeps(document)
            if keep:
                yield document

    def _keeps(self, document: Document) -> bool:
        """Change a document; whether it is kept."""
        raise NotImplementedError


class BadRecords:
    """The first bad records of a task, saved as `bad/<step>-<rank>.json`."""

    def __init__(self, plan: BuildPlan, step: str, rank: int) -> None:
        self._path = plan.work / "bad" / f"{rank:05d}-{step}.json"
        self._rows: list[dict[str, object]] = []

    def add(self, source: str, reason: str, detail: str) -> None:
        """Add a record, up to the maximum number."""
        if len(self._rows) < BAD_KEPT:
            self._rows.append({"source": source, "reason": reason, "detail": detail})

    def save(self) -> None:
        """Write them."""
        write_bytes(self._path, orjson.dumps(self._rows))


class ReadPages(CorpusStep):
    """Read the records of a shard's files."""

    name = "read"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents without text, with the page's bytes in their metadata."""
        bad = BadRecords(self.plan, "read", rank)
        beat = _Heartbeat(self.plan, rank)
        for name in self.plan.shards[rank]:
            place = path_of(name) if is_remote(name) else Path(self.plan.directory, name)
            records = read_pages(place, beat.advance)
            while True:
                with self.track_time():
                    record = next(records, None)
                if record is None:
                    break
                if isinstance(record, Bad):
                    self.drop(f"bad record: {record.reason}")
                    bad.add(f"{name}:{record.offset}", record.reason, record.detail)
                elif isinstance(record, Page):
                    source = f"{name}:{record.offset}"
                    yield Document("", source, metadata={"page": record, "source": source})
                else:
                    self.drop(f"not a page: {record.reason}")
            beat.next_file(self.plan.stamps[name][0])
        bad.save()


class ExtractText(CorpusStep):
    """Extract the text of each page in a sandboxed process."""

    name = "extract"

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents with text, one unit per line (`content`)."""
        bad = BadRecords(self.plan, "extract", rank)
        settings = self.plan.settings
        repairs = "repair" in settings.filters
        with Sandbox(
            settings.page_seconds, extractor=settings.extractor, repairs=repairs
        ) as sandbox:
            for document in data:
                page: Page = document.metadata.pop("page")
                with self.track_time():
                    try:
                        found = sandbox.page_text(page.data, page.is_html, page.charset)
                    except Failed as error:
                        reason, _, detail = str(error).partition(": ")
                        self.drop(f"bad page: {reason}")
                        bad.add(document.id, reason, detail)
                        continue
                for reason, (lines, characters) in found.dropped.items():
                    self.drop(
                        f"element: {reason}", pages=0, paragraphs=lines, characters=characters
                    )
                if found.repaired[0]:
                    self.change("repaired", "", *found.repaired)
                text = found.text
                if not text:
                    self.drop("no text")
                    continue
                self.keep("", text.count("\n") + 1, len(text))
                document.text = text
                document.metadata |= {"url": page.url, "date": page.date, "record": page.record}
                yield document
        bad.save()


class FilterParagraphs(Filter):
    """Drop paragraphs that are not text, and pages that are short or mostly not text."""

    name = "heuristics"

    def _keeps(self, document: Document) -> bool:
        whole = len(document.text)
        left = []
        paragraphs = document.text.split("\n")
        for paragraph, reason in zip(paragraphs, faults(document.text), strict=True):
            if reason is None:
                left.append(paragraph)
            else:
                self.drop_paragraph(reason, "", paragraph)
        document.text = "\n".join(left)
        characters = len(document.text)
        is_mostly_lost = characters < (1 - MAX_LOST) * whole
        if is_mostly_lost or characters < self.plan.settings.min_characters:
            reason = "mostly not text" if is_mostly_lost else "short"
            self.drop(reason, paragraphs=len(left), characters=characters)
            return False
        return True


class IdentifyLanguage(Filter):
    """Identify the language of a page. Drop other languages and paragraphs in another language.

    Documents get `lang` and `lang_score`.
    """

    name = "language"

    @cached_property
    def _model(self) -> LanguageModel:
        settings = self.plan.settings
        path = Path(settings.language_model) if settings.language_model else None
        return LanguageModel(path, settings.languages)

    def _keeps(self, document: Document) -> bool:
        model, settings = self._model, self.plan.settings
        paragraphs = document.text.split("\n")
        language, score = model.page(paragraphs)
        threshold = settings.language_threshold
        is_unsure = score < (model.threshold(language) if threshold is None else threshold)
        if is_unsure or (settings.languages is not None and language not in settings.languages):
            reason = "language unsure" if is_unsure else "other language"
            self.drop_page(reason, language, document.text)
            return False
        left = []
        for paragraph in paragraphs:
            if model.is_other_language(paragraph, language):
                self.drop_paragraph("other language", language, paragraph)
            else:
                left.append(paragraph)
        document.text = "\n".join(left)
        if len(document.text) < settings.min_characters:
            self.drop("short", language, paragraphs=len(left), characters=len(document.text))
            return False
        document.metadata |= {"lang": language, "lang_score": score}
        return True


class ScoreQuality(Filter):
    """Score each page and drop those below the threshold, if there is one.

    Documents get `quality`, None without a model.
    """

    name = "quality"

    @cached_property
    def _model(self) -> QualityModel | None:
        path = self.plan.settings.quality_model
        return QualityModel(Path(path)) if path else None

    def _keeps(self, document: Document) -> bool:
        score = self._model.score(document.text) if self._model else None
        document.metadata["quality"] = score
        if score is None or score >= (self.plan.settings.quality_threshold or 0.0):
            return True
        self.drop_page("quality", document.metadata["lang"], document.text)
        return False


class WriteParts(CorpusStep):
    """Write the pages of a shard, one file per language, and the histogram of their scores."""

    name = "write"

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """End of this pipeline; yields no documents."""
        scores: dict[str, Counter[str]] = {}
        with PartWriters(self.plan.work / "parts", rank) as parts:
            for document in data:
                with self.track_time():
                    meta = document.metadata
                    language, score = meta["lang"], meta["quality"]
                    fields = ["lang", "lang_score", "quality", "url", "date", "source"]
                    if self.plan.settings.layout == FINEWEB:
                        fields.append("record")
                    parts.write(
                        language, {"text": document.text} | {name: meta[name] for name in fields}
                    )
                    scores.setdefault(language, Counter())[str(score)] += 1
                    self.keep(language, document.text.count("\n") + 1, len(document.text))
        write_bytes(
            self.plan.work / "scores" / f"{rank:05d}.json",
            orjson.dumps(scores, option=orjson.OPT_SORT_KEYS),
        )
        yield from ()


class CountOrMerge(FileStep):
    """Write the tables of one task of a stage of `modtok corpus count`."""

    name = "count"

    def __init__(self, work: Path, stage: int, memory: int | None = None) -> None:
        super().__init__(work)
        self.stage, self.memory = stage, memory

    def _do(self, rank: int, world_size: int) -> None:
        plan = read_json(Path(self.work) / PLAN)
        for content in plan["stages"][self.stage][rank]:
            job = Job(**content)
            # Of a task that was stopped; a final table may be one of an earlier count.
            if job.last or not Path(job.output).exists():
                self._write(job, plan)

    def _write(self, job: Job, plan: Any) -> None:
        # State at the start: a file that changes meanwhile will be counted again.
        sources = [TableSource(**source) for source in plan["stamps"][job.language] if job.last]
        reading = Reading(**plan["reading"])
        inputs, output = [path_of(path) for path in job.inputs], Path(job.output)
        if self.stage:
            scratch = Path(self.work) / "scratch" / job.language
            merge_files(inputs, output, job.language, scratch, sources, reading)
        else:
            header = count_into(
                output,
                job.language,
                inputs,
                reading.of(job.language),
                sources,
                memory=self.memory,
                recorded=reading,
                may_be_empty=not job.last or len(inputs) > 1,
            )
            if header is None:  # the merge expects a table of every task
                save_counts(WordCounter().result(), output, job.language, sources, reading)
        if job.last and not read_header(output).unique:
            output.unlink()
            raise empty_language(job.language, plan["files"][job.language])


class _Heartbeat:
    """Write how many bytes of a shard are read to a file, for the progress bar."""

    def __init__(self, plan: BuildPlan, rank: int) -> None:
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
