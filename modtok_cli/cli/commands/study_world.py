"""`modtok study world`: the paper's claims, tested in invented languages."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.commands.pretrain import require_training
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import Column, emit_tables
from modtok_cli.reports.kinds.world import mean_rows
from modtok_cli.studies.world.study import study_world

CURVES = (
    Column("regime", "sampling"),
    Column("p", "p", "ratio"),
    Column("step", "steps", "int"),
    Column("infer", "inference"),
    Column("facts-all", "facts of all", "score"),
    Column("facts-own", "own", "score"),
    Column("facts-other", "of another", "score"),
    Column("BLEU", "BLEU", "score"),
    Column("in language", "in language", "score"),
    Column("bits per byte", "bits/byte", "ratio"),
    Column("seeds", "seeds", "int"),
)
CLAIMS = (
    Column("claim", "claim"),
    Column("p", "p", "ratio"),
    Column("step", "steps", "int"),
    Column("figure", "figure"),
    Column("of", "of"),
    Column("against", "against"),
    Column("value", "value", "score"),
    Column("other", "other", "score"),
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
    # curves of five regimes in five worlds, four runs at a time: a night
    modtok study world -o worlds --workers 4
    # three curves in one world of two languages; the same command resumes
    modtok study world -o few --langs qaa,qab --regimes joint,sub:1 --seeds 0
    """,
)
def show(call: Call, json: Json = False) -> None:
    require_training()
    require_models()
    tables = call()
    emit_tables(
        [row for rows in tables.values() for row in rows],
        (
            ("Curves, means over seeds", mean_rows(tables["curves"]), CURVES),
            ("Claims", tables["claims"], CLAIMS),
        ),
        json=json,
    )
