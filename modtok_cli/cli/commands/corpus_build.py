"""`modtok corpus build`: crawled pages → one corpus per language."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_rows, parse_columns, wants_json
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.build_report import summary

KEPT = parse_columns(
    "language, pages:int, paragraphs:int, characters:int, characters_before=before dedup:int"
)

DROPPED = parse_columns("step, reason, pages:int, paragraphs:int, characters:int, share:ratio")


@command(
    "corpus build",
    corpus_build,
    resumes=True,
    examples="""
    # WARC files into data/fi, data/fr and data/en
    modtok corpus build crawl/*.warc.gz --langs fi,fr,en
    # all identified languages, the better half by quality
    modtok corpus build crawl/ --quality-model quality.bin --quality-top 0.5
    # without pages that repeat themselves or look like lists of keywords
    modtok corpus build crawl/ --langs fi,fr,en --filters gopher-quality
    # on a cluster
    modtok corpus build crawl/ --executor slurm --executor-option partition=cpu \\
        --executor-option time=10:00:00
    # wait for it
    modtok corpus build crawl/ --executor slurm --executor-option partition=cpu \\
        --executor-option time=10:00:00 --wait
    """,
)
def show(call: Call, json: Json = False) -> None:
    report = call()
    if wants_json(json):
        emit_rows(report.rows(), KEPT, title="Corpus", json=True)
    else:
        if dropped := summary(report):
            emit_rows(dropped, DROPPED, title="Dropped", json=False)
        emit_rows(report.languages, KEPT, title="Corpus", json=False, caption=str(report.output))
    if report.bad:
        first, number = report.bad[0], len(report.bad)
        count = "1 invalid record is" if number == 1 else f"{number} invalid records are"
        place = f"{report.output}/corpus.json"
        call.say(f"{count} listed in {place}, first: {first['source']} ({first['reason']})")
