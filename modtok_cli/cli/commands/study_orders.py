"""`modtok study orders`: sequential BPE under several language orders."""

from modtok_cli.cli.command import command
from modtok_cli.cli.declaration import Call
from modtok_cli.cli.options import Json, Plot
from modtok_cli.cli.session import Session
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
def show(session: Session, call: Call, plot: Plot = None, json: Json = False) -> None:
    emit_study(session, call, "orders", plot=plot, json=json)
