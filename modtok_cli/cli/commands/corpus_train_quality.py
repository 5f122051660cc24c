"""`modtok corpus train-quality`: good and random pages → quality classifier."""

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.corpus.quality import corpus_train_quality

COLUMNS = parse_columns(
    "train_good=good:int, train_bad=bad:int, held_out_good=held out:int, "
    "held_out_bad=held out:int, precision:ratio, recall:ratio, auc=AUC:ratio"
)


@command(
    "corpus train-quality",
    corpus_train_quality,
    examples="""
    # Wikipedia and textbooks against random pages of the crawl
    modtok corpus train-quality --good wiki.jsonl --good books.txt --bad data/en
    # use it to keep the better half
    modtok corpus build crawl --quality-model quality.bin --quality-top 0.5 -o top
    """,
)
def show(call: Call, json: Json = False) -> None:
    if not {"good", "bad"} <= call.values.keys():
        raise UsageError("--good and --bad are required", remedy="give at least one text for each")
    report = call()
    caption = str(report.output)
    emit_rows([report.row()], COLUMNS, title="Quality classifier", json=json, caption=caption)
