"""`modtok study scaling`: size of T by number of languages."""

from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.study import emit_study
from modtok_cli.studies.scaling import study_scaling


@command(
    "study scaling",
    study_scaling,
    resumes=True,
    examples="""
    # the languages in data/, in three orders
    modtok study scaling
    # as a plot
    modtok study scaling --orders 5 --plot scaling.svg
    # each family by itself
    modtok study scaling --families families.tsv
    """,
)
def show(call: Call, plot: Plot = None, json: Json = False) -> None:
    emit_study(call, "scaling", plot=plot, json=json)
