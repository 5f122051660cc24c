"""`modtok doctor`: check installation and machine."""

from dataclasses import asdict

from modtok_cli.base.errors import ModtokError
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.doctor import doctor
from modtok_cli.cli.output import emit_rows, parse_columns

COLUMNS = parse_columns("part, name, state, detail, remedy")


@command(
    "doctor",
    doctor,
    examples="""
    # after an installation, or if a command reports a missing package
    modtok doctor
    # for a bug report
    modtok doctor --json > doctor.jsonl
    """,
)
def show(call: Call, json: Json = False) -> None:
    """The exit status is 1 if a package that all commands need is missing, or modtok.toml is
    invalid.
    """
    findings = call(settings_error=call.session.settings_error)
    emit_rows(map(asdict, findings), COLUMNS, title="Installation", json=json)
    if call.session.settings_error:
        raise ModtokError("modtok.toml is invalid", remedy="see the settings row")
    if any(each.name in ("base", "modtok") and each.state == "missing" for each in findings):
        raise ModtokError(
            "a package that every command needs is missing or too old",
            remedy="run the command in the remedy column",
        )
