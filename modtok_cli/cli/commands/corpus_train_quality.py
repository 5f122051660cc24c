"""`modtok corpus train-quality`: good and random pages → quality classifier."""

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.corpus.quality import corpus_train_quality

COLUMNS = (
    Column("train_good", "good", "int"),
    Column("train_bad", "bad", "int"),
    Column("held_out_good", "held out", "int"),
    Column("held_out_bad", "held out", "int"),
    Column("precision", "precision", "ratio"),
    Column("recall", "recall", "ratio"),
    Column("auc", "AUC", "ratio"),
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
