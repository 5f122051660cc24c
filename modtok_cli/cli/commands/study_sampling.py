"""`modtok study sampling`: one small model under each sampling regime."""

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.commands.pretrain import (
    BatchSize,
    Mix,
    MixRest,
    ModelName,
    ModularDirectory,
    P,
    Rate,
    Runs,
    Seed,
    SeqLength,
    Steps,
    Update,
    require_training,
)
from modtok_cli.cli.options import Data, Errors, Force, Json, Langs, split_languages
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session

COLUMNS = (
    Column("sampling", "sampling"),
    Column("inference", "inference"),
    Column("language", "lang"),
    Column("bits_per_byte", "bits/byte", "ratio"),
    Column("in_language", "in language", "ratio"),
    Column("texts", "texts", "int"),
    Column("vocabulary", "vocabulary", "int"),
)
Regimes = Annotated[
    str,
    typer.Option("--regimes", metavar="REGIME,...", help="Sampling regimes to train under."),
]
Texts = Annotated[
    int,
    typer.Option("--samples", metavar="N", min=1, help="Texts to continue, a language and set."),
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
def study_sampling(
    session: Session,
    regimes: Regimes = "joint,none,full,sub:1,sub:2",
    langs: Langs = None,
    model: ModelName = None,
    steps: Steps = None,
    batch_size: BatchSize = None,
    seq_length: SeqLength = None,
    lr: Rate = None,
    p: P = 0.5,
    mix: Mix = None,
    mix_rest: MixRest = "data",
    update: Update = "sparse",
    samples: Texts = 32,
    seed: Seed = 0,
    data: Data = Path("data"),
    tokenizer: ModularDirectory = Path("tokenizer"),
    runs: Runs = Path("runs"),
    errors: Errors = "strict",
    force: Force = False,
    json: Json = False,
) -> None:
    """Train one model under each sampling regime and compare them at inference.

    Each model predicts held-out text, and continues some, over its language's vocabulary
    (lang), all of T (full) and with English (en+lang): bits per byte, and the share of
    what it writes that is in the language. Runs lie in runs/study-REGIME; a study that was
    stopped goes on where it was.
    """
    require_training()
    chosen = [part.strip() for part in regimes.split(",")]
    if not all(chosen) or len(set(chosen)) < len(chosen):
        raise UsageError(f"--regimes {regimes!r} has an empty or repeated entry")
    languages = split_languages(langs)
    from modtok_cli.pretrain.config import Settings
    from modtok_cli.pretrain.loop import finish
    from modtok_cli.pretrain.study import study_sampling

    settings = Settings(
        p=p,
        mix=mix,
        mix_rest=mix_rest,
        langs=tuple(sorted(languages)) if languages else None,
        model=model,
        steps=steps,
        batch_size=batch_size,
        seq_length=seq_length,
        lr=lr,
        seed=seed,
        update=update,
        errors=errors,
        data=data,
        tokenizer=tokenizer,
        runs=runs,
    )
    try:
        rows = study_sampling(
            settings, chosen, samples=samples, force=force, progress=session.progress
        )
    finally:
        finish()
    emit_rows(rows, COLUMNS, title="Sampling regimes at inference", json=json)
