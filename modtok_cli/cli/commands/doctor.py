"""`modtok doctor`: what is here, what is missing, how to mend it."""

from __future__ import annotations

from dataclasses import asdict

from modtok_cli.cli.command import command
from modtok_cli.cli.options import Json
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session

COLUMNS = (
    Column("part", "part"),
    Column("name", "name"),
    Column("state", "state"),
    Column("detail", "detail"),
    Column("remedy", "remedy"),
)


@command(
    "doctor",
    examples="""
    # after an installation, or when a command says that something is missing
    modtok doctor
    # for a bug report
    modtok doctor --json > doctor.jsonl
    """,
)
def doctor(session: Session, json: Json = False) -> None:
    """Say what is installed, what is missing, and how to mend it.

    Packages by the extra that brings them and the commands that need it; processor,
    memory and GPUs; whether the kernels are compiled. The exit status is 1 when something
    is missing that every command needs.
    """
    from modtok_cli.base.errors import ModtokError
    from modtok_cli.cli.doctor import doctor, healthy

    findings = doctor()
    emit_rows(map(asdict, findings), COLUMNS, title="modtok on this machine", json=json)
    if not healthy(findings):
        raise ModtokError(
            "a package that every command needs is missing or too old",
            remedy="see the column remedy",
        )
