"""Hostile settings, tokenizers, names, sizes and descriptors: one line, or the right result.

    python -m benchmarks attacks [--only WORD] [--base DIR] > results.jsonl

Each attack has a workspace of its own. A JSON line for each: the statuses and errors of its
commands, and all that was wrong; then the counts. Mounting a read-only installation or a full
disk, and commands of another user, need root.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from benchmarks.common import emit, parser_of
from benchmarks.robustness.engine import (
    attacks_by_input,
    attacks_by_limits,
    attacks_by_numbers,
    attacks_by_place,
)
from benchmarks.robustness.engine.arena import ATTACKS, Arena
from benchmarks.robustness.engine.workspaces import fresh, workspaces

# Importing them fills ATTACKS.
LISTS = (attacks_by_input, attacks_by_limits, attacks_by_numbers, attacks_by_place)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--only", default="", help="attacks whose group or name contains this")
    parser.add_argument("--base", type=Path, help="workspace to copy; made where it is missing")
    options = parser.parse_args()
    commands = wrong = 0
    with workspaces(options.base) as (base, scratch):
        chosen = [each for each in ATTACKS if options.only in f"{each.group}: {each.name}"]
        for each in chosen:
            began = time.monotonic()
            arena = Arena(fresh(base, scratch / "arena" / "workspace", shutil.copy2))
            try:
                each.run(arena)
            except Exception as error:  # the other attacks are to run
                arena.wrong.append(f"the attack failed: {type(error).__name__}: {error}")
            commands += len(arena.ended)
            wrong += len(arena.wrong)
            row = {"group": each.group, "attack": each.name, "commands": len(arena.ended)}
            row |= {"ended": arena.ended, "wrong": arena.wrong}
            emit(row | {"seconds": round(time.monotonic() - began, 1)})
    emit({"attacks": len(chosen), "commands": commands, "wrong": wrong})
    return 1 if wrong else 0
