"""Corpora from crawls: MB of WARC per second and core, and time per step.

    python -m benchmarks corpus pack DIRECTORY crawl/ [--each N]   HTML pages -> WARC files
    python -m benchmarks corpus run crawl/                         build, floor, accuracy

`pack` takes HTML files below DIRECTORY whose path tells their language (`…/help/fi/…`,
`page.fi.html`, `…-doc-fr/…`), such as Debian's documentation packages unpacked by
`dpkg-deb -x`, and writes them as gzip members with HTTP headers, the language in the URL.
`run` builds a corpus in one process and prints JSON lines: the throughput of the whole, per
second of processor time (of a core, that is, however busy the machine); that with datatrove's own
blocks for main text, files and repeated lines in place of ours; the share of the time each step
takes; of the pages kept, how many are in the language their path told.
"""

from __future__ import annotations

import copy
import gzip
import re
import resource
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from benchmarks.common import emit, parser_of
from helpers.crawl import http, record
from modtok_cli.text.languages import Label

if TYPE_CHECKING:
    from modtok_cli.corpus.build_report import CorpusReport


def language_of(path: str) -> str | None:
    """The language that a documentation path tells."""
    for part in reversed(path.split("/")):
        for code in (part, *re.findall(r"\.([a-z]{2}(?:[-_][A-Za-z]{2})?)\.html?$", part)):
            if re.fullmatch(r"[a-z]{2}(?:[-_][A-Za-z]{2})?", code) and Label.of(code).is_known:
                return Label.of(code).short
        match = re.search(r"-([a-z]{2}(?:-[a-z]{2})?)$", part)
        if match and Label.of(match[1]).is_known:
            return Label.of(match[1]).short
    return None


