"""Rows of measurements are kept in `results/` of a workspace, where `modtok report` finds them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.cli.output import json_line
from modtok_cli.cli.session import Session
from modtok_cli.cli.settings import FILE

RESULTS = Path("results")
_WORKSPACE = (Path("tokenizer"), Path("data"), Path(FILE))


def keep_rows(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows to `results/COMMAND-HASH.jsonl`, if this directory is a workspace.

    The same measurement, by the signatures of its rows, replaces what it left before. A shell that
    writes standard output to a file of `results/` keeps it there. Failures are warnings.
    """
    from modtok_cli.base.files import write_bytes
    from modtok_cli.base.signature import digest

    if not rows or not any(path.exists() for path in _WORKSPACE) or _is_redirected():
        return
    parts = (str(row.get("signature")).encode() for row in rows)
    name = session.label.removeprefix("modtok ").replace(" ", "-")
    path = RESULTS / f"{name}-{digest(*parts, length=8)}.jsonl"
    try:
        RESULTS.mkdir(exist_ok=True)
        write_bytes(path, b"".join(map(json_line, rows)))
    except (OSError, ModtokError) as error:
        session.progress.warn(f"the rows are not kept: {error}")
        return
    session.say(f"kept in {path} for modtok report (--no-keep)")


def _is_redirected() -> bool:
    """Whether standard output is a file in `results/`."""
    try:
        own = os.fstat(sys.stdout.fileno())
        return any(os.path.samestat(own, file.stat()) for file in RESULTS.iterdir())
    except (AttributeError, OSError, ValueError):
        return False
