"""How many random examples a property test draws.

MODTOK_EXAMPLES=10 draws ten times as many: a long run after a change of what they test.
"""

from __future__ import annotations

import os

_TIMES = int(os.environ.get("MODTOK_EXAMPLES", "1"))


def examples(number: int) -> int:
    """`number` of them, or a multiple."""
    return number * _TIMES
