"""`modtok warmup`: compile the kernels before they are needed."""

from modtok_cli.cli.command import command
from modtok_cli.cli.session import Session


@command(
    "warmup",
    examples="""
    # after an installation or upgrade, or while building a container image
    modtok warmup
    """,
)
def warmup(session: Session) -> None:
    """Compile the kernels and keep them on disk.

    The first use of a kernel after an installation or upgrade compiles it, which takes
    some seconds; afterwards it is loaded.
    """
    from modtok_cli.cli.warmup import warmup

    warmup(progress=session.progress)
