"""`modtok study budget`: NSL and size of T by vocabulary size per language."""

from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.study import emit_study
from modtok_cli.studies.budget import study_budget


@command(
    "study budget",
    study_budget,
    resumes=True,
    examples="""
    # budgets from 8,000 to 32,000, against references of 24,000
    modtok study budget flores/
    # other budgets, as a plot
    modtok study budget flores/ --budgets 4000,8000 -k 8000 --plot budget.svg
    """,
)
def show(call: Call, plot: Plot = None, json: Json = False) -> None:
    emit_study(call, "budget", plot=plot, json=json)
