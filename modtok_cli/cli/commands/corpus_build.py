"""`modtok corpus build`: crawled pages → one corpus per language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.corpus_options import ExecutorKind, ExecutorOptions, Workers, split_options
from modtok_cli.cli.options import Force, Json, Langs, Output
from modtok_cli.cli.output import Column, emit_rows, wants_json
from modtok_cli.cli.session import Session
from modtok_cli.text.languages import optional_languages

KEPT = (
    Column("language", "language"),
    Column("pages", "pages", "int"),
    Column("paragraphs", "paragraphs", "int"),
    Column("characters", "characters", "int"),
    Column("characters_before", "before dedup", "int"),
)
NEAR = (
    Column("near_duplicates", "near-duplicates", "int"),
    Column("near_share", "share", "ratio"),
)
DROPPED = (
    Column("step", "step"),
    Column("reason", "reason"),
    Column("pages", "pages", "int"),
    Column("paragraphs", "paragraphs", "int"),
    Column("characters", "characters", "int"),
)

Pages = Annotated[
    list[str],
    typer.Argument(
        metavar="PAGES",
        help="WARC, WET, HTML, .txt (one page per line) or .jsonl, optionally .gz or .zst; or a "
        "directory.",
    ),
]
LangModel = Annotated[
    Path | None,
    typer.Option(
        "--lang-model",
        metavar="FILE",
        help="fastText language identification model, such as GlotLID; lid.176 by default.",
    ),
]
LangThreshold = Annotated[
    float,
    typer.Option(
        "--lang-threshold", metavar="SCORE", help="Minimum language identification score, 0 to 1."
    ),
]
MinCharacters = Annotated[
    int,
    typer.Option(
        "--min-characters", metavar="N", min=1, help="Minimum number of characters of a page."
    ),
]
QualityModel = Annotated[
    Path | None,
    typer.Option(
        "--quality-model",
        metavar="FILE",
        help="Quality classifier of modtok corpus train-quality.",
    ),
]
QualityThreshold = Annotated[
    float | None,
    typer.Option("--quality-threshold", metavar="SCORE", help="Minimum quality score, 0 to 1."),
]
QualityTop = Annotated[
    float | None,
    typer.Option(
        "--quality-top",
        metavar="SHARE",
        help="Keep the best SHARE of the pages of each language, 0 to 1.",
    ),
]
NearDuplicates = Annotated[
    Literal["off", "language", "all"],
    typer.Option(
        "--near-duplicates",
        help="Keep one of each group of nearly equal pages, found by MinHash: of a language, or of "
        "all together.",
    ),
]
NearNgram = Annotated[
    int,
    typer.Option(
        "--near-ngram", metavar="N", min=1, help="Pages are compared by sequences of N words."
    ),
]
NearBuckets = Annotated[
    int,
    typer.Option("--near-buckets", metavar="N", min=1, help="Number of buckets of MinHash values."),
]
NearHashes = Annotated[
    int,
    typer.Option(
        "--near-hashes",
        metavar="N",
        min=1,
        help="Values per bucket; pages that agree in all values of a bucket are near-duplicates.",
    ),
]
Layout = Annotated[
    Literal["languages", "fineweb-2"],
    typer.Option(
        "--layout",
        help="JSON lines in a directory per language, or Parquet files with the folders and "
        "columns of FineWeb-2.",
    ),
]
Executor = Annotated[
    ExecutorKind,
    typer.Option("--executor", help="Run tasks locally, on Slurm or on Ray."),
]


@command(
    "corpus build",
    resumes=True,
    examples="""
    # WARC files into data/fi, data/fr and data/en
    modtok corpus build crawl/*.warc.gz --langs fi,fr,en
    # all identified languages, the better half by quality
    modtok corpus build crawl/ --quality-model quality.bin --quality-top 0.5
    # one of each group of nearly equal pages of a language
    modtok corpus build crawl/ --near-duplicates language
    # Parquet files data/fin_Latn/train/*.parquet
    modtok corpus build crawl/ --layout fineweb-2
    # on a cluster
    modtok corpus build crawl/ --executor slurm --executor-option partition=cpu \\
        --executor-option time=10:00:00
    """,
)
def corpus_build(
    session: Session,
    pages: Pages,
    langs: Langs = None,
    output: Output = Path("data"),
    lang_model: LangModel = None,
    lang_threshold: LangThreshold = 0.4,
    min_characters: MinCharacters = 200,
    quality_model: QualityModel = None,
    quality_threshold: QualityThreshold = None,
    quality_top: QualityTop = None,
    near_duplicates: NearDuplicates = "off",
    near_ngram: NearNgram = 5,
    near_buckets: NearBuckets = 14,
    near_hashes: NearHashes = 8,
    layout: Layout = "languages",
    executor: Executor = "local",
    executor_option: ExecutorOptions = None,
    workers: Workers = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Build one corpus per language from crawled pages.

    Extracts the text of the pages, identifies the language, filters boilerplate, optionally
    scores quality and removes near-duplicate pages, and removes duplicate paragraphs. Writes
    DIR/LANG/*.jsonl.zst (or Parquet, by --layout) and DIR/corpus.json, a report of what each
    step dropped. Invalid records are counted and skipped. An interrupted build resumes when the
    command is repeated.

    Requires the extra [corpus]: pip install 'modtok[corpus]'.
    """
    languages = optional_languages(langs)
    options = split_options(executor_option)
    from modtok_cli.corpus.build import corpus_build
    from modtok_cli.corpus.report import summary

    report = corpus_build(
        pages,
        languages=languages,
        output=output or Path("data"),
        language_model=lang_model,
        language_threshold=lang_threshold,
        min_characters=min_characters,
        quality_model=quality_model,
        quality_threshold=quality_threshold,
        quality_top=quality_top,
        near_duplicates=near_duplicates,
        near_ngram=near_ngram,
        near_buckets=near_buckets,
        near_hashes=near_hashes,
        layout=layout,
        executor=executor,
        executor_options=options,
        workers=workers,
        force=force,
        progress=session.progress,
    )
    if report is None:
        return
    if wants_json(json):
        emit_rows(report.rows(), KEPT, title="Corpus", json=True)
    else:
        emit_rows(summary(report), DROPPED, title="Dropped", json=False)
        columns = KEPT if near_duplicates == "off" else KEPT + NEAR
        emit_rows(report.languages, columns, title="Corpus", json=False, caption=str(report.output))
    if report.bad:
        first, number = report.bad[0], len(report.bad)
        count = "1 invalid record is" if number == 1 else f"{number} invalid records are"
        place = f"{report.output}/corpus.json"
        session.say(f"{count} listed in {place}, first: {first['source']} ({first['reason']})")
