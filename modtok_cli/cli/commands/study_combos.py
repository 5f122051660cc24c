"""`modtok study combos`: extracted unions of languages, compared with concatenation."""

from modtok_cli.cli.command import command
from modtok_cli.cli.declaration import Call
from modtok_cli.cli.options import Json, Plot
from modtok_cli.cli.session import Session
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
def show(session: Session, call: Call, plot: Plot = None, json: Json = False) -> None:
    emit_study(session, call, "combos", plot=plot, json=json)
