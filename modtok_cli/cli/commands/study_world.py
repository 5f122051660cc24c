"""`modtok study world`: the paper's claims, tested in invented languages."""

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.commands.corpus_world import Documents, Private, Quotes
from modtok_cli.cli.commands.pretrain import require_training
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.options import Budget, Json, Output
from modtok_cli.cli.output import Column, emit_tables
from modtok_cli.cli.session import Session

SCORES = (
    Column("regime", "sampling"),
    Column("infer", "inference"),
    Column("facts-all", "facts of all", "score"),
    Column("facts-own", "own", "score"),
    Column("facts-other", "of another", "score"),
    Column("BLEU", "BLEU", "score"),
    Column("in language", "in language", "score"),
    Column("seeds", "seeds", "int"),
)
CLAIMS = (
    Column("claim", "claim"),
    Column("figure", "figure"),
    Column("of", "of"),
    Column("against", "against"),
    Column("difference", "difference", "score"),
    Column("low", "low", "score"),
    Column("high", "high", "score"),
    Column("expected", "expected"),
    Column("holds", "holds"),
)
Regimes = Annotated[
    str,
    typer.Option("--regimes", metavar="REGIME,...", help="Sampling regimes to train with."),
]
Steps = Annotated[
    int, typer.Option("--steps", metavar="N", min=1, help="Number of optimizer steps of a run.")
]
P = Annotated[
    float,
    typer.Option(
        "--p", metavar="P", min=0, max=1,
        help="Probability that a batch also uses the languages drawn by --sampling.",
    ),
]  # fmt: skip
Seeds = Annotated[
    str,
    typer.Option("--seeds", metavar="N,...", help="Seeds: each has its world, tokenizer and runs."),
]
Limit = Annotated[
    int,
    typer.Option(
        "--limit",
        metavar="N",
        min=1,
        max=100,
        help="Sentences to translate for each pair and mode.",
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers", metavar="N", min=1, help="Number of processes that train and evaluate."
    ),
]


@command(
    "study world",
    resumes=True,
    examples="""
    # 25 small models, a few minutes each on a core, four at a time
    modtok study world -o worlds --workers 4
    # two regimes in two worlds; the same command resumes
    modtok study world -o worlds --regimes joint,none --seeds 0,1
    """,
)
def study_world(
    session: Session,
    output: Output = None,
    regimes: Regimes = "joint,none,full,sub:1,sub:2",
    seeds: Seeds = "0,1,2,3,4",
    k: Budget = 1500,
    documents: Documents = 15_000,
    private: Private = 0.5,
    quotes: Quotes = 0.7,
    steps: Steps = 1200,
    p: P = 0.5,
    limit: Limit = 50,
    workers: Workers = 1,
    json: Json = False,
) -> None:
    """Test the claims of the paper on models of invented languages.

    For each seed, writes a world (see modtok corpus world), learns a tokenizer from its text
    without quotations, and trains a model under each sampling regime. Each model answers
    questions and translates all pairs of languages under each inference mode. The tables have
    means over languages and seeds, and the claims with 95% intervals over seeds. An interrupted
    study resumes.
    """
    require_training()
    require_models()
    if output is None:
        raise UsageError("no output directory given", remedy="as in: modtok study world -o worlds")
    from modtok_cli.studies.world.corpus import WorldSettings
    from modtok_cli.studies.world.study import WorldStudySettings, study_world
    from modtok_cli.training.loop import finish
    from modtok_cli.training.settings import RunSettings

    settings = WorldStudySettings(
        seeds=_seeds(seeds),
        regimes=tuple(part.strip() for part in regimes.split(",")),
        k=k,
        limit=limit,
        world=WorldSettings(documents=documents, private=private, quotes=quotes, sentences=100),
        training=RunSettings(steps=steps, p=p),
    )
    try:
        found = study_world(Path(output), settings, workers=workers, progress=session.progress)
    finally:
        finish()
    emit_tables(
        [row for rows in found.values() for row in rows],
        (
            ("Regimes and inference modes", found["scores"], SCORES),
            ("Claims of the paper", found["claims"], CLAIMS),
        ),
        json=json,
    )


def _seeds(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = (-1,)
    if min(found) < 0:
        raise UsageError(f"--seeds {text!r}: expected numbers such as 0,1,2")
    return found
