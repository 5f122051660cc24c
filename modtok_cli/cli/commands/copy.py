"""`modtok copy`: an output to object storage and back."""

from modtok_cli.base.transfer import copy
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_rows, parse_columns

COLUMNS = parse_columns("target, files:int, bytes=size:bytes, copied:int")


@command(
    "copy",
    copy,
    examples="""
    # a corpus, and what has changed since
    modtok copy corpus/ s3://bucket/corpus
    # a run while it trains, every five minutes
    modtok copy runs/latest s3://bucket/runs/it --every 300
    # to another machine, where modtok pretrain --resume continues it
    modtok copy s3://bucket/runs/it runs/it
    """,
    resumes=True,
)
def show(call: Call, json: Json = False) -> None:
    emit_rows(call(), COLUMNS, title="Copied", json=json)
