"""`modtok warmup`: compile the kernels before they are needed."""

from modtok_cli.cli.command import command
from modtok_cli.cli.options import Json
from modtok_cli.cli.output import emit_rows
from modtok_cli.cli.session import Session


@command(
    "warmup",
    examples="""
    # after an installation or upgrade, or while building a container image
    modtok warmup
    """,
)
def warmup(session: Session, json: Json = False) -> None:
    """Compile the kernels and keep them on disk.

    The first use of a kernel after an installation or upgrade compiles it, which takes
    some seconds; afterwards it is loaded.
    """
    from modtok_cli.cli.warmup import warmup

    found = warmup(progress=session.progress)
    if json:
        rows = [{"kernels": name, "seconds": round(took, 3)} for name, took in found.items()]
        emit_rows(rows, (), title="", json=True)
