"""Pages in, pages of known languages and quality out: blocks of a datatrove pipeline.

    ReadPages → MainText → IdentifyLanguage → FilterPages → ScoreQuality

A document is a page. `text` is its HTML until `MainText`, then its main text; `metadata` has
`source` (file and offset), `url` and `date`, and what blocks find: `lang`, `lang_score`, `quality`.
Blocks count what they drop in datatrove's statistics, named by `report.label`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import zstandard
from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from modtok_cli.base.files import atomic_file, write_bytes
from modtok_cli.base.remote import is_remote, path_of
from modtok_cli.corpus.build_plan import MIN_CHARACTERS, read_json
from modtok_cli.corpus.build_report import label
from modtok_cli.corpus.input_pages import decode, read_pages
from modtok_cli.corpus.language import LanguageModel
from modtok_cli.corpus.parts import SUFFIX, read_part
from modtok_cli.corpus.quality import QualityModel, cut_of
from modtok_cli.corpus.sandbox import SECONDS, Extractor, Failed, Sandbox, clean
from modtok_cli.corpus.warc import Bad, Page

BAD_KEPT = 200
"""Maximum number of bad records of a task that are listed. All of them are counted."""

FIELDS = ("lang", "lang_score", "quality", "url", "date", "source")
"""Fields of a record behind its text."""
_LEVEL = 3

Documents = Iterator[Document]


class PageBlock(PipelineStep):
    """A block that counts what it keeps and drops."""

    type = "modtok"

    def __init__(self) -> None:
        super().__init__()
        self._listed = 0

    def count(self, kind: str, reason: str = "", language: str = "", **amounts: int) -> None:
        """Count pages, paragraphs and characters that are "kept", "dropped" or "changed"."""
        for unit, amount in amounts.items():
            if amount:
                self.stat_update(label(kind, reason, language, unit), value=amount, unit="task")

    def count_page(self, kind: str, document: Document, reason: str = "") -> None:
        """Count a page with its text."""
        text, language = document.text, document.metadata.get("lang", "")
        sizes = {"paragraphs": text.count("\n") + bool(text), "characters": len(text)}
        self.count(kind, reason, language, pages=1, **sizes)

    def bad(self, kind: str, source: str, reason: str, detail: str) -> None:
        """Count a bad record, and list it if it is one of the first."""
        self.count("dropped", f"bad {kind}: {reason}", pages=1)
        if self._listed < BAD_KEPT:
            self._listed += 1
            self.count("bad", reason, source, **{detail or "-": 1})


class FileBlock(PageBlock):
    """A block that is a pipeline by itself: it reads and writes files, and yields no documents."""

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Do the work of a task."""
        with self.track_time():
            self._do(rank, world_size)
        yield from ()

    def _do(self, rank: int, world_size: int) -> None:
        raise NotImplementedError


class Filter(PageBlock):
    """A block that changes documents, and keeps or drops each of them; models load on use."""

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents that are kept."""
        for document in data:
            with self.track_time():
                reason = self.reason(document)
            if reason is None:
                yield document
            else:
                self.count_page("dropped", document, reason)

    def reason(self, document: Document) -> str | None:
        """Change a document; why it is dropped, None for one that stays."""
        raise NotImplementedError


class ReadPages(PageBlock):
    """Read pages of WARC, WET, HTML, text and JSON lines; a task reads one list of `shards`.

    `shards` are lists of files, or a JSON file with them as `shards`; names are relative to
    `directory`. Bad records are counted and skipped.
    """

    name = "read"

    def __init__(self, shards: Sequence[Sequence[str]] | Path, directory: str = ".") -> None:
        super().__init__()
        self.shards = str(shards) if isinstance(shards, Path) else [[*map(str, s)] for s in shards]
        self.directory = directory

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents with HTML, or with text and `is_html` False."""
        shards = self.shards
        lists = read_json(Path(shards))["shards"] if isinstance(shards, str) else shards
        for name in (name for shard in lists[rank::world_size] for name in shard):
            place = path_of(name) if is_remote(name) else Path(self.directory, name)
            records = read_pages(place)
            while True:
                with self.track_time():
                    record = next(records, None)
                    source = f"{name}:{getattr(record, 'offset', 0)}"
                    if isinstance(record, Page):
                        text = decode(record.data, record.charset, record.is_html)
                        facts = {"source": source, "url": record.url, "date": record.date}
                        document = Document(text, source, [], facts)
                        if not record.is_html:
                            document.metadata["is_html"] = False
                if record is None:
                    break
                if isinstance(record, Page):
                    yield document
                elif isinstance(record, Bad):
                    self.bad("record", source, record.reason, record.detail)
                else:
                    self.count("dropped", f"not a page: {record.reason}", pages=1)


