"""Chat templates are programs of others: each is parsed and run before anything is made of it."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.tokenizer import render_template

LARGEST = 1 << 20
"""Most bytes of a chat template."""
_VARIABLES = ("bos_token", "eos_token", "pad_token", "unk_token")
_WALL = 60  # seconds; the limit of processor time is reached before, unless the machine is busy


def check_template(text: str, where: str) -> None:
    """Check that a chat template is Jinja that renders short conversations, within limits.

    It runs in a process of its own, in Jinja's sandbox: 5 seconds of processor time, 1 GiB of
    memory, 2^20 characters.

    Raises:
        UsageError: Jinja is not installed.
        ModtokError: no template, a wrong one, or one that goes beyond a limit.
    """
    remedy = "correct the template"
    if len(text.encode()) > LARGEST:
        raise ModtokError(f"the chat template has more than {LARGEST:,} bytes", where=where,
                          remedy=remedy)  # fmt: skip
    if not text.strip() or "\0" in text:
        what = "is empty" if not text.strip() else "has a NUL character"
        raise ModtokError(f"the chat template {what}", where=where, remedy=remedy)
    if find_spec("jinja2") is None:
        raise UsageError("chat templates need Jinja", where=where, remedy="pip install jinja2")
    given = json.dumps(
        {
            "template": text,
            "seconds": render_template.SECONDS,
            "variables": dict.fromkeys(_VARIABLES, ""),
        }
    )
    unfinished = {"error": f"it does not end within {render_template.SECONDS} seconds"}
    command = [sys.executable, "-I", str(Path(render_template.__file__))]
    try:
        run = subprocess.run(
            command, input=given.encode(), capture_output=True, timeout=_WALL, check=False
        )
        # Of a process that was stopped there is no answer.
        said = json.loads(run.stdout) if run.returncode >= 0 else unfinished
    except subprocess.TimeoutExpired:
        said = unfinished
    except ValueError:
        said = {"error": (run.stderr.decode(errors="replace").splitlines() or ["no answer"])[-1]}
    if "error" in said:
        reason = " ".join(str(said["error"]).split())[:300]
        line = f":{said['line']}" if said.get("line") else ""
        raise ModtokError(
            f"the chat template fails ({reason})", where=f"{where}{line}", remedy=remedy
        )
    if not any(said["lengths"]):
        raise ModtokError("the chat template writes nothing", where=where, remedy=remedy)