def pack(source: Path, crawl: Path, each: int) -> None:
    crawl.mkdir(parents=True, exist_ok=True)
    by_language: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(source.rglob("*.htm*")):
        language = language_of(str(path.relative_to(source)))
        if language and path.is_file() and not path.is_symlink():
            by_language[language].append(path)
    # Languages mixed as a crawl has them: page n of every language, then page n + 1.
    step = {name: max(1, len(paths) // each) for name, paths in by_language.items()}
    chosen = {name: paths[:: step[name]][:each] for name, paths in by_language.items()}
    rows = max(map(len, chosen.values()))
    order = [
        (name, chosen[name][n]) for n in range(rows) for name in chosen if n < len(chosen[name])
    ]
    size = 40 << 20
    written, number, handle = size, 0, None
    for name, path in order:
        if written >= size:
            if handle:
                handle.close()
            handle = open(crawl / f"debian-{number:03d}.warc.gz", "wb")  # noqa: SIM115
            written, number = 0, number + 1
        url = f"http://{name}.debian.example/{path.relative_to(source)}"
        raw = record(http(path.read_bytes(), "Content-Type: text/html"), url)
        handle.write(gzip.compress(raw, 6, mtime=0))
        written += len(raw)
    if handle:
        handle.close()
    emit({"pages": len(order), "languages": len(chosen), "files": number})


def is_english(text: str) -> bool:
    """By a rule of its own: a seventh of the words are the, of, to, and, a, in, is, you, for."""
    words = re.findall(r"[a-z]+", text.lower())
    common = sum(
        word in {"the", "of", "to", "and", "a", "in", "is", "you", "for"} for word in words
    )
    letters = sum(map(str.isalpha, text))
    return 7 * common > len(words) and 2 * sum(map(len, words)) > letters


def datatrove(files: list[Path], place: Path) -> None:
    """The same with datatrove's extractor, writer and deduplication of lines, in this process."""
    from datatrove.pipeline.dedup import sentence_dedup as lines
    from datatrove.pipeline.extractors import Trafilatura
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter
    from datatrove.utils.hashing import HashConfig
    from datatrove.utils.text import TextNormConfig

    from modtok_cli.corpus.blocks import IdentifyLanguage, ReadPages
    from modtok_cli.corpus.build_plan import BuildStage
    from modtok_cli.corpus.executor_tasks import Tasks
    from modtok_cli.corpus.filters import PlainWords

    chosen = lines.SentDedupConfig(
        n_sentences=1,
        split_sentences=False,
        min_doc_words=0,
        min_num_sentences=0,
        norm_config=TextNormConfig(
            remove_punctuation=False, norm_unicode_diacritics=False, norm_numbers=False
        ),
        hash_config=HashConfig(hash_fc="sha1"),
    )
    pages, signs, found = (str(place / name) for name in ("pages", "signs", "found"))
    extractor = Trafilatura(favour_precision=False, timeout=5, deduplicate=False)
    stages = [
        [ReadPages([[str(file)] for file in files]), extractor, IdentifyLanguage()],
        [JsonlReader(pages), lines.SentenceDedupSignature(signs, 1, chosen, PlainWords())],
        [lines.SentenceFindDedups(signs, found, config=chosen)],
        [JsonlReader(pages), lines.SentenceDedupFilter(found, chosen, language=PlainWords())],
    ]
    stages[0].append(JsonlWriter(pages))
    stages[3].append(JsonlWriter(str(place / "out"), "${lang}/${rank}.jsonl"))
    for number, blocks in enumerate(stages):
        stage = BuildStage(str(number), blocks, 1 if number == 2 else len(files))
        for rank in range(stage.tasks):
            Tasks(copy.deepcopy(stage), place / "logs").run_rank(rank)


def build(files: list[Path], output: Path) -> CorpusReport:
    """`corpus_build` with every task in this process, so that its processor time can be told."""
    from datatrove.utils import stats as statistics
    from loguru import logger

    from modtok_cli.corpus.build import stages_of
    from modtok_cli.corpus.build_plan import BuildSettings, begin, make_plan
    from modtok_cli.corpus.build_report import load_report
    from modtok_cli.corpus.executor_tasks import Tasks

    logger.disable("datatrove")
    # Its statistics tell the time of the clock; of the processor is what is asked for here.
    statistics.time = SimpleNamespace(perf_counter=time.process_time)
    plan = make_plan(files, BuildSettings(), output)
    begin(plan.work, plan.content)
    for stage in stages_of(plan):
        for rank in range(stage.tasks):
            Tasks(copy.deepcopy(stage), plan.work / "logs").run_rank(rank)
    return load_report(output)


def processor_time() -> float:
    """Seconds of this process and its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def run(crawl: Path) -> None:
    from modtok_cli.corpus.build_report import summary
    from modtok_cli.corpus.parts import read_part

    files = sorted(crawl.glob("*.warc.gz"))
    stored = sum(file.stat().st_size for file in files)
    with tempfile.TemporaryDirectory() as place:
        began = processor_time()
        report = build(files, Path(place) / "data")
        seconds = processor_time() - began
        right: dict[str, Counter[str]] = defaultdict(Counter)
        texts = hits = untranslated = 0
        for part in sorted((Path(place) / "data").glob("*/*.jsonl.zst")):
            for line in read_part(part):
                told = line["url"].split("//")[1].split(".")[0]
                if told != "en" and is_english(line["text"]):
                    untranslated += 1
                    right[told]["(English)"] += 1
                else:
                    hits += line["lang"] == ("no" if told == "nb" else told)
                    right[told][line["lang"]] += 1
                texts += len(line["text"].encode())
        began = processor_time()
        datatrove(files, Path(place) / "datatrove")
        least = processor_time() - began
    pages = sum(row["pages"] for row in report.dropped if row["step"] != "read")
    pages += sum(row["pages"] for row in report.languages)
    row = {"pages": pages, "warc_mb": stored / 1e6}
    emit(row | _speed("modtok corpus build", seconds, stored, pages))
    emit(row | _speed("datatrove's extractor, writer, deduplication", least, stored, pages))
    # The parser's time is that of a child: what is left when all else is taken away.
    report.seconds["extract"] = seconds - sum(report.seconds.values()) + report.seconds["extract"]
    for step, spent in report.seconds.items():
        row = {"step": step, "seconds": round(spent, 2), "share": round(spent / seconds, 3)}
        emit(row)
    for dropped in summary(report):
        emit({"dropped": dropped})
    kept = sum(row["pages"] for row in report.languages)
    before = sum(row["pages_before"] for row in report.languages)
    characters = [
        sum(row[key] for row in report.languages) for key in ("characters", "characters_before")
    ]
    emit(
        {
            "pages_kept": kept / pages,
            "pages_before_deduplication": before / pages,
            "characters_kept_by_deduplication": characters[0] / characters[1],
            "text_mb": texts / 1e6,
        }
    )
    # Manuals are translated in part: a page below "fi" may be in English, and often is. Whether
    # it is, its words tell; of the rest the path is right.
    told = sum(sum(counted.values()) for counted in right.values())
    emit(
        {
            "pages": told,
            "english_by_words_elsewhere": untranslated,
            "right_of_the_rest": round(hits / (told - untranslated), 5),
        }
    )
    for name, counted in sorted(right.items()):
        others = {other: n for other, n in counted.most_common(5) if other != name}
        row = {"told": name, "kept": sum(counted.values()), "right": counted[name], "as": others}
        emit(row)


def _speed(what: str, seconds: float, stored: int, pages: int) -> dict[str, object]:
    return {
        "what": what,
        "processor_seconds": round(seconds, 2),
        "warc_mb_s": round(stored / seconds / 1e6, 2),
        "pages_s": round(pages / seconds, 1),
    }


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("what", choices=["pack", "run"])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--each", type=int, default=300, help="pages of each language to pack")
    args = parser.parse_args()
    if args.what == "pack":
        pack(args.paths[0], args.paths[1], args.each)
    else:
        run(args.paths[0])
