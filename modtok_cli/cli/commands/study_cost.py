"""`modtok study cost`: estimated inference cost of tokenizers by model size."""

from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.commands.nsl import tokenizers_of
from modtok_cli.cli.output import emit_tables
from modtok_cli.cli.plotting import emit_plot
from modtok_cli.studies.cost import study_cost


@command(
    "study cost",
    study_cost,
    examples="""
    # the full vocabulary and the subset of each language
    modtok study cost -t tokenizer -t tokenizer@each flores/
    # with an external tokenizer, as a plot
    modtok study cost -t tokenizer@each -t llama3.tiktoken flores/ --plot cost.svg
    """,
)
def show(call: Call, plot: Plot = None, json: Json = False) -> None:
    from modtok_cli.reports.kinds import kinds

    rows = call(tokenizers=tokenizers_of(call))
    emit_tables(rows, kinds()["cost"].summary(rows), json=json)
    emit_plot(call, plot, rows, "cost")
