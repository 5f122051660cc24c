"""Lines of shell, in which `modtok` and `python` are processes that start fast."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from helpers.python_processes import write_command


def shell(
    line: str, place: Path, server: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in a directory, without settings from outside.

    `server`: of the processes, if not the one of this test run.
    """
    commands = place / ".bin"
    commands.mkdir(exist_ok=True)
    write_command(commands / "modtok", "-m modtok_cli", server)
    write_command(commands / "python", of=server)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MODTOK_")}
    return subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", line],
        cwd=place,
        env={**clean, "PATH": f"{commands}:{os.environ['PATH']}", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",  # `modtok decode` may write a part of a character
        timeout=900,
    )
