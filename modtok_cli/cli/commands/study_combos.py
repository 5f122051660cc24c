"""`modtok study combos`: extracted unions of languages, compared with concatenation."""

from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.study import emit_study
from modtok_cli.studies.combos import study_combos


@command(
    "study combos",
    study_combos,
    resumes=True,
    examples="""
    # sets of 1 to 4 languages, 60 of each size
    modtok study combos flores/
    # 200 sets, and a plot of the distribution per language
    modtok study combos flores/ --sets 200 --plot combos.svg
    """,
)
def show(call: Call, plot: Plot = None, json: Json = False) -> None:
    emit_study(call, "combos", plot=plot, json=json)
