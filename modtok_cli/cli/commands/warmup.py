"""`modtok warmup`: compile all kernels."""

from modtok_cli.cli.command import command
from modtok_cli.cli.options import Json
from modtok_cli.cli.output import emit_rows
from modtok_cli.cli.session import Session


@command(
    "warmup",
    tables=False,
    examples="""
    # after an installation or upgrade, or in a container build
    modtok warmup
    """,
)
def warmup(session: Session, json: Json = False) -> None:
    """Compile all kernels and store them on disk.

    Otherwise each kernel is compiled at its first use after an installation or upgrade,
    which takes some seconds.
    """
    from modtok_cli.cli.warmup import warmup

    found = warmup(progress=session.progress)
    session.say(f"all kernels are on disk ({sum(found.values()):.0f} s of work)")
    if json:
        rows = [{"kernels": name, "seconds": round(took, 3)} for name, took in found.items()]
        emit_rows(rows, (), title="", json=True)
