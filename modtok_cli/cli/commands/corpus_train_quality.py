"""`modtok corpus train-quality`: good and random pages → quality classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import Force, Json, Output
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session

COLUMNS = (
    Column("train_good", "good", "int"),
    Column("train_bad", "bad", "int"),
    Column("held_out_good", "held out", "int"),
    Column("held_out_bad", "held out", "int"),
    Column("precision", "precision", "ratio"),
    Column("recall", "recall", "ratio"),
    Column("auc", "AUC", "ratio"),
)

Good = Annotated[
    list[Path] | None,
    typer.Option(
        "--good",
        metavar="TEXT",
        help="High-quality text, such as encyclopedias, books or news. Repeatable.",
    ),
]
Bad = Annotated[
    list[Path] | None,
    typer.Option("--bad", metavar="TEXT", help="Random pages. Repeatable."),
]
Epochs = Annotated[int, typer.Option("--epochs", metavar="N", min=1, help="Number of epochs.")]


@command(
    "corpus train-quality",
    examples="""
    # Wikipedia and textbooks against random pages of the crawl
    modtok corpus train-quality --good wiki.jsonl --good books.txt --bad data/en
    # use it to keep the better half
    modtok corpus build crawl --quality-model quality.bin --quality-top 0.5 -o top
    """,
)
def corpus_train_quality(
    session: Session,
    good: Good = None,
    bad: Bad = None,
    output: Output = Path("quality.bin"),
    epochs: Epochs = 5,
    force: Force = False,
    json: Json = False,
) -> None:
    """Train a classifier that scores the quality of pages.

    A fastText model is trained to separate the good texts from the random ones. A tenth of
    the examples is held out to measure precision and recall.

    Requires the extra [corpus]: pip install 'modtok[corpus]'.
    """
    if not good or not bad:
        raise UsageError("--good and --bad are required", remedy="give at least one text for each")
    from modtok_cli.base.extras import require

    require("modtok corpus train-quality", corpus=("fasttext", "floret"))
    from modtok_cli.corpus.quality import train_quality

    report = train_quality(
        good,
        bad,
        output=output or Path("quality.bin"),
        epochs=epochs,
        force=force,
        progress=session.progress,
    )
    emit_rows(
        [report.row()], COLUMNS, title="Quality classifier", json=json, caption=str(report.output)
    )
