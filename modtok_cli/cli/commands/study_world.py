"""`modtok study world`: the paper's claims, tested in invented languages."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.commands.pretrain import require_training
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import Column, emit_tables
from modtok_cli.studies.world.study import study_world

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


@command(
    "study world",
    study_world,
    resumes=True,
    examples="""
    # 25 small models, a few minutes each on a core, four at a time
    modtok study world -o worlds --workers 4
    # two regimes in two worlds; the same command resumes
    modtok study world -o worlds --regimes joint,none --seeds 0,1
    """,
)
def show(call: Call, json: Json = False) -> None:
    require_training()
    require_models()
    tables = call()
    emit_tables(
        [row for rows in tables.values() for row in rows],
        (
            ("Regimes and inference modes", tables["scores"], SCORES),
            ("Claims of the paper", tables["claims"], CLAIMS),
        ),
        json=json,
    )
