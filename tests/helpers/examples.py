"""How many random examples a property test draws.

With MODTOK_EXAMPLES=10 they are new ones, and ten times as many: a long run after a change of
what they test.
"""

from __future__ import annotations

import os

TIMES = int(os.environ.get("MODTOK_EXAMPLES", "1"))


def examples(number: int) -> int:
    """`number` of them, or a multiple."""
    return number * TIMES
