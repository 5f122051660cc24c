"""`modtok study orders`: sequential BPE under several language orders."""

from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.study import emit_study
from modtok_cli.studies.orders import study_orders


@command(
    "study orders",
    study_orders,
    resumes=True,
    examples="""
    # five orders of the languages in data/, measured on parallel text
    modtok study orders flores/
    # eight orders, with a plot; an interrupted study resumes
    modtok study orders flores/ --orders 8 --plot orders.svg
    """,
)
def show(call: Call, plot: Plot = None, json: Json = False) -> None:
    emit_study(call, "orders", plot=plot, json=json)
