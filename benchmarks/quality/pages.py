"""Main text of pages: four systems on pages whose text, code and tables are known.

    python -m benchmarks pages DIRECTORY [--each N] [--systems modtok,resiliparse]

DIRECTORY has `LANG.jsonl` or `.jsonl.zst` of English and other languages of `page_maker.PHRASES`,
with paragraphs of 80 to 500 characters. Of each language and kind of page N are made. Precision is
the mean over good pages that are kept, recall the mean over all good pages (0 for a lost one), both
of multisets of words; F1 is of these two means. Two systems need `pip install trafilatura
lxml_html_clean`.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import orjson
import regex

from benchmarks.common import emit, parser_of
from benchmarks.quality.page_maker import GOOD, KINDS, LEAST, MOST, PHRASES, Made, Texts, make
from helpers.crawl import http, record
from modtok_cli.base.progress import SILENT
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.language import LanguageModel
from modtok_cli.corpus.near import Words
from modtok_cli.corpus.parts import read_part
from modtok_cli.corpus.sandbox import decode, page_text
from modtok_cli.text.readers import read_documents

WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
GAP = regex.compile(r"[\s|]+")
System = Callable[[list[Made]], dict[str, str]]


def paragraphs_of(directory: Path, language: str, most: int) -> list[str]:
    """Distinct paragraphs of prose: of fair length, and they end like a sentence."""
    paths = [directory / f"{language}{end}" for end in (".jsonl.zst", ".jsonl")]
    path = next((one for one in paths if one.is_file()), None)
    if path is None:
        return []
    texts = (document.text.decode() for document in read_documents(path))
    lines = (" ".join(line.split()) for text in texts for line in text.split("\n"))
    fair = (line for line in lines if LEAST <= len(line) <= MOST)
    return list(dict.fromkeys(islice(filter(regex.compile(r"\p{Po}$").search, fair), most)))


def pages_of(directory: Path, each: int) -> list[Made]:
    """The pages of all languages."""
    need = each * len(KINDS) * 12
    texts = {}
    for language in PHRASES:
        paragraphs = paragraphs_of(directory, language, 3 * need)
        if paragraphs:
            texts[language] = Texts(language, paragraphs, random.Random(language))
    if not texts:
        raise SystemExit(f"{directory}: no LANG.jsonl[.zst] of {', '.join(PHRASES)}")
    made = []
    for place, (language, own) in enumerate(texts.items()):
        other = texts["en" if language != "en" else next(n for n in texts if n != "en")]
        for at, kind in enumerate(KINDS):
            made += [make(kind, own, other, place + at * each + n) for n in range(each)]
    return made


def modtok(pages: list[Made]) -> dict[str, str]:
    """`corpus build` with its defaults."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for page in pages:
            file = place / "crawl" / page.url.removeprefix("http://").replace("/", "~")
            file.parent.mkdir(exist_ok=True)
            file.with_name(file.name + ".warc").write_bytes(record(http(page.html), page.url))
        wanted = sorted({page.language for page in pages})
        out = place / "data"
        corpus_build([place / "crawl"], wanted, output=out, workers=1, progress=SILENT)
        return {
            record["url"]: record["text"]
            for path in out.glob("*/*.jsonl.zst")
            for record in read_part(path)
        }


def resiliparse(pages: list[Made]) -> dict[str, str]:
    """The library alone, with its main content."""
    from resiliparse.extract.html2text import extract_plain_text

    return {
        page.url: extract_plain_text(decode(page.html, None, True), main_content=True)
        for page in pages
    }


def trafilatura(pages: list[Made]) -> dict[str, str]:
    """The library alone, without comments."""
    from trafilatura import extract

    return {page.url: extract(page.html.decode(), include_comments=False) or "" for page in pages}


def datatrove(pages: list[Made]) -> dict[str, str]:
    """Trafilatura, language score 0.65, Gopher's and FineWeb's filters with their defaults.

    Words are those of modtok's near-duplicates: datatrove's own need a package for each language.
    Gopher's stop words are English, and apply to that.
    """
    from datatrove.data import Document
    from datatrove.pipeline.extractors import Trafilatura
    from datatrove.pipeline.filters import (
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
    )

    model, extractor, words = LanguageModel(), Trafilatura(), Words()
    filters = {
        language: [
            GopherRepetitionFilter(language=words),
            GopherQualityFilter(language=words, min_stop_words=2 if language == "en" else 0),
            FineWebQualityFilter(language=words),
        ]
        for language in PHRASES
    }
    kept = {}
    for page in pages:
        text = extractor.extract(page.html.decode()) or ""
        language, score = model.identify(text[:2000])
        if text and score >= 0.65 and language in filters:
            document = Document(text, page.url)
            if all(one.filter(document) is True for one in filters[language]):
                kept[page.url] = text
    return kept