class MainText(PageBlock):
    """Replace HTML by its main text, a paragraph per line, and drop short pages.

    The extractor runs in a process with `seconds` of processor time per page and 2 GiB of memory;
    a page that takes more is dropped.
    """

    name = "extract"

    def __init__(
        self,
        extractor: Extractor = "trafilatura",
        seconds: float = SECONDS,
        min_characters: int = MIN_CHARACTERS,
    ) -> None:
        super().__init__()
        self.extractor, self.seconds, self.min_characters = extractor, seconds, min_characters

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents with text."""
        with Sandbox(self.extractor, self.seconds) as sandbox:
            for document in data:
                is_html = document.metadata.pop("is_html", True)
                with self.track_time():
                    try:
                        text = sandbox.main_text(document.text) if is_html else clean(document.text)
                    except Failed as error:
                        reason, _, detail = str(error).partition(": ")
                        self.bad("page", document.id, reason, detail)
                        continue
                document.text = text
                self.count_page("kept", document)
                if len(text) >= self.min_characters:
                    yield document
                else:
                    self.count_page("dropped", document, "short" if text else "no text")


class IdentifyLanguage(Filter):
    """Find the language of each page, as `lang` and `lang_score`; drop other and unsure ones.

    `model`: a fastText model in place of py3langid's. `threshold`: minimum score.
    """

    name = "language"

    def __init__(
        self,
        languages: Sequence[str] | None = None,
        model: Path | None = None,
        threshold: float | None = None,
    ) -> None:
        super().__init__()
        self.languages = None if languages is None else tuple(languages)
        self.model, self.threshold = model, threshold

    @cached_property
    def _model(self) -> LanguageModel:
        return LanguageModel(self.model, self.languages)

    def reason(self, document: Document) -> str | None:
        """Set the language."""
        language, score = self._model.identify(document.text)
        document.metadata |= {"lang": language, "lang_score": score}
        if score < (self._model.threshold if self.threshold is None else self.threshold):
            return "language unsure"
        is_other = self.languages is not None and language not in self.languages
        return "other language" if is_other else None


class ScoreQuality(Filter):
    """Score each page as `quality`, None without a model, and drop those below a threshold.

    With `scores`, a directory, a task counts its pages by score there, for `KeepBest`.
    """

    name = "quality"

    def __init__(
        self, model: Path | None, threshold: float | None = None, scores: Path | None = None
    ) -> None:
        super().__init__()
        self.model, self.threshold, self.scores = model, threshold or 0.0, scores

    @cached_property
    def _model(self) -> QualityModel | None:
        return QualityModel(self.model) if self.model else None

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents with scores."""
        counted: dict[str, Counter[str]] = {}
        for document in super().run(data, rank, world_size):
            meta = document.metadata
            counted.setdefault(meta["lang"], Counter())[str(meta["quality"])] += 1
            yield document
        if self.scores:
            content = orjson.dumps(counted, option=orjson.OPT_SORT_KEYS)
            write_bytes(self.scores / f"{rank:05d}.json", content)

    def reason(self, document: Document) -> str | None:
        """Set the score."""
        score = self._model.score(document.text) if self._model else None
        document.metadata["quality"] = score
        return "quality" if score is not None and score < self.threshold else None


class KeepBest(Filter):
    """Keep the best share of the pages of each language, by the counts of all `ScoreQuality`."""

    name = "quality"

    def __init__(self, scores: Path, share: float) -> None:
        super().__init__()
        self.scores, self.share = scores, share

    @cached_property
    def _cuts(self) -> dict[str, float]:
        totals: dict[str, Counter[float]] = {}
        for path in sorted(self.scores.glob("*.json")):
            for language, counted in read_json(path).items():
                scores = {float(score): number for score, number in counted.items()}
                totals.setdefault(language, Counter()).update(scores)
        return {language: cut_of(total, self.share) for language, total in totals.items()}

    def reason(self, document: Document) -> str | None:
        """By the cut of the language."""
        meta = document.metadata
        return "quality" if meta["quality"] < self._cuts[meta["lang"]] else None


class WriteRecords(PageBlock):
    """Write records `<task>.jsonl.zst`, or `<language>/<task>.jsonl.zst`.

    Files of a task appear together when it is done. datatrove's writers write in place, also if
    another process of the same task is still alive, as on a node that Slurm has lost.
    """

    name = "write"

    def __init__(self, folder: Path, by_language: bool = False) -> None:
        super().__init__()
        self.folder, self.by_language = folder, by_language

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """The documents."""
        writers: dict[str, Any] = {}
        with ExitStack() as stack:
            if not self.by_language:  # a file of each task, also without pages
                writers[""] = self._open("", rank, stack)
            for document in data:
                with self.track_time():
                    meta = document.metadata
                    place = meta["lang"] if self.by_language else ""
                    if place not in writers:
                        writers[place] = self._open(place, rank, stack)
                    record = {"text": document.text} | {name: meta.get(name) for name in FIELDS}
                    writers[place].write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
                yield document

    def _open(self, place: str, rank: int, stack: ExitStack) -> Any:
        path = stack.enter_context(atomic_file(self.folder / place / f"{rank:05d}{SUFFIX}"))
        handle = stack.enter_context(path.open("wb"))
        return stack.enter_context(zstandard.ZstdCompressor(_LEVEL).stream_writer(handle))


class ReadRecords(PageBlock):
    """Read the records that the same task of `WriteRecords` has written."""

    name = "read records"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents with text."""
        for record in read_part(self.folder / f"{rank:05d}{SUFFIX}"):
            yield Document(record.pop("text"), record["source"], [], record)
