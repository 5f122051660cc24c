"""`modtok study world`: the paper's claims, tested in invented languages."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.commands.pretrain import require_training
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import emit_tables, parse_columns
from modtok_cli.reports.kinds.world import mean_rows
from modtok_cli.studies.world.study import study_world

CURVES = parse_columns(
    "regime=sampling, p:ratio, step=steps:int, infer=inference, facts-all=facts of all:score, "
    "facts-own=own:score, facts-other=of another:score, BLEU:score, in language:score, "
    "bits per byte=bits/byte:ratio, seeds:int"
)
CLAIMS = parse_columns(
    "claim, p:ratio, step=steps:int, figure, of, against, value:score, other:score, "
    "difference:score, low:score, high:score, expected, holds"
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
