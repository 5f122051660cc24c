"""`modtok study sampling`: one small model under each sampling regime."""

from typing import Annotated, Any

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.commands.pretrain import require_training
from modtok_cli.cli.options import Force, Json
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session
from modtok_cli.cli.training_options import training_settings, with_training_options

COLUMNS = (
    Column("sampling", "sampling"),
    Column("inference", "inference"),
    Column("language", "lang"),
    Column("bits_per_byte", "bits/byte", "ratio"),
    Column("in_language", "in language", "ratio"),
    Column("texts", "texts", "int"),
    Column("vocabulary", "vocabulary", "int"),
)
OPTIONS = (
    *("langs", "model", "steps", "batch_size", "seq_length", "lr", "p", "mix", "mix_rest"),
    *("update", "seed", "data", "tokenizer", "runs", "errors", "field", "lang_field"),
)
Regimes = Annotated[
    str,
    typer.Option("--regimes", metavar="REGIME,...", help="Sampling regimes to train with."),
]
Texts = Annotated[
    int,
    typer.Option(
        "--samples", metavar="N", min=1, help="Texts to continue per language and vocabulary."
    ),
]


@command(
    "study sampling",
    examples="""
    # five small models on data/ and tokenizer/, some minutes each on a CPU
    modtok study sampling
    # two regimes, longer
    modtok study sampling --regimes none,sub:2 --steps 2000
    """,
)
@with_training_options(OPTIONS)
def study_sampling(
    session: Session,
    regimes: Regimes = "joint,none,full,sub:1,sub:2",
    samples: Texts = 32,
    force: Force = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Train one model under each sampling regime and compare them at inference.

    Each model predicts held-out text, and continues it, over three vocabularies: its language
    (lang), all of T (full), and with English (en+lang). The rows show bits per byte, and the
    share of generated text that is in the language. Runs are runs/study-REGIME. An
    interrupted study resumes.
    """
    require_training()
    chosen = [part.strip() for part in regimes.split(",")]
    if not all(chosen) or len(set(chosen)) < len(chosen):
        raise UsageError(f"--regimes {regimes!r} has an empty or repeated entry")
    from modtok_cli.training.loop import finish
    from modtok_cli.training.study import study_sampling

    settings = training_settings(options, session)
    try:
        rows = study_sampling(
            settings, chosen, samples=samples, force=force, progress=session.progress
        )
    finally:
        finish()
    emit_rows(rows, COLUMNS, title="Sampling regimes at inference", json=json)