SYSTEMS: dict[str, tuple[System, tuple[str, ...]]] = {
    "modtok": (modtok, ()),
    "resiliparse": (resiliparse, ()),
    "trafilatura": (trafilatura, ("trafilatura",)),
    "datatrove": (datatrove, ("trafilatura",)),
}


def words_of(text: str) -> Counter[str]:
    """Multiset of words."""
    return Counter(WORD.findall(text))


def solid(text: str) -> str:
    """The text without empty lines, indentation kept."""
    return "\n".join(line.rstrip() for line in text.split("\n") if line.strip())


def has_rows(page: Made, text: str) -> float:
    """Share of the table's rows that are a line of the text."""
    lines = {GAP.sub(" ", line).strip() for line in text.split("\n")}
    return sum(GAP.sub(" ", " ".join(row)) in lines for row in page.rows) / len(page.rows)


def measure(name: str, pages: list[Made], show: bool) -> dict[str, object]:
    """The row of a system."""
    kept = {url: text for url, text in SYSTEMS[name][0](pages).items() if text.strip()}
    precision, recall = [], []
    kinds: dict[str, list[float]] = {}
    rows, code, whole, bad = [], [], Counter[str](), Counter[str]()
    for page in pages:
        text = kept.get(page.url, "")
        if page.kind not in GOOD:
            bad[page.kind] += bool(text)
            continue
        got, want = words_of(text), words_of(page.text)
        common = sum((got & want).values())
        if text:
            precision.append(common / max(1, sum(got.values())))
        recall.append(common / sum(want.values()))
        kinds.setdefault(page.kind, []).append(recall[-1])
        whole[page.kind] += recall[-1] > 0.99
        if show and (recall[-1] < 0.95 or precision[-1] < 0.95):
            lost, extra = " ".join((want - got).elements()), " ".join((got - want).elements())
            print(
                f"{page.url} {recall[-1]:.2f}\n  lost {lost[:200]}\n  extra {extra[:200]}",
                file=sys.stderr,
            )
        if page.rows:
            rows.append(has_rows(page, text))
        if page.code:
            code.append(all(solid(part) in solid(text) for part in page.code))
    p, r = sum(precision) / max(1, len(precision)), sum(recall) / len(recall)
    return {
        "system": name,
        "good": len(recall),
        "kept": len(precision),
        "precision": round(p, 4),
        "recall": round(r, 4),
        "f1": round(2 * p * r / (p + r), 4),
        "code": f"{sum(code)} of {len(code)}",
        "table_rows": round(sum(rows) / len(rows), 3),
        "mojibake_repaired": f"{whole['mojibake']} of {len(kinds['mojibake'])}",
        "repetition_kept": f"{bad['repetition']} of {sum(p.kind == 'repetition' for p in pages)}",
        "salad_kept": f"{bad['salad']} of {sum(p.kind == 'salad' for p in pages)}",
        "recall_by_kind": {kind: round(sum(own) / len(own), 3) for kind, own in kinds.items()},
        "milliseconds": milliseconds(pages) if name == "modtok" else None,
    }


def milliseconds(pages: list[Made]) -> float:
    """Processor time of modtok's main text per page, the best of four rounds."""
    rounds = []
    for _ in range(4):
        began = time.process_time()
        for page in pages:
            page_text(page.html, True, None)
        rounds.append(time.process_time() - began)
    return round(1000 * min(rounds) / len(pages), 3)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--show", action="store_true", help="differences of each page")
    parser.add_argument("--write", type=Path, help="directory for the pages, to look at")
    options = parser.parse_args()
    pages = pages_of(options.directory, options.each)
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        for number, page in enumerate(pages):
            stem = options.write / f"{number:04d}-{page.kind.replace(' ', '-')}-{page.language}"
            stem.with_suffix(".html").write_bytes(page.html)
            stem.with_suffix(".json").write_bytes(orjson.dumps(page.text))
    for name in options.systems.split(","):
        missing = [one for one in SYSTEMS[name][1] if find_spec(one) is None]
        emit(
            {"system": name, "missing": missing} if missing else measure(name, pages, options.show)
        )
