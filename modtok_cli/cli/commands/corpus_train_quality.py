"""`modtok corpus train-quality`: good and random pages → a classifier that tells them apart."""

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
        help="Text as it should be: encyclopedia, books, news, articles. May be given several "
        "times.",
    ),
]
Bad = Annotated[
    list[Path] | None,
    typer.Option("--bad", metavar="TEXT", help="Random pages. May be given several times."),
]
Epochs = Annotated[
    int, typer.Option("--epochs", metavar="N", min=1, help="How often to go over the examples.")
]


@command(
    "corpus train-quality",
    examples="""
    # Wikipedia and textbooks against random pages of the crawl
    modtok corpus train-quality --good wiki.jsonl --good books.txt --bad data/en
    # then keep the better half
    modtok corpus build crawl/ --quality-model quality.bin --quality-top 0.5
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
    """Train the classifier that scores the quality of pages.

    It learns to tell the good texts from the bad ones; one example in ten is held out, and
    precision and recall are those on the held-out ones. The model is a fastText one.

    Needs the extra [corpus]: pip install 'modtok[corpus]'.
    """
    if not good or not bad:
        raise UsageError("both --good and --bad are needed", remedy="name texts for each")
    from modtok_cli.corpus.extra import require_training

    require_training()
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
